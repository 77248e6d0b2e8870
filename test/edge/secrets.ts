/** Secrets of the edge under test. */
export const secrets = {
  hostSecret: "host-secret-of-the-tests",
  signingSecret: "signing-secret-of-the-tests",
  apiKey: `rouse_default_abcdefghijkl_${"A".repeat(32)}`,
} as const;

/** The roots of all secrets of hosts. */
export const roots = { host: secrets.hostSecret, signing: secrets.signingSecret };

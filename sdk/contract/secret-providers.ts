/** Services whose keys go into requests in a known way. A row here is all that a provider needs. Pure. */

export interface SecretProvider {
  /** Host names that get the key. */
  readonly hosts: readonly string[];
  /** Header that it goes into, and what that holds, `{value}` standing for the key. */
  readonly header: string;
  readonly format: string;
  /** Variable in which SDKs of the service look for it. */
  readonly envName: string;
  /** What keys of the service begin with; the longest beginning, over all providers, says whose a key is. */
  readonly prefixes: readonly string[];
}

export const secretProviders = {
  anthropic: {
    hosts: ["api.anthropic.com"],
    ...{ header: "x-api-key", format: "{value}", envName: "ANTHROPIC_API_KEY" },
    prefixes: ["sk-ant-"],
  },
  openai: {
    hosts: ["api.openai.com"],
    ...{ header: "authorization", format: "Bearer {value}", envName: "OPENAI_API_KEY" },
    prefixes: ["sk-"],
  },
  gemini: {
    hosts: ["generativelanguage.googleapis.com"],
    ...{ header: "x-goog-api-key", format: "{value}", envName: "GEMINI_API_KEY" },
    prefixes: ["AIza"],
  },
  openrouter: {
    hosts: ["openrouter.ai"],
    ...{ header: "authorization", format: "Bearer {value}", envName: "OPENROUTER_API_KEY" },
    prefixes: ["sk-or-"],
  },
  github: {
    hosts: ["api.github.com"],
    ...{ header: "authorization", format: "Bearer {value}", envName: "GITHUB_TOKEN" },
    prefixes: ["ghp_", "gho_", "ghs_", "ghu_", "github_pat_"],
  },
} as const satisfies Record<string, SecretProvider>;

export type SecretProviderName = keyof typeof secretProviders;
export const secretProviderNames = Object.keys(secretProviders) as [SecretProviderName, ...SecretProviderName[]];

/** What the guest finds in the variable of a brokered secret: SDKs insist on a key, and the host sets the real one. */
export const BROKERED_ENV_VALUE = "rouse-brokered";

/** Whose key it is, by how it begins; null for one that none of them begins like. */
export function providerOfKey(value: string): SecretProviderName | null {
  let best: SecretProviderName | null = null;
  let length = 0;
  for (const name of secretProviderNames)
    for (const prefix of secretProviders[name].prefixes)
      if (prefix.length > length && value.startsWith(prefix)) [best, length] = [name, prefix.length];
  return best;
}

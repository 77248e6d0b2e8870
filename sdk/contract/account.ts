/** Accounts and their keys. */
import { z } from "zod";

/** The account that URLs without an account suffix mean. */
export const DEFAULT_ACCOUNT = "default";

export const AccountName = z.string().regex(/^[a-z][a-z0-9]{0,13}$/, "1-14 of a-z 0-9, first a letter");

/** `rouse_<account>_<key id>_<secret>`: the account is in the key, so checking one asks just that account's object. */
const KEY = /^rouse_([a-z][a-z0-9]{0,13})_([a-z0-9]{12})_([A-Za-z0-9]{32})$/;

export function parseApiKey(key: string): { account: string; keyId: string } | null {
  const match = KEY.exec(key);
  return match?.[1] && match[2] ? { account: match[1], keyId: match[2] } : null;
}

export function newApiKey(account: string): string {
  return `rouse_${account}_${random("abcdefghijklmnopqrstuvwxyz0123456789", 12)}_${random(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
    32,
  )}`;
}

/** `GET /v1/me`. */
export const Me = z
  .object({
    orgId: z.string(),
    principalId: z.string(),
    credentialId: z.string().nullable(),
    apiVersion: z.string(),
    orgName: z.string(),
    role: z.literal("owner"),
  })
  .meta({ id: "Me" });

function random(alphabet: string, length: number): string {
  let out = "";
  while (out.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length))) {
      // Bytes past the last whole multiple of the alphabet would favour its first letters.
      if (byte < 256 - (256 % alphabet.length) && out.length < length) out += alphabet[byte % alphabet.length];
    }
  }
  return out;
}

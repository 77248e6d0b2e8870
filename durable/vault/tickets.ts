/** Tickets that let one host read or write the blobs of one vault. */
import { VaultTicket } from "../../sdk/contract/archive.ts";
import { sign, signingKey, verify, type SigningKey } from "../../sdk/contract/ticket.ts";

let signing: { readonly secret: string; readonly key: Promise<SigningKey> } | undefined;

function keyOf({ ROUSE_SECRET: secret }: Env): Promise<SigningKey> {
  if (signing?.secret !== secret) signing = { secret, key: signingKey(secret, "vault") };
  return signing.key;
}

/** @param ttlMs how long it is good for, milliseconds. */
export async function vaultTicket(
  env: Env,
  account: string,
  vault: string,
  hostId: string,
  write: boolean,
  ttlMs: number,
): Promise<string> {
  return sign(await keyOf(env), { account, vault, host: hostId, write, e: Date.now() + ttlMs });
}

/** What a ticket says, or null: it is not ours, or over. */
export async function readVaultTicket(env: Env, text: string): Promise<VaultTicket | null> {
  return verify(await keyOf(env), VaultTicket, text, Date.now());
}

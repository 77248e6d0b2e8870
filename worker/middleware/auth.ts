/** Who calls: API keys of people and agents, the one secret of hosts. */
import { accountObject } from "../../durable/account/api.ts";
import { equalHashes, sha256Hex } from "../../durable/hash.ts";
import { parseApiKey } from "../../sdk/contract/account.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { BoundedMap } from "../bounded-map.ts";

export interface Caller {
  readonly account: string;
  readonly keyId: string;
}

/** How long a verdict is believed, milliseconds. A revoked key works no longer than this. */
const GOOD_MS = 30_000;
const BAD_MS = 2000;

const verdicts = new BoundedMap<{ readonly caller: Caller | null; readonly until: number }>(4096);

/** Whose key it is, or null. Known keys cost neither hashing nor an object. */
export async function callerOf(env: Env, key: string, now: number): Promise<Caller | null> {
  const known = verdicts.get(key);
  if (known && known.until > now) return known.caller;
  const parsed = parseApiKey(key);
  if (!parsed) return null;
  const keyId = await accountObject(env.ACCOUNT, parsed.account).verifyKey(await sha256Hex(key));
  const caller = keyId === null ? null : { account: parsed.account, keyId };
  verdicts.set(key, { caller, until: now + (caller ? GOOD_MS : BAD_MS) });
  return caller;
}

/** The key of `Authorization: Bearer`, or null. */
export function bearerOf(headers: Headers): string | null {
  const value = headers.get("authorization");
  return value !== null && /^bearer /i.test(value) ? value.slice(7).trim() : null;
}

/** @throws RouseFailure `unauthorized` */
export async function authenticate(env: Env, request: Request): Promise<Caller> {
  const key = bearerOf(request.headers);
  if (key === null) throw new RouseFailure("unauthorized", "The request has no API key.");
  const caller = await callerOf(env, key, Date.now());
  if (!caller) throw new RouseFailure("unauthorized", "The API key is not valid.");
  return caller;
}

/** @throws RouseFailure `unauthorized` unless a host of this installation calls */
export async function authenticateHost(env: Env, request: Request): Promise<void> {
  const [given, secret] = await Promise.all([
    sha256Hex(bearerOf(request.headers) ?? ""),
    sha256Hex(env.ROUSE_HOST_SECRET),
  ]);
  if (!equalHashes(given, secret)) throw new RouseFailure("unauthorized", "The host secret is missing or wrong.");
}

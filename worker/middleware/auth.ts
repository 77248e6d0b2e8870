/** Who calls: API keys of people and agents, session tokens of pages, host keys of hosts. */
import { accountObject, type KeyVerdict } from "../../durable/account/api.ts";
import { equalHashes, sha256Hex } from "../../durable/hash.ts";
import { DEFAULT_ACCOUNT, parseApiKey, sessionAccount } from "../../sdk/contract/account.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { tokenAccount, type SessionGrant } from "../../sdk/contract/session.ts";
import { hostKey, parseHostKey } from "../../sdk/contract/host-secrets.ts";
import { BoundedMap } from "../bounded-map.ts";
import { isUpgrade, protocolToken } from "../proxy/headers.ts";
import { isFromOwnPage, sessionToken } from "../session.ts";

export interface Caller extends KeyVerdict {
  readonly account: string;
}

/** One with a session token. */
export interface SessionCaller extends Caller {
  readonly session: SessionGrant;
}

export function isOfSession(caller: Caller): caller is SessionCaller {
  return caller.session !== null;
}

/** By which id hosts, timelines and limits know who calls. */
export function credentialOf({ session, keyId }: Caller): string {
  return session?.id ?? keyId;
}

/**
 * How long a verdict is believed on the way to a machine, milliseconds. A revoked key works no longer than this, and
 * not at all where the machine's host was told of it.
 */
const GOOD_MS = 30_000;
const BAD_MS = 2000;

const verdicts = new BoundedMap<{ readonly caller: Caller | null; readonly until: number }>(4096);

/** Whose API key it is, or null. Known keys cost neither hashing nor an object. */
export async function callerOf(env: Env, key: string, now: number): Promise<Caller | null> {
  return parseApiKey(key) ? remembered(env, key, now) : null;
}

/** Which session a token is of, and what its key may; null for what is none, or is over. */
export async function callerOfToken(env: Env, token: string, now: number): Promise<SessionCaller | null> {
  const caller = tokenAccount(token) === null ? null : await remembered(env, token, now);
  return caller !== null && isOfSession(caller) ? caller : null;
}

async function remembered(env: Env, secret: string, now: number): Promise<Caller | null> {
  const known = verdicts.get(secret);
  return known && known.until > now ? known.caller : askCaller(env, secret, now);
}

/** Asks the account anew: for everything but the way to a machine, a revoked key or session ends at once. */
async function askCaller(env: Env, key: string, now: number): Promise<Caller | null> {
  const account = parseApiKey(key)?.account ?? sessionAccount(key) ?? tokenAccount(key);
  if (account === null) return null;
  // What was found to be no key is not asked of again at once.
  const known = verdicts.get(key);
  if (known && known.caller === null && known.until > now) return null;
  const verdict = await accountObject(env.ACCOUNT, account).verifyKey(await sha256Hex(key));
  const caller = verdict && { ...verdict, account };
  const until = Math.min(now + (caller ? GOOD_MS : BAD_MS), caller?.expiresAt ?? Infinity);
  verdicts.set(key, { caller, until });
  return caller;
}

/** Keys that were revoked are not believed any more here, nor are their sessions. */
export function forgetKeys(account: string, keyIds: readonly string[]): void {
  verdicts.deleteWhere(({ caller }) => caller?.account === account && keyIds.includes(caller.keyId));
}

/** A session token that was revoked. */
export function forgetToken(account: string, sessionId: string): void {
  verdicts.deleteWhere(({ caller }) => caller?.account === account && caller.session?.id === sessionId);
}

export function forgetSession(token: string): void {
  verdicts.delete(token);
}

/** The key of `Authorization: Bearer`, or null. */
export function bearerOf(headers: Headers): string | null {
  const value = headers.get("authorization");
  return value !== null && /^bearer /i.test(value) ? value.slice(7).trim() : null;
}

/** The caller of a session that has just begun. */
export function callerOfSession(env: Env, token: string): Promise<Caller | null> {
  return sessionAccount(token) === null ? Promise.resolve(null) : askCaller(env, token, Date.now());
}

/** Who is signed in to the dashboard in the browser that asks, where a page of the dashboard asks; or null. */
export async function sessionCaller(env: Env, request: Request, url: URL, fresh: boolean): Promise<Caller | null> {
  const token = sessionToken(request.headers, url);
  if (token === null || sessionAccount(token) === null || !(await isFromOwnPage(request, url, token))) return null;
  return fresh ? askCaller(env, token, Date.now()) : remembered(env, token, Date.now());
}

/** @param fresh ask the account, whatever is remembered. @throws RouseFailure `unauthorized` */
export async function authenticate(env: Env, request: Request, url: URL, fresh: boolean): Promise<Caller> {
  const key = bearerOf(request.headers) ?? tokenOfSocket(request.headers);
  if (key === null) {
    const caller = await sessionCaller(env, request, url, fresh);
    if (caller) return caller;
    throw new RouseFailure("unauthorized", "The request has no API key.");
  }
  const now = Date.now();
  const isToken = tokenAccount(key) !== null;
  const caller =
    isToken || parseApiKey(key) ? await (fresh ? askCaller(env, key, now) : remembered(env, key, now)) : null;
  if (caller) return caller;
  if (isToken) throw new RouseFailure("unauthorized", "The session token is not valid: it is over, or was revoked.");
  throw new RouseFailure("unauthorized", "The API key is not valid.");
}

/** A WebSocket of a page has no headers of its own: its session token is among the subprotocols that it offers. */
function tokenOfSocket(headers: Headers): string | null {
  const token = isUpgrade(headers) ? protocolToken(headers) : null;
  return token !== null && tokenAccount(token) !== null ? token : null;
}

const hosts = new BoundedMap<number>(16_384);

/** The host that calls. @throws RouseFailure `unauthorized` unless it is one of this installation */
export async function authenticateHost(env: Env, request: Request): Promise<string> {
  const given = bearerOf(request.headers) ?? "";
  const parsed = parseHostKey(given);
  const { hostId = "", epoch = 0 } = parsed ?? {};
  const right = await hostKey(env.ROUSE_HOST_SECRET, hostId, epoch);
  const [a, b] = await Promise.all([sha256Hex(given), sha256Hex(right)]);
  if (!parsed || !equalHashes(a, b)) throw new RouseFailure("unauthorized", "The host key is missing or wrong.");
  const known = hosts.get(given);
  if (known !== undefined && known > Date.now()) return hostId;
  if (epoch !== (await accountObject(env.ACCOUNT, DEFAULT_ACCOUNT).hostEpoch(hostId)))
    throw new RouseFailure("unauthorized", "The host key was made anew; this one is over.");
  hosts.set(given, Date.now() + GOOD_MS);
  return hostId;
}

/** A host's key was made anew: the one before it is over here. */
export function forgetHost(hostId: string): void {
  hosts.deleteWhere((_, key) => parseHostKey(key)?.hostId === hostId);
}

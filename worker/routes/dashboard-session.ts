/** Signing in to the dashboard and out of it: by an API key, or by an approval as programs get it. */
import { Hono, type Context } from "hono";
import { accountObject } from "../../durable/account/api.ts";
import { sha256Hex } from "../../durable/hash.ts";
import { DeviceSession, OpenSession, type DashboardSession } from "../../sdk/contract/dashboard.ts";
import { newSessionToken, parseApiKey } from "../../sdk/contract/account.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { readJson } from "../api/input.ts";
import { callerOf, callerOfSession, forgetSession, sessionCaller, type Caller } from "../middleware/auth.ts";
import { limitRate } from "../middleware/rate-limit.ts";
import { csrfToken, SESSION_SECONDS, sessionCookie, sessionToken } from "../session.ts";
import { deviceGrant } from "./login.ts";

interface SessionEnv {
  readonly Bindings: Env;
}
type SessionContext = Context<SessionEnv>;

/** Keys that are tried, by address: `<per second>:<burst>`. */
const SIGN_IN_RATE = "0.5:20";
/** Browsers that wait for an approval ask every 5 seconds. */
const POLL_RATE = "5:100";

export const dashboardSession = new Hono<SessionEnv>();

/** null where nobody is signed in. */
dashboardSession.get("/", async (c) => {
  const { token, caller } = await currentOf(c);
  return c.json(token && caller ? await shown(c.env, token, caller) : null, 200, NO_STORE);
});

dashboardSession.post("/", async (c) => {
  mustBeOwn(c);
  limitAddress(c, SIGN_IN_RATE);
  const { value } = await readJson(OpenSession, c.req.raw);
  const key = value.apiKey.trim();
  const caller = parseApiKey(key) ? await callerOf(c.env, key, Date.now()) : null;
  if (!caller) throw new RouseFailure("unauthorized", "The API key is not valid.");
  return begin(c, caller.account, caller.keyId, caller.access);
});

/** Asked again until somebody has decided; `pending` until then. */
dashboardSession.post("/device", async (c) => {
  mustBeOwn(c);
  limitAddress(c, POLL_RATE);
  const { value } = await readJson(DeviceSession, c.req.raw);
  const grant = await deviceGrant(c.env, value.deviceCode);
  if (!grant.ok) return c.json({ state: grant.error }, 200, NO_STORE);
  return begin(c, grant.account, grant.keyId, grant.access, grant.key);
});

dashboardSession.delete("/", async (c) => {
  mustBeOwn(c);
  const url = new URL(c.req.url);
  const { token, caller } = await currentOf(c);
  if (token !== null && caller !== null) {
    await accountObject(c.env.ACCOUNT, caller.account).endSession(await sha256Hex(token));
    forgetSession(token);
  }
  return c.json({ ended: true }, 200, { ...NO_STORE, "set-cookie": sessionCookie(url, "", 0) });
});

const NO_STORE = { "cache-control": "no-store" };

async function begin(
  c: SessionContext,
  account: string,
  keyId: string,
  access: Caller["access"],
  newKey?: string,
): Promise<Response> {
  const token = newSessionToken(account);
  const expiresAt = Date.now() + SESSION_SECONDS * 1000;
  const hash = await sha256Hex(token);
  if (!(await accountObject(c.env.ACCOUNT, account).openSession({ hash, keyId, access, expiresAt })))
    throw new RouseFailure("unauthorized", "The API key is not valid any more.");
  const caller = await callerOfSession(c.env, token);
  if (!caller) throw new RouseFailure("internal_error", "The session did not begin.");
  const body: DashboardSession = {
    ...(await shown(c.env, token, caller)),
    ...(newKey === undefined ? {} : { newKey }),
  };
  const cookie = sessionCookie(new URL(c.req.url), token, SESSION_SECONDS);
  return c.json(body, 200, { ...NO_STORE, "set-cookie": cookie });
}

async function shown(env: Env, token: string, caller: Caller): Promise<DashboardSession> {
  const { account, keyId, keyName, access, namePrefix, expiresAt } = caller;
  return {
    ...{ account, keyId, keyName, access, namePrefix },
    expiresAt: new Date(expiresAt ?? 0).toISOString(),
    csrf: await csrfToken(token),
    domain: env.ROUSE_DOMAIN,
  };
}

async function currentOf(c: SessionContext): Promise<{ token: string | null; caller: Caller | null }> {
  const url = new URL(c.req.url);
  return { token: sessionToken(c.req.raw.headers, url), caller: await sessionCaller(c.env, c.req.raw, url, true) };
}

/** Nobody is signed in or out by a page elsewhere: a browser names the origin of each change. */
function mustBeOwn(c: SessionContext): void {
  const origin = c.req.header("origin");
  if (origin !== undefined && origin !== new URL(c.req.url).origin)
    throw new RouseFailure("forbidden", "The request came from another site.");
}

function limitAddress(c: SessionContext, rate: string): void {
  limitRate(`dashboard ${rate} ${c.req.header("cf-connecting-ip") ?? ""}`, rate, Date.now(), "from this address");
}

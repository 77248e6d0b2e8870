/** Device login (RFC 8628): a program shows a link and a code, a person approves on a page, the program gets its key. */
import { Hono, type Context } from "hono";
import { accountObject } from "../../durable/account/api.ts";
import { may } from "../../durable/account/key.ts";
import { microsOf } from "../../durable/account/funds.ts";
import { sha256Hex } from "../../durable/hash.ts";
import { LOGIN_SECONDS, loginObject, POLL_SECONDS, type Approval } from "../../durable/login/api.ts";
import {
  DEFAULT_ACCOUNT,
  DeviceAuthorization,
  KeyAccess,
  newAccountName,
  parseApiKey,
  type Quotas,
} from "../../sdk/contract/account.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { randomText } from "../../sdk/contract/random.ts";
import { callerOf } from "../middleware/auth.ts";
import { limitRate } from "../middleware/rate-limit.ts";
import { okOrThrow } from "./context.ts";
import { loginPage } from "./login-page.ts";

interface LoginEnv {
  readonly Bindings: Env;
}
type LoginContext = Context<LoginEnv>;

/** No vowels, and nothing that looks like something else. */
const CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ";
const CODE_LENGTH = 8;
const GRANT = "urn:ietf:params:oauth:grant-type:device_code";
/** What nobody has authenticated for is limited by address: `<per second>:<burst>`. */
const ANONYMOUS_RATE = "0.5:20";
/** Programs that wait for approval poll every 5 seconds. */
const POLL_RATE = "5:100";
/** What a trial account may use, unless the operator says otherwise. */
const TRIAL_QUOTAS: Quotas = { running: 4, vcpus: 8, memoryMiB: 16_384, kept: 10, createdPerDay: 50 };
/** Credit of a trial account unless ROUSE_TRIAL_CREDIT says otherwise, microdollars: 100 hours at full load. */
const TRIAL_CREDIT_MICROS = 8_000_000;

export const login = new Hono<LoginEnv>();

login.post("/oauth/device_authorization", async (c) => {
  limitAddress(c);
  const parsed = DeviceAuthorization.safeParse(await fieldsOf(c));
  if (!parsed.success) return oauthError(c, "invalid_request", "The request has a field that is not valid.");
  const { client_id: clientId, client_name: clientName = clientId ?? "a program", scope = "" } = parsed.data;
  const secret = randomText("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", 43);
  const secretHash = await sha256Hex(secret);
  const wantsTrial = scope.split(" ").includes("trial");
  for (;;) {
    const code = randomText(CODE_LETTERS, CODE_LENGTH);
    if (!(await loginObject(c.env.LOGIN, code).begin({ clientName, wantsTrial, secretHash }))) continue;
    const uri = `${c.env.ROUSE_SCHEME}://${c.env.ROUSE_DOMAIN}/connect`;
    const shown = `${code.slice(0, 4)}-${code.slice(4)}`;
    return c.json({
      device_code: `${code}.${secret}`,
      user_code: shown,
      verification_uri: uri,
      verification_uri_complete: `${uri}?code=${shown}`,
      expires_in: LOGIN_SECONDS,
      interval: POLL_SECONDS,
    });
  }
});

login.post("/oauth/token", async (c) => {
  limitAddress(c, POLL_RATE);
  const fields = await fieldsOf(c);
  if (fields["grant_type"] !== GRANT) return oauthError(c, "unsupported_grant_type", `Only ${GRANT} is offered.`);
  const [code = "", secret = ""] = (fields["device_code"] ?? "").split(".");
  if (!isCode(code) || secret === "") return oauthError(c, "invalid_grant", "That is no device code.");
  const poll = await loginObject(c.env.LOGIN, code).poll(await sha256Hex(secret));
  if (!poll.ok) return oauthError(c, poll.error);
  const { account } = poll.approval;
  const key = await keyOf(c.env, poll.approval, poll.clientName, poll.once);
  return c.json({ access_token: key, token_type: "bearer", account }, 200, { "cache-control": "no-store" });
});

login.get("/connect", async (c) => {
  limitAddress(c);
  const code = normalized(c.req.query("code") ?? "");
  if (code === "") return loginPage({ step: "code" });
  const facts = isCode(code) ? await loginObject(c.env.LOGIN, code).facts() : null;
  if (facts?.state !== "pending") return loginPage({ step: "over" });
  return loginPage({ step: "decide", code, ...facts, trials: facts.wantsTrial && c.env.ROUSE_TRIALS === "open" });
});

login.post("/connect", async (c) => {
  limitAddress(c);
  // A page elsewhere must not decide for the person who looks at it.
  const origin = c.req.header("origin");
  if (origin !== undefined && origin !== new URL(c.req.url).origin)
    throw new RouseFailure("forbidden", "The form was sent from another site.");
  const fields = await fieldsOf(c);
  const code = normalized(fields["code"] ?? "");
  const object = loginObject(c.env.LOGIN, code);
  const facts = isCode(code) ? await object.facts() : null;
  if (facts?.state !== "pending") return loginPage({ step: "over" });
  const trials = facts.wantsTrial && c.env.ROUSE_TRIALS === "open";
  switch (fields["decision"]) {
    case "deny":
      await object.decide("denied");
      return loginPage({ step: "denied" });
    case "trial": {
      if (!trials) throw new RouseFailure("forbidden", "This installation offers no trial accounts.");
      const account = newAccountName();
      if (!(await object.decide({ account, trial: true }))) return loginPage({ step: "over" });
      return loginPage({ step: "approved", account, clientName: facts.clientName });
    }
    default: {
      const approval = await approvalOf(c.env, fields);
      if (approval === null) {
        if (!(await object.failed())) return loginPage({ step: "over" });
        return loginPage({ step: "decide", code, ...facts, trials, wrong: true });
      }
      if (!(await object.decide(approval))) return loginPage({ step: "over" });
      return loginPage({ step: "approved", account: approval.account, clientName: facts.clientName });
    }
  }
});

/** The approver shows a key that may make keys. */
async function approvalOf(env: Env, fields: Record<string, string>): Promise<Approval | null> {
  const key = (fields["api_key"] ?? "").trim();
  const caller = parseApiKey(key) ? await callerOf(env, key, Date.now()) : null;
  if (!caller || !may(caller.access, "administer") || caller.namePrefix !== null) return null;
  const access = KeyAccess.catch("full").parse(fields["access"]);
  return { account: caller.account, maker: caller.keyId, access };
}

export type DeviceGrant =
  | { readonly ok: false; readonly error: string }
  | {
      readonly ok: true;
      readonly account: string;
      readonly keyId: string;
      readonly access: KeyAccess;
      /** The first key of a trial account. */
      readonly key?: string;
    };

/** What an approval opens for a browser, which acts as the approver's key and gets none of its own. */
export async function deviceGrant(env: Env, deviceCode: string): Promise<DeviceGrant> {
  const [code = "", secret = ""] = deviceCode.split(".");
  if (!isCode(code) || secret === "") return { ok: false, error: "invalid_grant" };
  const poll = await loginObject(env.LOGIN, code).poll(await sha256Hex(secret));
  if (!poll.ok) return poll;
  const { approval } = poll;
  if (!("trial" in approval))
    return { ok: true, account: approval.account, keyId: approval.maker, access: approval.access };
  const key = await keyOf(env, approval, poll.clientName, poll.once);
  return { ok: true, account: approval.account, keyId: parseApiKey(key)?.keyId ?? "", access: "full", key };
}

/** The key of an approved login; the same one however often it is asked for. */
async function keyOf(env: Env, approval: Approval, clientName: string, once: string): Promise<string> {
  const object = accountObject(env.ACCOUNT, approval.account);
  const terms = { key: once, fingerprint: once };
  if ("trial" in approval) {
    await accountObject(env.ACCOUNT, DEFAULT_ACCOUNT).registerAccount(approval.account);
    const creditMicros = microsOf("ROUSE_TRIAL_CREDIT", env.ROUSE_TRIAL_CREDIT, TRIAL_CREDIT_MICROS);
    const input = { name: approval.account, plan: "trial", quotas: TRIAL_QUOTAS, creditMicros } as const;
    return okOrThrow(await object.open(input, terms)).account.key;
  }
  const input = { name: clientName, access: approval.access };
  return okOrThrow(await object.createKey(input, approval.maker, terms)).key.key;
}

/** A form, or JSON; only texts count. */
async function fieldsOf(c: LoginContext): Promise<Record<string, string>> {
  const isJson = c.req.header("content-type")?.includes("json") ?? false;
  const all: object = isJson ? await c.req.json<object>().catch(() => ({})) : await c.req.parseBody();
  return Object.fromEntries(
    Object.entries(all ?? {}).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
  );
}

/** OAuth has its own form of errors (RFC 6749, 5.2). */
function oauthError(c: LoginContext, error: string, description?: string): Response {
  const body = { error, ...(description === undefined ? {} : { error_description: description }) };
  return c.json(body, 400, { "cache-control": "no-store" });
}

/** Outside of Cloudflare, which says who calls, all share one bucket. */
function limitAddress(c: LoginContext, rate = ANONYMOUS_RATE): void {
  limitRate(`${rate} ${c.req.header("cf-connecting-ip") ?? ""}`, rate, Date.now(), "from this address");
}

function normalized(code: string): string {
  return code.toUpperCase().replace(/[^A-Z]/g, "");
}

function isCode(code: string): boolean {
  return code.length === CODE_LENGTH && [...code].every((letter) => CODE_LETTERS.includes(letter));
}

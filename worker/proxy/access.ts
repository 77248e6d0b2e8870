/** Who may reach a named URL. Decided before anything wakes. */
import { sandboxObject, type RouteFacts } from "../../durable/sandbox/api.ts";
import type { Pass } from "../../durable/sockets/record.ts";
import { parseApiKey } from "../../sdk/contract/account.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { defaults } from "../../sdk/contract/sandbox.ts";
import { isBelow } from "../../sdk/contract/link.ts";
import { SESSION_PREFIX } from "../../sdk/contract/session.ts";
import { LinkToken, SHARE_PREFIX, ShareToken, signingKey, verify, type SigningKey } from "../../sdk/contract/ticket.ts";
import { BoundedMap } from "../bounded-map.ts";
import { thrown } from "../errors.ts";
import { may } from "../../durable/account/key.ts";
import { bearerOf, callerOf, callerOfToken } from "../middleware/auth.ts";
import { mustComeFromItsOrigin } from "../middleware/origin.ts";
import { mustHaveScope } from "../middleware/scope.ts";
import { mustSee } from "../middleware/permission.ts";
import { routeKey } from "./forward.ts";
import { cookieToken, PREVIEW_TOKEN, protocolToken } from "./headers.ts";
import { cachedFacts, rememberRoute } from "./route-cache.ts";
import type { Target } from "./target.ts";

export interface Admission {
  /** Authorization carried one of our keys, which is no business of the program. */
  readonly dropAuthorization: boolean;
  /** The API key that let the request in; null for another credential, or none. */
  readonly keyId: string | null;
  /** When the key or session token ends that let it in, Unix milliseconds; null: never, or another credential did. */
  readonly endsAt: number | null;
  /** The share link that let the request in; null for another credential, or none. */
  readonly linkId: string | null;
  /** What let the request in, as somebody remembers it who judges it anew. */
  readonly pass: Pass;
  /** Whether the credential may wake the sandbox. */
  readonly wake: boolean;
  /** The query's token let the request in; when it ends, Unix milliseconds. */
  readonly queryTokenEndsAt: number | null;
}

/** What a token lets do. */
interface Grant {
  readonly endsAt: number;
  readonly linkId: string | null;
  readonly wake: boolean;
  readonly pass: Pass;
}

const plain = {
  keyId: null,
  endsAt: null,
  linkId: null,
  wake: true,
  queryTokenEndsAt: null,
  pass: { by: "public" },
} as const;

/** Tokens whose signature was checked; what they grant is judged anew each time. */
const signed = new BoundedMap<LinkToken | ShareToken>(4096);
let keys:
  | { readonly secret: string; readonly link: Promise<SigningKey>; readonly share: Promise<SigningKey> }
  | undefined;

/** @throws RouseFailure `unauthorized`, `forbidden`, `permission_denied`; with a key also `not_found`, `sandbox_gone` */
export async function admit(
  env: Env,
  request: Request,
  target: Target,
  path: string,
  queryToken: string | null,
): Promise<Admission> {
  const now = Date.now();
  const bearer = bearerOf(request.headers);
  const bearerKey = bearer !== null && parseApiKey(bearer) ? bearer : null;
  const bearerCaller = bearerKey === null ? null : await callerOf(env, bearerKey, now);
  // A token of ours, good or not, is no business of the program either.
  const dropAuthorization = bearerCaller !== null || bearer?.startsWith(SESSION_PREFIX) === true;
  const headerKey = request.headers.get("x-rouse-key");
  const headerCaller = headerKey === null ? null : await callerOf(env, headerKey, now);
  for (const caller of [bearerCaller, headerCaller]) {
    if (caller?.account !== target.account || !may(caller.access, "use_sandboxes")) continue;
    await mustSee(env, caller, target.label, target.id ?? null);
    const { keyId, expiresAt } = caller;
    return { ...plain, dropAuthorization, keyId, endsAt: expiresAt, pass: { by: "key", keyId } };
  }

  const stranger = [bearerCaller, headerCaller].some((caller) => caller !== null && caller.account !== target.account);
  const own = bearerCaller ?? headerCaller;
  // To another account what exists must not answer sooner, or otherwise, than what does not. Who brings no key is told
  // of what is not there just what is said of what is private.
  const facts = await factsOf(env, target, now, stranger).catch((fault: unknown) => {
    if (stranger) throw unknown();
    if (own === null && isAbsence(fault)) return null;
    throw fault;
  });
  if (facts && isPublic(facts, target.port)) return { ...plain, dropAuthorization };
  const headerToken = request.headers.get(PREVIEW_TOKEN) ?? request.headers.get("x-rouse-token");
  const verdicts = [];
  // Clients that know of bearer tokens alone have no other place for it. The program sees it then: it opens nothing else.
  const bearerToken = bearer?.startsWith(SHARE_PREFIX) ? bearer : null;
  const socketToken = protocolToken(request.headers);
  for (const token of [headerToken, bearer, socketToken]) {
    const session = token?.startsWith(SESSION_PREFIX)
      ? await judgeSession(env, token, request, target, facts, now)
      : null;
    if (session !== null && typeof session === "object") return { ...plain, dropAuthorization, ...session };
    if (session !== null) verdicts.push(session);
  }
  const tokens = [headerToken, bearerToken, queryToken, socketToken, cookieToken(request.headers)];
  for (const token of tokens) {
    if (token === null) continue;
    const verdict = await judge(env, token, facts, target.port, path, now);
    if (typeof verdict === "object") {
      const { linkId, wake, endsAt, pass } = verdict;
      const queryTokenEndsAt = token === queryToken ? endsAt : null;
      return { ...plain, dropAuthorization, linkId, wake, pass, queryTokenEndsAt };
    }
    verdicts.push(verdict);
  }
  if (stranger) throw unknown();
  if (own) throw new RouseFailure("permission_denied", `A key with the access "${own.access}" reaches no machine.`);
  if (verdicts.includes("elsewhere")) {
    throw new RouseFailure("forbidden", "This credential is good for another sandbox or port.");
  }
  throw new RouseFailure(
    "unauthorized",
    verdicts.length > 0 || bearerKey !== null || headerKey !== null
      ? "The credential is not valid."
      : "This URL is private.",
  );
}

/** A sandbox of another account that is not public does not exist. */
function unknown(): RouseFailure {
  return new RouseFailure("not_found", "There is no such sandbox.");
}

export function isAbsence(fault: unknown): boolean {
  return fault instanceof RouseFailure && (fault.code === "not_found" || fault.code === "sandbox_gone");
}

/** Who may come in, and which rules there are, as last heard; asking wakes nothing. @param fresh ask anew */
export async function factsOf(env: Env, target: Target, now: number, fresh: boolean): Promise<RouteFacts> {
  const key = routeKey(target);
  const known = fresh ? null : cachedFacts(key, now);
  if (known && (target.id === undefined || known.id === target.id)) return known;
  const result = await sandboxObject(env.SANDBOX, target.account, target.label).route({
    id: target.id ?? null,
    wake: false,
    waitMs: 0,
    verify: false,
    cause: null,
    subject: null,
  });
  if (!result.ok) throw thrown(result.failure);
  rememberRoute(key, result, now);
  return result.facts;
}

/** Whether anybody may come in at a port. */
export function isPublic(facts: RouteFacts, port: number): boolean {
  return (port === defaults.port && facts.access === "public") || facts.ports[port]?.visibility === "public";
}

/** As `judge`, of a session token: it comes in headers alone, and from where it may. @throws RouseFailure */
async function judgeSession(
  env: Env,
  token: string,
  request: Request,
  { account, label, id }: Target,
  facts: RouteFacts | null,
  now: number,
): Promise<Pick<Admission, "endsAt" | "pass"> | "invalid" | "elsewhere"> {
  const caller = await callerOfToken(env, token, now);
  if (!caller) return "invalid";
  const { session, expiresAt } = caller;
  if (caller.account !== account || session.sandboxId !== facts?.id) return "elsewhere";
  mustComeFromItsOrigin(caller, request.headers);
  mustHaveScope(session, ["http"]);
  await mustSee(env, caller, label, id ?? null);
  return { endsAt: expiresAt, pass: { by: "session", sessionId: session.id } };
}

/** What a token opens, or why it does not open this. @param facts null: of a sandbox that is not there */
async function judge(
  env: Env,
  token: string,
  facts: RouteFacts | null,
  port: number,
  path: string,
  now: number,
): Promise<Grant | "invalid" | "elsewhere"> {
  const grant = signed.get(token) ?? (await opened(env, token, now));
  if (!grant || grant.e <= now) return "invalid";
  if (grant.s !== facts?.id) return "elsewhere";
  if ("l" in grant) {
    const link = facts.links[grant.l];
    if (!link) return "invalid";
    if (link.port !== port || !isBelow(path, link.path)) return "elsewhere";
    return { endsAt: grant.e, linkId: grant.l, wake: link.wake, pass: { by: "link", linkId: grant.l } };
  }
  if (grant.p !== port) return "elsewhere";
  if (grant.v !== facts.ports[port]?.version) return "invalid";
  const pass: Pass = { by: "token", version: grant.v, endsAt: grant.e };
  return { endsAt: grant.e, linkId: null, wake: true, pass };
}

/** What is in a token whose signature is ours; null for another. */
async function opened(env: Env, token: string, now: number): Promise<LinkToken | ShareToken | null> {
  const secret = env.ROUSE_SECRET;
  if (keys?.secret !== secret) keys = { secret, link: signingKey(secret, "link"), share: signingKey(secret, "share") };
  const grant = token.startsWith(SHARE_PREFIX)
    ? await verify(await keys.share, ShareToken, token.slice(SHARE_PREFIX.length), now)
    : await verify(await keys.link, LinkToken, token, now);
  if (grant) signed.set(token, grant);
  return grant;
}

/** Who may reach a named URL. Decided before anything wakes. */
import { sandboxObject, type RouteFacts } from "../../durable/sandbox/api.ts";
import { parseApiKey } from "../../sdk/contract/account.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { defaults } from "../../sdk/contract/sandbox.ts";
import { LinkToken, signingKey, verify, type SigningKey } from "../../sdk/contract/ticket.ts";
import { BoundedMap } from "../bounded-map.ts";
import { thrown } from "../errors.ts";
import { may } from "../../durable/account/key.ts";
import { bearerOf, callerOf } from "../middleware/auth.ts";
import { mustSee } from "../middleware/permission.ts";
import { routeKey } from "./forward.ts";
import { cookieToken, PREVIEW_TOKEN } from "./headers.ts";
import { cachedFacts, rememberRoute } from "./route-cache.ts";
import type { Target } from "./target.ts";

export interface Admission {
  /** Authorization carried one of our keys, which is no business of the program. */
  readonly dropAuthorization: boolean;
  /** The API key that let the request in; null for another credential, or none. */
  readonly keyId: string | null;
  /** The query's token let the request in; when it ends, Unix milliseconds. */
  readonly queryTokenEndsAt: number | null;
}

/** Tokens whose signature was checked; what they grant is judged anew each time. */
const signed = new BoundedMap<LinkToken>(4096);
let linkKey: { readonly secret: string; readonly key: Promise<SigningKey> } | undefined;

/** @throws RouseFailure `unauthorized`, `forbidden`, `permission_denied`, `not_found`, `sandbox_gone` */
export async function admit(env: Env, request: Request, target: Target, queryToken: string | null): Promise<Admission> {
  const now = Date.now();
  const bearer = bearerOf(request.headers);
  const bearerKey = bearer !== null && parseApiKey(bearer) ? bearer : null;
  const bearerCaller = bearerKey === null ? null : await callerOf(env, bearerKey, now);
  const dropAuthorization = bearerCaller !== null;
  const headerKey = request.headers.get("x-rouse-key");
  const headerCaller = headerKey === null ? null : await callerOf(env, headerKey, now);
  for (const caller of [bearerCaller, headerCaller]) {
    if (caller?.account !== target.account || !may(caller.access, "use_sandboxes")) continue;
    await mustSee(env, caller, target.label, null);
    return { dropAuthorization, keyId: caller.keyId, queryTokenEndsAt: null };
  }

  const stranger = [bearerCaller, headerCaller].some((caller) => caller !== null && caller.account !== target.account);
  // To another account what exists must not answer sooner, or otherwise, than what does not.
  const facts = await factsOf(env, target, now, stranger).catch((fault: unknown) => {
    throw stranger ? unknown() : fault;
  });
  if (isPublic(facts, target.port)) return { dropAuthorization, keyId: null, queryTokenEndsAt: null };
  const headerToken = request.headers.get(PREVIEW_TOKEN) ?? request.headers.get("x-rouse-token");
  const verdicts = [];
  for (const token of [headerToken, queryToken, cookieToken(request.headers)]) {
    if (token === null) continue;
    const verdict = await judge(env, token, facts, target.port, now);
    if (typeof verdict === "number")
      return { dropAuthorization, keyId: null, queryTokenEndsAt: token === queryToken ? verdict : null };
    verdicts.push(verdict);
  }
  if (stranger) throw unknown();
  const own = bearerCaller ?? headerCaller;
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

async function factsOf(env: Env, target: Target, now: number, fresh: boolean): Promise<RouteFacts> {
  const key = routeKey(target);
  const known = fresh ? null : cachedFacts(key, now);
  if (known) return known;
  const result = await sandboxObject(env.SANDBOX, target.account, target.label).route({
    id: null,
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

function isPublic(facts: RouteFacts, port: number): boolean {
  return (port === defaults.port && facts.access === "public") || facts.ports[port]?.visibility === "public";
}

/** When the token ends, or why it does not open this port. */
async function judge(
  env: Env,
  token: string,
  facts: RouteFacts,
  port: number,
  now: number,
): Promise<number | "invalid" | "elsewhere"> {
  let grant = signed.get(token);
  if (!grant) {
    if (linkKey?.secret !== env.ROUSE_SECRET)
      linkKey = { secret: env.ROUSE_SECRET, key: signingKey(env.ROUSE_SECRET, "link") };
    const verified = await verify(await linkKey.key, LinkToken, token, now);
    if (!verified) return "invalid";
    signed.set(token, verified);
    grant = verified;
  }
  if (grant.e <= now) return "invalid";
  if (grant.s !== facts.id || grant.p !== port) return "elsewhere";
  return grant.v === facts.ports[port]?.version ? grant.e : "invalid";
}

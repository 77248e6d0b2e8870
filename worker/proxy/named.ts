/** Named URLs and domains: from a host name or path to the program in a sandbox. */
import { LINK_TOKEN_NAME, namedHost } from "../../durable/named-url.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { credentialOf } from "../../durable/sockets/record.ts";
import { SESSION_PREFIX } from "../../sdk/contract/session.ts";
import { BoundedMap } from "../bounded-map.ts";
import { causeOf } from "../cause.ts";
import { namedFaultResponse } from "../errors.ts";
import type { RequestNote } from "../log.ts";
import { foreignOrigin, isPreflight, preflightAnswer, readableFrom } from "../middleware/origin.ts";
import { admit } from "./access.ts";
import { mustBeWellFormed } from "./form.ts";
import { forward, outgoingBody } from "./forward.ts";
import { takeRequest, wantsReceipt } from "./respond-async.ts";
import { guestHeaders, isUpgrade, withProtocol } from "./headers.ts";
import { factsForUpgrade, heldBy, hold, withoutAsk } from "./hold.ts";
import type { Parsed } from "./target.ts";
import { wakingPage } from "./waking-page.ts";

/** How long a request is held while the sandbox wakes, milliseconds; a person in a browser gets a page sooner. */
const HOLD_MS = 30_000;
const NAVIGATION_HOLD_MS = 2000;
/** How often a use of a link is noted, milliseconds. */
const USE_NOTED_MS = 60_000;

export async function named(
  env: Env,
  ctx: ExecutionContext,
  request: Request,
  url: URL,
  target: Exclude<Parsed, null>,
  note: RequestNote,
): Promise<Response> {
  const origin = foreignOrigin(request.headers, url);
  try {
    if (origin !== null && isPreflight(request) && asksForSession(request.headers))
      return tokenPreflight(request.headers, origin);
    if ("fault" in target) {
      throw target.fault === "port"
        ? new RouseFailure("invalid_port", "That is not a port of a sandbox.")
        : new RouseFailure("not_found", "That is not the URL of a sandbox.");
    }
    note.account = target.account;
    note.sandbox = target.label;
    const queryToken = url.search.includes(LINK_TOKEN_NAME) ? url.searchParams.get(LINK_TOKEN_NAME) : null;
    const path = url.pathname.slice(target.prefix.length) || "/";
    const admission = await admit(env, request, target, path, queryToken);
    const { linkId, endsAt, pass } = admission;
    const credential = credentialOf(pass);
    const upgrade = isUpgrade(request.headers);
    const query = queryToken === null ? url.search : withoutToken(url);
    const { search, asked } = upgrade ? withoutAsk(query) : { search: query, asked: false };
    const navigation = isNavigation(request);
    if (navigation && queryToken !== null && admission.queryTokenEndsAt !== null) {
      return toCleanUrl(url, search, queryToken, admission.queryTokenEndsAt, target.prefix, note);
    }
    const scheme = url.protocol.slice(0, -1);
    const { method } = request;
    const headers = guestHeaders(request.headers, {
      host: target.prefix === "" ? url.host : namedHost({ scheme, domain: env.ROUSE_DOMAIN }, target, target.port),
      scheme,
      prefix: target.prefix,
      requestId: note.id,
      dropAuthorization: admission.dropAuthorization,
      keyId: credential,
      endsAt,
    });
    if (admission.keyId !== null && wantsReceipt(request.headers))
      return await takeRequest(env, request, target, `${path}${search}`, headers, note);
    const out = {
      method,
      path: `/port/${target.port}${path}${search}`,
      headers,
      body: await outgoingBody(request),
      waitMs: navigation ? NAVIGATION_HOLD_MS : HOLD_MS,
      cause: causeOf("request", request, url, note, credential, target.port),
      wake: admission.wake,
      subject: {
        ...{ method, path, userAgent: request.headers.get("user-agent") ?? "", port: target.port },
        credential,
      },
    };
    const facts = upgrade ? await factsForUpgrade(env, target) : null;
    const rule = facts && heldBy(facts, out.subject, asked, admission);
    if (rule) {
      const { subject, cause } = out;
      const ask = { target, pathAndQuery: `${path}${search}`, subject, headers, admission, cause };
      const response = await hold(env, ask, rule, facts.id, request, note);
      if (linkId !== null) noteUse(env, ctx, target, linkId, cause.request, note.woken === true);
      return withProtocol(response, request.headers);
    }
    mustBeWellFormed(request, upgrade, headers, `${path}${search}`);
    try {
      const response = await forward(
        env,
        { account: target.account, label: target.label, id: target.id ?? null },
        out,
        note,
      );
      if (linkId !== null) noteUse(env, ctx, target, linkId, out.cause.request, note.woken === true);
      const answer = withProtocol(response, request.headers);
      return origin !== null && pass.by === "session" ? readableFrom(answer, origin, null) : answer;
    } catch (fault) {
      if (navigation && fault instanceof RouseFailure && fault.code === "sandbox_waking")
        return wakingPage(target.label, note.id);
      throw fault;
    }
  } catch (fault) {
    const answer = namedFaultResponse(fault, note.id);
    const isOfPage = origin !== null && request.headers.get(TOKEN_HEADER)?.startsWith(SESSION_PREFIX) === true;
    return isOfPage ? readableFrom(answer, origin) : answer;
  }
}

/** The header in which a page's session token comes. */
const TOKEN_HEADER = "x-rouse-token";

/** What a program says of other origins is its own to say, but not to those who have to get past the edge first. */
function asksForSession(headers: Headers): boolean {
  return askedHeaders(headers).includes(TOKEN_HEADER);
}

/** Everything that the program may want, and no header that may hold an API key. */
function tokenPreflight(headers: Headers, origin: string): Response {
  const method = headers.get("access-control-request-method") ?? "";
  const allowed = askedHeaders(headers).filter((name) => name !== "authorization" && name !== "x-rouse-key");
  return preflightAnswer(origin, /^[A-Z]+$/.test(method) ? method : "GET", allowed.join(", "));
}

function askedHeaders(headers: Headers): string[] {
  const names = (headers.get("access-control-request-headers") ?? "").toLowerCase().split(",");
  return names.map((name) => name.trim()).filter((name) => /^[\w-]+$/.test(name));
}

/** When the uses of links were noted last, Unix milliseconds. */
const noted = new BoundedMap<number>(4096);

/** A link's log has one entry a minute, not one for each of a page's hundred requests; and each wake. */
function noteUse(
  env: Env,
  ctx: ExecutionContext,
  { account, label }: { account: string; label: string },
  linkId: string,
  request: string,
  woke: boolean,
): void {
  const now = Date.now();
  if (!woke && now - (noted.get(linkId) ?? 0) < USE_NOTED_MS) return;
  noted.set(linkId, now);
  ctx.waitUntil(
    sandboxObject(env.SANDBOX, account, label)
      .linkUsed(linkId, request, woke)
      .catch(() => undefined),
  );
}

/** A person opens a page. */
function isNavigation(request: Request): boolean {
  if (request.method !== "GET" || !request.headers.get("accept")?.includes("text/html")) return false;
  const mode = request.headers.get("sec-fetch-mode");
  return mode === null || mode === "navigate";
}

/** The token moves from the address bar, and from what the page tells others of itself, into a cookie. */
function toCleanUrl(
  url: URL,
  search: string,
  token: string,
  endsAt: number,
  prefix: string,
  note: RequestNote,
): Response {
  const maxAge = Math.max(1, Math.floor((endsAt - Date.now()) / 1000));
  const secure = url.protocol === "https:" ? "; Secure" : "";
  const cookie = `${LINK_TOKEN_NAME}=${token}; Path=${prefix || "/"}; Max-Age=${maxAge}; HttpOnly; SameSite=Lax${secure}`;
  const headers = {
    location: `${url.pathname}${search}`,
    "set-cookie": cookie,
    "cache-control": "no-store",
    "x-request-id": note.id,
  };
  return new Response(null, { status: 302, headers });
}

/** The query as it came, but for the token. */
function withoutToken(url: URL): string {
  const kept = url.search
    .slice(1)
    .split("&")
    .filter((part) => part !== LINK_TOKEN_NAME && !part.startsWith(`${LINK_TOKEN_NAME}=`));
  return kept.length > 0 && kept[0] !== "" ? `?${kept.join("&")}` : "";
}

/** Named URLs: from a host name or path to the program in a sandbox. */
import { LINK_TOKEN_NAME, namedHost } from "../../durable/named-url.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { causeOf } from "../cause.ts";
import { namedFaultResponse } from "../errors.ts";
import type { RequestNote } from "../log.ts";
import { admit } from "./access.ts";
import { forward, outgoingBody } from "./forward.ts";
import { guestHeaders } from "./headers.ts";
import type { Parsed } from "./target.ts";
import { wakingPage } from "./waking-page.ts";

/** How long a request is held while the sandbox wakes, milliseconds; a person in a browser gets a page sooner. */
const HOLD_MS = 30_000;
const NAVIGATION_HOLD_MS = 2000;

export async function named(
  env: Env,
  request: Request,
  url: URL,
  target: Exclude<Parsed, null>,
  note: RequestNote,
): Promise<Response> {
  try {
    if ("fault" in target) {
      throw target.fault === "port"
        ? new RouseFailure("invalid_port", "That is not a port of a sandbox.")
        : new RouseFailure("not_found", "That is not the URL of a sandbox.");
    }
    note.account = target.account;
    note.sandbox = target.label;
    const queryToken = url.search.includes(LINK_TOKEN_NAME) ? url.searchParams.get(LINK_TOKEN_NAME) : null;
    const admission = await admit(env, request, target, queryToken);
    const search = queryToken === null ? url.search : withoutToken(url);
    const navigation = isNavigation(request);
    if (navigation && queryToken !== null && admission.queryTokenEndsAt !== null) {
      return toCleanUrl(url, search, queryToken, admission.queryTokenEndsAt, target.prefix, note);
    }
    const scheme = url.protocol.slice(0, -1);
    const path = url.pathname.slice(target.prefix.length) || "/";
    const { method } = request;
    const out = {
      method,
      path: `/port/${target.port}${path}${search}`,
      headers: guestHeaders(request.headers, {
        host: target.prefix === "" ? url.host : namedHost({ scheme, domain: env.ROUSE_DOMAIN }, target, target.port),
        scheme,
        prefix: target.prefix,
        requestId: note.id,
        dropAuthorization: admission.dropAuthorization,
        keyId: admission.keyId,
      }),
      body: await outgoingBody(request),
      waitMs: navigation ? NAVIGATION_HOLD_MS : HOLD_MS,
      cause: causeOf("request", request, url, note, admission.keyId, target.port),
      subject: { method, path, userAgent: request.headers.get("user-agent") ?? "", port: target.port },
    };
    try {
      return await forward(env, { account: target.account, label: target.label, id: null }, out, note);
    } catch (fault) {
      if (navigation && fault instanceof RouseFailure && fault.code === "sandbox_waking")
        return wakingPage(target.label, note.id);
      throw fault;
    }
  } catch (fault) {
    return namedFaultResponse(fault, note.id);
  }
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

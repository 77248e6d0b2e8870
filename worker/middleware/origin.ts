/**
 * Pages of other origins. Only session tokens are for them, each for its exact origins. What tells browsers so (CORS)
 * goes by the request alone: a preflight brings no credential, and an answer to it opens nothing.
 */
import { parseApiKey } from "../../sdk/contract/account.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { isOrigin } from "../../sdk/contract/session.ts";
import { bearerOf, isOfSession, type Caller } from "./auth.ts";

/** Headers that the SDKs send. */
const ALLOWED = "authorization, content-type, accept, idempotency-key, prefer, x-rouse-client, x-runtime-client";
/** Headers that the SDKs read, besides those that every page may. */
const EXPOSED =
  "x-content-length, x-content-sha256, retry-after, idempotency-replayed, x-request-id, x-rouse-state, runtime-late-answer";
/** How long a browser remembers a preflight, seconds. */
const PREFLIGHT_SECONDS = 600;

/** The origin of a page that is not ours; null for our own, and for what is no page. */
export function foreignOrigin(headers: Headers, url: URL): string | null {
  const origin = headers.get("origin");
  return origin === null || origin === url.origin ? null : origin;
}

/** Whether a browser asks what it may ask. */
export function isPreflight(request: Request): boolean {
  return request.method === "OPTIONS" && request.headers.has("access-control-request-method");
}

/** What a page may send, wherever it is from; without credentials, so that cookies are never sent along. */
export function preflightAnswer(origin: string, method: string, allowed = ALLOWED): Response {
  if (!isOrigin(origin)) throw notAllowed(origin);
  const headers = new Headers({
    "access-control-allow-origin": origin,
    "access-control-allow-methods": method,
    "access-control-allow-headers": allowed,
    "access-control-max-age": String(PREFLIGHT_SECONDS),
    vary: "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
  });
  return new Response(null, { status: 204, headers });
}

/** An answer that a page of that origin may read. */
export function readableFrom(response: Response, origin: string, exposed: string | null = EXPOSED): Response {
  if (response.webSocket) return response;
  const shown = new Response(response.body, response);
  shown.headers.append("vary", "Origin");
  // A machine may say what it likes; cookies are for nobody.
  shown.headers.delete("access-control-allow-credentials");
  if (!isOrigin(origin)) return shown;
  shown.headers.set("access-control-allow-origin", origin);
  if (exposed !== null) shown.headers.set("access-control-expose-headers", exposed);
  return shown;
}

/** A key in a page is anybody's who opens the page: it is not even looked at. @throws RouseFailure `origin_not_allowed` */
export function mustBeNoKeyOfPage(headers: Headers, origin: string | null): void {
  if (origin === null || parseApiKey(bearerOf(headers) ?? "") === null) return;
  throw new RouseFailure("origin_not_allowed", "API keys are not taken from web pages: use a session token.", {
    details: { origin },
  });
}

/** @throws RouseFailure `origin_not_allowed` */
export function mustComeFromItsOrigin(caller: Caller, headers: Headers): void {
  if (!isOfSession(caller)) return;
  const origin = headers.get("origin");
  const { origins, servers } = caller.session;
  if (origin === null) {
    if (servers) return;
    const message = "This session token is for web pages alone, and the request has no Origin.";
    throw new RouseFailure("origin_not_allowed", message, { details: { origin } });
  }
  if (!origins.includes(origin)) throw notAllowed(origin);
}

function notAllowed(origin: string): RouseFailure {
  const shown = origin.slice(0, 300);
  const message = `Pages of ${shown} may not do that with this credential.`;
  return new RouseFailure("origin_not_allowed", message, { details: { origin: shown } });
}

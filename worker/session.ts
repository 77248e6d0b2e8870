/**
 * The cookie of a browser that is signed in to the dashboard, and what a request with it must show. Pages of sandboxes
 * are of the same site, so `SameSite` alone keeps none of them out: a change has the session's token in a header, which
 * only a page of this very origin can read and send, and a read comes from such a page by what the browser says.
 */
import { sha256Hex } from "../durable/hash.ts";
import { isUpgrade } from "./proxy/headers.ts";

/** How long a browser stays signed in, seconds. */
export const SESSION_SECONDS = 12 * 3600;

export const CSRF_HEADER = "x-rouse-csrf";

/** With this prefix no page of a host below this one can set it. Browsers take it over HTTPS alone. */
const SECURE_COOKIE = "__Host-rouse_session";
const PLAIN_COOKIE = "rouse_session";

const nameFor = (url: URL) => (url.protocol === "https:" ? SECURE_COOKIE : PLAIN_COOKIE);

/** The session's token among the cookies, or null. */
export function sessionToken(headers: Headers, url: URL): string | null {
  const wanted = nameFor(url);
  for (const cookie of (headers.get("cookie") ?? "").split(";")) {
    const [name, value] = cookie.trim().split("=");
    if (name === wanted && value) return value;
  }
  return null;
}

/** The cookies without any session, for what a program in a sandbox is sent. */
export function withoutSession(cookies: string): string {
  return cookies
    .split(";")
    .map((cookie) => cookie.trim())
    .filter((cookie) => !cookie.startsWith(`${SECURE_COOKIE}=`) && !cookie.startsWith(`${PLAIN_COOKIE}=`))
    .join("; ");
}

/** @param seconds 0 ends it */
export function sessionCookie(url: URL, token: string, seconds: number): string {
  const secure = url.protocol === "https:" ? "; Secure" : "";
  return `${nameFor(url)}=${token}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure}`;
}

/** What pages of the dashboard send with each change. */
export async function csrfToken(session: string): Promise<string> {
  return (await sha256Hex(`csrf ${session}`)).slice(0, 32);
}

/** Whether a page of this origin sent the request, and no other. */
export async function isFromOwnPage(request: Request, url: URL, session: string): Promise<boolean> {
  const origin = request.headers.get("origin");
  if (origin !== null && origin !== url.origin) return false;
  if (request.headers.get(CSRF_HEADER) === (await csrfToken(session))) return true;
  if (request.method !== "GET" && request.method !== "HEAD") return false;
  // A link to a file and a WebSocket have no headers of their own.
  if (isUpgrade(request.headers)) return origin === url.origin;
  return request.headers.get("sec-fetch-site") === "same-origin";
}

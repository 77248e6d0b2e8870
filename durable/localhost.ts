/** Programs that take requests for `localhost` only, as development servers do against DNS rebinding. Pure. */
import { hostHeaders } from "../sdk/contract/host.ts";

/** Make the headers of a request to a named URL those of one to `localhost`. Other sites' origins stay what they are. */
export function asLocalhost(headers: Headers, port: number): void {
  const local = `localhost:${port}`;
  const own = `${headers.get("x-forwarded-proto") ?? "http"}://${headers.get("x-forwarded-host") ?? ""}`;
  headers.set(hostHeaders.host, local);
  if (headers.get("origin") === own) headers.set("origin", `http://${local}`);
  const referer = headers.get("referer");
  if (referer?.startsWith(`${own}/`)) headers.set("referer", `http://${local}${referer.slice(own.length)}`);
}

/**
 * Make what such a program answers right for who asked for the named URL: a redirect to itself stays there, and a cookie
 * is not for `localhost`.
 * @param prefix what the URL has before the program's own path, or empty
 */
export function fromLocalhost(headers: Headers, port: number, prefix: string): void {
  const location = headers.get("location") ?? "";
  const own = new RegExp(`^https?://(?:localhost|127\\.0\\.0\\.1|\\[::1\\]):${port}(?=[/?#]|$)`, "i").exec(location);
  if (own) {
    const rest = location.slice(own[0].length);
    headers.set("location", `${prefix}${rest.startsWith("/") ? rest : `/${rest}`}`);
  }
  const cookies = headers.getSetCookie();
  if (!cookies.some((cookie) => DOMAIN.test(cookie))) return;
  headers.delete("set-cookie");
  for (const cookie of cookies) headers.append("set-cookie", cookie.replace(DOMAIN, ""));
}

const DOMAIN = /;\s*domain=\.?localhost(?=\s*(?:;|$))/i;

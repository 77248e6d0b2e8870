/** Named URLs: which one a port has, and how the SDK reaches it by path. Pure. */
import { defaults } from "../contract/sandbox.ts";
import { invalidArgument } from "./errors.ts";

const PATH_FORM = /^\/s\/([^/]+)\/(\d+)\/?$/;

export function checkPort(port: number): void {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw invalidArgument(`The port ${port} is not from 1 to 65535.`);
  }
}

/** The named URL of a port, from that of the default port. */
export function urlOfPort(defaultUrl: string, port: number): string {
  checkPort(port);
  if (port === defaults.port) return defaultUrl;
  const url = new URL(defaultUrl);
  const byPath = PATH_FORM.exec(url.pathname);
  if (byPath) url.pathname = `/s/${byPath[1]}/${port}/`;
  else url.hostname = `${port}-${url.hostname}`;
  return url.href;
}

/** What the URL calls the sandbox: its label, with the account where that is not the default one. */
export function hostLabelOf(defaultUrl: string): string {
  const url = new URL(defaultUrl);
  return PATH_FORM.exec(url.pathname)?.[1] ?? url.hostname.split(".")[0] ?? "";
}

/** The path form of a named URL, which works without wildcard DNS; ends in a slash. */
export function pathFormOf(baseUrl: string, defaultUrl: string, port: number): string {
  checkPort(port);
  return `${baseUrl}/s/${hostLabelOf(defaultUrl)}/${port}/`;
}

/**
 * Where a redirect of the program in the sandbox leads: back into the sandbox (`inside`), or away from it, where the
 * key must not go. The path form shares its origin with the API, so a redirect must never be followed blindly.
 */
export function redirectTarget(
  location: string,
  current: string,
  prefix: string,
  namedUrl: string,
): { url: string; inside: boolean } {
  const named = new URL(namedUrl);
  const base = new URL(prefix);
  // The program sees its own URL without the prefix.
  const seen = new URL(current.slice(prefix.length - 1), named.origin);
  const target = new URL(location, seen);
  if (target.origin === base.origin && target.pathname.startsWith(base.pathname))
    return { url: target.href, inside: true };
  if (target.origin !== named.origin) return { url: target.href, inside: false };
  const path = target.pathname.startsWith(base.pathname)
    ? target.pathname.slice(base.pathname.length - 1)
    : target.pathname;
  return { url: prefix + path.slice(1) + target.search, inside: true };
}

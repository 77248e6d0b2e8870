/** Requests to the program in a sandbox, through its named URL in path form, with the API key or session token. */
import { tokenAccount } from "../contract/session.ts";
import { RouseError, invalidArgument } from "./errors.ts";
import { pathFormOf, redirectTarget, urlOfPort } from "./named-url.ts";
import { sleep } from "./scope.ts";
import { connectionError, isRecord } from "./transport.ts";
import type { Transport } from "./transport.ts";

const REDIRECTS_MAX = 20;
/** How long a request is held while the sandbox wakes, milliseconds. */
const WAKING_MS = 300_000;

export async function namedFetch(
  transport: Transport,
  target: { url: string; port: number },
  path: string,
  init: RequestInit = {},
): Promise<Response> {
  const { baseUrl } = await transport.credentials();
  const prefix = pathFormOf(baseUrl, target.url, target.port);
  const namedUrl = urlOfPort(target.url, target.port);
  const follow = init.redirect ?? "follow";
  let url = within(prefix, path);
  let request: RequestInit = init;
  let inside = true;
  for (let redirects = 0; ; redirects += 1) {
    const response = await send(transport, url, request, inside);
    // A page is not told where a redirect leads, and a browser would follow it with the token to wherever that is.
    if (response.type === "opaqueredirect" && follow !== "manual")
      throw connectionError("The program in the sandbox answered with a redirect, which a page can't follow");
    const location = response.headers.get("location");
    if (follow === "manual" || location === null || ![301, 302, 303, 307, 308].includes(response.status))
      return response;
    await response.body?.cancel();
    if (follow === "error") throw connectionError("The program in the sandbox answered with a redirect");
    if (redirects >= REDIRECTS_MAX) throw connectionError("The program in the sandbox redirects without end");
    const next: { url: string; inside: boolean } = inside
      ? redirectTarget(location, url, prefix, namedUrl)
      : { url: new URL(location, url).href, inside: false };
    // What belongs to the caller and the sandbox goes nowhere else.
    if (inside && !next.inside) request = { ...request, headers: withoutSecrets(request.headers) };
    url = next.url;
    inside = next.inside;
    const method = (request.method ?? "GET").toUpperCase();
    if (response.status === 303 ? method !== "HEAD" : response.status < 303 && method === "POST") {
      const { body: _body, ...rest } = request;
      request = { ...rest, method: "GET" };
    } else if (request.body instanceof ReadableStream) {
      throw connectionError("A redirect asks for a streamed body again");
    }
  }
}

/** A path of the program as URL; nothing a path can say leads out of the prefix. */
function within(prefix: string, path: string): string {
  const url = new URL(path.replace(/^\/+/, "./"), prefix);
  if (!url.href.startsWith(prefix))
    throw invalidArgument(`${JSON.stringify(path)} is not a path of the sandbox.`, 'Pass a path such as "/status".');
  return url.href;
}

/**
 * Send, again while the edge says that the sandbox still wakes, or that the session is over and there is another: then
 * nothing has reached the program.
 */
async function send(transport: Transport, url: string, init: RequestInit, inside: boolean): Promise<Response> {
  const startedAt = performance.now();
  let renewed = false;
  for (;;) {
    const headers = new Headers(init.headers);
    const { apiKey } = await transport.credentials();
    // The caller's own authorization is for the program, but the edge must see the key to let the request in.
    if (inside && tokenAccount(apiKey) === null) headers.set("authorization", `Bearer ${apiKey}`);
    else if (inside) headers.set("x-rouse-token", apiKey);
    const response = await transport.fetch(url, { ...init, headers, redirect: "manual" });
    const refusal = await refusalOf(response);
    const isOver = inside && !renewed && refusal?.["code"] === "unauthorized" && !(init.body instanceof ReadableStream);
    if (isOver && (await transport.renew(apiKey))) {
      renewed = true;
      await response.body?.cancel();
      continue;
    }
    const waitMs = wakingFor(refusal);
    if (waitMs === null || init.body instanceof ReadableStream || performance.now() - startedAt > WAKING_MS)
      return response;
    await response.body?.cancel();
    try {
      await sleep(waitMs, init.signal ?? undefined);
    } catch (error) {
      // As fetch itself: an aborted request throws what it was aborted with.
      throw error instanceof RouseError && init.signal?.aborted ? init.signal.reason : error;
    }
  }
}

/** What the edge says in the program's place, or what looks like it; null for any other answer. */
async function refusalOf(response: Response): Promise<Record<string, unknown> | null> {
  if (response.status !== 503 && response.status !== 401) return null;
  if (!response.headers.get("content-type")?.startsWith("application/json")) return null;
  if (Number(response.headers.get("content-length") ?? 0) > 65_536) return null;
  const body: unknown = await response
    .clone()
    .json()
    .catch(() => null);
  return isRecord(body) && isRecord(body["error"]) ? body["error"] : null;
}

function wakingFor(refusal: Record<string, unknown> | null): number | null {
  if (refusal?.["code"] !== "sandbox_waking") return null;
  const { retryAfterMs } = refusal;
  return typeof retryAfterMs === "number" ? Math.min(30_000, Math.max(100, retryAfterMs)) : 1000;
}

function withoutSecrets(from: RequestInit["headers"]): Headers {
  const headers = new Headers(from);
  for (const name of ["authorization", "cookie", "proxy-authorization"]) headers.delete(name);
  return headers;
}

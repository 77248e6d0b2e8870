/** Which headers of a request reach the program in a sandbox. */
import { LINK_TOKEN_NAME } from "../../durable/named-url.ts";
import { hostHeaders } from "../../sdk/contract/host.ts";
import { SOCKET_PROTOCOL, TOKEN_PROTOCOL } from "../../sdk/contract/session.ts";
import { isLoopback } from "../peer.ts";
import { withoutSession } from "../session.ts";

/** They belong to one connection. `upgrade` and `connection` stay for a WebSocket. */
const HOP_BY_HOP = [
  "keep-alive",
  "proxy-connection",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
] as const;
const OURS = "x-rouse-";
export const PREVIEW_TOKEN = "x-runtime-preview-token";
const PROTOCOLS = "sec-websocket-protocol";

/** An address of a sandbox's network that no program has, nor the one that its requests come from (10.0.2.2). */
const LOCAL_CLIENT = "10.0.2.3";

export interface Forwarded {
  /** The host name the program is known by. */
  readonly host: string;
  readonly scheme: string;
  /** Path before the program's own, or empty. */
  readonly prefix: string;
  readonly requestId: string;
  /** The Authorization header was meant for the edge. */
  readonly dropAuthorization: boolean;
  /** The API key, share link or session that let the request in; null for another credential, or none. */
  readonly keyId: string | null;
  /** When that ends, Unix milliseconds; null: never, or not known. */
  readonly endsAt: number | null;
}

export function guestHeaders(from: Headers, to: Forwarded): Headers {
  const headers = new Headers(from);
  for (const name of HOP_BY_HOP) headers.delete(name);
  for (const name of from.keys()) if (name.startsWith(OURS)) headers.delete(name);
  headers.delete(PREVIEW_TOKEN);
  if (!isUpgrade(from)) {
    for (const name of (from.get("connection") ?? "").split(","))
      if (/^[\w-]+$/.test(name.trim())) headers.delete(name.trim());
    headers.delete("connection");
    headers.delete("upgrade");
  }
  if (from.has(PROTOCOLS)) setOrDelete(headers, PROTOCOLS, protocolsForProgram(from));
  if (to.dropAuthorization) headers.delete("authorization");
  const cookie = from.get("cookie");
  if (cookie !== null) {
    // Below /s/ a program is on the dashboard's own origin.
    const own = cookie.includes("rouse_session=") ? withoutSession(cookie) : cookie;
    setOrDelete(headers, "cookie", own.includes(`${LINK_TOKEN_NAME}=`) ? withoutToken(own) : own);
  }
  // What a client says of where it comes from is hearsay.
  headers.set("x-forwarded-for", seenFromMachine(from.get("cf-connecting-ip")));
  headers.set("x-forwarded-host", to.host);
  headers.set("x-forwarded-proto", to.scheme);
  setOrDelete(headers, "x-forwarded-prefix", to.prefix);
  headers.set("x-request-id", to.requestId);
  if (to.keyId !== null) headers.set(hostHeaders.keyId, to.keyId);
  if (to.endsAt !== null) headers.set(hostHeaders.endsAt, String(to.endsAt));
  return headers;
}

/** A loopback address would mean the program's own machine in there, where it may open doors. */
function seenFromMachine(address: string | null): string {
  return address === null || isLoopback(address) ? LOCAL_CLIENT : address;
}

export function isUpgrade(headers: Headers): boolean {
  return headers.get("upgrade")?.toLowerCase() === "websocket";
}

/** The link token among the cookies, or null. */
export function cookieToken(headers: Headers): string | null {
  for (const cookie of (headers.get("cookie") ?? "").split(";")) {
    const [name, value] = cookie.trim().split("=");
    if (name === LINK_TOKEN_NAME && value) return value;
  }
  return null;
}

/** The link token among the subprotocols that a WebSocket offers, or null. */
export function protocolToken(headers: Headers): string | null {
  const protocol = tokenProtocol(headers);
  return protocol === null ? null : protocol.slice(TOKEN_PROTOCOL.length);
}

/** The subprotocols that are not for the edge; empty for none. */
export function protocolsForProgram(headers: Headers): string {
  const protocols = headers.get(PROTOCOLS) ?? "";
  if (!protocols.includes(TOKEN_PROTOCOL)) return protocols;
  return offered(protocols)
    .filter((name) => name !== SOCKET_PROTOCOL && !name.startsWith(TOKEN_PROTOCOL))
    .join(", ");
}

/**
 * A browser takes no answer that names none of the subprotocols that it offered: where the program chose none, that is
 * the one that is there to be chosen, or else the one with the token.
 */
export function withProtocol(response: Response, asked: Headers): Response {
  const token = response.webSocket ? tokenProtocol(asked) : null;
  if (token === null || response.headers.has(PROTOCOLS)) return response;
  const headers = new Headers(response.headers);
  headers.set(PROTOCOLS, offered(asked.get(PROTOCOLS) ?? "").includes(SOCKET_PROTOCOL) ? SOCKET_PROTOCOL : token);
  return new Response(null, { status: 101, headers, webSocket: response.webSocket });
}

function tokenProtocol(headers: Headers): string | null {
  return offered(headers.get(PROTOCOLS) ?? "").find((name) => name.startsWith(TOKEN_PROTOCOL)) ?? null;
}

function offered(protocols: string): string[] {
  return protocols.split(",").map((name) => name.trim());
}

function withoutToken(cookies: string): string {
  const kept = cookies.split(";").filter((cookie) => !cookie.trim().startsWith(`${LINK_TOKEN_NAME}=`));
  return kept.join(";").trim();
}

function setOrDelete(headers: Headers, name: string, value: string): void {
  if (value === "") headers.delete(name);
  else headers.set(name, value);
}

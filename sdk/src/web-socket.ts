/** WebSockets to the API, which takes its key from a header, and a session token from a subprotocol as well. */
import { SOCKET_PROTOCOL, TOKEN_PROTOCOL, tokenAccount } from "../contract/session.ts";
import { invalidArgument } from "./errors.ts";
import type { Remote } from "./remote.ts";
import type { QueryValue } from "./transport.ts";
import { queryString } from "./transport.ts";
import { VERSION } from "./version.ts";

/** How a socket ended; `opened` is false for one that was refused. */
export interface SocketEnd {
  readonly opened: boolean;
  readonly code: number;
}

type WithHeaders = new (url: string, options: { headers: Record<string, string> } | string[]) => WebSocket;

/**
 * Begin a WebSocket below the sandbox. Messages are text, or an `ArrayBuffer`.
 * @throws InvalidRequestError `invalid_argument` in a runtime whose WebSockets send no headers
 */
export async function beginSocket(
  remote: Remote,
  suffix: string,
  query: Record<string, QueryValue> = {},
): Promise<WebSocket> {
  const { baseUrl, apiKey } = await remote.transport.credentials();
  const url = `${baseUrl.replace(/^http/, "ws")}${remote.path(suffix)}${queryString(query)}`;
  const { webSocket } = remote.transport;
  if (webSocket !== undefined) return withBuffers(webSocket(url));
  const Socket = (globalThis as unknown as { WebSocket?: WithHeaders }).WebSocket;
  if (Socket !== undefined && tokenAccount(apiKey) !== null)
    return withBuffers(new Socket(url, [SOCKET_PROTOCOL, `${TOKEN_PROTOCOL}${apiKey}`]));
  // In browsers and Workers the second argument is a list of subprotocols.
  if (Socket === undefined || "document" in globalThis || "WebSocketPair" in globalThis)
    throw invalidArgument(
      "This runtime has no WebSockets that send an API key.",
      "Use Node.js 22 or newer, Deno or Bun; in a page or Worker, a session token.",
    );
  const headers = { authorization: `Bearer ${apiKey}`, "x-rouse-client": `sdk-js/${VERSION}` };
  return withBuffers(new Socket(url, { headers }));
}

function withBuffers(socket: WebSocket): WebSocket {
  socket.binaryType = "arraybuffer";
  return socket;
}

/** Resolves when it is over, however that came. */
export function endOf(socket: WebSocket): Promise<SocketEnd> {
  return new Promise((resolve) => {
    let opened = false;
    socket.addEventListener("open", () => (opened = true));
    socket.addEventListener("close", ({ code }) => resolve({ opened, code }));
    // Some runtimes tell of a refusal by this alone.
    socket.addEventListener("error", () => {
      if (!opened) resolve({ opened, code: 1006 });
    });
  });
}

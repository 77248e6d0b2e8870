/** What a machine asks of `http://rouse.internal` goes to the edge, with the host's key and the machine's ticket. */
import { Agent, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import { Agent as SecureAgent, request as httpsRequest } from "node:https";
import { INSIDE_TICKET_HEADER } from "../../sdk/contract/egress.ts";
import { errorBody, RouseFailure, statusOf } from "../../sdk/contract/errors.ts";
import { framing, passing } from "./http-headers.ts";
import type { Way } from "./way.ts";

/** Without a byte either way: longer than any answer is waited for. */
const QUIET_MS = 300_000;
const RETRY_MS = 1000;
/** Kept shorter than servers keep theirs. */
const IDLE_CONNECTION_MS = 4000;

/** What the edge must believe the host alone: who asks, and by which right. */
function isOurs(name: string): boolean {
  return (
    name.startsWith("x-rouse-") ||
    name.startsWith("x-forwarded-") ||
    name.startsWith("cf-") ||
    ["authorization", "cookie", "forwarded", "host", "via", "x-real-ip", "expect"].includes(name)
  );
}

export type InsideRequest = IncomingMessage | Http2ServerRequest;
export type InsideResponse = ServerResponse | Http2ServerResponse;
/** What both have, as one of them. */
const plain = (response: InsideResponse) => response as ServerResponse;

export class Inside {
  readonly #base: URL;
  readonly #hostKey: string;
  readonly #agent: Agent;

  constructor({ edgeUrl, hostKey }: { readonly edgeUrl: string; readonly hostKey: string }) {
    this.#base = new URL(`${edgeUrl}/internal/inside/`);
    this.#hostKey = hostKey;
    const kept = { keepAlive: true, timeout: IDLE_CONNECTION_MS, maxFreeSockets: 64 };
    this.#agent = this.#base.protocol === "https:" ? new SecureAgent(kept) : new Agent(kept);
  }

  close(): void {
    this.#agent.destroy();
  }

  forward(way: Way | null, request: InsideRequest, response: InsideResponse): void {
    try {
      this.#forward(way, request, response);
    } catch {
      // The fault may hold what was to be written.
      const message = "The request can't be passed on: its target or a header holds what may not stand there.";
      fail(response, new RouseFailure("invalid_request", message));
    }
  }

  #forward(way: Way | null, request: InsideRequest, response: InsideResponse): void {
    const ticket = way?.inside;
    if (!ticket) return fail(response, new RouseFailure("egress_refused", "This machine has no homes of state yet."));
    const url = this.#urlOf(request.url ?? "/");
    if (!url) return fail(response, new RouseFailure("route_not_found", "There is no such path."));
    const method = request.method ?? "GET";
    const passed = passing(request.rawHeaders, isOurs);
    // HTTP/2 has frames in the place of lengths: a body without a length is chunked from here on.
    const isSecond = request.httpVersionMajor === 2;
    const isOpenEnded = isSecond && request.headers["content-length"] === undefined && !isEnded(request);
    const upstream = (url.protocol === "https:" ? httpsRequest : httpRequest)(url, {
      ...{ method, agent: this.#agent, timeout: QUIET_MS },
      headers: [
        ...["host", url.host, "authorization", `Bearer ${this.#hostKey}`, INSIDE_TICKET_HEADER, ticket.reveal()],
        ...passed.headers,
        ...framing(method, { ...passed, isChunked: passed.isChunked || isOpenEnded }),
      ],
    });
    let isOver = false;
    response.once("close", () => {
      isOver = true;
      upstream.destroy();
    });
    upstream.on("response", (answer) => {
      const { headers } = passing(answer.rawHeaders, (name) => name === INSIDE_TICKET_HEADER);
      try {
        headAs(plain(response), answer, headers);
      } catch {
        return void response.destroy();
      }
      answer.pipe(response);
      answer.on("error", () => response.destroy());
      answer.once("close", () => answer.complete || response.destroy());
    });
    upstream.on("timeout", () => upstream.destroy());
    upstream.on("error", () => {
      if (isOver) return;
      if (response.headersSent) return void response.destroy();
      const message = "The homes of state do not answer now.";
      fail(response, new RouseFailure("host_unavailable", message, { retryAfterMs: RETRY_MS }));
    });
    request.on("error", () => upstream.destroy());
    request.on("aborted", () => upstream.destroy());
    request.pipe(upstream);
  }

  /** Null for a path that leads out of what is for machines: whatever it is to whom, the edge reads it like this. */
  #urlOf(path: string): URL | null {
    const bare = /^https?:\/\/[^/?#]*(.*)$/i.exec(path)?.[1] ?? path;
    if (!URL.canParse(`${this.#base.href}${bare.replace(/^\//, "")}`)) return null;
    const url = new URL(`${this.#base.href}${bare.replace(/^\//, "")}`);
    return url.origin === this.#base.origin && url.pathname.startsWith(this.#base.pathname) ? url : null;
  }
}

function isEnded(request: InsideRequest): boolean {
  return request.readableEnded || ("stream" in request && request.stream.endAfterHeaders);
}

function headAs(response: ServerResponse, answer: IncomingMessage, headers: readonly string[]): void {
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = headers[at] ?? "";
    const before = response.getHeader(name);
    const value = headers[at + 1] ?? "";
    response.setHeader(name, before === undefined ? value : [before, value].flat().map(String));
  }
  response.writeHead(answer.statusCode ?? 502);
  response.flushHeaders();
}

function fail(response: InsideResponse, failure: RouseFailure): void {
  plain(response).writeHead(statusOf(failure.code), {
    "content-type": "application/json; charset=utf-8",
    ...(failure.retryAfterMs === undefined ? {} : { "retry-after": String(Math.ceil(failure.retryAfterMs / 1000)) }),
  });
  response.end(JSON.stringify(errorBody(failure)));
}

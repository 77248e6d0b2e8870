/**
 * The way out: one connection that the host opened, on which this agent asks by HTTP/2 (`sdk/contract/guest-tunnel.ts`).
 * Whoever needs it while there is none waits for a moment; a newer one ends all that was on an older.
 */
import type { IncomingMessage } from "node:http";
import {
  connect,
  constants,
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
  type OutgoingHttpHeaders,
} from "node:http2";
import type { Duplex } from "node:stream";
import { errorBody, RouseFailure, statusOf } from "../../sdk/contract/error-codes.ts";
import { TUNNEL_HOST, TUNNEL_PATH, TUNNEL_PROTOCOL } from "../../sdk/contract/guest-tunnel.ts";
import { writeTarget, type Target } from "./targets.ts";

/** How long whoever needs the way out waits for one. */
const WAIT_MS = 10_000;
/** Who waits at the same time. */
const WAITING_MOST = 1024;
/** A new host's certificates are taken up first, but nobody waits for them without end. */
const TRUST_WAIT_MS = 20_000;
/** A host opens its tunnel some tens of milliseconds after a start or a wake. */
const SETTLE_MS = 5000;
const WINDOW_BYTES = 262_144;
const SESSION_WINDOW_BYTES = 4 * 1_048_576;
const REFUSAL_BYTES = 16_384;
const ANSWER_BYTES = 262_144;
/** Same name as in `sdk/contract/egress.ts`, which needs zod. */
export const REFUSAL_HEADER = "x-rouse-egress";

/** Why something did not get out, as an answer of HTTP. */
export class Refusal extends Error {
  readonly status: number;
  readonly rule: string;
  readonly body: string;

  constructor(status: number, rule: string, body: string) {
    super(`refused: ${rule}`);
    this.status = status;
    this.rule = rule;
    this.body = body;
  }

  static of(failure: RouseFailure, rule: string): Refusal {
    return new Refusal(statusOf(failure.code), rule, JSON.stringify(errorBody(failure)));
  }
}

export class HostTunnel {
  #session: ClientHttp2Session | null = null;
  #trusted: Promise<unknown> = Promise.resolve();
  readonly #waiting = new Set<() => void>();
  readonly #onOpen: (tunnel: HostTunnel) => Promise<void>;

  /** @param onOpen what must be done with a new tunnel before others use it */
  constructor(onOpen: (tunnel: HostTunnel) => Promise<void> = () => Promise.resolve()) {
    this.#onOpen = onOpen;
  }

  /** Whether the request is the host's for a tunnel; it is taken then. */
  accept(req: IncomingMessage, socket: Duplex, head: Buffer): boolean {
    if (req.url !== TUNNEL_PATH || req.method !== "POST" || req.headers.upgrade !== TUNNEL_PROTOCOL) return false;
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: ${TUNNEL_PROTOCOL}\r\n\r\n`);
    if (head.length > 0) socket.unshift(head);
    const old = this.#session;
    const session = connect(`http://${TUNNEL_HOST}`, {
      createConnection: () => socket,
      settings: { enablePush: false, initialWindowSize: WINDOW_BYTES },
    });
    this.#session = session;
    session.once("connect", () => session.setLocalWindowSize(SESSION_WINDOW_BYTES));
    session.on("error", () => undefined);
    session.once("close", () => {
      socket.destroy();
      if (this.#session === session) this.#session = null;
    });
    socket.on("error", () => session.destroy());
    socket.once("close", () => session.destroy());
    old?.destroy();
    this.#trusted = within(this.#onOpen(this), TRUST_WAIT_MS);
    for (const go of this.#waiting) go();
    return true;
  }

  /** Once there is a tunnel and this machine trusts its host, or after some seconds: programs may read certificates now. */
  async settled(): Promise<void> {
    const end = performance.now() + SETTLE_MS;
    try {
      for (;;) {
        const session = await this.#open(end);
        await this.#trusted;
        if (session === this.#session) return;
      }
    } catch {
      // There is no way out.
    }
  }

  /**
   * A connection to that place outside.
   * @throws Refusal
   */
  async connect(target: Target): Promise<ClientHttp2Stream> {
    const headers = { ":method": "CONNECT", ":authority": writeTarget(target) };
    return this.#ask(async (session) => {
      await this.#trusted;
      const stream = session.request(headers, { endStream: false });
      const answer = await answerOf(stream);
      if (answer[":status"] === 200) return stream;
      const rule = answer[REFUSAL_HEADER];
      const body = await bytesOf(stream, REFUSAL_BYTES).catch(() => Buffer.alloc(0));
      throw new Refusal(answer[":status"] ?? 502, typeof rule === "string" ? rule : "unreachable", body.toString());
    });
  }

  /**
   * A request to the host itself; its body, unless `endStream`, is the caller's to send.
   * @throws Refusal
   */
  async request(headers: OutgoingHttpHeaders, endStream: boolean): Promise<ClientHttp2Stream> {
    return this.#ask(async (session) => session.request(headers, { endStream }));
  }

  /** A short answer of the host itself, over this tunnel. */
  async fetch(method: string, path: string, body?: Buffer): Promise<Buffer> {
    const headers = { ":method": method, ":scheme": "http", ":authority": TUNNEL_HOST, ":path": path };
    return this.#ask(async (session) => {
      const stream = session.request(headers, { endStream: body === undefined });
      if (body) stream.end(body);
      const answer = await answerOf(stream);
      if (answer[":status"] !== 200) throw new Refusal(answer[":status"] ?? 502, "host", "");
      return bytesOf(stream, ANSWER_BYTES);
    });
  }

  /** Ask by the tunnel there is; when it breaks before there was an answer, by the next one. */
  async #ask<T>(how: (session: ClientHttp2Session) => Promise<T>): Promise<T> {
    const end = performance.now() + WAIT_MS;
    for (;;) {
      const session = await this.#open(end);
      try {
        return await how(session);
      } catch (fault) {
        if (fault instanceof Refusal) throw fault;
        if (!session.destroyed) throw noWay("The host closed the connection before it answered.", "upstream_closed");
        if (this.#session === session) this.#session = null;
      }
    }
  }

  async #open(end: number): Promise<ClientHttp2Session> {
    for (;;) {
      const session = this.#session;
      if (session && !session.destroyed && !session.closed) return session;
      const left = end - performance.now();
      if (left <= 0 || this.#waiting.size >= WAITING_MOST) throw noWay("This machine has no way out now.");
      await new Promise<void>((resolve) => {
        const go = () => {
          clearTimeout(timer);
          this.#waiting.delete(go);
          resolve();
        };
        const timer = setTimeout(go, left);
        this.#waiting.add(go);
      });
    }
  }
}

function noWay(message: string, code: "upstream_closed" | "host_unavailable" = "host_unavailable"): Refusal {
  return Refusal.of(new RouseFailure(code, message), code === "upstream_closed" ? "unreachable" : "no-tunnel");
}

function answerOf(stream: ClientHttp2Stream): Promise<IncomingHttpHeaders & IncomingHttpStatusHeader> {
  return new Promise((resolve, reject) => {
    stream.once("response", (headers) => resolve(headers));
    stream.on("error", reject); // for good: a later one is told by the close
    stream.once("close", () => reject(new Error("the stream ended before it was answered")));
  });
}

async function bytesOf(stream: ClientHttp2Stream, most: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > most) {
      stream.close(constants.NGHTTP2_CANCEL);
      throw new Error("the answer is too long");
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function within(work: Promise<void>, limitMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<void>((resolve) => (timer = setTimeout(resolve, limitMs)));
  await Promise.race([work.catch((fault: unknown) => console.error(fault)), limit]);
  clearTimeout(timer);
}

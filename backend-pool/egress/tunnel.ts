/**
 * The host's end of machines' ways out. To each machine that runs it opens one connection to the guest agent, over which
 * the guest asks and this host serves (`sdk/contract/guest-tunnel.ts`); what is asked goes to `Outside`.
 */
import { request } from "node:http";
import {
  constants,
  Http2ServerRequest,
  Http2ServerResponse,
  performServerHandshake,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import { isIPv6, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { EGRESS_REFUSAL_HEADER, INSIDE_HOST } from "../../sdk/contract/egress.ts";
import { errorBody, RouseFailure, statusOf } from "../../sdk/contract/errors.ts";
import { TUNNEL_HOST, TUNNEL_PATH, TUNNEL_PROTOCOL } from "../../sdk/contract/guest-tunnel.ts";
import type { Endpoint } from "../machine/driver.ts";
import type { Outside, OutsideMachine, OutsideRefusal, OutsideTarget } from "./outside.ts";

/** After a run is ready: its first request, which the tunnel must not slow, is answered before that, or waits anyhow. */
const OPEN_AFTER_MS = 50;
const HANDSHAKE_LIMIT_MS = 10_000;
const AGAIN_MS = 200;
const AGAIN_MOST_MS = 10_000;
/** How often open streams are looked at for bytes: those count as use, and open streams do not. */
const LOOK_MS = 1000;
const STREAMS_MOST = 1024;
const QUERY_BYTES = 4096;

/** A run that is to have a way out. */
export interface TunnelRun {
  readonly machine: OutsideMachine;
  /** No byte goes to the guest before. */
  readonly ready: Promise<void>;
  endpoint(): Promise<Endpoint>;
  /** Something went out, or came in. */
  touch(): void;
}

export class Tunnels {
  readonly #outside: Outside;
  readonly #open = new Set<Tunnel>();
  #looking: NodeJS.Timeout | undefined;

  constructor(outside: Outside) {
    this.#outside = outside;
  }

  /** A tunnel for a run, which opens in a moment and again whenever it breaks, until it is cut. */
  begin(run: TunnelRun): Tunnel {
    const tunnel = new Tunnel(run, this.#outside, {
      began: () => {
        this.#open.add(tunnel);
        this.#looking ??= setInterval(() => this.#look(), LOOK_MS).unref();
      },
      over: () => {
        this.#open.delete(tunnel);
        if (this.#open.size > 0) return;
        clearInterval(this.#looking);
        this.#looking = undefined;
      },
    });
    return tunnel;
  }

  #look(): void {
    for (const tunnel of this.#open) tunnel.look();
  }
}

/** Told when the first stream of a tunnel began, and when its last one is over. */
interface Streams {
  began(): void;
  over(): void;
}

export class Tunnel {
  readonly #run: TunnelRun;
  readonly #outside: Outside;
  readonly #streams: Streams;
  #timer: NodeJS.Timeout | undefined;
  #session: ServerHttp2Session | null = null;
  #socket: Socket | null = null;
  #opening: AbortController | null = null;
  #isCut = false;
  #pauseMs = AGAIN_MS;
  #count = 0;
  #bytes = 0;

  constructor(run: TunnelRun, outside: Outside, streams: Streams) {
    this.#run = run;
    this.#outside = outside;
    this.#streams = streams;
    run.ready.then(
      () => this.#later(OPEN_AFTER_MS),
      () => undefined, // a run that is not ready has no way out
    );
  }

  /** Its first request was answered: there is nothing to wait for. */
  now(): void {
    if (this.#timer === undefined || this.#session) return;
    clearTimeout(this.#timer);
    void this.#open();
  }

  /** The run is over, or is about to be: streams end at once, and no new tunnel comes. */
  cut(): void {
    this.#isCut = true;
    clearTimeout(this.#timer);
    this.#opening?.abort();
    this.#session?.destroy();
    this.#socket?.destroy();
  }

  look(): void {
    const bytes = (this.#socket?.bytesRead ?? 0) + (this.#socket?.bytesWritten ?? 0);
    if (bytes === this.#bytes) return;
    this.#bytes = bytes;
    this.#run.touch();
  }

  #later(ms: number): void {
    if (this.#isCut) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#open(), ms);
    this.#timer.unref();
  }

  async #open(): Promise<void> {
    this.#timer = undefined;
    if (this.#isCut || this.#opening) return;
    const opening = new AbortController();
    this.#opening = opening;
    try {
      const socket = await upgraded(await this.#run.endpoint(), opening.signal);
      if (opening.signal.aborted) return void socket.destroy();
      this.#serve(socket);
    } catch (fault) {
      // One of an earlier version has no tunnels, and to ask it again and again would keep its machine busy.
      if (!(fault instanceof NoTunnel)) this.#again();
    } finally {
      this.#opening = null;
    }
  }

  #again(): void {
    this.#later(this.#pauseMs);
    this.#pauseMs = Math.min(this.#pauseMs * 2, AGAIN_MOST_MS);
  }

  #serve(socket: Socket): void {
    socket.setNoDelay(true);
    const session = performServerHandshake(socket, {
      settings: { maxConcurrentStreams: STREAMS_MOST, maxHeaderListSize: 32_768 },
    });
    this.#session = session;
    this.#socket = socket;
    this.#bytes = 0;
    const began = performance.now();
    session.on("error", () => undefined);
    socket.on("error", () => session.destroy());
    socket.once("close", () => session.destroy());
    session.once("close", () => {
      socket.destroy();
      if (this.#session !== session) return;
      this.#session = null;
      this.#socket = null;
      if (performance.now() - began > AGAIN_MOST_MS) this.#pauseMs = AGAIN_MS;
      this.#again();
    });
    session.on("stream", (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, _flags: number, raw: string[]) => {
      stream.on("error", () => undefined);
      this.#note(stream);
      this.#answer(stream, headers, raw);
    });
  }

  #note(stream: ServerHttp2Stream): void {
    this.#run.touch();
    if (this.#count++ === 0) this.#streams.began();
    stream.once("close", () => {
      if (--this.#count === 0) this.#streams.over();
      if (!this.#isCut) this.look();
    });
  }

  #answer(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, raw: string[]): void {
    const { machine } = this.#run;
    const authority = headers[":authority"] ?? headers.host ?? "";
    const path = headers[":path"] ?? "";
    if (headers[":method"] === "CONNECT") return this.#connect(stream, authority);
    const host = authority.toLowerCase().replace(/:80$/, "");
    if (host === INSIDE_HOST) {
      const asked = new Http2ServerRequest(stream, headers, {}, raw);
      this.#outside.inside(machine, asked, new Http2ServerResponse(stream));
      return;
    }
    if (host === TUNNEL_HOST && path === "/ca.pem" && headers[":method"] === "GET") {
      stream.respond({ ":status": 200, "content-type": "application/x-pem-file" });
      stream.end(Buffer.from(this.#outside.caPem()));
      return;
    }
    if (host === TUNNEL_HOST && path === "/dns" && headers[":method"] === "POST") return void this.#dns(stream);
    refuse(stream, { code: "route_not_found", message: "The host answers no such request." });
  }

  #connect(stream: ServerHttp2Stream, authority: string): void {
    const target = targetOf(authority);
    if (!target) return refuse(stream, { code: "invalid_request", message: "A target is host:port." });
    let isAnswered = false;
    const once = (answer: () => void) => {
      if (isAnswered) return;
      isAnswered = true;
      if (!stream.destroyed && !stream.closed) answer();
    };
    this.#outside.connect(this.#run.machine, target, stream as Duplex, {
      open: () => once(() => stream.respond({ ":status": 200 })),
      refuse: (refusal) => once(() => refuse(stream, refusal)),
    });
  }

  async #dns(stream: ServerHttp2Stream): Promise<void> {
    try {
      const chunks: Buffer[] = [];
      let size = 0;
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        size += chunk.length;
        if (size > QUERY_BYTES)
          return refuse(stream, { code: "payload_too_large", message: "That is no DNS message." });
        chunks.push(chunk);
      }
      const answer = await this.#outside.dns(this.#run.machine, Buffer.concat(chunks));
      if (stream.destroyed || stream.closed) return;
      stream.respond({ ":status": 200, "content-type": "application/dns-message" });
      stream.end(answer);
    } catch {
      if (!stream.destroyed) stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    }
  }
}

function refuse(stream: ServerHttp2Stream, { code, message, rule }: OutsideRefusal): void {
  if (stream.destroyed || stream.closed) return;
  const failure = new RouseFailure(code, message);
  stream.respond({
    ":status": statusOf(code),
    "content-type": "application/json; charset=utf-8",
    ...(rule === undefined ? {} : { [EGRESS_REFUSAL_HEADER]: rule.replaceAll(/[^\x20-\x7e]/g, "?") }),
  });
  stream.end(Buffer.from(JSON.stringify(errorBody(failure))));
  // What the guest sends yet is of no use.
  stream.resume();
}

const HOST = /^[a-z0-9_]([a-z0-9_.-]{0,253}[a-z0-9_])?$/;

/** `host:port` or `[address]:port`; null: no target. */
export function targetOf(authority: string): OutsideTarget | null {
  const [, six, plain, digits] = /^(?:\[([0-9a-fA-F:.]{2,45})\]|([^:[\]]{1,255})):(\d{1,5})$/.exec(authority) ?? [];
  const host = (six ?? plain ?? "").toLowerCase().replace(/\.$/, "");
  const port = Number(digits ?? 0);
  if (port < 1 || port > 65_535) return null;
  if (six === undefined ? !HOST.test(host) : !isIPv6(host)) return null;
  return { host, port };
}

class NoTunnel extends Error {
  override readonly name = "NoTunnel";
}

/** The connection to the guest agent, once it has agreed. */
function upgraded(at: Endpoint, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const headers = { connection: "upgrade", upgrade: TUNNEL_PROTOCOL, "content-length": 0 };
    const limit = setTimeout(() => req.destroy(new Error("the guest agent does not answer")), HANDSHAKE_LIMIT_MS);
    const req = request({ ...at, method: "POST", path: TUNNEL_PATH, headers, agent: false, signal });
    req.on("upgrade", (_answer, socket: Socket, head) => {
      clearTimeout(limit);
      if (head.length > 0) socket.unshift(head);
      resolve(socket);
    });
    req.on("response", (answer) => {
      answer.resume();
      req.destroy(new NoTunnel(`the guest agent answers ${answer.statusCode}`));
    });
    req.on("error", reject);
    req.once("close", () => clearTimeout(limit));
    req.end();
  });
}

/**
 * What programs of this machine meet on their way out: an HTTP proxy for those that know of it, and the connections that
 * the kernel turned round for those that don't (`rouse-redirect.c`). Both go through the tunnel.
 */
import {
  createServer,
  request as httpRequest,
  STATUS_CODES,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import { constants, type ClientHttp2Stream, type OutgoingHttpHeaders } from "node:http2";
import { createServer as createNetServer, type Server as NetServer, type Socket } from "node:net";
import { Duplex } from "node:stream";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import type { Names } from "./names.ts";
import { FIRST_LINE_BYTES, readFirstLine, readTarget, type Target } from "./targets.ts";
import { REFUSAL_HEADER, Refusal, type HostTunnel } from "./tunnel.ts";
import { isLocal, localNameOf } from "./local-names.ts";

/** Connections out that are open or being opened. */
export const CONNECTIONS_MOST = 1024;
const HEADER_BYTES = 32_768;
/** A program that connects to the port of plain HTTP and then says nothing is told why it was refused, or hung up on. */
const ASKS_WITHIN_MS = 10_000;

const HOP_BY_HOP = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

export class Proxy {
  readonly #tunnel: HostTunnel;
  readonly #names: Names;
  #open = 0;
  /** For programs; it serves the homes of state as well. */
  readonly http: Server;
  /** For `rouse-redirect`. */
  readonly redirected: NetServer;

  constructor(tunnel: HostTunnel, names: Names) {
    this.#tunnel = tunnel;
    this.#names = names;
    const limits = {
      maxHeaderSize: HEADER_BYTES,
      keepAliveTimeout: 60_000,
      requestTimeout: 0,
      headersTimeout: 0,
      connectionsCheckingInterval: 2 ** 30,
    };
    this.http = createServer(limits, (req, res) => {
      this.#request(req, res).catch((fault: unknown) => refuseRequest(res, fault));
    });
    this.http.on("connection", (socket) => {
      socket.setNoDelay(true);
      socket.on("error", () => undefined);
    });
    this.http.on("connect", (req: IncomingMessage, socket: Duplex, head: Buffer) => {
      this.#connect(req, socket, head).catch((fault: unknown) => refuseConnection(socket, fault));
    });
    this.http.on("upgrade", (req: IncomingMessage, socket: Duplex, head: Buffer) => {
      this.#upgrade(req, socket, head).catch((fault: unknown) => refuseConnection(socket, fault));
    });
    this.redirected = createNetServer({ allowHalfOpen: true }, (socket) => {
      socket.on("error", () => undefined);
      firstLine(socket, (line) => {
        const meant = line === null ? null : readFirstLine(line);
        if (meant) this.#redirect(socket, meant);
        else socket.destroy();
      });
    });
  }

  async #connect(req: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on("error", () => undefined);
    const meant = readTarget(req.url ?? "");
    if (!meant) throw badRequest("A target is host:port.");
    const target = this.#named(meant);
    if (head.length > 0) socket.unshift(head);
    const established = "HTTP/1.1 200 Connection established\r\n\r\n";
    if (isHome(target)) {
      socket.write(established);
      this.http.emit("connection", socket);
      return;
    }
    await this.#through(socket, target, () => socket.write(established));
  }

  /** Requests of `http://` URLs: those to the homes of state to the host, the others to where they are meant for. */
  async #request(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { target, authority, path } = asked(req);
    if (isHome(target)) return this.#home(req, res, authority, path);
    const stream = await this.#stream(this.#named(target));
    if (res.destroyed) return void stream.close(constants.NGHTTP2_CANCEL);
    // One request for each connection: the stream is over with its answer.
    const headers = [...endToEnd(req.rawHeaders), "connection", "close"];
    if (req.headers["transfer-encoding"] !== undefined) headers.push("transfer-encoding", "chunked");
    await new Promise<void>((resolve, reject) => {
      const upstream = httpRequest(
        { createConnection: () => asBytes(stream), method: req.method ?? "GET", path, headers, setHost: false },
        (answer) => {
          res.writeHead(answer.statusCode ?? 502, answer.statusMessage, endToEnd(answer.rawHeaders));
          res.flushHeaders();
          answer.pipe(res);
          answer.on("error", () => res.destroy());
          answer.on("close", () => answer.complete || res.destroy());
          resolve();
        },
      );
      upstream.on("error", () => reject(hungUp()));
      upstream.on("upgrade", (_answer, socket) => {
        socket.destroy();
        reject(hungUp());
      });
      res.once("close", () => {
        upstream.destroy();
        if (!stream.closed) stream.close(constants.NGHTTP2_CANCEL);
      });
      req.pipe(upstream);
    });
  }

  async #home(req: IncomingMessage, res: ServerResponse, authority: string, path: string): Promise<void> {
    // A browser in the machine carries what strangers' pages ask for.
    if (req.headers.origin !== undefined)
      throw Refusal.of(new RouseFailure("forbidden", "Pages may not come here."), "page");
    const headers: OutgoingHttpHeaders = {
      ":method": req.method ?? "GET",
      ":scheme": "http",
      ":authority": authority,
      ":path": path,
    };
    const raw = endToEnd(req.rawHeaders);
    for (let i = 0; i + 1 < raw.length; i += 2) {
      const name = (raw[i] ?? "").toLowerCase();
      const before = headers[name];
      const value = raw[i + 1] ?? "";
      if (name === "host" || name === "expect") continue;
      headers[name] = before === undefined ? value : `${String(before)}, ${value}`;
    }
    const hasBody = req.headers["content-length"] !== undefined || req.headers["transfer-encoding"] !== undefined;
    const stream = await this.#counted(() => this.#tunnel.request(headers, !hasBody));
    if (hasBody) req.pipe(stream);
    await new Promise<void>((resolve, reject) => {
      stream.once("response", (answer) => {
        const { ":status": status = 502, ...rest } = answer;
        res.writeHead(status, rest);
        res.flushHeaders();
        stream.pipe(res);
        resolve();
      });
      stream.on("error", () => undefined);
      stream.once("close", () => {
        if (!stream.readableEnded) res.destroy();
        reject(hungUp());
      });
      res.once("close", () => stream.readableEnded || stream.close(constants.NGHTTP2_CANCEL));
    });
  }

  /** A request that leaves HTTP, such as a WebSocket: it is written through, and then bytes are. */
  async #upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on("error", () => undefined);
    const { target, path } = asked(req);
    let lines = `${req.method} ${path} HTTP/1.1\r\n`;
    for (let i = 0; i + 1 < req.rawHeaders.length; i += 2) {
      if (!/^proxy-/i.test(req.rawHeaders[i] ?? "")) lines += `${req.rawHeaders[i]}: ${req.rawHeaders[i + 1]}\r\n`;
    }
    if (head.length > 0) socket.unshift(head);
    await this.#through(socket, this.#named(target), (stream) => stream.write(Buffer.from(`${lines}\r\n`, "latin1")));
  }

  #redirect(socket: Socket, meant: Target): void {
    const target = this.#named(meant);
    if (isHome(target)) {
      this.http.emit("connection", socket);
      return;
    }
    this.#through(socket, target, () => undefined).catch((fault: unknown) => {
      if (target.port !== 80 || !(fault instanceof Refusal)) return void socket.destroy();
      // People see why when they ask.
      const timer = setTimeout(() => socket.destroy(), ASKS_WITHIN_MS);
      socket.once("close", () => clearTimeout(timer));
      socket.once("data", () => refuseConnection(socket, fault));
    });
  }

  async #through(socket: Duplex, target: Target, begin: (stream: ClientHttp2Stream) => void): Promise<void> {
    const stream = await this.#stream(target);
    if (socket.destroyed) return void stream.close(constants.NGHTTP2_CANCEL);
    begin(stream);
    join(socket, stream);
  }

  #stream(target: Target): Promise<ClientHttp2Stream> {
    return this.#counted(() => this.#tunnel.connect(target));
  }

  async #counted(make: () => Promise<ClientHttp2Stream>): Promise<ClientHttp2Stream> {
    if (this.#open >= CONNECTIONS_MOST) {
      const message = `There are ${CONNECTIONS_MOST} connections out of this machine already.`;
      throw Refusal.of(new RouseFailure("guest_busy", message), "connections");
    }
    this.#open++;
    try {
      const stream = await make();
      stream.once("close", () => this.#open--);
      return stream;
    } catch (fault) {
      this.#open--;
      throw fault;
    }
  }

  #named({ host, port }: Target): Target {
    return { host: localNameOf(host) ?? this.#names.nameOf(host) ?? host, port };
  }
}

function isHome({ host, port }: Target): boolean {
  return isLocal(host) && port === 80;
}

/** @throws Refusal */
function asked(req: IncomingMessage): { target: Target; authority: string; path: string } {
  const [, authority, rest = ""] = /^http:\/\/(?:[^/?#@]*@)?([^/?#@]+)([/?].*)?$/i.exec(req.url ?? "") ?? [];
  if (authority !== undefined) {
    const target = readTarget(authority, 80);
    if (!target) throw badRequest("The URL names no host.");
    return { target, authority: target.host, path: rest.startsWith("/") ? rest : `/${rest}` };
  }
  // Without a proxy in between, only the homes of state are asked for here.
  const target = readTarget(req.headers.host ?? "", 80);
  if (!target || !isHome(target)) throw badRequest("This is a proxy: ask for a whole URL.");
  return { target, authority: target.host, path: req.url ?? "/" };
}

/** For writers of text: Node frees the memory of strings that are written to such a stream before it has sent them. */
function asBytes(stream: ClientHttp2Stream): Duplex {
  return Duplex.from({ readable: stream, writable: stream });
}

/** Bytes both ways; an end is passed on as one, a break as one. */
function join(socket: Duplex, stream: ClientHttp2Stream): void {
  socket.pipe(stream);
  stream.pipe(socket);
  stream.on("error", () => undefined);
  stream.once("close", () => {
    if (stream.readableEnded && socket.readableEnded) return;
    if (stream.readableEnded && stream.rstCode === constants.NGHTTP2_NO_ERROR) socket.end(() => socket.destroy());
    else breakOff(socket);
  });
  socket.once("close", () => {
    if (!(socket.readableEnded && stream.readableEnded)) stream.close(constants.NGHTTP2_CANCEL);
  });
}

function breakOff(socket: Duplex): void {
  const { resetAndDestroy } = socket as Partial<Socket>;
  const isTcp = (socket as Partial<Socket>).remoteAddress !== undefined;
  if (isTcp && resetAndDestroy) resetAndDestroy.call(socket as Socket);
  else socket.destroy();
}

function firstLine(socket: Socket, use: (line: string | null) => void): void {
  let seen = Buffer.alloc(0);
  const take = (): void => {
    const chunk = socket.read() as Buffer | null;
    if (!chunk) return;
    seen = Buffer.concat([seen, chunk]);
    const end = seen.indexOf(10);
    if (end < 0 && seen.length <= FIRST_LINE_BYTES) return;
    socket.off("readable", take);
    if (end < 0 || end > FIRST_LINE_BYTES) return use(null);
    if (end + 1 < seen.length) socket.unshift(seen.subarray(end + 1));
    use(seen.toString("latin1", 0, end));
  };
  socket.on("readable", take);
  socket.once("end", () => seen.includes(10) || socket.destroy());
}

function endToEnd(raw: readonly string[]): string[] {
  const out: string[] = [];
  for (let i = 0; i + 1 < raw.length; i += 2)
    if (!HOP_BY_HOP.has((raw[i] ?? "").toLowerCase())) out.push(raw[i] ?? "", raw[i + 1] ?? "");
  return out;
}

function badRequest(message: string): Refusal {
  return Refusal.of(new RouseFailure("invalid_request", message), "request");
}

function hungUp(): Refusal {
  return Refusal.of(new RouseFailure("upstream_closed", "It closed the connection before it answered."), "unreachable");
}

function asRefusal(fault: unknown): Refusal {
  if (fault instanceof Refusal) return fault;
  console.error(fault);
  return Refusal.of(new RouseFailure("guest_failed", "The guest agent failed."), "agent");
}

function headersOf({ rule, body }: Refusal): Record<string, string> {
  return {
    "content-type": "application/json; charset=utf-8",
    "content-length": String(Buffer.byteLength(body)),
    [REFUSAL_HEADER]: rule.replaceAll(/[^\x20-\x7e]/g, "?"),
  };
}

function refuseRequest(res: ServerResponse, fault: unknown): void {
  if (res.headersSent || res.destroyed) return void res.destroy();
  const refusal = asRefusal(fault);
  res.writeHead(refusal.status, headersOf(refusal));
  res.end(refusal.body);
}

function refuseConnection(socket: Duplex, fault: unknown): void {
  const refusal = asRefusal(fault);
  if (socket.destroyed) return;
  const lines = Object.entries({ ...headersOf(refusal), connection: "close" }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  const reason = STATUS_CODES[refusal.status] ?? "Refused";
  socket.end(`HTTP/1.1 ${refusal.status} ${reason}\r\n${lines.join("")}\r\n${refusal.body}`);
  socket.resume();
}

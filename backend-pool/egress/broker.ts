/**
 * Streams to hosts that get secrets: opened here as their server, read as HTTP, and sent on with what belongs in them.
 * Bodies pass as they are, both ways; no value of a secret is in an error, an answer of ours, or a log.
 */
import { createServer, ServerResponse, type IncomingMessage, type Server } from "node:http";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { EGRESS_REFUSAL_HEADER, INSIDE_HOST } from "../../sdk/contract/egress.ts";
import { errorBody, RouseFailure, statusOf, type ErrorCode } from "../../sdk/contract/errors.ts";
import type { Address } from "./addresses.ts";
import type { Authority } from "./ca.ts";
import { Exchange, type UpstreamOptions } from "./exchange.ts";
import { passing } from "./http-headers.ts";
import { firstBytes } from "./join.ts";
import { hostPart, isGreeting } from "./sniff.ts";
import { substitute, type Substituted } from "./substitute.ts";
import type { Way } from "./way.ts";

const GREETING_MS = 15_000;
const HEADERS_BYTES = 65_536;
/** Longer than servers commonly keep a connection that waits: theirs ends ours. */
const WAIT_MS = 600_000;

const UNWRITABLE = "The request can't be passed on: its target or a header holds what may not stand there.";

/** A stream that is to be opened. */
export interface Site {
  readonly way: Way;
  readonly name: string;
  readonly port: number;
  readonly stream: Duplex;
  /** Told with each connection out there. */
  readonly onReached: (address: Address | null) => void;
}

export interface BrokerOptions extends UpstreamOptions {
  readonly authority: Authority;
  readonly inside: (way: Way, request: IncomingMessage, response: ServerResponse) => void;
}

/** A stream that was. */
interface Opened extends Site {
  readonly isSecure: boolean;
  readonly exchange: Exchange;
}

export class Broker {
  readonly #options: BrokerOptions;
  readonly #server: Server;
  readonly #opened = new WeakMap<object, Opened>();

  constructor(options: BrokerOptions) {
    this.#options = options;
    this.#server = createServer({
      ...{ maxHeaderSize: HEADERS_BYTES, keepAliveTimeout: WAIT_MS, requestTimeout: 0, joinDuplicateHeaders: false },
      // A wish for another HTTP is one that may be left unheard.
      shouldUpgradeCallback: ({ headers }) => !/^h2c?$/i.test(headers.upgrade ?? ""),
    });
    this.#server.on("request", (request, response) => this.#request(request, response));
    this.#server.on("checkContinue", (request, response) => this.#request(request, response));
    this.#server.on("checkExpectation", (request, response) => this.#request(request, response));
    this.#server.on("upgrade", (request, socket, head) => this.#upgrade(request, socket, head));
    this.#server.on("connect", (_request, socket) =>
      socket.end("HTTP/1.1 405 Method Not Allowed\r\nconnection: close\r\n\r\n"),
    );
  }

  serve(site: Site): void {
    const { stream } = site;
    // One byte tells which of the two it is.
    firstBytes(stream, (_found, bytes) => bytes.length > 0).then(
      (peeked) => {
        // A stream that ended with its first bytes asks for nothing that could be answered whole.
        if (!peeked || stream.destroyed || stream.readableEnded) return stream.destroy();
        const first: unknown = stream.read(1);
        if (!Buffer.isBuffer(first)) return stream.destroy();
        stream.unshift(first);
        if (isGreeting(first)) this.#serveSecure(site);
        else this.#open(site, stream, false);
      },
      () => stream.destroy(),
    );
  }

  #serveSecure(site: Site): void {
    const { name, stream } = site;
    const context = this.#options.authority.context(name);
    const socket = new TLSSocket(stream, {
      ...{ isServer: true, secureContext: context, ALPNProtocols: ["http/1.1"] },
      SNICallback: (asked, done) => {
        if (hostPart(asked) === name) return done(null, context);
        site.way.counts.refused("fronting", `${name}:${site.port}`);
        done(new Error("a greeting for another host"));
      },
    });
    const timer = setTimeout(() => socket.destroy(), GREETING_MS);
    const broken = () => socket.destroy();
    stream.once("end", broken);
    socket.on("error", () => stream.destroy());
    socket.once("close", () => {
      clearTimeout(timer);
      stream.destroy();
    });
    stream.once("close", () => socket.destroy());
    socket.once("secure", () => {
      clearTimeout(timer);
      stream.removeListener("end", broken);
      this.#open(site, socket, true);
    });
  }

  #open(site: Site, socket: Duplex, isSecure: boolean): void {
    const exchange = new Exchange(this.#options, { ...site, isSecure, socket });
    this.#opened.set(socket, { ...site, isSecure, exchange });
    socket.on("error", () => undefined);
    socket.once("close", () => exchange.close());
    this.#server.emit("connection", socket);
    // Its first byte was looked at, and it stands still since.
    socket.resume();
  }

  #request(request: IncomingMessage, response: ServerResponse): void {
    const opened = this.#opened.get(request.socket);
    if (!opened) return void request.socket.destroy();
    // What is said to the machine is what was said to us.
    response.sendDate = false;
    if (opened.name === INSIDE_HOST && hostOfRequest(request)?.name === INSIDE_HOST)
      return this.#options.inside(opened.way, request, response);
    const ready = this.#prepare(opened, request);
    if (!ready.ok) return refuse(request, response, "egress_refused", refusalText(opened.name, ready.rule), ready.rule);
    try {
      opened.exchange.request(request, response, ready, (message) =>
        refuse(request, response, "host_unavailable", message),
      );
    } catch {
      // The fault may hold what was to be written.
      refuse(request, response, "invalid_request", UNWRITABLE);
    }
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const opened = this.#opened.get(socket);
    if (!opened || opened.name === INSIDE_HOST) return void socket.destroy();
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.sendDate = false;
    response.assignSocket(request.socket);
    response.once("finish", () => {
      response.detachSocket(request.socket);
      socket.end();
    });
    const ready = this.#prepare(opened, request);
    if (!ready.ok) return refuse(request, response, "egress_refused", refusalText(opened.name, ready.rule), ready.rule);
    try {
      opened.exchange.upgrade(request, { response, socket, head }, ready, (message) =>
        refuse(request, response, "host_unavailable", message),
      );
    } catch {
      refuse(request, response, "invalid_request", UNWRITABLE);
    }
  }

  /** What goes on, as the secrets are at this moment. */
  #prepare({ way, name, port, isSecure }: Opened, request: IncomingMessage): Substituted {
    const refused = (rule: string): Substituted => {
      way.counts.refused(rule, `${name}:${port}`);
      return { ok: false, rule };
    };
    const asked = hostOfRequest(request);
    if (asked?.name !== name || (asked.port !== null && asked.port !== port)) return refused("fronting");
    // Over the public network nothing secret goes in the clear.
    if (!isSecure && !this.#options.hosts.place(name, port)) return refused("secret-plain");
    const { headers } = passing(request.rawHeaders);
    const done = substitute(way.secrets, { host: name, method: request.method ?? "GET", path: asked.path, headers });
    if (!done.ok) return refused(done.rule);
    for (const secret of done.used) way.counts.secretUsed(secret.name, secret.version);
    return done;
  }
}

/** Whose request it is, by its one `Host` and by its target; null where that is not clear. */
function hostOfRequest(request: IncomingMessage): { name: string; port: number | null; path: string } | null {
  const hosts = request.rawHeaders.filter((_value, at, raw) => at % 2 === 1 && /^host$/i.test(raw[at - 1] ?? ""));
  const [text] = hosts;
  if (hosts.length !== 1 || text === undefined) return null;
  const url = request.url ?? "";
  const whole = /^https?:\/\/([^/?#]*)(.*)$/i.exec(url);
  if (whole && whole[1]?.toLowerCase() !== text.toLowerCase()) return null;
  const path = whole ? (whole[2] ?? "") : url;
  if (!whole && !path.startsWith("/") && path !== "*") return null;
  const port = /:(\d*)$/.exec(text)?.[1];
  return {
    name: hostPart(text),
    port: port ? Number(port) : null,
    path: path === "" || path.startsWith("?") ? `/${path}` : path,
  };
}

function refusalText(name: string, rule: string): string {
  return `The request to ${name} is not let out of this sandbox (${EGRESS_REFUSAL_HEADER}: ${rule}).`;
}

function refuse(
  request: IncomingMessage,
  response: ServerResponse,
  code: ErrorCode,
  message: string,
  rule?: string,
): void {
  if (response.headersSent) return void response.destroy();
  response.writeHead(statusOf(code), {
    "content-type": "application/json; charset=utf-8",
    // What is left of the body is not read.
    connection: "close",
    ...(rule === undefined ? {} : { [EGRESS_REFUSAL_HEADER]: rule }),
  });
  response.end(JSON.stringify(errorBody(new RouseFailure(code, message))));
  request.resume();
}

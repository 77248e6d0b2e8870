/** Requests of one opened stream on their way to the host they are for: over one connection, which lives as long. */
import {
  Agent,
  request as httpRequest,
  type ClientRequest,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import { isIP, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { connect, type SecureContext } from "node:tls";
import type { Address } from "./addresses.ts";
import type { Dialer } from "./dialer.ts";
import type { OperatorHosts } from "./hosts.ts";
import { framing, pairs, passing } from "./http-headers.ts";
import { join } from "./join.ts";
import { messageOf } from "./outlet-texts.ts";
import type { Substituted } from "./substitute.ts";
import type { Way } from "./way.ts";

const GREETING_MS = 15_000;

export interface UpstreamOptions {
  readonly dialer: Dialer;
  readonly hosts: OperatorHosts;
  /** Whom to trust out there. */
  readonly trust: SecureContext;
}

export interface ExchangeOf {
  readonly way: Way;
  readonly name: string;
  readonly port: number;
  readonly isSecure: boolean;
  /** The machine's end, opened. */
  readonly socket: Duplex;
  readonly onReached: (address: Address | null) => void;
}

type Ready = Extract<Substituted, { ok: true }>;

/** For people in the machine: what went wrong on the way. */
class NotReached extends Error {}

export class Exchange {
  readonly #options: UpstreamOptions;
  readonly #of: ExchangeOf;
  readonly #end = new AbortController();
  readonly #agent: Agent;
  #busy = 0;

  constructor(options: UpstreamOptions, of: ExchangeOf) {
    this.#options = options;
    this.#of = of;
    this.#agent = new Agent({ keepAlive: true, maxSockets: 1 });
    this.#agent.createConnection = (_options, done) => {
      void this.#connectTo(done);
      return undefined;
    };
  }

  close(): void {
    this.#end.abort();
    this.#agent.destroy();
  }

  /** @throws when the request can't be written as it is */
  request(request: IncomingMessage, response: ServerResponse, ready: Ready, failed: (message: string) => void): void {
    const upstream = this.#send(request, ready);
    this.#busy++;
    response.once("close", () => {
      this.#busy--;
      if (!response.writableFinished) upstream.destroy();
    });
    upstream.on("continue", () => response.writeContinue());
    let isAnswered = false;
    upstream.on("response", (answer) => {
      isAnswered = true;
      passOrBreak(response, () => answerTo(response, answer));
    });
    upstream.on("upgrade", (_answer, socket) => {
      socket.destroy();
      failed(`${this.#of.name} switched protocols unasked.`);
    });
    upstream.on("error", (fault) => {
      // What was answered stands, also when the rest of the request was not wanted; one that is cut short shows it.
      if (isAnswered) return;
      // As if it had closed our connection, which it did: who sent the request knows whether to send it again.
      if (upstream.reusedSocket && !response.headersSent && !(fault instanceof NotReached)) this.#of.socket.destroy();
      else failed(this.#messageOf(fault));
    });
    request.on("error", () => upstream.destroy());
    request.once("end", () => passOrBreak(upstream, () => upstream.addTrailers(pairs(request.rawTrailers))));
    request.pipe(upstream);
  }

  /** @throws when the request can't be written as it is */
  upgrade(
    request: IncomingMessage,
    { response, socket, head }: { response: ServerResponse; socket: Duplex; head: Buffer },
    ready: Ready,
    failed: (message: string) => void,
  ): void {
    const upstream = this.#send(request, ready, ["connection", "Upgrade", "upgrade", request.headers.upgrade ?? ""]);
    this.#busy++;
    const gone = () => upstream.destroy();
    socket.once("close", gone);
    upstream.on("response", (answer) => passOrBreak(response, () => answerTo(response, answer)));
    upstream.on("error", (fault) => failed(this.#messageOf(fault)));
    upstream.on("upgrade", (answer, other, otherHead) => {
      socket.removeListener("close", gone);
      response.detachSocket(request.socket);
      let lines = `HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}\r\n`;
      for (const [name, value] of pairs(answer.rawHeaders)) lines += `${name}: ${value}\r\n`;
      socket.write(Buffer.from(`${lines}\r\n`, "latin1"));
      if (otherHead.length > 0) socket.write(otherHead);
      if (head.length > 0) other.write(head);
      join(socket, other);
    });
    upstream.end();
  }

  #send(request: IncomingMessage, ready: Ready, more: readonly string[] = []): ClientRequest {
    const method = request.method ?? "GET";
    const { isChunked } = passing(request.rawHeaders);
    const trailers = request.headers.te === undefined ? [] : ["te", "trailers"];
    const upstream = httpRequest({
      ...{ method, path: ready.path, agent: this.#agent, setHost: false },
      // Node would put other names for the address together with ours; we connect by ourselves.
      host: this.#of.name,
      headers: [
        ...ready.headers,
        ...trailers,
        ...(more.length > 0 ? more : framing(method, { headers: ready.headers, isChunked })),
      ],
    });
    // The answer to `Expect` comes before the body, so the question must go before it too.
    if (request.headers.expect !== undefined) upstream.flushHeaders();
    return upstream;
  }

  async #connectTo(done: ((fault: Error | null, stream: Duplex) => void) | undefined): Promise<void> {
    try {
      done?.(null, await this.#connect());
    } catch (fault) {
      done?.(fault as Error, undefined as never);
    }
  }

  async #connect(): Promise<Duplex> {
    const { way, name, port, isSecure, socket: guest, onReached } = this.#of;
    const dialed = await this.#options.dialer.dial(() => way.policy, { kind: "name", name }, port, this.#end.signal);
    if (!dialed.ok) throw new NotReached(messageOf(dialed.fault, `${name}:${port}`));
    const { socket } = dialed;
    onReached(dialed.address);
    const { ended } = way.counts.opened(socket);
    socket.once("close", ended);
    if (socket.destroyed) ended();
    const out = isSecure ? await this.#greet(socket) : socket;
    // One that ends out there, between two requests, ends here: nobody is to send into it.
    out.once("close", () => this.#busy > 0 || guest.end());
    return out;
  }

  #greet(socket: Socket): Promise<Duplex> {
    const { name } = this.#of;
    return new Promise((resolve, reject) => {
      const secure = connect({
        ...{ socket, secureContext: this.#options.trust, ALPNProtocols: ["http/1.1"], rejectUnauthorized: true },
        ...(isIP(name) ? {} : { servername: name }),
      });
      const timer = setTimeout(() => secure.destroy(new Error("took too long")), GREETING_MS);
      const failed = (fault: NodeJS.ErrnoException) => {
        clearTimeout(timer);
        socket.destroy();
        reject(new NotReached(`${name} was not reached safely: ${fault.code ?? "the TLS greeting failed"}.`));
      };
      secure.once("error", failed);
      secure.once("secureConnect", () => {
        clearTimeout(timer);
        secure.removeListener("error", failed);
        secure.on("error", () => undefined);
        resolve(secure);
      });
    });
  }

  #messageOf(fault: Error): string {
    if (fault instanceof NotReached) return fault.message;
    const { code } = fault as NodeJS.ErrnoException;
    return `${this.#of.name} closed the connection before it answered${code ? ` (${code})` : ""}.`;
  }
}

/** What one side's parser lets through may be more than the other side's writer does; then there is no passing on. */
function passOrBreak(to: { destroy(): unknown }, pass: () => void): void {
  try {
    pass();
  } catch {
    to.destroy();
  }
}

function answerTo(response: ServerResponse, answer: IncomingMessage): void {
  const { headers } = passing(answer.rawHeaders);
  response.writeHead(answer.statusCode ?? 502, answer.statusMessage ?? "", headers);
  // An event stream may have nothing to say for minutes.
  response.flushHeaders();
  // Before the end that the pipe passes on.
  answer.once("end", () => passOrBreak(response, () => response.addTrailers(pairs(answer.rawTrailers))));
  answer.pipe(response);
  answer.on("error", () => response.destroy());
  answer.once("close", () => answer.complete || response.destroy());
}

/**
 * A server that speaks the wire to the SDK: routes are given by each test, every request is recorded. It can cut
 * connections, and send bodies in pieces of any size.
 */
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { errorBody } from "../../sdk/contract/errors.ts";
import type { ErrorCode } from "../../sdk/contract/errors.ts";
import type { Sandbox } from "../../sdk/contract/sandbox.ts";

/** Form of the key that the tests use; no installation knows it. */
export const TEST_KEY = "rouse_default_aaaaaaaaaaaa_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

export interface Recorded {
  readonly method: string;
  /** Path as it came, without query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
  /** Of the client: one for each of its connections. */
  readonly remotePort: number | undefined;
  /** Body as JSON. */
  json(): unknown;
}

/** What a route does: one of these ends the response. */
export class Reply {
  readonly #response: ServerResponse;
  constructor(response: ServerResponse) {
    this.#response = response;
  }

  json(body: unknown, status = 200, headers: Record<string, string> = {}): void {
    this.#response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
  }

  error(
    code: ErrorCode,
    extra: { message?: string; retryAfterMs?: number; details?: Record<string, unknown> } = {},
  ): void {
    const { message = `refused: ${code}`, ...rest } = extra;
    const body = errorBody({ code, message, ...rest }, "req_1");
    this.json(body, body.error.status);
  }

  raw(body: Buffer | string, status = 200, headers: Record<string, string> = {}): void {
    this.#response.writeHead(status, headers).end(body);
  }

  /** Lines of JSON in pieces of `pieceBytes`; after `cutAfter` bytes the connection ends in the middle. */
  async lines(events: readonly unknown[], options: { pieceBytes?: number; cutAfter?: number } = {}): Promise<void> {
    const whole = Buffer.from(events.map((event) => `${JSON.stringify(event)}\n`).join(""));
    const bytes = whole.subarray(0, options.cutAfter ?? whole.length);
    const step = options.pieceBytes ?? bytes.length;
    this.#response.writeHead(200, { "content-type": "application/x-ndjson" });
    for (let at = 0; at < bytes.length; at += Math.max(1, step)) await this.#write(bytes.subarray(at, at + step));
    if (options.cutAfter === undefined) this.#response.end();
    // In order for the connection but not for the body, so that what was sent surely arrives.
    else this.#response.socket?.end();
  }

  /** Begin an answer; the connection ends within its body. */
  async broken(bytes: Buffer): Promise<void> {
    this.#response.writeHead(200);
    await this.#write(bytes);
    this.#response.socket?.end();
  }

  /** Reset the connection, whatever has been sent. */
  cut(): void {
    this.#response.socket?.resetAndDestroy();
  }

  /** Begin a stream and leave it open. */
  async open(events: readonly unknown[]): Promise<void> {
    this.#response.writeHead(200, { "content-type": "application/x-ndjson" });
    await this.#write(Buffer.from(events.map((event) => `${JSON.stringify(event)}\n`).join("")));
  }

  #write(bytes: Buffer): Promise<void> {
    // Each piece leaves by itself once it has been handed to the system.
    return new Promise((resolve) => this.#response.write(bytes, () => resolve()));
  }
}

export type Route = (request: Recorded, reply: Reply, count: number) => void | Promise<void>;

export class WireServer {
  readonly requests: Recorded[] = [];
  /** Keys and tokens that are good. */
  readonly credentials = new Set([TEST_KEY]);
  readonly url: string;
  readonly #routes = new Map<string, Route>();
  readonly #open = new Set<string>();
  readonly #counts = new Map<string, number>();
  readonly #close: () => Promise<void>;

  private constructor(url: string, close: () => Promise<void>) {
    this.url = url;
    this.#close = close;
  }

  static async start(): Promise<WireServer> {
    const server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => void wire.#serve(request, Buffer.concat(chunks), new Reply(response)));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const wire = new WireServer(`http://127.0.0.1:${port}`, async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    return wire;
  }

  /** Answer a route, named `METHOD /path`; `count` in the route says how often it was asked before. */
  on(route: string, answer: Route): this {
    this.#routes.set(route, answer);
    return this;
  }

  /** Answer a route that takes no key. */
  onOpen(route: string, answer: Route): this {
    this.#open.add(route);
    return this.on(route, answer);
  }

  /** Requests of a route so far. */
  of(route: string): Recorded[] {
    return this.requests.filter((request) => `${request.method} ${request.path}` === route);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close();
  }

  async #serve(request: IncomingMessage, body: Buffer, reply: Reply): Promise<void> {
    const url = new URL(request.url ?? "/", this.url);
    const recorded: Recorded = {
      method: request.method ?? "",
      path: url.pathname,
      query: url.searchParams,
      headers: request.headers,
      body,
      remotePort: request.socket.remotePort,
      json: () => JSON.parse(body.toString()) as unknown,
    };
    this.requests.push(recorded);
    const name = `${recorded.method} ${recorded.path}`;
    const count = this.#counts.get(name) ?? 0;
    this.#counts.set(name, count + 1);
    const [, bearer = ""] = /^Bearer (.*)$/.exec(recorded.headers.authorization ?? "") ?? [];
    if (!this.#open.has(name) && !this.credentials.has(bearer)) return reply.error("unauthorized");
    const route = this.#routes.get(name);
    if (route === undefined) return reply.error("route_not_found", { message: `no route ${name}` });
    await route(recorded, reply, count);
  }
}

/** A sandbox as the API shows it. */
export function sandboxInfo(changes: Partial<Sandbox> = {}): Sandbox {
  return {
    id: "demo~abcdefghijkl",
    kind: "sandbox",
    name: "demo",
    label: "demo",
    labels: {},
    state: "running",
    status: "active",
    generation: 1,
    region: "local",
    funding: "paid",
    image: "default",
    vcpu: 2,
    memoryMiB: 2048,
    diskMiB: 8192,
    cpu: "shared",
    cpuFloorMillis: 50,
    pausable: true,
    timeoutSeconds: 0,
    idlePauseSeconds: 60,
    autoWake: true,
    persistent: false,
    access: "private",
    url: "http://demo.localhost:8787/",
    retentionDays: 30,
    onLeaseEnd: "stop",
    onTimeout: "stop",
    createdAt: "2031-01-02T03:00:00.000Z",
    readyAt: "2031-01-02T03:00:01.000Z",
    lastActiveAt: "2031-01-02T03:04:00.000Z",
    expiresAt: "2099-01-01T00:00:00.000Z",
    endsAt: null,
    endedAt: null,
    stopReason: null,
    lastError: null,
    pausedAt: null,
    pausedExpiresAt: null,
    memoryRestored: null,
    diskKept: true,
    chargedMicros: 0,
    heldMicros: 0,
    ...changes,
  };
}

/** Path of the sandbox of {@link sandboxInfo}. */
export const SANDBOX = "/v1/sandboxes/demo~abcdefghijkl";

// long file: one client, which is to be read beside the description of what it imitates
/**
 * A client that says and reads what Runtime's own client does, by its wire: headers, waits, retries, cursors, pages.
 * It shares nothing with our SDK. What that client would trip over is a `Breach` here.
 */
import { createHash, randomUUID } from "node:crypto";
import { request, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket, type RawData } from "ws";

export const CLIENT = "sdk-js/0.11.2";

/** That client would hang, loop, or read something wrong. */
export class Breach extends Error {
  override readonly name = "Breach";
}

/** An error that was answered. */
export class WireError extends Error {
  override readonly name = "WireError";
  readonly code: string;
  readonly status: number;
  readonly hint: string | undefined;
  readonly details: Record<string, unknown> | undefined;
  readonly requestId: string | undefined;
  readonly retryAfterMs: number | undefined;
  constructor(status: number, { code, message, hint, details, requestId, retryAfterMs }: Told) {
    super(`${code}: ${message}`);
    this.code = code ?? "request_failed";
    this.status = status;
    this.hint = hint;
    this.details = details;
    this.requestId = requestId;
    this.retryAfterMs = retryAfterMs;
  }
}

interface Told {
  readonly code?: string;
  readonly status?: number;
  readonly message?: string;
  readonly hint?: string;
  readonly details?: Record<string, unknown>;
  readonly requestId?: string;
  readonly retryAfterMs?: number;
}

export type Json = Record<string, unknown>;

export interface Asked {
  /** `undefined` is left out; lists repeat their key. */
  readonly query?: Record<string, string | number | boolean | readonly string[] | undefined>;
  readonly json?: object;
  readonly bytes?: Buffer;
  readonly accept?: string;
  /** Seconds of `Prefer: wait`. */
  readonly wait?: number;
  /** Idempotency-Key; a random one unless given. */
  readonly key?: string;
  readonly create?: boolean;
  readonly maxRetries?: number;
}

export interface Answered {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly message: IncomingMessage;
  /** Tries that it took. */
  readonly tries: number;
}

/** Codes that say that the product is not there: never tried again. */
const OFF = new Set(
  ["unavailable", "unsupported", "fork_unavailable", "previews_unavailable", "network_unavailable"].concat([
    ...["network_rules_unavailable", "secrets_unavailable", "identity_unavailable", "env_unavailable"],
  ]),
);
/** Codes that say that nothing ran. */
const NOTHING_RAN = new Set(["guest_busy", "busy", "rate_limited"]);
/** Codes that a creation waits on. */
const ROOM = new Set(
  ["no_credit_running_limit", "no_credit_total_limit", "no_credit_domain_limit", "no_credit_capacity_full"].concat([
    ...["quota_exceeded", "no_capacity", "volume_releasing"],
  ]),
);
const ROOM_MS = 120_000;
/** Longest time until headers. */
const HEADERS_MS = 125_000;

export class RuntimeClient {
  readonly #origin: URL;
  readonly #key: string;
  readonly #client: string | null;
  /** Requests that it has sent. */
  sent = 0;

  /** @param client null: a program without a name of its own */
  constructor(origin: string, key: string, client: string | null = CLIENT) {
    this.#origin = new URL(origin);
    if (this.#origin.pathname !== "/" || this.#origin.search !== "") throw new Error("a bare origin");
    this.#key = key;
    this.#client = client;
  }

  /** The JSON of an answer; null for an empty one. */
  async call<T = Json>(method: string, path: string, asked: Asked = {}): Promise<T> {
    const { message, headers } = await this.open(method, path, asked);
    const text = (await read(message)).toString();
    const body = text === "" ? null : (JSON.parse(text) as Json);
    if (headers["runtime-late-answer"] === "true" && body && isLoneError(body)) {
      const told = body["error"] as Told;
      throw new WireError(told.status !== undefined && told.status >= 400 ? told.status : 500, told);
    }
    return body as T;
  }

  async bytes(path: string, query: Asked["query"] = {}, accept = "application/octet-stream"): Promise<Buffer> {
    const { message, headers } = await this.open("GET", path, { query, accept });
    const data = await read(message);
    const length = headers["x-content-length"];
    if (length !== undefined && length !== String(data.length)) throw new Breach(`${length} bytes were announced`);
    const digest = headers["x-content-sha256"];
    if (digest !== undefined && digest !== createHash("sha256").update(data).digest("hex"))
      throw new Breach("another digest was announced");
    return data;
  }

  /** Lines of a stream. */
  async *lines(method: string, path: string, asked: Asked = {}): AsyncGenerator<Json> {
    const { message, headers } = await this.open(method, path, { ...asked, accept: "application/x-ndjson" });
    if (headers["content-type"]?.startsWith("application/x-ndjson") !== true)
      throw new Breach(`a stream is application/x-ndjson, not ${String(headers["content-type"])}`);
    let rest = "";
    message.setEncoding("utf8");
    for await (const chunk of message as AsyncIterable<string>) {
      const parts = (rest + chunk).split("\n");
      rest = parts.pop() ?? "";
      for (const part of parts) if (part !== "") yield JSON.parse(part) as Json;
    }
    if (rest !== "") throw new Breach("a stream ended inside a line");
  }

  /** All of a list that may grow. */
  async all<T = Json>(path: string, query: NonNullable<Asked["query"]> = {}): Promise<T[]> {
    const found: T[] = [];
    let cursor: string | null = null;
    do {
      const page: { data: T[]; nextCursor: string | null } = await this.call("GET", path, {
        query: { ...query, cursor: cursor ?? undefined },
      });
      // Only null ends the list; without the key that client reads on for ever.
      if (!Object.hasOwn(page, "nextCursor")) throw new Breach(`${path}: a page without nextCursor`);
      found.push(...page.data);
      cursor = page.nextCursor;
    } while (cursor !== null);
    return found;
  }

  /** A sandbox as one is made: with a wait, and if need be another. */
  async create(input: Json = {}, key?: string): Promise<Json> {
    const made = await this.call("POST", "/v1/sandboxes", { json: input, wait: 60, create: true, ...(key && { key }) });
    if (made["state"] === "running") return made;
    return this.waitFor(String(made["id"]), "running");
  }

  waitFor(id: string, state: string, timeoutSeconds = 60): Promise<Json> {
    return this.call("GET", this.path(id), { query: { waitFor: state, timeoutSeconds } });
  }

  /** `:verb` of a sandbox. */
  act(id: string, verb: string, json: object = {}, wait?: number): Promise<Json> {
    return this.call("POST", `${this.path(id)}:${verb}`, { json, ...(wait === undefined ? {} : { wait }) });
  }

  path(id: string): string {
    return `/v1/sandboxes/${encodeURIComponent(id)}`;
  }

  /** Events of a streamed command, over as many slices and cuts as it takes. @param cutAfter close the connection after so many */
  async *exec(id: string, body: Json, cutAfter = Infinity): AsyncGenerator<Json> {
    const json = { timeoutMs: 86_400_000, ...body, stream: true };
    let stream = this.lines("POST", `${this.path(id)}:exec`, { json });
    let process: string | null = null;
    let cursor = 0;
    let seen = 0;
    for (;;) {
      let next: "follow" | "over" = "follow";
      for await (const event of stream) {
        if (process === null) {
          if (event["type"] !== "start") throw new Breach("the first event is not start");
          process = String(event["processId"]);
        }
        if (event["type"] === "continue") {
          cursor = Number(event["cursor"]);
          break;
        }
        cursor = cursorAfter(event, cursor);
        yield event;
        seen += 1;
        if (event["type"] === "exit") next = "over";
        if (seen === cutAfter) break;
      }
      if (next === "over") return;
      stream = this.follow(id, process ?? "", cursor);
    }
  }

  follow(id: string, process: string, cursor: number): AsyncGenerator<Json> {
    return this.lines("GET", `${this.path(id)}/processes/${encodeURIComponent(process)}/output`, {
      query: { cursor, follow: true },
    });
  }

  /**
   * What a watch tells, from slice to slice, until it ends or its sandbox sleeps; the last line says which.
   * @throws WireError a failure that it tells @throws Breach a stream that only ends, which that client takes for the end
   */
  async *watch(id: string, watch: string, from = 0): AsyncGenerator<Json> {
    const path = `${this.path(id)}/files/watches/${encodeURIComponent(watch)}/events`;
    for (let cursor = from, isOver = false; !isOver;) {
      isOver = true;
      let k: unknown;
      for await (const line of this.lines("GET", path, { query: { cursor, follow: true } })) {
        ({ k } = line);
        if (k === "failure") throw new WireError(Number(line["status"] ?? 500), line as Told);
        if (!Number.isInteger(line["cursor"])) throw new Breach(`a line without a cursor: ${JSON.stringify(line)}`);
        cursor = Number(line["cursor"]);
        isOver = k !== "continue";
        if (isOver) yield line;
        if (k === "continue" || k === "paused" || k === "end") break;
      }
      if (k !== "continue" && k !== "paused" && k !== "end") throw new Breach(`a watch ended with ${String(k)}`);
    }
  }

  /** A socket of the API. That client asks for no subprotocol. */
  socket(path: string, query: NonNullable<Asked["query"]> = {}): Promise<Frames> {
    const url = new URL(path + queryText(query), this.#origin);
    url.protocol = "ws:";
    const headers = { authorization: `Bearer ${this.#key}`, ...(this.#client && { "x-runtime-client": this.#client }) };
    return Frames.open(new WebSocket(url, { headers }));
  }

  /** The headers of a good answer. @throws WireError, Breach */
  async open(method: string, path: string, asked: Asked = {}): Promise<Answered> {
    const body = asked.bytes ?? (asked.json && Buffer.from(JSON.stringify(asked.json)));
    const headers: Record<string, string> = {
      authorization: `Bearer ${this.#key}`,
      accept: asked.accept ?? "application/json",
      ...(this.#client && { "x-runtime-client": this.#client }),
      ...(body && {
        "content-type": asked.bytes ? "application/octet-stream" : "application/json",
        "content-length": String(body.length),
      }),
      ...(method === "GET" ? {} : { "idempotency-key": asked.key ?? randomUUID() }),
      ...(asked.wait === undefined ? {} : { prefer: `wait=${asked.wait}` }),
    };
    const startedAt = Date.now();
    for (let tries = 1; ; tries++) {
      const message = await this.#send(method, path + queryText(asked.query ?? {}), headers, body);
      const status = message.statusCode ?? 0;
      if (status >= 200 && status < 300) return { status, headers: message.headers, message, tries };
      if (status >= 300 && status < 400) throw new Breach(`${method} ${path}: an answer ${status}`);
      const fault = faultOf(status, (await read(message)).toString());
      const waitMs = this.#again(fault, message.headers, asked, tries, Date.now() - startedAt);
      if (waitMs === null) throw fault;
      await sleep(waitMs);
    }
  }

  /** How long to wait before the same call is made again; null: not at all. */
  #again(fault: WireError, headers: IncomingHttpHeaders, asked: Asked, tries: number, spentMs: number): number | null {
    if (OFF.has(fault.code)) return null;
    const told = fault.retryAfterMs ?? (Number(headers["retry-after"]) * 1000 || null);
    const backoff = Math.min(8000, 250 * 2 ** (tries - 1));
    const isFull = asked.create === true && ROOM.has(fault.code) && fault.details?.["field"] !== "count";
    if (isFull) return spentMs > ROOM_MS ? null : (told ?? Math.min(8000, 500 * 2 ** (tries - 1)));
    if (fault.status !== 429 && (fault.status < 502 || fault.status > 504)) return null;
    if (NOTHING_RAN.has(fault.code)) return (told ?? 250) * Math.min(8, 2 ** (tries - 1));
    return tries > (asked.maxRetries ?? 4) ? null : (told ?? backoff);
  }

  #send(method: string, path: string, headers: Record<string, string>, body?: Buffer): Promise<IncomingMessage> {
    this.sent += 1;
    const { hostname, port } = this.#origin;
    const req = request({ hostname, port, method, path, headers, agent: false });
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => req.destroy(new Breach(`${method} ${path}: no headers in time`)), HEADERS_MS);
      req.once("response", resolve);
      req.once("error", reject);
      req.once("close", () => clearTimeout(timer));
      req.end(body);
    });
  }
}

/** A WebSocket, its frames in the order that they came. */
export class Frames {
  readonly socket: WebSocket;
  readonly #frames: (Buffer | Json)[] = [];
  #more = Promise.withResolvers<void>();
  #isOver = false;
  /** Close code. */
  readonly closed: Promise<number>;

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on("message", (data: RawData, isBinary: boolean) => {
      this.#frames.push(isBinary ? (data as Buffer) : (JSON.parse((data as Buffer).toString()) as Json));
      this.#wake();
    });
    this.closed = new Promise((resolve) => {
      socket.once("close", (code) => {
        this.#isOver = true;
        this.#wake();
        resolve(code);
      });
    });
    socket.on("error", () => undefined);
  }

  /** @throws WireError what a refused upgrade said */
  static open(socket: WebSocket): Promise<Frames> {
    const frames = new Frames(socket);
    return new Promise((resolve, reject) => {
      socket.once("open", () => resolve(frames));
      socket.once("unexpected-response", (_, message: IncomingMessage) => {
        read(message).then((data) => reject(faultOf(message.statusCode ?? 0, data.toString())), reject);
      });
      socket.once("error", reject);
    });
  }

  /** The next frame: bytes, or JSON of a text one. null: closed. */
  async next(): Promise<Buffer | Json | null> {
    for (;;) {
      const frame = this.#frames.shift();
      if (frame) return frame;
      if (this.#isOver) return null;
      await this.#more.promise;
    }
  }

  /** Bytes until they hold a text. @throws what came instead */
  async until(text: string): Promise<string> {
    let all = "";
    while (!all.includes(text)) {
      const frame = await this.next();
      if (!Buffer.isBuffer(frame)) throw new Error(`${JSON.stringify(frame)} after ${all}`);
      all += frame.toString();
    }
    return all;
  }

  send(data: Buffer | object): void {
    this.socket.send(Buffer.isBuffer(data) ? data : JSON.stringify(data), { binary: Buffer.isBuffer(data) });
  }

  close(): Promise<number> {
    this.socket.close(1000);
    return this.closed;
  }

  #wake(): void {
    this.#more.resolve();
    this.#more = Promise.withResolvers();
  }
}

/** Where that client is in an output after an event. @throws Breach where bytes are missing that nothing was said of */
export function cursorAfter(event: Json, cursor: number): number {
  if (event["type"] === "truncated") return Number(event["resumeAt"]);
  if (event["type"] !== "stdout" && event["type"] !== "stderr") return cursor;
  const offset = Number(event["offset"]);
  if (offset > cursor) throw new Breach(`output from ${cursor} to ${offset} is missing`);
  const base64 = event["base64"];
  const length =
    typeof base64 === "string" ? Buffer.from(base64, "base64").length : Buffer.byteLength(String(event["data"]));
  return Math.max(cursor, offset + length);
}

function queryText(query: NonNullable<Asked["query"]>): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value === undefined) continue;
    for (const one of Array.isArray(value) ? (value as readonly string[]) : [value]) params.append(key, String(one));
  }
  const text = params.toString();
  return text === "" ? "" : `?${text}`;
}

function faultOf(status: number, text: string): WireError {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return new WireError(status, { message: text.slice(0, 500) });
  }
  if (!isLoneError(body)) throw new Breach(`${status} without an error of its own: ${text.slice(0, 200)}`);
  const told = (body as { error: Told }).error;
  if (typeof told.requestId !== "string") throw new Breach(`an error without requestId: ${text.slice(0, 200)}`);
  return new WireError(status, told);
}

function isLoneError(body: unknown): boolean {
  if (typeof body !== "object" || body === null || Object.keys(body).join() !== "error") return false;
  return typeof (body as { error: Told }).error.code === "string";
}

async function read(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

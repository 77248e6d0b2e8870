/** The one place where requests leave: headers, time limits, idempotency keys, retries, and errors of the wire. */
import type { Credentials } from "./credentials.ts";
import { findCredentials } from "./credentials.ts";
import { ConnectionError, RouseError, errorOfStatus } from "./errors.ts";
import { ndjson } from "./ndjson.ts";
import { decideRetry, isRetryable, mayComeFree } from "./retry.ts";
import type { RetryState } from "./retry.ts";
import { CallScope } from "./scope.ts";
import { VERSION } from "./version.ts";

/** Longest wait for the headers of one attempt, milliseconds; the server answers or lets go well before. */
const ATTEMPT_MS = 125_000;

export type QueryValue = string | number | boolean | readonly string[] | undefined;

/** What every call can be told. */
export interface RequestOptions {
  /** Sent with a change: the server does what one key asks for only once (remembered 24 h). Random unless given. */
  idempotencyKey?: string | undefined;
  /** Ends the call; it then throws {@link RouseError} with code `cancelled`. */
  signal?: AbortSignal | undefined;
  /** Time limit of the call with all its retries, milliseconds; 0 for none. The client's `timeoutMs` unless given. */
  timeoutMs?: number | undefined;
}

export interface Call extends RequestOptions {
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** Path with each part encoded. */
  path: string;
  query?: Record<string, QueryValue>;
  /** Body as JSON. */
  json?: unknown;
  /** Body as it is; must be sendable again. */
  bytes?: Uint8Array<ArrayBuffer>;
  /** More headers; they win over those that follow from the rest. */
  headers?: Readonly<Record<string, string>> | undefined;
  accept?:
    | "application/json"
    | "application/x-ndjson"
    | "application/octet-stream"
    | "application/gzip"
    | "application/x-tar";
  /** `Prefer: wait=`, seconds. */
  waitSeconds?: number | undefined;
  /** Wait for room when no host has any, and for a volume that is being let go. */
  waitForCapacity?: boolean;
  maxRetries?: number;
}

export interface TransportOptions {
  apiKey?: string | undefined;
  /** Where session tokens come from, one after the other as each is over; in place of a key. */
  freshToken?: (() => string | Promise<string>) | undefined;
  baseUrl?: string | undefined;
  fetch?: typeof fetch | undefined;
  webSocket?: ((url: string) => WebSocket) | undefined;
  timeoutMs: number;
  maxRetries: number;
  waitForCapacityMs: number;
}

export class Transport {
  readonly #options: TransportOptions;
  readonly #fetch: typeof fetch;
  #credentials: Promise<Credentials> | null = null;

  constructor(options: TransportOptions) {
    this.#options = options;
    // Called detached from its owner, the platform's fetch refuses in some runtimes.
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** Base URL and key, looked up once; a session's token again when it is over. */
  async credentials(): Promise<Credentials> {
    this.#credentials ??= this.#find();
    try {
      return await this.#credentials;
    } catch (error) {
      // A key may arrive later, when `npm start` has run.
      this.#credentials = null;
      throw error;
    }
  }

  async #find(): Promise<Credentials> {
    const { freshToken, baseUrl } = this.#options;
    const apiKey = freshToken ? await freshToken() : this.#options.apiKey;
    return findCredentials({ baseUrl, apiKey });
  }

  /** Whether another token is to be had in the place of one that is over; the next call then gets it. */
  async renew(over: string): Promise<boolean> {
    if (this.#options.freshToken === undefined) return false;
    // Calls that run side by side find the same one over; the first of them has a new one fetched.
    if ((await this.credentials()).apiKey === over) this.#credentials = null;
    return true;
  }

  /** The caller's way to begin a WebSocket; undefined for the platform's. */
  get webSocket(): ((url: string) => WebSocket) | undefined {
    return this.#options.webSocket;
  }

  /** The platform's or the caller's fetch, without anything added. */
  fetch(url: string, init: RequestInit): Promise<Response> {
    return this.#fetch(url, init);
  }

  /** Send and answer the JSON of the response; null for an empty one. */
  json(call: Call): Promise<unknown> {
    return this.send(call, async (response) => {
      const text = await response.text();
      if (text === "") return null;
      try {
        return JSON.parse(text) as unknown;
      } catch (cause) {
        throw unexpectedAnswer("the answer is not JSON", cause);
      }
    });
  }

  /** Send, and read the good response whole; a body cut while it is read is a failure that is retried. */
  async send<T>(call: Call, read: (response: Response) => Promise<T>): Promise<T> {
    const scope = new CallScope(call.timeoutMs ?? this.#options.timeoutMs, call.signal);
    try {
      return await this.#run(call, scope, read);
    } finally {
      scope.close();
    }
  }

  /** Send, and hand out headers and body of the good response; only what comes before the body is retried. */
  async stream(call: Call): Promise<{ headers: Headers; body: ReadableStream<Uint8Array> }> {
    const scope = new CallScope(call.timeoutMs ?? this.#options.timeoutMs, call.signal);
    let response: Response;
    try {
      response = await this.#run(call, scope, (good) => Promise.resolve(good));
    } catch (error) {
      scope.close();
      throw error;
    }
    if (response.body === null) {
      scope.close();
      return { headers: response.headers, body: new Blob([]).stream() };
    }
    const reader = response.body.getReader();
    const body = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          try {
            const { done, value } = await reader.read();
            if (!done) return controller.enqueue(value);
            scope.close();
            controller.close();
          } catch (cause) {
            scope.close();
            controller.error(scope.failure(cause) ?? connectionError("The connection was cut", cause));
          }
        },
        async cancel(reason) {
          scope.close();
          await reader.cancel(reason);
        },
      },
      { highWaterMark: 0 },
    );
    return { headers: response.headers, body };
  }

  /** The events of a streamed answer. @throws ConnectionError `connection_error` when it is cut */
  async *events(call: Call): AsyncGenerator<unknown, void, undefined> {
    const { body } = await this.stream({ accept: "application/x-ndjson", ...call });
    try {
      yield* ndjson(body);
    } catch (cause) {
      throw cause instanceof RouseError ? cause : connectionError("The stream was cut", cause);
    }
  }

  async #run<T>(call: Call, scope: CallScope, read: (response: Response) => Promise<T>): Promise<T> {
    const key = call.method === "GET" ? undefined : (call.idempotencyKey ?? crypto.randomUUID());
    const state: RetryState = { retries: 0, resends: 0, capacityWaits: 0, elapsedMs: 0 };
    const policy = {
      maxRetries: call.maxRetries ?? this.#options.maxRetries,
      waitForCapacityMs: call.waitForCapacity ? this.#options.waitForCapacityMs : 0,
      random: Math.random,
    };
    const startedAt = performance.now();
    let renewed = false;
    for (;;) {
      let credentials: Credentials | null = null;
      try {
        credentials = await this.credentials();
        return await this.#attempt(call, credentials, scope, key, read);
      } catch (error) {
        if (!(error instanceof RouseError)) throw error;
        if (error.status === 401 && credentials !== null && !renewed && (await this.renew(credentials.apiKey))) {
          renewed = true;
          continue;
        }
        state.elapsedMs = performance.now() - startedAt;
        const decision = decideRetry(error, state, policy);
        if (decision.kind === "give-up") throw error;
        if (decision.counter === "capacityWaits") scope.extend(decision.waitMs);
        // The last answer says more than "out of time" would.
        if (decision.waitMs >= scope.leftMs()) throw error;
        state[decision.counter] += 1;
        await scope.sleep(decision.waitMs);
      }
    }
  }

  async #attempt<T>(
    call: Call,
    { baseUrl, apiKey }: Credentials,
    scope: CallScope,
    key: string | undefined,
    read: (response: Response) => Promise<T>,
  ): Promise<T> {
    scope.check();
    const attempt = scope.attempt(ATTEMPT_MS);
    const headers = new Headers({
      authorization: `Bearer ${apiKey}`,
      accept: call.accept ?? "application/json",
      "x-rouse-client": `sdk-js/${VERSION}`,
    });
    if (key !== undefined) headers.set("idempotency-key", key);
    if (call.waitSeconds !== undefined) headers.set("prefer", `wait=${call.waitSeconds}`);
    const init: RequestInit = { method: call.method, headers, redirect: "manual", signal: attempt.signal };
    if (call.json !== undefined) {
      headers.set("content-type", "application/json");
      init.body = JSON.stringify(call.json);
    } else if (call.bytes !== undefined) {
      headers.set("content-type", "application/octet-stream");
      init.body = call.bytes;
    }
    for (const [name, value] of Object.entries(call.headers ?? {})) headers.set(name, value);
    try {
      const response = await this.#fetch(`${baseUrl}${call.path}${queryString(call.query)}`, init);
      attempt.answered();
      if (response.ok) return await read(response);
      if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
        await response.body?.cancel().catch(() => undefined);
        throw connectionError(`${baseUrl} answered with a redirect`, undefined, key);
      }
      throw await errorOfResponse(response, key);
    } catch (cause) {
      const failure = scope.failure(cause);
      if (failure !== null) throw failure;
      if (cause instanceof RouseError) throw cause;
      throw connectionError(`No whole answer from ${baseUrl}${reasonOf(cause)}`, cause, key);
    } finally {
      attempt.answered();
    }
  }
}

/** The error of an answer that is not good. */
export async function errorOfResponse(response: Response, idempotencyKey?: string): Promise<RouseError> {
  const text = await response.text();
  const { status } = response;
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = null;
  }
  const error = isRecord(body) && isRecord(body["error"]) ? body["error"] : null;
  const code = typeof error?.["code"] === "string" ? error["code"] : "request_failed";
  const plain = text.trim().slice(0, 500);
  return errorOfStatus({
    code,
    status,
    message: typeof error?.["message"] === "string" ? error["message"] : plain || `HTTP status ${status}`,
    hint: typeof error?.["hint"] === "string" ? error["hint"] : undefined,
    details: isRecord(error?.["details"]) ? error["details"] : undefined,
    requestId:
      typeof error?.["requestId"] === "string"
        ? error["requestId"]
        : (response.headers.get("x-request-id") ?? undefined),
    retryAfterMs: retryAfterOf(error?.["retryAfterMs"], response.headers.get("retry-after")),
    idempotencyKey,
    retryable: isRetryable({ code, status }) || mayComeFree(code),
  });
}

export function connectionError(what: string, cause?: unknown, idempotencyKey?: string): ConnectionError {
  return new ConnectionError({
    code: "connection_error",
    message: `${what}.`,
    hint: "Check that the server runs and that ROUSE_API_URL or baseUrl names it; `rouse doctor` looks at each part.",
    retryable: true,
    idempotencyKey,
    cause,
  });
}

/** The server answered, but not what its contract says. */
export function unexpectedAnswer(what: string, cause?: unknown): RouseError {
  return new RouseError({
    code: "unexpected_answer",
    message: `The server's answer is not as expected: ${what}.`,
    hint: "Check that ROUSE_API_URL or baseUrl names a Rouse server of a version that fits this package.",
    cause,
  });
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function queryString(query: Record<string, QueryValue> | undefined): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value === undefined) continue;
    for (const one of Array.isArray(value) ? value : [value]) params.append(name, String(one));
  }
  const text = params.toString();
  return text === "" ? "" : `?${text}`;
}

function retryAfterOf(field: unknown, header: string | null): number | undefined {
  if (typeof field === "number" && field >= 0) return field;
  if (header !== null && /^\d+(?:\.\d+)?$/.test(header)) return Number(header) * 1000;
  return undefined;
}

/** The platform's word for why there was no answer, such as ECONNREFUSED. */
function reasonOf(cause: unknown): string {
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  if (!(inner instanceof Error)) return "";
  const code = "code" in inner && typeof inner.code === "string" ? inner.code : inner.message;
  return code === "" ? "" : `: ${code}`;
}

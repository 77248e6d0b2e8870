/** The code interpreter of a sandbox: variables live as long as the sandbox does, also over pause and wake. */
import {
  Context as ContextSchema,
  Execution as ExecutionSchema,
  RunEvent as RunEventSchema,
} from "../contract/guest.ts";
import type { Context, Execution, RunEvent } from "../contract/guest.ts";
import { z } from "zod";
import { errorOfStatus } from "./errors.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import { isRetryable } from "./retry.ts";
import type { RequestOptions } from "./transport.ts";
import { connectionError, isRecord } from "./transport.ts";

/** Longest run that is asked for in one plain answer, milliseconds; longer ones are streamed. */
const PLAIN_MS = 60_000;
/** What a call may take longer than the code in it, milliseconds. */
const MARGIN_MS = 60_000;

const ContextList = z.object({ data: z.array(ContextSchema) });
const runEventKeys: ReadonlySet<unknown> = new Set(RunEventSchema.options.map((option) => option.shape.k.value));

/** One rich result: `data` maps mime types to text, or base64 for binary types. */
export type CodeResult = Execution["results"][number];
/** An exception of the code. */
export type CodeError = NonNullable<Execution["error"]>;

export interface RunOptions {
  /** Context to run in; the default one unless given. */
  context?: string | undefined;
  /**
   * Longest time until the result, milliseconds, a wait for earlier runs or for the kernel's start included; 0 for none.
   * Reaching it is a result (`status: "timeout"`), not an error; code that has not begun by then never does.
   */
  timeoutMs?: number | undefined;
  /** Interrupt the code when this program goes away. */
  interruptOnDisconnect?: boolean | undefined;
  onStdout?: ((text: string) => void) | undefined;
  onStderr?: ((text: string) => void) | undefined;
  onResult?: ((result: CodeResult) => void) | undefined;
  onError?: ((error: CodeError) => void) | undefined;
  idempotencyKey?: string | undefined;
  signal?: AbortSignal | undefined;
}

export class Interpreter {
  /** The contexts: separate worlds of variables. */
  readonly contexts: Contexts;
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
    this.contexts = new Contexts(remote);
  }

  /**
   * Run Python code. An exception of the code is a result (`error`), not a throw.
   *
   * @example
   * await sandbox.interpreter.run("notes = ['prefers weekly summaries']");
   * const recall = await sandbox.interpreter.run("notes");
   * console.log(recall.results[0]?.data["text/plain"]);
   */
  async run(code: string, options: RunOptions = {}): Promise<Execution> {
    const { context, timeoutMs, interruptOnDisconnect, onStdout, onStderr, onResult, onError, ...rest } = options;
    const listening = onStdout ?? onStderr ?? onResult ?? onError;
    const stream = listening !== undefined || timeoutMs === undefined || timeoutMs === 0 || timeoutMs > PLAIN_MS;
    const body = { code, context, timeoutMs, interruptOnDisconnect };
    const request = { ...rest, timeoutMs: timeoutMs ? timeoutMs + MARGIN_MS : 0 };
    if (!stream) return parseAnswer(ExecutionSchema, await this.#remote.post("/interpreter:run", body, request));
    const events = this.#remote.transport.events({
      method: "POST",
      path: this.#remote.path("/interpreter:run"),
      json: { ...body, stream: true },
      ...request,
    });
    for await (const raw of events) {
      // A newer server may say more than this client knows.
      if (!isRecord(raw) || !runEventKeys.has(raw["k"])) continue;
      const event: RunEvent = parseAnswer(RunEventSchema, raw);
      switch (event.k) {
        case "stdout":
          onStdout?.(event.text);
          break;
        case "stderr":
          onStderr?.(event.text);
          break;
        case "result":
          onResult?.({ main: event.main, data: event.data, refs: event.refs });
          break;
        case "error":
          onError?.({ name: event.name, value: event.value, traceback: event.traceback });
          break;
        case "execution":
          return event.execution;
        case "failure": {
          const status = event.status ?? 500;
          throw errorOfStatus({
            ...event,
            status,
            hint: event.hint ?? undefined,
            retryable: isRetryable({ code: event.code, status }),
          });
        }
        default:
      }
    }
    throw connectionError("The run's stream ended without its result; the code may still be running");
  }
}

/** The contexts of an interpreter. */
export class Contexts {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  async list(options: RequestOptions = {}): Promise<Context[]> {
    return parseAnswer(ContextList, await this.#remote.get("/interpreter/contexts", options)).data;
  }

  /** Make a context. `cwd` is `/workspace` unless given. */
  async create(
    input: { id?: string | undefined; cwd?: string | undefined; env?: Record<string, string> | undefined } = {},
    options: RequestOptions = {},
  ): Promise<Context> {
    return parseAnswer(ContextSchema, await this.#remote.post("/interpreter/contexts", input, options));
  }

  /** Start a context anew; its variables are gone. @throws NotFoundError `context_not_found` */
  async restart(id: string, options: RequestOptions = {}): Promise<Context> {
    return parseAnswer(ContextSchema, await this.#remote.post(`${contextPath(id)}:restart`, {}, options));
  }

  /** Interrupt what runs in a context, as Ctrl-C does. @returns whether anything ran */
  async interrupt(id: string, options: RequestOptions = {}): Promise<boolean> {
    const answer = await this.#remote.post(`${contextPath(id)}:interrupt`, {}, options);
    return parseAnswer(z.object({ interrupted: z.boolean() }), answer).interrupted;
  }

  /** End a context. @returns whether there was one */
  async remove(id: string, options: RequestOptions = {}): Promise<boolean> {
    const answer = await this.#remote.delete(contextPath(id), options);
    return parseAnswer(z.object({ deleted: z.boolean() }), answer).deleted;
  }
}

function contextPath(id: string): string {
  return `/interpreter/contexts/${encodeURIComponent(id)}`;
}

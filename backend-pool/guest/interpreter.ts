/** The code interpreter: contexts, each a real Jupyter kernel behind a small bridge (`interpreter.py`). */
import { spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createInterface } from "node:readline";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import type { Context as ContextInfo, Execution } from "../../sdk/contract/guest.ts";
import { Lines, number, readJson, record, sendJson, text, type Call } from "./http.ts";
import type { Processes } from "./processes.ts";

const DEFAULT_CONTEXT = "python";
/** Text of one stream, and of all results, that an answer holds, bytes. */
const KEPT_BYTES = 1_048_576;
/** After an interrupt that does not help, the kernel is ended, ms. */
const INTERRUPT_GRACE_MS = 10_000;
/** Keys whose execution is remembered; executions can be large, and retries come soon. */
const KEYS_KEPT = 64;
const START_LIMIT_MS = 600_000;

type BridgeEvent =
  | { k: "ready" | "dead" }
  | { k: "start"; n: number | null }
  | { k: "stdout" | "stderr"; text: string }
  | { k: "result"; main: boolean; data: Record<string, unknown>; refs: Record<string, unknown> }
  | { k: "error"; name: string; value: string; traceback: string }
  | { k: "done"; status: "ok" | "error" | "interrupted"; n: number | null };

interface ContextOptions {
  readonly cwd: string;
  readonly env: Record<string, string> | undefined;
}

/** One kernel and the queue in front of it. */
class Context {
  readonly id: string;
  readonly options: ContextOptions;
  readonly #python: string;
  readonly #script: string;
  readonly #environment: () => Record<string, string>;
  #child: ChildProcess | null = null;
  #ready: Promise<void> | null = null;
  #listener: ((event: BridgeEvent) => void) | null = null;
  #startedMs = 0;
  #tail: Promise<unknown> = Promise.resolve();
  state: ContextInfo["state"] = "starting";

  constructor(
    id: string,
    options: ContextOptions,
    python: string,
    script: string,
    environment: () => Record<string, string>,
  ) {
    this.id = id;
    this.options = options;
    this.#python = python;
    this.#script = script;
    this.#environment = environment;
  }

  /** Start the kernel unless it runs. Answers whether it had to. */
  async ensure(): Promise<boolean> {
    if (this.#ready) {
      await this.#ready;
      return false;
    }
    this.#ready = this.#start();
    this.#ready.catch(() => {
      this.#ready = null;
    });
    await this.#ready;
    return true;
  }

  /** One run at a time, in the order they came. */
  run(
    code: string,
    timeoutMs: number,
    gone: AbortSignal | null,
    emit: (event: object) => Promise<void>,
  ): Promise<Execution> {
    const run = this.#tail.then(() => this.#run(code, timeoutMs, gone, emit));
    this.#tail = run.catch(() => undefined);
    return run;
  }

  interrupt(): boolean {
    if (this.state !== "busy") return false;
    this.#send({ op: "interrupt" });
    return true;
  }

  end(): void {
    this.#child?.kill("SIGKILL");
    // The kernel is the bridge's child, in its group.
    if (this.#child?.pid !== undefined) killGroup(this.#child.pid);
    this.#child = null;
    this.#ready = null;
    this.state = "dead";
    this.#listener?.({ k: "dead" });
  }

  info(): ContextInfo {
    return {
      id: this.id,
      language: "python",
      processId: `kernel-${this.#child?.pid ?? 0}`,
      cwd: this.options.cwd,
      state: this.state,
      startedAt: this.#startedMs,
    };
  }

  async #start(): Promise<void> {
    this.state = "starting";
    this.#startedMs = Date.now();
    const env = {
      ...this.#environment(),
      PYDEVD_DISABLE_FILE_VALIDATION: "1",
      MPLBACKEND: "module://matplotlib_inline.backend_inline",
    };
    const child = spawn(this.#python, ["-u", this.#script], {
      cwd: this.options.cwd,
      env,
      detached: true,
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#child = child;
    let errors = "";
    child.stderr.on("data", (chunk: Buffer) => (errors = (errors + chunk.toString()).slice(-2000)));
    child.stdin.on("error", () => undefined);
    await new Promise<void>((resolve, reject) => {
      const failed = (why: string) =>
        reject(new RouseFailure("interpreter_failed", `The kernel did not start: ${why}`));
      const limit = setTimeout(() => {
        killGroup(child.pid ?? 0);
        failed("it took too long");
      }, START_LIMIT_MS);
      child.once("error", (fault) => failed(fault.message));
      child.once("close", () => {
        clearTimeout(limit);
        failed(errors.trim().split("\n").at(-1) ?? "");
        if (this.#child !== child) return;
        this.#child = null;
        this.#ready = null;
        this.state = "dead";
        this.#listener?.({ k: "dead" });
      });
      createInterface({ input: child.stdout }).on("line", (line) => {
        const event = JSON.parse(line) as BridgeEvent;
        if (event.k === "ready") {
          clearTimeout(limit);
          this.state = "idle";
          resolve();
        } else if (event.k === "dead") {
          this.end();
        } else this.#listener?.(event);
      });
    });
  }

  async #run(
    code: string,
    timeoutMs: number,
    gone: AbortSignal | null,
    emit: (event: object) => Promise<void>,
  ): Promise<Execution> {
    const contextStarted = await this.ensure();
    const began = performance.now();
    const kept = new Kept();
    let count: number | null = null;
    let timedOut = false;
    let failure: Execution["error"] = null;
    let status: Execution["status"] = "ok";
    let grace: NodeJS.Timeout | undefined;
    const stop = () => {
      this.interrupt();
      grace = setTimeout(() => this.end(), INTERRUPT_GRACE_MS);
    };
    const limit =
      timeoutMs > 0
        ? setTimeout(() => {
            timedOut = true;
            stop();
          }, timeoutMs)
        : undefined;
    gone?.addEventListener("abort", stop);
    this.state = "busy";
    await new Promise<void>((resolve) => {
      this.#listener = (event) => {
        switch (event.k) {
          case "start":
            count = event.n;
            void emit(event);
            return;
          case "stdout":
          case "stderr":
            kept.write(event.k, event.text);
            void emit(event);
            return;
          case "result":
            kept.result(event);
            void emit(event);
            return;
          case "error":
            failure = { name: event.name, value: event.value, traceback: event.traceback };
            void emit(event);
            return;
          case "done":
            status = timedOut ? "timeout" : event.status;
            count ??= event.n;
            resolve();
            return;
          default:
            status = timedOut ? "timeout" : "lost";
            resolve();
        }
      };
      this.#send({ op: "run", code });
    });
    this.#listener = null;
    clearTimeout(limit);
    clearTimeout(grace);
    gone?.removeEventListener("abort", stop);
    if (this.#child) this.state = "idle";
    return {
      id: `run-${randomBytes(6).toString("hex")}`,
      contextId: this.id,
      language: "python",
      executionCount: count,
      status,
      ...kept.parts(),
      error: failure,
      durationMs: Math.round(performance.now() - began),
      contextStarted,
      lostBytes: 0,
    };
  }

  #send(request: object): void {
    this.#child?.stdin?.write(`${JSON.stringify(request)}\n`);
  }
}

/** What an answer holds of a run: the beginning of each stream, and results up to a limit. */
class Kept {
  readonly #text = { stdout: "", stderr: "" };
  readonly #dropped = { stdout: 0, stderr: 0, results: 0 };
  readonly #results: Execution["results"] = [];
  #resultBytes = 0;

  write(stream: "stdout" | "stderr", data: string): void {
    const room = KEPT_BYTES - this.#text[stream].length;
    this.#text[stream] += data.slice(0, Math.max(0, room));
    this.#dropped[stream] += Math.max(0, data.length - Math.max(0, room));
  }

  result({ main, data, refs }: Execution["results"][number]): void {
    const size = JSON.stringify(data).length;
    // An image may be large by itself; what must not grow without end is their number.
    if (this.#resultBytes + size > 16 * KEPT_BYTES) {
      this.#dropped.results += size;
      return;
    }
    this.#resultBytes += size;
    this.#results.push({ main, data, refs });
  }

  parts(): Pick<Execution, "stdout" | "stderr" | "results" | "overflow"> {
    const overflow = Object.entries(this.#dropped)
      .filter(([, dropped]) => dropped > 0)
      .map(([stream, dropped]) => ({
        stream,
        path: null,
        bytes: dropped + (stream === "results" ? this.#resultBytes : KEPT_BYTES),
        dropped,
      }));
    return { ...this.#text, results: this.#results, overflow };
  }
}

export class Interpreter {
  readonly #processes: Processes;
  readonly #python: string;
  readonly #script: string;
  readonly #contexts = new Map<string, Context>();
  readonly #keys = new Map<string, { fingerprint: string; execution: Promise<Execution> }>();
  /** Runs under way. */
  runs = 0;
  /** The default context was started ahead and has its libraries loaded. */
  ready = false;

  constructor(processes: Processes, python: string, script: string) {
    this.#processes = processes;
    this.#python = python;
    this.#script = script;
  }

  async preload(): Promise<void> {
    await this.#context(DEFAULT_CONTEXT).ensure();
    this.ready = true;
  }

  async run(call: Call): Promise<void> {
    const body = await readJson(call);
    const code = text(body["code"]);
    if (code === undefined) throw new RouseFailure("invalid_request", "code is missing.");
    const timeoutMs = number(body["timeoutMs"]) ?? 0;
    const context = this.#context(text(body["context"]) ?? DEFAULT_CONTEXT);
    const lines = body["stream"] === true ? new Lines(call) : null;
    const gone = body["interruptOnDisconnect"] === true ? call.gone : null;
    this.runs++;
    try {
      const execution = await this.#once(call, body, () =>
        context.run(code, timeoutMs, gone, async (event) => lines?.send(event)),
      );
      if (!lines) return sendJson(call, execution);
      await lines.send({ k: "end" });
      await lines.send({ k: "execution", execution });
      lines.end();
    } catch (fault) {
      if (!lines || !(fault instanceof RouseFailure)) throw fault;
      await lines.send({ k: "failure", code: fault.code, message: fault.message, hint: null });
      lines.end();
    } finally {
      this.runs--;
    }
  }

  list(call: Call): void {
    sendJson(call, { data: [...this.#contexts.values()].map((context) => context.info()) });
  }

  async create(call: Call): Promise<void> {
    const body = await readJson(call);
    const id = text(body["id"]) ?? `context-${randomBytes(4).toString("hex")}`;
    if (this.#contexts.has(id)) throw new RouseFailure("conflict", `There is a context ${id} already.`);
    const context = this.#context(id, { cwd: this.#processes.path(text(body["cwd"])), env: record(body["env"]) });
    await context.ensure();
    sendJson(call, context.info());
  }

  async restart(call: Call, id: string): Promise<void> {
    const context = this.#get(id);
    context.end();
    await context.ensure();
    sendJson(call, context.info());
  }

  interrupt(call: Call, id: string): void {
    sendJson(call, { interrupted: this.#get(id).interrupt() });
  }

  remove(call: Call, id: string): void {
    const context = this.#contexts.get(id);
    context?.end();
    sendJson(call, { deleted: this.#contexts.delete(id) });
  }

  /** A repeated call gets the execution of the first: code never runs twice under one key. */
  #once(call: Call, body: object, run: () => Promise<Execution>): Promise<Execution> {
    const key = call.req.headers["idempotency-key"];
    if (typeof key !== "string") return run();
    const fingerprint = JSON.stringify(body);
    const known = this.#keys.get(key);
    if (known && known.fingerprint !== fingerprint)
      throw new RouseFailure("idempotency_key_reused", "This Idempotency-Key belongs to another request.");
    if (known) return known.execution;
    const execution = run();
    this.#keys.set(key, { fingerprint, execution });
    const oldest = this.#keys.keys().next().value;
    if (this.#keys.size > KEYS_KEPT && oldest !== undefined) this.#keys.delete(oldest);
    return execution;
  }

  #get(id: string): Context {
    const context = this.#contexts.get(id);
    if (!context) throw new RouseFailure("context_not_found", `There is no context ${id}.`);
    return context;
  }

  /** The context of that id; the default one is made when it is first used. */
  #context(id: string, options?: ContextOptions): Context {
    const known = this.#contexts.get(id);
    if (known) return known;
    if (!options && id !== DEFAULT_CONTEXT) return this.#get(id);
    const made = options ?? { cwd: this.#processes.path(undefined), env: undefined };
    const context = new Context(id, made, this.#python, this.#script, () => this.#processes.environment(made.env));
    this.#contexts.set(id, context);
    return context;
  }
}

function killGroup(pid: number): void {
  try {
    if (pid > 0) process.kill(-pid, "SIGKILL");
  } catch {
    // it is gone
  }
}

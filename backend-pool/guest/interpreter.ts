/** Routes of the code interpreter: contexts, each a real Jupyter kernel. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { RouseFailure, hintOf, statusOf } from "../../sdk/contract/error-codes.ts";
import { guestLimits } from "../../sdk/contract/guest-limits.ts";
import type { Execution } from "../../sdk/contract/guest.ts";
import { Fields } from "./fields.ts";
import { HandedOn } from "./handed-on.ts";
import { Lines, readJson, sendJson, toFailure, type Call } from "./http.ts";
import { Kernel, type KeptKernel } from "./kernel.ts";
import type { Processes } from "./processes.ts";
import { Replays } from "./replays.ts";

const DEFAULT_CONTEXT = "python";
/** Keys whose execution is remembered; executions can be large, and retries come soon. */
const KEYS_KEPT = 64;

export interface InterpreterOptions {
  readonly processes: Processes;
  /** A place for sockets. */
  readonly folder: string;
  /** Whether that place and the kernels outlive the agent, for the next one to take them up (`takeUp`). */
  readonly outlives: boolean;
  readonly python: string;
  /** Path of `interpreter.py`. */
  readonly bridge: string;
  readonly identity: () => string;
}

/** A context as an agent leaves it to the next one. */
interface KeptContext {
  readonly id: string;
  readonly cwd: string;
  readonly env: Record<string, string> | undefined;
  readonly preloaded: boolean;
  readonly kernel: KeptKernel;
}

export class Interpreter {
  readonly #options: InterpreterOptions;
  readonly #handedOn: HandedOn<KeptContext[]> | null;
  readonly #contexts = new Map<string, Kernel>();
  readonly #runs = new Replays<Promise<Execution>>(KEYS_KEPT);
  readonly #created = new Replays<Promise<Kernel>>(KEYS_KEPT);
  #preloaded = false;
  /** Runs under way or queued. */
  runs = 0;

  constructor(options: InterpreterOptions) {
    this.#options = options;
    this.#handedOn = options.outlives ? new HandedOn(join(options.folder, "contexts.json")) : null;
  }

  /** The default context was started ahead with its libraries, and is there still. */
  get ready(): boolean {
    const state = this.#contexts.get(DEFAULT_CONTEXT)?.state;
    return this.#preloaded && (state === "idle" || state === "busy");
  }

  async preload(): Promise<void> {
    const context = this.#context(DEFAULT_CONTEXT);
    // One that an agent of before left may be gone by now.
    await context.ensure(true).catch(() => context.ensure(true));
    this.#preloaded = true;
    this.#keep();
  }

  /** Take up the contexts that an agent of before left, with all that they know. */
  takeUp(): void {
    const left = this.#handedOn?.read() ?? [];
    for (const { id, cwd, env, preloaded, kernel } of left) {
      this.#add(id, cwd, env).adopt(kernel);
      if (preloaded) this.#preloaded = true;
    }
    if (left.length > 0) this.#keep();
  }

  /** Warm the default context, where it was preloaded. */
  async warm(): Promise<void> {
    if (this.ready) await this.#context(DEFAULT_CONTEXT).warm();
  }

  /** What would be lost with the agent, in words. */
  holds(): string[] {
    const held = [...this.#contexts.values()].filter(({ state }) => state === "busy" || state === "starting");
    return held.length > 0 ? [`kernels at work: ${held.length}`] : [];
  }

  async run(call: Call): Promise<void> {
    const body = await readJson(call);
    const fields = new Fields(body);
    const code = fields.text("code");
    const timeoutMs = fields.integer("timeoutMs", 0, guestLimits.execTimeoutMsMax) ?? 0;
    const id = fields.text("context") ?? DEFAULT_CONTEXT;
    const stream = fields.flag("stream");
    const gone = fields.flag("interruptOnDisconnect") ? call.gone : null;
    fields.oneOf("language", ["python"]);
    if (code === undefined) fields.fault("code", "missing");
    fields.check();
    const context = this.#context(id);
    const lines = stream ? new Lines(call) : null;
    const emit = (event: object) => (lines && !lines.write(event) ? lines.drained() : undefined);
    this.runs++;
    try {
      const once = this.#runs.once(call, body, () => context.run({ code: code ?? "", timeoutMs, gone, emit }));
      const execution = await once.value.catch((fault: unknown) => {
        once.forget(); // no code ran: a retry may
        throw fault;
      });
      const answer = once.replayed ? { ...execution, replayed: true } : execution;
      if (!lines) return sendJson(call, answer);
      lines.write({ k: "end" });
      lines.write({ k: "execution", execution: answer });
      lines.end();
    } catch (fault) {
      if (!lines) throw fault;
      const { code: reason, message } = toFailure(fault);
      const about = { hint: hintOf(reason), status: statusOf(reason) };
      lines.write({ k: "failure", code: reason, message, ...about, requestId: call.requestId });
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
    const fields = new Fields(body);
    const id = fields.text("id") ?? `context-${randomBytes(4).toString("hex")}`;
    const cwd = fields.text("cwd");
    const env = fields.env("env");
    fields.oneOf("language", ["python"]);
    if (!/^[a-z0-9][a-z0-9-]{0,62}$/.test(id)) fields.fault("id", "expected 1-63 of a-z 0-9 -, not starting with -");
    fields.check();
    const once = this.#created.once(call, body, async () => {
      if (this.#contexts.has(id)) throw new RouseFailure("conflict", `There is a context ${id} already.`);
      const context = this.#add(id, cwd, env);
      try {
        await context.ensure();
        return context;
      } catch (fault) {
        this.#contexts.delete(id);
        throw fault;
      }
    });
    const context = await once.value.catch((fault: unknown) => {
      once.forget();
      throw fault;
    });
    sendJson(call, { ...context.info(), ...(once.replayed ? { replayed: true } : {}) });
  }

  async restart(call: Call, id: string): Promise<void> {
    const context = this.#context(id);
    context.end();
    await context.ensure();
    sendJson(call, context.info());
  }

  interrupt(call: Call, id: string): void {
    sendJson(call, { interrupted: this.#context(id).interrupt() });
  }

  remove(call: Call, id: string): void {
    this.#contexts.get(id)?.remove();
    sendJson(call, { deleted: this.#contexts.delete(id) });
    this.#keep();
  }

  /**
   * The context of that id; the default one is made when it is first used.
   * @throws RouseFailure `context_not_found`
   */
  #context(id: string): Kernel {
    const known = this.#contexts.get(id);
    if (known) return known;
    if (id !== DEFAULT_CONTEXT) throw new RouseFailure("context_not_found", `There is no context ${id}.`);
    return this.#add(id, undefined, undefined);
  }

  #add(id: string, cwd: string | undefined, env: Record<string, string> | undefined): Kernel {
    const { processes, ...options } = this.#options;
    const environment = () => processes.environment(env);
    const changed = () => this.#keep();
    const kernel = new Kernel(id, { ...options, cwd: processes.path(cwd), env, environment, changed });
    this.#contexts.set(id, kernel);
    return kernel;
  }

  #keep(): void {
    if (!this.#handedOn) return;
    const kept = [...this.#contexts.values()].flatMap(({ id, own, kept: kernel }): KeptContext[] =>
      kernel ? [{ id, ...own, preloaded: this.#preloaded && id === DEFAULT_CONTEXT, kernel }] : [],
    );
    try {
      this.#handedOn.write(kept);
    } catch (fault) {
      console.error(fault);
    }
  }
}

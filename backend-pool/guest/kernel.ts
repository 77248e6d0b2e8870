/** One Jupyter kernel behind its bridge (`interpreter.py`), and the queue of runs in front of it. */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import type { Context as ContextInfo, Execution } from "../../sdk/contract/guest.ts";
import { Kept } from "./kept.ts";
import { idOf, lives, type ProcessId } from "./supervised.ts";

/** After an interrupt that does not help, the kernel is ended, ms; until then it is interrupted again and again. */
const INTERRUPT_GRACE_MS = 10_000;
const INTERRUPT_AGAIN_MS = 1000;
/** Software emulation starts a kernel with its libraries in about a minute. */
const START_LIMIT_MS = 600_000;

type BridgeEvent =
  | { k: "ready"; pid: number; busy: boolean }
  | { k: "dead" | "prepared" }
  | { k: "start"; n: number }
  | { k: "stdout" | "stderr"; text: string }
  | { k: "result"; main: boolean; data: Record<string, unknown>; refs: Record<string, unknown> }
  | { k: "error"; name: string; value: string; traceback: string }
  | { k: "done"; status: "ok" | "error" | "interrupted"; n: number | null };

export interface KernelOptions {
  readonly cwd: string;
  /** Variables of its context alone. */
  readonly env: Record<string, string> | undefined;
  readonly python: string;
  /** Path of `interpreter.py`. */
  readonly bridge: string;
  /** For its sockets. */
  readonly folder: string;
  /** Variables it should have now. */
  readonly environment: () => Record<string, string>;
  /** A text that differs when this machine became another: then random numbers must not go on as in its origin. */
  readonly identity: () => string;
  /** Whether it outlives the agent, for the next one to take it up. */
  readonly outlives: boolean;
  /** What the next agent is to know (`kept`) is another now. */
  readonly changed: () => void;
}

/** A kernel as an agent leaves it to the next one. */
export interface KeptKernel {
  readonly bridge: ProcessId;
  readonly folder: string;
  readonly startedMs: number;
  readonly env: Record<string, string>;
  readonly identity: string;
}

/** The process between the agent and the kernel. */
interface Bridge {
  readonly id: ProcessId;
  readonly folder: string;
  readonly input: Writable;
}

export interface Run {
  readonly code: string;
  /** Longest time from the call to its end, a wait for its turn or for the kernel's start included; 0: no limit. */
  readonly timeoutMs: number;
  /** Interrupts the run when aborted. */
  readonly gone: AbortSignal | null;
  /** Takes each event as it comes; a promise is waited for before more is read. */
  readonly emit: (event: object) => Promise<void> | undefined;
}

type Outcome = { status: Execution["status"]; n: number | null };

export class Kernel {
  readonly id: string;
  readonly #options: KernelOptions;
  #bridge: Bridge | null = null;
  #pid = 0;
  #started: Promise<void> | null = null;
  #listener: ((event: BridgeEvent) => Promise<void> | undefined) | null = null;
  #startedMs = Date.now();
  #tail: Promise<unknown> = Promise.resolve();
  #env: Record<string, string> = {};
  #identity = "";
  #removed = false;
  /** A run of an agent of before that is under way; what comes of it nobody waits for but the next one. */
  #left: PromiseWithResolvers<void> | null = null;
  /** Somebody asked to interrupt the run under way, perhaps before its code was sent. */
  #interrupted = false;
  #again: NodeJS.Timeout | undefined;
  /** When the code of the run under way was sent, of the monotonic clock. */
  #sentMs = 0;
  state: ContextInfo["state"] = "starting";

  constructor(id: string, options: KernelOptions) {
    this.id = id;
    this.#options = options;
  }

  /**
   * Start it unless it runs. Answers whether it had to. `preload`: load the usual libraries first.
   * @throws RouseFailure `interpreter_failed`
   */
  async ensure(preload = false): Promise<boolean> {
    const isNew = this.#started === null;
    if (!this.#started) {
      const started = this.#start(preload);
      this.#started = started;
      started.catch(() => {
        if (this.#started === started) this.end();
      });
    }
    await this.#started;
    return isNew;
  }

  /** Load what showing results needs, in the order of the runs. */
  warm(): Promise<void> {
    const warmed = this.#tail.then(async () => {
      await this.ensure();
      await this.#silently({ op: "warm" });
    });
    this.#tail = warmed.catch(() => undefined);
    return warmed;
  }

  /** One run at a time, in the order they came. One that has not begun when its time is up never does. */
  run(run: Run): Promise<Execution> {
    const limit = new Limit(run.timeoutMs);
    const before = this.#tail;
    const execution = Promise.race([before, limit.over])
      .then(() => this.#run(run, limit))
      .finally(() => limit.end());
    this.#tail = Promise.allSettled([before, execution]);
    return execution;
  }

  interrupt(): boolean {
    if (this.state !== "busy") return false;
    this.#interrupted = true;
    this.#send({ op: "interrupt" });
    // A kernel may not hear what comes while it begins with the code, so an early interrupt is sent once more.
    if (performance.now() - this.#sentMs < INTERRUPT_AGAIN_MS) {
      this.#again ??= setTimeout(() => this.#send({ op: "interrupt" }), INTERRUPT_AGAIN_MS);
    }
    return true;
  }

  /** End the kernel and what it started; the next run begins a new one. */
  end(): void {
    const bridge = this.#bridge;
    this.#bridge = null;
    this.#started = null;
    this.state = "dead";
    for (const pid of [this.#pid, bridge?.id.pid ?? 0]) {
      try {
        if (pid > 0) process.kill(-pid, "SIGKILL");
      } catch {
        // it is gone
      }
    }
    this.#pid = 0;
    this.#leftEnds();
    void this.#listener?.({ k: "dead" });
    this.#options.changed();
  }

  /** End it for good; runs that wait in the queue fail. */
  remove(): void {
    this.#removed = true;
    this.end();
  }

  #leftEnds(): void {
    if (!this.#left) return;
    this.#left.resolve();
    this.#left = null;
    if (this.state === "busy") this.state = "idle";
  }

  info(): ContextInfo {
    return {
      id: this.id,
      language: "python",
      processId: `kernel-${this.#pid}`,
      cwd: this.#options.cwd,
      state: this.state,
      startedAt: this.#startedMs,
    };
  }

  async #start(preload: boolean): Promise<void> {
    const { python, bridge: script, cwd, environment, identity, outlives } = this.#options;
    this.state = "starting";
    this.#startedMs = Date.now();
    this.#env = environment();
    this.#identity = identity();
    const folder = join(this.#options.folder, `kernel-${randomBytes(4).toString("hex")}`);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const flags = [...(preload ? ["--preload"] : []), ...(outlives ? ["--outlives"] : [])];
    const child = spawn(python, ["-u", script, folder, ...flags], {
      cwd,
      env: {
        PYDEVD_DISABLE_FILE_VALIDATION: "1",
        MPLBACKEND: "module://matplotlib_inline.backend_inline",
        ...this.#env,
      },
      detached: true,
      stdio: ["pipe", "pipe", "pipe"],
    });
    const bridge = { id: idOf(child.pid ?? 0), folder, input: child.stdin };
    this.#bridge = bridge;
    this.#options.changed();
    let errors = "";
    child.stderr.on("data", (chunk: Buffer) => (errors = (errors + chunk.toString()).slice(-4000)));
    const ended = new Promise<string>((resolve) => {
      child.once("error", (fault) => resolve(fault.message));
      child.once("close", () => resolve(errors.trim().split("\n").at(-1) || "it ended"));
    });
    await this.#attend(bridge, child.stdout, ended);
  }

  /** Resolves when the kernel behind a bridge is there, and follows both to their end. */
  async #attend(bridge: Bridge, output: Readable, ended: Promise<string>): Promise<void> {
    bridge.input.on("error", () => undefined);
    await new Promise<void>((resolve, reject) => {
      const fail = (why: string) => reject(new RouseFailure("interpreter_failed", `The kernel did not start: ${why}`));
      const limit = setTimeout(() => fail("it took too long"), START_LIMIT_MS);
      void ended.then((why) => {
        clearTimeout(limit);
        rmSync(bridge.folder, { recursive: true, force: true });
        fail(why);
        if (this.#bridge === bridge) this.end();
      });
      readLines(output, (event) => {
        if (this.#bridge !== bridge) return undefined;
        if (event.k === "dead") this.end();
        if (event.k === "done") this.#leftEnds();
        if (event.k !== "ready") return this.#listener?.(event);
        clearTimeout(limit);
        this.#pid = event.pid;
        this.state = event.busy ? "busy" : "idle";
        if (event.busy) this.#left = Promise.withResolvers<void>();
        this.#options.changed();
        resolve();
        return undefined;
      });
    });
  }

  /** What its context was made with. */
  get own(): Pick<KernelOptions, "cwd" | "env"> {
    const { cwd, env } = this.#options;
    return { cwd, env };
  }

  /** What the next agent is to know; null while there is no kernel. */
  get kept(): KeptKernel | null {
    const bridge = this.#bridge;
    if (!bridge) return null;
    const { id, folder } = bridge;
    return { bridge: id, folder, startedMs: this.#startedMs, env: this.#env, identity: this.#identity };
  }

  /** Take up the kernel that an agent of before left; where it is gone, the next run begins a new one. */
  adopt({ bridge: id, folder, startedMs, env, identity }: KeptKernel): void {
    if (!lives(id)) return rmSync(folder, { recursive: true, force: true });
    const socket = connect(join(folder, "agent"));
    const bridge = { id, folder, input: socket };
    this.state = "starting";
    this.#startedMs = startedMs;
    this.#env = env;
    this.#identity = identity;
    this.#bridge = bridge;
    const ended = once(socket, "close").then(
      () => "it ended",
      (fault: unknown) => String(fault),
    );
    const started = this.#attend(bridge, socket, ended);
    this.#started = started;
    started.catch(() => {
      if (this.#started === started) this.end();
    });
  }

  async #run({ code, gone, emit }: Run, limit: Limit): Promise<Execution> {
    if (this.#removed) throw new RouseFailure("context_not_found", `There is no context ${this.id} any more.`);
    const id = `run-${randomBytes(6).toString("hex")}`;
    const kept = new Kept();
    let outcome: Outcome = { status: "interrupted", n: null };
    let error: Execution["error"] = null;
    let contextStarted = false;
    if (!gone?.aborted && !limit.isOver) contextStarted = await Promise.race([this.ensure(), limit.over]);
    if (this.#left) await Promise.race([this.#left.promise, limit.over]);
    if (limit.isOver) outcome = { status: "timeout", n: null };
    else if (!gone?.aborted) {
      this.state = "busy";
      this.#interrupted = false;
      if (await this.#prepare()) {
        outcome = await this.#execute(code, limit, gone, (event) => {
          if (event.k === "stdout" || event.k === "stderr") kept.write(event.k, event.text);
          else if (event.k === "result") kept.result(event);
          else if (event.k === "error") error = { name: event.name, value: event.value, traceback: event.traceback };
          return emit(event);
        });
      } else outcome = { status: "lost", n: null };
      if (this.state === "busy") this.state = "idle";
    }
    return {
      id,
      contextId: this.id,
      language: "python",
      executionCount: outcome.n,
      status: outcome.status,
      ...kept.parts(),
      error,
      durationMs: Math.round(performance.now() - limit.began),
      contextStarted,
      lostBytes: 0,
    };
  }

  async #execute(
    code: string,
    limit: Limit,
    gone: AbortSignal | null,
    take: (event: BridgeEvent) => Promise<void> | undefined,
  ): Promise<Outcome> {
    let timedOut = false;
    let again: NodeJS.Timeout | undefined;
    let grace: NodeJS.Timeout | undefined;
    const stop = () => {
      if (grace) return;
      // An interrupt that comes before the code does is not heard.
      this.interrupt();
      again = setInterval(() => this.interrupt(), INTERRUPT_AGAIN_MS);
      grace = setTimeout(() => this.end(), INTERRUPT_GRACE_MS);
    };
    let done = false;
    void limit.over.then(() => {
      if (done) return;
      timedOut = true;
      stop();
    });
    gone?.addEventListener("abort", stop);
    let n: number | null = null;
    const status = await new Promise<Execution["status"]>((resolve) => {
      this.#listener = (event) => {
        if (event.k === "start") n = event.n;
        if (event.k === "done") resolve(timedOut && event.status !== "ok" ? "timeout" : event.status);
        else if (event.k === "dead") resolve(timedOut ? "timeout" : grace ? "interrupted" : "lost");
        else return take(event);
        return undefined;
      };
      this.#sentMs = performance.now();
      this.#send({ op: "run", code });
      if (this.#interrupted) this.#send({ op: "interrupt" });
      if (!this.#bridge) resolve("lost");
      if (gone?.aborted) stop();
    });
    this.#listener = null;
    done = true;
    clearTimeout(grace);
    clearInterval(again);
    clearTimeout(this.#again);
    this.#again = undefined;
    gone?.removeEventListener("abort", stop);
    return { status, n };
  }

  /** Give a kernel that runs already the variables, and the random numbers, of the machine it is in now. */
  async #prepare(): Promise<boolean> {
    const env = this.#options.environment();
    const identity = this.#options.identity();
    const set = Object.fromEntries(Object.entries(env).filter(([name, value]) => this.#env[name] !== value));
    const unset = Object.keys(this.#env).filter((name) => !Object.hasOwn(env, name));
    const reseed = identity !== this.#identity;
    if (Object.keys(set).length === 0 && unset.length === 0 && !reseed) return true;
    const prepared = await this.#silently({ op: "prepare", set, unset, reseed });
    if (prepared) {
      this.#env = env;
      this.#identity = identity;
      this.#options.changed();
    }
    return prepared;
  }

  /** Something that the user sees nothing of. false: the kernel died. */
  async #silently(request: object): Promise<boolean> {
    const done = await new Promise<boolean>((resolve) => {
      this.#listener = (event) => {
        if (event.k === "prepared") resolve(true);
        if (event.k === "dead") resolve(false);
        return undefined;
      };
      this.#send(request);
      if (!this.#bridge) resolve(false);
    });
    this.#listener = null;
    return done;
  }

  #send(request: object): void {
    this.#bridge?.input.write(`${JSON.stringify(request)}\n`);
  }
}

/** The time of one run. */
class Limit {
  readonly began = performance.now();
  /** Resolves (with false) when the time is up; never, without a limit. */
  readonly over: Promise<false>;
  readonly #timer: NodeJS.Timeout | undefined;
  isOver = false;

  constructor(ms: number) {
    const { promise, resolve } = Promise.withResolvers<false>();
    this.over = promise;
    const up = () => {
      this.isOver = true;
      resolve(false);
    };
    this.#timer = ms > 0 ? setTimeout(up, ms) : undefined;
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

/** Events of a bridge, one after another; while one is waited for, nothing more is read. */
function readLines(from: Readable, take: (event: BridgeEvent) => Promise<void> | undefined): void {
  let parts: Buffer[] = [];
  const feed = async (data: Buffer): Promise<void> => {
    let start = 0;
    for (let end = data.indexOf(10); end >= 0; end = data.indexOf(10, start)) {
      const line = Buffer.concat([...parts, data.subarray(start, end)]);
      parts = [];
      start = end + 1;
      const waiting = take(JSON.parse(line.toString()) as BridgeEvent);
      if (!waiting) continue;
      from.pause();
      await waiting;
    }
    if (start < data.length) parts.push(data.subarray(start));
    if (from.isPaused()) from.resume();
  };
  // A paused stream may still give what it had read: each waits for the one before.
  let fed: Promise<void> | null = null;
  from.on("data", (data: Buffer) => {
    const next: Promise<void> = fed ? fed.then(() => feed(data)) : feed(data);
    fed = next.then(
      () => undefined,
      (fault: unknown) => console.error(fault),
    );
  });
}

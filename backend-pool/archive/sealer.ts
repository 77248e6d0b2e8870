/**
 * Seals in a child process of low priority: comparing and compressing must not hold up the host agent. The child starts
 * with the first job and ends some time after the last. Keys reach it through the channel between the two only.
 */
import { fork, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import { DamagedState, Unsealable } from "./damage.ts";
import type { ManifestSource } from "./manifest.ts";
import type { Sealed, SealOptions } from "./seal.ts";

/** As `SealOptions`, with the earlier manifest as it is stored. */
export type SealJob = Omit<SealOptions, "previous" | "signal"> & {
  readonly previous: (ManifestSource & { readonly bytes: Uint8Array }) | null;
};

/** To the child. */
export type SealerCall = { readonly seal: SealJob } | { readonly abort: true };

/** From the child, once per job. Errors don't cross a channel with their class. */
export type SealerAnswer =
  | { readonly sealed: Sealed }
  | { readonly fault: Pick<Error, "name" | "message"> & Partial<Pick<DamagedState, "blob" | "fault">> };

interface Waiting {
  readonly job: SealJob;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (sealed: Sealed) => void;
  readonly reject: (fault: unknown) => void;
}

const IDLE_MS = 10_000;

export class Sealer {
  #child: ChildProcess | null = null;
  #running: Waiting | null = null;
  #queue: Waiting[] = [];
  #idle: NodeJS.Timeout | undefined;
  #closed = false;
  readonly #idleMs: number;

  /** @param idleMs the child ends when it had nothing to do for so long; default 10 s */
  constructor(idleMs = IDLE_MS) {
    this.#idleMs = idleMs;
  }

  /** Process id of the child; null when there is none. */
  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /**
   * Seal a state, one at a time, in the order of the calls.
   * @throws as `seal`; Error when the child died, the next job starts another
   */
  async seal(job: SealJob, signal?: AbortSignal): Promise<Sealed> {
    signal?.throwIfAborted();
    if (this.#closed) throw new Error("The sealer is closed.");
    const { promise, resolve, reject } = Promise.withResolvers<Sealed>();
    const waiting: Waiting = { job, signal, resolve, reject };
    const abort = () => {
      // A job that runs fails by itself, when nothing of it is left.
      if (this.#running === waiting) this.#send({ abort: true });
      else {
        this.#queue = this.#queue.filter((other) => other !== waiting);
        reject(signal?.reason);
      }
    };
    signal?.addEventListener("abort", abort, { once: true });
    this.#queue.push(waiting);
    this.#next();
    return promise.finally(() => signal?.removeEventListener("abort", abort));
  }

  /** End the child. Jobs that are not done fail; resolves when it is gone. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#idle);
    for (const { reject } of this.#queue.splice(0)) reject(new Error("The sealer is closed."));
    const child = this.#child;
    if (!child) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  #next(): void {
    if (this.#running) return;
    clearTimeout(this.#idle);
    const waiting = this.#queue.shift();
    if (waiting) {
      this.#running = waiting;
      this.#child ??= this.#start();
      this.#send({ seal: waiting.job });
    } else {
      const child = this.#child;
      // Without the channel it ends by itself.
      this.#idle = setTimeout(() => {
        if (this.#child === child) this.#child = null;
        child?.disconnect();
      }, this.#idleMs);
      this.#idle.unref();
    }
  }

  #start(): ChildProcess {
    const child = fork(join(import.meta.dirname, "sealer-main.ts"), {
      execArgv: ["--disable-warning=ExperimentalWarning"],
      // To find programs by; it has no business with this process's secrets.
      env: { PATH: process.env["PATH"] },
      serialization: "advanced",
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    child.on("message", (answer: SealerAnswer) => this.#settle(child, answer));
    child.on("error", (fault) => this.#gone(child, fault.message));
    child.on("exit", (code, signal) => this.#gone(child, `it ended with ${signal ?? code}`));
    return child;
  }

  #send(call: SealerCall): void {
    // A child that is gone tells of itself.
    this.#child?.send(call, () => undefined);
  }

  #settle(child: ChildProcess, answer: SealerAnswer): void {
    const done = this.#running;
    if (this.#child !== child || !done) return;
    this.#running = null;
    if ("sealed" in answer) done.resolve(answer.sealed);
    else done.reject(done.signal?.aborted ? done.signal.reason : faultOf(answer.fault));
    this.#next();
  }

  #gone(child: ChildProcess, how: string): void {
    if (this.#child !== child) return;
    this.#child = null;
    const failed = this.#running;
    this.#running = null;
    failed?.reject(failed.signal?.aborted ? failed.signal.reason : new Error(`The sealer failed: ${how}.`));
    if (!this.#closed) this.#next();
  }
}

function faultOf({ name, message, blob, fault }: Extract<SealerAnswer, { fault: unknown }>["fault"]): Error {
  if (name === "DamagedState" && blob && fault) return new DamagedState(blob, fault, message);
  return name === "Unsealable" ? new Unsealable(message) : new Error(message);
}

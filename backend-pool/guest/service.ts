/** One service: started, looked at until it is ready, started again when it ends, stopped. */
import { get } from "node:http";
import type { Service as Spec, ServiceStatus } from "../../sdk/contract/boot.ts";
import { programOf } from "./boot-hooks.ts";
import { listeningPorts } from "./facts.ts";
import { OutputLog } from "./output.ts";
import type { Processes } from "./processes.ts";
import { afterExit, nextLookMs, type Exit } from "./restarts.ts";
import { Supervised, type ProcessId } from "./supervised.ts";

const LOG_BYTES = 65_536;
const READY_SECONDS = 120;
const STOP_SECONDS = 10;
/** One try to hear whether it is ready, milliseconds. */
const LOOK_LIMIT_MS = 5000;

/** What is kept of it for an agent that comes after this one. */
export interface Kept extends ServiceStatus {
  readonly process: ProcessId | null;
  readonly failures: number;
}

export interface Surroundings {
  readonly folder: string;
  readonly processes: Processes;
  /** Called after each change. */
  readonly changed: () => void;
}

export class Service {
  spec: Spec;
  readonly log = new OutputLog(LOG_BYTES);
  readonly #around: Surroundings;
  #status: ServiceStatus;
  #run: Supervised | null = null;
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  #look: NodeJS.Timeout | undefined;
  #stopping = false;
  #settled = Promise.withResolvers<void>();
  /** When it has to be ready, by the clock that only goes on; null: it need not be, or was. */
  #dueMs: number | null = null;

  constructor(spec: Spec, around: Surroundings) {
    this.spec = spec;
    this.#around = around;
    this.#status = {
      ...{ name: spec.name, state: "pending", pid: null, port: spec.port ?? spec.ready?.port ?? null, restarts: 0 },
      ...{ startedAt: null, readyAt: null, late: false, lastExit: null },
    };
  }

  get status(): ServiceStatus {
    return this.#status;
  }

  get kept(): Kept {
    return { ...this.#status, process: this.#run?.id ?? null, failures: this.#failures };
  }

  /** Resolves once it is ready, has ended for good, or is late. */
  get settled(): Promise<void> {
    return this.#settled.promise;
  }

  get isLive(): boolean {
    return this.#run !== null && !this.#run.isOver;
  }

  /** Start it, unless it runs. */
  start(): void {
    if (this.#stopping || this.isLive) return;
    clearTimeout(this.#timer);
    if (this.#mustShow && !this.#status.late) this.#dueMs ??= performance.now() + this.#readyMs;
    const { folder, processes } = this.#around;
    try {
      const program = programOf(processes, this.spec);
      this.#watch(Supervised.start(folder, `service-${this.spec.name}`, program, this.log));
    } catch (fault) {
      this.log.append("stderr", Buffer.from(`${String(fault)}\n`));
      return this.#ended({ code: 127, signal: null }, 0);
    }
    this.#change({ state: "starting", pid: this.#run?.id?.pid ?? null, startedAt: new Date().toISOString() });
    if (!this.#mustShow) this.#ready();
    else this.#lookLater(performance.now());
  }

  /** Go on with what an agent of before started. */
  resume(kept: Kept): void {
    const { process, failures, ...status } = kept;
    this.#status = { ...status, port: this.#status.port };
    this.#failures = failures;
    const { folder } = this.#around;
    const unknown = { code: null, signal: null };
    const run = process && Supervised.adopt(folder, `service-${this.spec.name}`, process, this.log, () => unknown);
    if (run) {
      this.#watch(run);
      if (status.readyAt !== null || status.late) return this.#settled.resolve();
      this.#dueMs = performance.now() + this.#readyMs;
      return this.#lookLater(performance.now());
    }
    if (status.state === "ended" || status.state === "failed") return this.#settled.resolve();
    if (status.state === "stopped" || status.state === "pending") return;
    if (process) this.#ended(unknown, 0);
    else this.start();
  }

  /** End it, and start it no more. Resolves when it has ended. */
  async stop(): Promise<void> {
    this.#stopping = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#look);
    const run = this.#run;
    if (run && !run.isOver) {
      const { stopSignal = "SIGTERM", stopSeconds = STOP_SECONDS } = this.spec;
      run.signal(stopSignal);
      const force = setTimeout(() => run.signal("SIGKILL"), stopSeconds * 1000);
      await run.ended;
      clearTimeout(force);
    }
    this.#settled.resolve();
    this.#change({ state: "stopped", pid: null });
  }

  /** Stop it, and start it again at once. */
  async restart(): Promise<void> {
    await this.stop();
    this.#stopping = false;
    this.#failures = 0;
    this.#dueMs = null;
    this.#settled = Promise.withResolvers<void>();
    this.#change({ state: "starting", restarts: this.#status.restarts + 1, readyAt: null, late: false });
    this.start();
  }

  /** One that is late is not looked at by itself: whether it is ready by now. */
  async lookNow(): Promise<void> {
    if (this.#status.late && this.isLive && (await this.#shows())) this.#ready();
  }

  get #mustShow(): boolean {
    return this.spec.ready !== undefined || this.spec.port !== undefined;
  }

  get #readyMs(): number {
    return (this.spec.ready?.timeoutSeconds ?? READY_SECONDS) * 1000;
  }

  #watch(run: Supervised): void {
    this.#run = run;
    const began = performance.now();
    void run.ended.then((exit) => {
      if (this.#run !== run) return;
      clearTimeout(this.#look);
      const at = new Date().toISOString();
      this.#change({ pid: null, lastExit: { at, exitCode: exit.code, signal: exit.signal } });
      if (!this.#stopping) this.#ended(exit, performance.now() - began);
    });
  }

  #ended(exit: Exit, ranMs: number): void {
    this.#run = null;
    const { restart: policy = "always" } = this.spec;
    const verdict = afterExit({ policy, exit, ranMs, failures: this.#failures });
    if (verdict.next !== "again") {
      this.#dueMs = null;
      this.#settled.resolve();
      return this.#change({ state: verdict.next, pid: null });
    }
    this.#failures = verdict.failures;
    this.#change({ state: "waiting", pid: null });
    const { afterMs } = verdict;
    // One that comes and goes until its time is over is late as well.
    if (this.#dueMs !== null && this.#dueMs - performance.now() < afterMs)
      this.#look = setTimeout(() => this.#late(), Math.max(0, this.#dueMs - performance.now()));
    this.#timer = setTimeout(() => {
      this.#change({ restarts: this.#status.restarts + 1 });
      this.start();
    }, afterMs);
  }

  #lookLater(since: number): void {
    clearTimeout(this.#look);
    this.#look = setTimeout(
      () => {
        void this.#shows().then((shows) => {
          if (!this.isLive || this.#stopping || this.#status.state !== "starting") return;
          if (shows) return this.#ready();
          if (this.#dueMs !== null && performance.now() >= this.#dueMs) return this.#late();
          if (this.#status.late) return;
          this.#lookLater(since);
        });
      },
      nextLookMs(performance.now() - since),
    );
  }

  /** Whether it does what one that is ready does. */
  async #shows(): Promise<boolean> {
    const { ready, port } = this.spec;
    if (ready?.path !== undefined) return answers(ready.port, ready.path);
    const wanted = ready?.port ?? port;
    return wanted !== undefined && (await listeningPorts()).includes(wanted);
  }

  #ready(): void {
    this.#dueMs = null;
    this.#change({ state: "ready", readyAt: this.#status.readyAt ?? new Date().toISOString(), late: false });
    this.#settled.resolve();
  }

  #late(): void {
    this.#dueMs = null;
    this.#change({ late: true });
    this.#settled.resolve();
  }

  #change(change: Partial<ServiceStatus>): void {
    this.#status = { ...this.#status, ...change };
    this.#around.changed();
  }
}

/** Whether something answers there with 2xx or 3xx. */
async function answers(port: number, path: string): Promise<boolean> {
  for (const host of ["127.0.0.1", "::1"]) {
    const status = await new Promise<number>((resolve) => {
      const signal = AbortSignal.timeout(LOOK_LIMIT_MS);
      const req = get({ host, port, path, agent: false, signal }, (res) => {
        res.resume();
        res.on("error", () => undefined);
        resolve(res.statusCode ?? 0);
      });
      req.on("error", () => resolve(0));
    });
    if (status !== 0) return status >= 200 && status < 400;
  }
  return false;
}

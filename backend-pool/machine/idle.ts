/** Watches one running machine for idleness with a timer at the time it could be idle; nothing ticks before. */
import { CPU_WINDOW_MS, isCpuIdle, untilMeasure, type Activity } from "./activity.ts";

export interface IdleWatchOptions {
  readonly activity: Activity;
  /** Seconds; 0 never. */
  readonly idlePauseSeconds: () => number;
  readonly cpuTicks: () => Promise<number>;
  /** Of one virtual CPU; less counts as idle. */
  readonly idleCpu: number;
  /** Called again every measurement while the machine stays idle and running. */
  readonly onIdle: () => void;
}

export class IdleWatch {
  readonly #options: IdleWatchOptions;
  #timer: NodeJS.Timeout | undefined;
  #watch = 0;

  constructor(options: IdleWatchOptions) {
    this.#options = options;
  }

  /** (Re)start from the last activity. Cheap: called at the end of every request. */
  start(): void {
    if (this.#timer !== undefined) return;
    this.#arm();
  }

  stop(): void {
    this.#watch++;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Nothing under way, and nothing happened for the idle time. */
  isIdle(): boolean {
    const { activity, idlePauseSeconds } = this.#options;
    return activity.open === 0 && Date.now() - activity.lastMs >= idlePauseSeconds() * 1000 - 50;
  }

  #arm(): void {
    const seconds = this.#options.idlePauseSeconds();
    if (seconds === 0) {
      this.#timer = undefined;
      return;
    }
    const watch = this.#watch;
    const wait = untilMeasure(this.#options.activity.lastMs, seconds, Date.now());
    this.#timer = setTimeout(() => void this.#measure(watch), Math.max(wait, 10));
    this.#timer.unref();
  }

  /** Two readings of the CPU at the end of the idle time; any use in between begins it anew. */
  async #measure(watch: number): Promise<void> {
    const { activity, cpuTicks, idleCpu, onIdle } = this.#options;
    try {
      const seconds = this.#options.idlePauseSeconds();
      if (activity.open === 0 && untilMeasure(activity.lastMs, seconds, Date.now()) === 0) {
        const from = performance.now();
        const before = await cpuTicks();
        await new Promise((resolve) => setTimeout(resolve, CPU_WINDOW_MS).unref());
        const quiet = isCpuIdle(before, await cpuTicks(), performance.now() - from, idleCpu);
        if (watch === this.#watch && !quiet) activity.touch("cpu");
        if (watch === this.#watch && quiet && this.isIdle()) onIdle();
      }
    } catch {
      // The machine went meanwhile, and whoever ended it says so.
    }
    if (watch === this.#watch) this.#arm();
  }
}

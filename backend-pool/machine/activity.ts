/** What keeps a machine awake: requests and connections under way, and CPU. Pure but for the clock it is given. */

/** CPU below this share of one virtual CPU counts as idle. */
export const IDLE_CPU = 1 / 40;

/** An emulated CPU takes several times as long for the same work: an idle guest, with a busy host, 2 in 100. */
export const IDLE_CPU_EMULATED = 1 / 20;

/** Length of the CPU measurement at the end of the idle time, milliseconds. */
export const CPU_WINDOW_MS = 5000;

export class Activity {
  #open = 0;
  #lastMs: number;
  #lastUse: "use" | "cpu" = "use";
  readonly #now: () => number;

  constructor(lastMs: number, now: () => number = Date.now) {
    this.#lastMs = lastMs;
    this.#now = now;
  }

  /** Requests and connections under way. */
  get open(): number {
    return this.#open;
  }

  /** Unix milliseconds of the last sign of use; now, while anything is under way. */
  get lastMs(): number {
    return this.#open > 0 ? this.#now() : this.#lastMs;
  }

  get lastUse(): "use" | "cpu" {
    return this.#lastUse;
  }

  /** Something began; call the answer once when its last byte went or its socket closed. */
  begin(): () => void {
    this.#open++;
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#open--;
      this.touch();
    };
  }

  /** A sign of use; `cpu`: nobody asked for anything, and its virtual CPUs are at work. */
  touch(use: "use" | "cpu" = "use"): void {
    this.#lastMs = this.#now();
    this.#lastUse = use;
  }
}

/** Whether two readings of busy ticks (1/100 s) say that the machine did nothing of note in between. */
export function isCpuIdle(ticksBefore: number, ticksAfter: number, elapsedMs: number, share = IDLE_CPU): boolean {
  return elapsedMs > 0 && (ticksAfter - ticksBefore) * 10 < elapsedMs * share;
}

/** Milliseconds until the CPU measurement should begin, so that it ends when the idle time does. */
export function untilMeasure(lastMs: number, idlePauseSeconds: number, nowMs: number): number {
  return Math.max(0, lastMs + idlePauseSeconds * 1000 - CPU_WINDOW_MS - nowMs);
}

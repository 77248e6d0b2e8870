/**
 * Meters machines: memory by the time they run, CPU by what their virtual CPUs took, storage by the time they rest.
 * What is measured counts only once the edge has answered: a stretch in which it did not is free, whoever was at fault.
 * Amounts are whole numbers and grow for as long as a generation lasts. A machine that rests costs nothing here: its time
 * is the time that the edge has answered for, and is worked out when somebody asks.
 */
import { add, isNothing, NOTHING, type Amounts } from "../../sdk/contract/pricing.ts";
import type { Stats } from "../machine/stats.ts";
import type { JournalRow } from "../store/journal.ts";
import type { UsageRow, UsageStore } from "../store/usage.ts";

/** The edge did not answer for longer: what was measured since is dropped, milliseconds. */
export const FREE_AFTER_MS = 20_000;

/** Sleepers use little and are many: each is told of once an hour, and whenever something happens to it, milliseconds. */
export const REST_REPORT_MS = 3_600_000;

interface Metered {
  row: UsageRow;
  /** `free`: on its way between the two, which costs nothing. */
  mode: "runs" | "rests" | "free";
  memoryMiB: number;
  cpuNs: bigint | null;
  storedBytes: number;
  /** How much of the time that the edge answered for is in the row. */
  mark: number;
  /** Until when the present mode is metered since the last answer, by the clock; null when nothing happened since. */
  at: number | null;
  /** Measured since the edge last answered. */
  unconfirmed: Amounts;
}

export class Meter {
  readonly #store: Pick<UsageStore, "put" | "remove" | "all">;
  readonly #now: () => number;
  readonly #machines = new Map<string, Metered>();
  /** Generations that are over and not reported in full. */
  readonly #past = new Map<string, Metered>();
  /** To whom something happened since the last answer. */
  readonly #touched = new Set<Metered>();
  #answeredAt: number;
  /** Milliseconds that the edge has answered for in all. */
  #sure = 0;

  /** @param now milliseconds of a clock that never jumps */
  constructor(store: Pick<UsageStore, "put" | "remove" | "all">, now: () => number = () => performance.now()) {
    this.#store = store;
    this.#now = now;
    this.#answeredAt = now();
    for (const row of store.all()) this.#past.set(keyOf(row), this.#metered(row, 0));
  }

  /** A machine's state, whenever it is committed. What its modes so far come to is settled first. */
  observe(row: JournalRow): void {
    let metered = this.#machines.get(row.id);
    if (metered) this.#settle(metered);
    if (metered && metered.row.generation !== row.generation) {
      this.#end(metered);
      metered = undefined;
    }
    if (!metered) {
      const started = { id: row.id, account: row.account, generation: row.generation, amounts: NOTHING };
      // After a restart of this host agent the generation goes on where it was.
      const before = this.#past.get(keyOf(started));
      metered = before ?? this.#metered({ ...started, sequence: 0, taken: 0, done: false }, row.shape.memoryMiB);
      if (before) this.#past.delete(keyOf(started));
      metered.row = { ...metered.row, done: false };
      metered.memoryMiB = row.shape.memoryMiB;
      metered.mark = this.#sure;
      metered.at = this.#now();
      this.#touched.add(metered);
      this.#machines.set(row.id, metered);
    }
    const mode =
      row.state === "running" ? "runs" : row.state === "paused" || row.state === "stopped" ? "rests" : "free";
    // CPU of a boot or a load is free: the next reading is where a run begins.
    if (mode === "runs" && metered.mode !== "runs") metered.cpuNs = null;
    metered.mode = mode;
  }

  /** Readings, taken now. */
  sample(id: string, { cpuNs, storedBytes }: Stats): void {
    const metered = this.#machines.get(id);
    if (!metered) return;
    this.#settle(metered);
    metered.storedBytes = storedBytes;
    const before = metered.cpuNs;
    if (before !== null && cpuNs !== null && cpuNs > before && metered.mode !== "free")
      metered.unconfirmed = add(metered.unconfirmed, { ...NOTHING, cpu: cpuNs - before });
    metered.cpuNs = cpuNs;
  }

  /** The machine is gone; what it used is still reported. */
  forget(id: string): void {
    const metered = this.#machines.get(id);
    if (!metered) return;
    this.#settle(metered);
    this.#end(metered);
    this.#machines.delete(id);
  }

  /** The edge answered: what was measured since it last did counts, unless that was long ago. */
  answered(): void {
    const now = this.#now();
    const free = now - this.#answeredAt > FREE_AFTER_MS;
    for (const metered of this.#touched) this.#settle(metered);
    // Only whole milliseconds are counted; the rest is for the next time.
    const ms = Math.floor(now - this.#answeredAt);
    if (!free) this.#sure += ms;
    this.#answeredAt = free ? now : this.#answeredAt + ms;
    for (const metered of this.#touched) {
      const { unconfirmed } = metered;
      metered.unconfirmed = NOTHING;
      metered.at = null;
      metered.mark = this.#sure;
      if (!free) this.#count(metered, unconfirmed);
    }
    this.#touched.clear();
    for (const [key, metered] of this.#past) this.#drop(key, metered);
  }

  /**
   * What the edge did not take yet.
   * @param restMs of a machine that only rests, nothing before so much time has come together
   */
  pending(restMs = 0): UsageRow[] {
    for (const metered of this.#machines.values()) {
      const due = metered.mode === "rests" ? Math.max(1, restMs) : 1;
      if (metered.at === null && this.#sure - metered.mark >= due) this.#catchUp(metered);
    }
    return [...this.#machines.values(), ...this.#past.values()]
      .map(({ row }) => row)
      .filter((row) => row.sequence > row.taken);
  }

  /** The edge took a report. */
  taken({ id, generation, sequence }: UsageRow): void {
    const key = keyOf({ id, generation });
    const past = this.#past.get(key);
    const current = this.#machines.get(id);
    const metered = past ?? (current?.row.generation === generation ? current : undefined);
    if (!metered || metered.row.taken >= sequence) return;
    metered.row = { ...metered.row, taken: sequence };
    this.#store.put(metered.row);
    if (past) this.#drop(key, past);
  }

  /** Meter the time since the last settling by the mode that it was in. */
  #settle(metered: Metered): void {
    if (metered.at === null) {
      this.#catchUp(metered);
      metered.at = this.#answeredAt;
      this.#touched.add(metered);
    }
    const ms = Math.floor(this.#now() - metered.at);
    if (ms <= 0) return;
    metered.at += ms;
    metered.unconfirmed = add(metered.unconfirmed, amountsIn(metered, ms));
  }

  /** Count what it did, undisturbed, while the edge answered. */
  #catchUp(metered: Metered): void {
    const ms = this.#sure - metered.mark;
    metered.mark = this.#sure;
    this.#count(metered, amountsIn(metered, ms));
  }

  #count(metered: Metered, amounts: Amounts): void {
    if (isNothing(amounts)) return;
    const { row } = metered;
    metered.row = { ...row, amounts: add(row.amounts, amounts), sequence: row.sequence + 1 };
    this.#store.put(metered.row);
  }

  #end(metered: Metered): void {
    metered.mode = "free";
    metered.row = { ...metered.row, done: true };
    this.#past.set(keyOf(metered.row), metered);
    if (metered.row.sequence > 0) this.#store.put(metered.row);
  }

  #drop(key: string, metered: Metered): void {
    const { row, unconfirmed } = metered;
    if (row.taken < row.sequence || !isNothing(unconfirmed)) return;
    this.#past.delete(key);
    this.#store.remove(row.id, row.generation);
  }

  #metered(row: UsageRow, memoryMiB: number): Metered {
    const mark = this.#sure;
    return { row, mode: "free", memoryMiB, cpuNs: null, storedBytes: 0, mark, at: null, unconfirmed: NOTHING };
  }
}

function amountsIn({ mode, memoryMiB, storedBytes }: Metered, ms: number): Amounts {
  if (mode === "runs") return { ...NOTHING, memory: BigInt(memoryMiB) * BigInt(ms) };
  return mode === "rests" ? { ...NOTHING, stored: BigInt(storedBytes) * BigInt(ms) } : NOTHING;
}

function keyOf({ id, generation }: { id: string; generation: number }): string {
  return `${id} ${generation}`;
}

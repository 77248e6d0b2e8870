/** Feeds the meter: what machines do as they do it, and readings at the right moments. */
import type { Driver } from "../machine/driver.ts";
import type { Machines } from "../machine/machines.ts";
import type { JournalRow } from "../store/journal.ts";
import type { Meter } from "./meter.ts";

export class Metering {
  readonly #driver: Driver;
  readonly #meter: Meter;
  /** Machines whose virtual CPUs run. */
  readonly #running = new Set<string>();

  constructor(machines: Machines, driver: Driver, meter: Meter) {
    this.#driver = driver;
    this.#meter = meter;
    machines.on("state", (row) => this.#onState(row));
    machines.on("gone", (id) => {
      this.#running.delete(id);
      meter.forget(id);
    });
  }

  /** Read what runs, so that little is lost when this host agent dies. Sleepers change only when they are told to. */
  async sample(): Promise<void> {
    await Promise.all([...this.#running].map((id) => this.#sample(id)));
  }

  /** The bytes that a sleeper has of its own are others now. */
  async resized(id: string): Promise<void> {
    await this.#sample(id);
  }

  #onState(row: JournalRow): void {
    this.#meter.observe(row);
    if (row.state === "running") this.#running.add(row.id);
    else this.#running.delete(row.id);
    // The beginning and the end of a run, and the size of what rests then.
    if (row.state === "running" || row.state === "paused" || row.state === "stopped") void this.#sample(row.id);
  }

  async #sample(id: string): Promise<void> {
    const stats = await this.#driver.stats(id).catch(() => null);
    if (stats) this.#meter.sample(id, stats);
  }
}

/** Copies of machines on this host: for a snapshot until it is stored, for forks until they are made. */
import type { CaptureMachine } from "../../sdk/contract/host.ts";
import type { CaptureRow, Journal, JournalRow } from "../store/journal.ts";
import type { Archiver } from "./archiver.ts";
import type { Driver } from "./driver.ts";

/** A copy that nobody asked for any more, milliseconds. */
const KEPT_MS = 600_000;

export class Captures {
  readonly #driver: Driver;
  readonly #journal: Journal;
  readonly #archiver: Archiver | null;
  readonly #timers = new Map<string, NodeJS.Timeout>();

  constructor(driver: Driver, journal: Journal, archiver: Archiver | null) {
    this.#driver = driver;
    this.#journal = journal;
    this.#archiver = archiver;
  }

  /** After a start of the host agent: what is to be stored goes on, all else goes. */
  async resume(): Promise<void> {
    const rows = this.#journal.captures();
    const there = new Set(await this.#driver.captures());
    for (const row of rows) {
      if (there.has(row.id)) this.#follow(row);
      else this.#journal.removeCapture(row.id);
    }
    for (const id of there) if (!rows.some((row) => row.id === id)) await this.#driver.dropCapture(id);
  }

  /** Noted before it is made, so that no copy is ever left without anybody who knows of it. */
  async take({ id, account, shape, hostname }: JournalRow, request: CaptureMachine): Promise<number | null> {
    const { capture, generation, diskOnly, stored, volumes = [] } = request;
    const row = { id: capture, account, generation, shape, diskOnly, stored, at: Date.now() };
    this.#journal.putCapture(row);
    try {
      const frozenMs = await this.#driver.capture(id, { capture, diskOnly, volumes }, { hostname });
      this.#follow(row);
      return frozenMs;
    } catch (fault) {
      await this.drop(capture);
      throw fault;
    }
  }

  async drop(id: string): Promise<void> {
    clearTimeout(this.#timers.get(id));
    this.#timers.delete(id);
    this.#archiver?.forget(id);
    await this.#driver.dropCapture(id);
    this.#journal.removeCapture(id);
  }

  close(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
  }

  #follow(row: CaptureRow): void {
    if (row.stored && this.#archiver) return this.#archiver.copied(row);
    const left = Math.max(0, row.at + KEPT_MS - Date.now());
    const timer = setTimeout(() => void this.drop(row.id).catch(() => undefined), left);
    timer.unref();
    this.#timers.set(row.id, timer);
  }
}

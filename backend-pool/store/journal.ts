/** What this host believes of its machines; survives the host agent. Holds no secret: environments stay in memory. */
import type { DatabaseSync } from "node:sqlite";
import { z } from "zod";
import { tellKinds } from "../../sdk/contract/boot.ts";
import { GuestTimer } from "../../sdk/contract/guest-timer.ts";
import { MachineEvent, MachineState, Shape } from "../../sdk/contract/host.ts";
import { StopReason } from "../../sdk/contract/sandbox.ts";
import { openDatabase } from "./database.ts";

export const JournalRow = z.object({
  id: z.string(),
  account: z.string(),
  generation: z.int(),
  state: MachineState,
  shape: Shape,
  hostname: z.string(),
  idlePauseSeconds: z.int(),
  /** The newest run that is over: a call to begin it, or an older one, is late. */
  endedGeneration: z.int().default(0),
  /** The run that the state at rest is of; null while one is live. */
  savedGeneration: z.int().nullable().default(null),
  /** When a program in it must run next, as its guest said before it slept last. */
  timer: GuestTimer.nullable().default(null),
  /**
   * What its guest agent is to do at its start; null: nothing. `isOpen`: requests need not wait for that any more, for
   * as long as its RAM lives.
   */
  boot: z
    .object({ generation: z.int(), kind: z.enum(tellKinds), isTold: z.boolean(), isOpen: z.boolean() })
    .nullable()
    .default(null),
  /** How the last run began. */
  memoryRestored: z.boolean(),
  endReason: StopReason.nullable(),
  /** Unix milliseconds. */
  lastActiveAt: z.number(),
  lastActionMs: z.number().nullable(),
  /** What the edge was not told yet. */
  pendingEvent: MachineEvent.nullable(),
});
export type JournalRow = z.infer<typeof JournalRow>;

/** A copy of a machine (`:capture`). */
export const CaptureRow = z.object({
  id: z.string(),
  account: z.string(),
  generation: z.int(),
  shape: Shape,
  diskOnly: z.boolean(),
  /** To be stored off this host. */
  stored: z.boolean(),
  /** Unix milliseconds. */
  at: z.number(),
});
export type CaptureRow = z.infer<typeof CaptureRow>;

/** The disk of a volume that no machine has any more, or of a copy: stored off this host, then removed. */
export const VolumeRow = z.object({
  /** An attachment, or a backup. */
  id: z.string(),
  account: z.string(),
  /** The run that it was written in last. */
  generation: z.int(),
  clean: z.boolean(),
});
export type VolumeRow = z.infer<typeof VolumeRow>;

/** Longer than any message can be late, milliseconds. */
const REMOVED_KEPT_MS = 7 * 86_400_000;

export class Journal {
  readonly #db: DatabaseSync;

  constructor(path: string) {
    this.#db = openDatabase(path);
    this.#db.exec(`
      CREATE TABLE IF NOT EXISTS machines (id TEXT PRIMARY KEY, row TEXT NOT NULL) STRICT;
      CREATE TABLE IF NOT EXISTS captures (id TEXT PRIMARY KEY, row TEXT NOT NULL) STRICT;
      CREATE TABLE IF NOT EXISTS volumes (id TEXT PRIMARY KEY, row TEXT NOT NULL) STRICT;
      CREATE TABLE IF NOT EXISTS removed (id TEXT PRIMARY KEY, generation INTEGER NOT NULL, at INTEGER NOT NULL) STRICT;
    `);
  }

  put(row: JournalRow): void {
    this.#db
      .prepare("INSERT INTO machines (id, row) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET row = excluded.row")
      .run(row.id, JSON.stringify(row));
  }

  remove(id: string): void {
    this.#db.prepare("DELETE FROM machines WHERE id = ?").run(id);
  }

  /** The machine was removed: a call to make it that is of that generation, or older, is late. */
  noteRemoved(id: string, generation: number): void {
    const now = Date.now();
    this.#db
      .prepare(
        `INSERT INTO removed (id, generation, at) VALUES (?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET generation = MAX(generation, excluded.generation), at = excluded.at`,
      )
      .run(id, generation, now);
    this.#db.prepare("DELETE FROM removed WHERE at < ?").run(now - REMOVED_KEPT_MS);
  }

  /** The newest generation of a machine that was removed; 0 for one that never was. */
  removed(id: string): number {
    const row = this.#db.prepare("SELECT generation FROM removed WHERE id = ?").get(id);
    return row ? Number(row["generation"]) : 0;
  }

  all(): JournalRow[] {
    return this.#db
      .prepare("SELECT row FROM machines ORDER BY id")
      .all()
      .map((found) => JournalRow.parse(JSON.parse(String(found["row"]))));
  }

  putCapture(row: CaptureRow): void {
    this.#db.prepare("INSERT OR REPLACE INTO captures (id, row) VALUES (?, ?)").run(row.id, JSON.stringify(row));
  }

  removeCapture(id: string): void {
    this.#db.prepare("DELETE FROM captures WHERE id = ?").run(id);
  }

  captures(): CaptureRow[] {
    const rows = this.#db.prepare("SELECT row FROM captures ORDER BY id").all();
    return rows.map((found) => CaptureRow.parse(JSON.parse(String(found["row"]))));
  }

  putVolume(row: VolumeRow): void {
    this.#db.prepare("INSERT OR REPLACE INTO volumes (id, row) VALUES (?, ?)").run(row.id, JSON.stringify(row));
  }

  removeVolume(id: string): void {
    this.#db.prepare("DELETE FROM volumes WHERE id = ?").run(id);
  }

  volumes(): VolumeRow[] {
    const rows = this.#db.prepare("SELECT row FROM volumes ORDER BY id").all();
    return rows.map((found) => VolumeRow.parse(JSON.parse(String(found["row"]))));
  }

  close(): void {
    this.#db.close();
  }
}

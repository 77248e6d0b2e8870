/** What this host believes of its machines; survives the host agent. Holds no secret: environments stay in memory. */
import type { DatabaseSync } from "node:sqlite";
import { z } from "zod";
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

export class Journal {
  readonly #db: DatabaseSync;

  constructor(path: string) {
    this.#db = openDatabase(path);
    this.#db.exec("CREATE TABLE IF NOT EXISTS machines (id TEXT PRIMARY KEY, row TEXT NOT NULL) STRICT");
  }

  put(row: JournalRow): void {
    this.#db
      .prepare("INSERT INTO machines (id, row) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET row = excluded.row")
      .run(row.id, JSON.stringify(row));
  }

  remove(id: string): void {
    this.#db.prepare("DELETE FROM machines WHERE id = ?").run(id);
  }

  all(): JournalRow[] {
    return this.#db
      .prepare("SELECT row FROM machines ORDER BY id")
      .all()
      .map((found) => JournalRow.parse(JSON.parse(String(found["row"]))));
  }

  close(): void {
    this.#db.close();
  }
}

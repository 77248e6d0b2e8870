/** What machines used so far, by generation; survives the host agent, and a generation goes once the edge has it. */
import type { DatabaseSync } from "node:sqlite";
import type { Amounts } from "../../sdk/contract/pricing.ts";
import { fromDigits, toDigits } from "../../sdk/contract/usage.ts";
import { openDatabase } from "./database.ts";

/** One generation of one machine. */
export interface UsageRow {
  readonly id: string;
  readonly account: string;
  readonly generation: number;
  readonly amounts: Amounts;
  /** Of the newest amounts; the report of them carries it. */
  readonly sequence: number;
  /** Of the newest report that the edge took. */
  readonly taken: number;
  /** Nothing is added any more. */
  readonly done: boolean;
}

export class UsageStore {
  readonly #db: DatabaseSync;

  constructor(path: string) {
    this.#db = openDatabase(path);
    this.#db.exec(`CREATE TABLE IF NOT EXISTS usage (
      id TEXT NOT NULL, generation INTEGER NOT NULL, account TEXT NOT NULL,
      cpu TEXT NOT NULL, memory TEXT NOT NULL, stored TEXT NOT NULL,
      sequence INTEGER NOT NULL, taken INTEGER NOT NULL, done INTEGER NOT NULL,
      PRIMARY KEY (id, generation)
    ) STRICT`);
  }

  put({ id, account, generation, amounts, sequence, taken, done }: UsageRow): void {
    const { cpu, memory, stored } = toDigits(amounts);
    this.#db
      .prepare(
        `INSERT OR REPLACE INTO usage (id, generation, account, cpu, memory, stored, sequence, taken, done)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      )
      .run(id, generation, account, cpu, memory, stored, sequence, taken, Number(done));
  }

  remove(id: string, generation: number): void {
    this.#db.prepare("DELETE FROM usage WHERE id = ? AND generation = ?").run(id, generation);
  }

  all(): UsageRow[] {
    return this.#db
      .prepare("SELECT * FROM usage ORDER BY id, generation")
      .all()
      .map((row) => ({
        id: String(row["id"]),
        account: String(row["account"]),
        generation: Number(row["generation"]),
        amounts: fromDigits({
          cpu: String(row["cpu"]),
          memory: String(row["memory"]),
          stored: String(row["stored"]),
        }),
        sequence: Number(row["sequence"]),
        taken: Number(row["taken"]),
        done: Number(row["done"]) === 1,
      }));
  }

  close(): void {
    this.#db.close();
  }
}

/** The account's books as tables: entries are only ever added, the rest sums them up. */
import { add, NOTHING, Rates, type Amounts } from "../../sdk/contract/pricing.ts";
import { fromDigits, toDigits, type AmountDigits } from "../../sdk/contract/usage.ts";
import type { Booked } from "./ledger.ts";

type AmountRow = AmountDigits & Record<string, SqlStorageValue>;

/** Where an entry belongs. */
export interface Entry {
  readonly sandboxId: string;
  readonly generation: number;
  readonly sequence: number;
  readonly at: number;
  readonly month: string;
  /** What it adds. */
  readonly added: Amounts;
  /** All of the generation so far. */
  readonly total: Amounts;
}

export class Books {
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#sql = storage.sql;
  }

  booked(sandboxId: string, generation: number): Booked | null {
    const [row] = this.#sql
      .exec<AmountRow & { sequence: number }>(
        "SELECT sequence, cpu, memory, stored FROM booked WHERE sandbox_id = ? AND generation = ?",
        sandboxId,
        generation,
      )
      .toArray();
    return row ? { sequence: row.sequence, amounts: fromDigits(row) } : null;
  }

  /** All or nothing. */
  append({ sandboxId, generation, sequence, at, month, added, total }: Entry): void {
    this.#storage.transactionSync(() => {
      this.#sql.exec(
        "INSERT INTO entries (sandbox_id, generation, sequence, at, cpu, memory, stored) VALUES (?, ?, ?, ?, ?, ?, ?)",
        ...[sandboxId, generation, sequence, at, ...digits(added)],
      );
      this.#sql.exec(
        "INSERT OR REPLACE INTO booked (sandbox_id, generation, sequence, cpu, memory, stored) VALUES (?, ?, ?, ?, ?, ?)",
        ...[sandboxId, generation, sequence, ...digits(total)],
      );
      this.#sql.exec(
        "INSERT OR REPLACE INTO months (month, sandbox_id, cpu, memory, stored) VALUES (?, ?, ?, ?, ?)",
        ...[month, sandboxId, ...digits(add(this.#monthOf(month, sandboxId), added))],
      );
    });
  }

  /** Keep the rates of a sandbox that has none yet. */
  keepRates(sandboxId: string, rates: Rates, at: number): void {
    this.#sql.exec(
      "INSERT OR IGNORE INTO metered (sandbox_id, rates, since) VALUES (?, ?, ?)",
      sandboxId,
      JSON.stringify(rates),
      at,
    );
  }

  /** The rates of a sandbox that something is booked of. */
  ratesOf(sandboxId: string): Rates {
    const { rates } = this.#sql
      .exec<{ rates: string }>("SELECT rates FROM metered WHERE sandbox_id = ?", sandboxId)
      .one();
    return Rates.parse(JSON.parse(rates));
  }

  /** What each sandbox used in a month. */
  month(month: string): { sandboxId: string; amounts: Amounts }[] {
    return this.#sql
      .exec<AmountRow & { sandbox_id: string }>("SELECT * FROM months WHERE month = ? ORDER BY sandbox_id", month)
      .toArray()
      .map((row) => ({ sandboxId: row.sandbox_id, amounts: fromDigits(row) }));
  }

  #monthOf(month: string, sandboxId: string): Amounts {
    const [row] = this.#sql
      .exec<AmountRow>("SELECT cpu, memory, stored FROM months WHERE month = ? AND sandbox_id = ?", month, sandboxId)
      .toArray();
    return row ? fromDigits(row) : NOTHING;
  }
}

/** In the order of the tables' columns. */
function digits(amounts: Amounts): string[] {
  const { cpu, memory, stored } = toDigits(amounts);
  return [cpu, memory, stored];
}

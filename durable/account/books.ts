/** The account's books as tables: entries are only ever added, the rest sums them up. */
import { add, NOTHING, Rates, type Amounts } from "../../sdk/contract/pricing.ts";
import type { Booked } from "./ledger.ts";

interface AmountRow extends Record<string, SqlStorageValue> {
  cpu: string;
  memory: string;
  stored: string;
}

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
    return row ? { sequence: row.sequence, amounts: amountsOf(row) } : null;
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

  /** The rates of a sandbox; `now` are kept for one that has none yet. */
  ratesOf(sandboxId: string, now: Rates, at: number): Rates {
    this.#sql.exec(
      "INSERT OR IGNORE INTO metered (sandbox_id, rates, since) VALUES (?, ?, ?)",
      sandboxId,
      JSON.stringify(now),
      at,
    );
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
      .map((row) => ({ sandboxId: row.sandbox_id, amounts: amountsOf(row) }));
  }

  #monthOf(month: string, sandboxId: string): Amounts {
    const [row] = this.#sql
      .exec<AmountRow>("SELECT cpu, memory, stored FROM months WHERE month = ? AND sandbox_id = ?", month, sandboxId)
      .toArray();
    return row ? amountsOf(row) : NOTHING;
  }
}

function digits({ cpu, memory, stored }: Amounts): string[] {
  return [cpu, memory, stored].map(String);
}

function amountsOf({ cpu, memory, stored }: AmountRow): Amounts {
  return { cpu: BigInt(cpu), memory: BigInt(memory), stored: BigInt(stored), volume: 0n };
}

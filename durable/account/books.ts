/** The account's books as tables: entries are only ever added, and go in the end; lines sum them up for good. */
import type { AccountPlan } from "../../sdk/contract/account.ts";
import { add, NOTHING, Rates, type Amounts } from "../../sdk/contract/pricing.ts";
import { fromDigits, toDigits, type AmountDigits } from "../../sdk/contract/usage.ts";
import type { Booked, Line } from "./ledger.ts";

type AmountRow = AmountDigits & { volume: string; backup: string } & Record<string, SqlStorageValue>;

/** Where an entry belongs. */
export interface Entry {
  readonly sandboxId: string;
  readonly generation: number;
  readonly sequence: number;
  readonly at: number;
  readonly month: string;
  readonly plan: AccountPlan;
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
        "SELECT sequence, cpu, memory, stored, volume, backup FROM booked WHERE sandbox_id = ? AND generation = ?",
        sandboxId,
        generation,
      )
      .toArray();
    return row ? { sequence: row.sequence, amounts: fromDigits(row) } : null;
  }

  /** All or nothing. `onLine` is told how the line was and is, within the same transaction. */
  append(
    { sandboxId, generation, sequence, at, month, plan, added, total }: Entry,
    onLine: (before: Line, after: Line) => void,
  ): void {
    this.#storage.transactionSync(() => {
      this.#sql.exec(
        `INSERT INTO entries (sandbox_id, generation, sequence, at, cpu, memory, stored, volume, backup)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        ...[sandboxId, generation, sequence, at, ...digits(added)],
      );
      this.#sql.exec(
        `INSERT OR REPLACE INTO booked (sandbox_id, generation, sequence, cpu, memory, stored, volume, backup)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
        ...[sandboxId, generation, sequence, ...digits(total)],
      );
      const before = this.line(month, sandboxId, plan);
      const after = { ...before, amounts: add(before.amounts, added) };
      this.#saveLine(after);
      onLine(before, after);
    });
  }

  /** A sandbox existed for longer on the plan `flat`. */
  addExistence(month: string, sandboxId: string, ms: number, onLine: (before: Line, after: Line) => void): void {
    this.#storage.transactionSync(() => {
      const before = this.line(month, sandboxId, "flat");
      const after = { ...before, existedMs: before.existedMs + ms };
      this.#saveLine(after);
      onLine(before, after);
    });
  }

  /** Entries of long ago are in their lines, and go. */
  forget(before: number): void {
    for (;;) {
      // They were added in the order of time, so that the first one that stays ends the search.
      const [oldest] = this.#sql
        .exec<{ ordinal: number; at: number }>("SELECT ordinal, at FROM entries ORDER BY ordinal LIMIT 1 OFFSET 999")
        .toArray();
      const [first] = this.#sql
        .exec<{ ordinal: number; at: number }>("SELECT ordinal, at FROM entries ORDER BY ordinal LIMIT 1")
        .toArray();
      const last = oldest && oldest.at < before ? oldest : first;
      if (!last || last.at >= before) return;
      this.#sql.exec("DELETE FROM entries WHERE ordinal <= ?", last.ordinal);
    }
  }

  line(month: string, sandboxId: string, plan: AccountPlan): Line {
    const [row] = this.#sql
      .exec<LineRow>("SELECT * FROM lines WHERE month = ? AND sandbox_id = ? AND plan = ?", month, sandboxId, plan)
      .toArray();
    return row ? toLine(row) : { month, sandboxId, plan, amounts: NOTHING, existedMs: 0 };
  }

  /** The lines of a month, or of all. */
  lines(month: string | null): Line[] {
    return this.#sql
      .exec<LineRow>("SELECT * FROM lines WHERE ? IS NULL OR month = ? ORDER BY month, sandbox_id, plan", month, month)
      .toArray()
      .map(toLine);
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

  /** The rates of a sandbox; null before anything is booked of it. */
  ratesOf(sandboxId: string): Rates | null {
    const [row] = this.#sql
      .exec<{ rates: string }>("SELECT rates FROM metered WHERE sandbox_id = ?", sandboxId)
      .toArray();
    return row ? Rates.parse(JSON.parse(row.rates)) : null;
  }

  #saveLine({ month, sandboxId, plan, amounts, existedMs }: Line): void {
    this.#sql.exec(
      `INSERT OR REPLACE INTO lines (month, sandbox_id, plan, cpu, memory, stored, volume, backup, existed_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[month, sandboxId, plan, ...digits(amounts), existedMs],
    );
  }
}

type LineRow = AmountRow & { month: string; sandbox_id: string; plan: AccountPlan; existed_ms: number };

function toLine(row: LineRow): Line {
  const { month, sandbox_id: sandboxId, plan, existed_ms: existedMs } = row;
  return { month, sandboxId, plan, amounts: fromDigits(row), existedMs };
}

/** In the order of the tables' columns. */
function digits(amounts: Amounts): string[] {
  const { cpu, memory, stored } = toDigits(amounts);
  return [cpu, memory, stored, String(amounts.volume), String(amounts.backup)];
}

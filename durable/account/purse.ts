/** Credit and spending of an account as tables. Whole microdollars; what is spent follows from the books' lines. */
import type { Sandbox } from "../../sdk/contract/sandbox.ts";

/** Days of spending that limits are judged by and lists show. */
const DAYS_KEPT = 62;
/** The row of all keys together, and of all days. */
const ALL = "";
const EVER = "ever";

export interface Cost {
  readonly name: string | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly keyId: string | null;
  /** The host that has, or had, its machine; null before there was one. */
  readonly hostId: string | null;
  /** Lifetime cap; null for none. */
  readonly cap: number | null;
  /** Price of its existence for 30 days, as it was when it came under the plan `flat`; null where it never did. */
  readonly flatRate: number | null;
  readonly micros: number;
}

export class Purse {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  credit(micros: number, kind: "starting" | "trial" | "added", note: string, now: number): void {
    if (micros > 0)
      this.#sql.exec("INSERT INTO credits (at, micros, kind, note) VALUES (?, ?, ?, ?)", now, micros, kind, note);
  }

  credited(): number {
    return this.#sql.exec<{ sum: number }>("SELECT COALESCE(SUM(micros), 0) AS sum FROM credits").one().sum;
  }

  spent(): number {
    return this.spentOn(EVER);
  }

  held(except: string | null = null): number {
    return this.#sql
      .exec<{ sum: number }>("SELECT COALESCE(SUM(held), 0) AS sum FROM runs WHERE label IS NOT ?", except)
      .one().sum;
  }

  /** Of the account, or of what one key made. */
  spentOn(day: string, keyId: string | null = null): number {
    const [row] = this.#sql
      .exec<{ micros: number }>("SELECT micros FROM spent WHERE day = ? AND key_id = ?", day, keyId ?? ALL)
      .toArray();
    return row?.micros ?? 0;
  }

  cost(sandboxId: string): Cost | null {
    const [row] = this.#sql
      .exec<Omit<Cost, "labels"> & { labels: string } & Record<string, SqlStorageValue>>(
        "SELECT name, labels, key_id AS keyId, host_id AS hostId, cap, flat_rate AS flatRate, micros FROM costs WHERE sandbox_id = ?",
        sandboxId,
      )
      .toArray();
    return row ? { ...row, labels: JSON.parse(row.labels) as Record<string, string> } : null;
  }

  /**
   * What invoices need of a sandbox stays when it is gone. Writes only what is new.
   * @param flatRate the price of the plan; null on another
   */
  describe(
    sandbox: Pick<Sandbox, "id" | "name" | "labels" | "maxTotalCostMicros">,
    { keyId, hostId }: { keyId: string | null; hostId: string | null },
    flatRate: number | null,
  ): void {
    const { id, name, labels, maxTotalCostMicros = null } = sandbox;
    this.#sql.exec(
      `INSERT INTO costs (sandbox_id, name, labels, key_id, host_id, cap, flat_rate, micros)
       VALUES (?, ?, ?, ?, ?, ?, ?, 0)
       ON CONFLICT (sandbox_id) DO UPDATE
       SET name = excluded.name, labels = excluded.labels, key_id = excluded.key_id, cap = excluded.cap,
         host_id = COALESCE(excluded.host_id, host_id), flat_rate = COALESCE(flat_rate, excluded.flat_rate)
       WHERE (name, labels, key_id, host_id, cap, flat_rate) IS NOT
         (excluded.name, excluded.labels, excluded.key_id, COALESCE(excluded.host_id, host_id), excluded.cap,
           COALESCE(flat_rate, excluded.flat_rate))`,
      ...[id, name, JSON.stringify(labels), keyId, hostId, maxTotalCostMicros, flatRate],
    );
  }

  /** A line of the books has grown by so much. */
  spend(sandboxId: string, micros: number, day: string): void {
    if (micros === 0) return;
    this.#sql.exec(
      `INSERT INTO costs (sandbox_id, name, labels, key_id, host_id, cap, flat_rate, micros)
       VALUES (?, NULL, '{}', NULL, NULL, NULL, NULL, ?)
       ON CONFLICT (sandbox_id) DO UPDATE SET micros = micros + excluded.micros`,
      sandboxId,
      micros,
    );
    const keyId = this.cost(sandboxId)?.keyId ?? null;
    const rows = [[EVER, ALL], [day, ALL], ...(keyId === null ? [] : [[day, keyId]])] as const;
    for (const [when, key] of rows)
      this.#sql.exec(
        `INSERT INTO spent (day, key_id, micros) VALUES (?, ?, ?)
         ON CONFLICT (day, key_id) DO UPDATE SET micros = micros + excluded.micros`,
        ...[when, key, micros],
      );
    const oldest = new Date(Date.parse(day) - DAYS_KEPT * 86_400_000).toISOString().slice(0, 10);
    this.#sql.exec("DELETE FROM spent WHERE day < ?", oldest);
  }
}

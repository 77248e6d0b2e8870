/** Which changes were made under an Idempotency-Key, in an object's table `changes (key, fingerprint, at)`. */
import type { Tables } from "./migrations.ts";

/** How long a key is remembered, milliseconds. */
const KEPT_MS = 86_400_000;

/** The key of a change, if it has one, and what tells the change from another under that key. */
interface Once {
  readonly key: string | null;
  readonly fingerprint: string;
}

export class Changes {
  readonly #sql: SqlStorage;
  readonly #tables: Tables;

  constructor(sql: SqlStorage, tables: Tables) {
    this.#sql = sql;
    this.#tables = tables;
  }

  /** Whether it was made already; `otherwise`: another was, under its key. */
  isKnown({ key, fingerprint }: Once): boolean | "otherwise" {
    if (key === null || !this.#tables.exist) return false;
    const [row] = this.#sql
      .exec<{ known: string }>(
        "SELECT fingerprint AS known FROM changes WHERE key = ? AND at >= ?",
        ...[key, Date.now() - KEPT_MS],
      )
      .toArray();
    return row !== undefined && (row.known === fingerprint || "otherwise");
  }

  remember({ key, fingerprint }: Once, now: number): void {
    if (key === null) return;
    this.#sql.exec("DELETE FROM changes WHERE at < ?", now - KEPT_MS);
    this.#sql.exec("INSERT OR REPLACE INTO changes VALUES (?, ?, ?)", key, fingerprint, now);
  }
}

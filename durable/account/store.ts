/** The tables of an account's object as typed functions. No rules. */
import type { ListQuery, Sandbox } from "../../sdk/contract/sandbox.ts";
import { hasSchema, migrate } from "../migrations.ts";
import type { Summary } from "./api.ts";
import { migrations } from "./schema.ts";

/** How long a deleted sandbox's sequence number is kept, milliseconds: longer than a late summary can be under way. */
const TOMBSTONE_MS = 86_400_000;

export interface KeyRow {
  readonly id: string;
  readonly hash: string;
}

/** Where a page begins: after this sandbox. */
export interface Position {
  readonly createdAt: string;
  readonly label: string;
}

export class AccountStore {
  readonly #sql: SqlStorage;

  private constructor(storage: DurableObjectStorage) {
    this.#sql = storage.sql;
    migrate(storage, migrations);
  }

  static existing(storage: DurableObjectStorage): AccountStore | null {
    return hasSchema(storage.sql) ? new AccountStore(storage) : null;
  }

  static create(storage: DurableObjectStorage): AccountStore {
    return new AccountStore(storage);
  }

  keys(): KeyRow[] {
    return this.#sql.exec<{ id: string; hash: string }>("SELECT id, hash FROM keys").toArray();
  }

  /** The key given at installation takes the place of the one given before. */
  saveBootstrapKey(key: KeyRow, now: number): void {
    this.#sql.exec("DELETE FROM keys WHERE origin = 'bootstrap'");
    this.#sql.exec(
      "INSERT INTO keys (id, hash, origin, created_at) VALUES (?, ?, 'bootstrap', ?)",
      key.id,
      key.hash,
      now,
    );
  }

  sequenceOf(label: string): number {
    const [row] = this.#sql
      .exec<{ sequence: number }>("SELECT sequence FROM sandboxes WHERE label = ?", label)
      .toArray();
    return row?.sequence ?? 0;
  }

  saveSummary({ label, sequence, sandbox }: Summary, now: number): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO sandboxes (label, sequence, changed_at, created_at, state, name, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
      label,
      sequence,
      now,
      sandbox?.createdAt ?? null,
      sandbox?.state ?? null,
      sandbox?.name ?? null,
      sandbox && JSON.stringify(sandbox),
    );
    this.#sql.exec("DELETE FROM sandboxes WHERE body IS NULL AND changed_at < ?", now - TOMBSTONE_MS);
  }

  /** Up to `limit` sandboxes after a position, oldest first. */
  list(query: ListQuery, after: Position | null, limit: number): Sandbox[] {
    const where = ["body IS NOT NULL"];
    const values: (string | number)[] = [];
    if (query.state) {
      where.push("state IN (SELECT value FROM json_each(?))");
      values.push(JSON.stringify(query.state));
    }
    if (query.name !== undefined) {
      where.push("name = ?");
      values.push(query.name);
    }
    // One bound list however many labels are asked for: all of them must be among the sandbox's.
    if (query.label) {
      where.push(
        `NOT EXISTS (SELECT 1 FROM json_each(?) AS want WHERE NOT EXISTS (
           SELECT 1 FROM json_each(body, '$.labels') AS has WHERE has.key || ':' || has.value = want.value))`,
      );
      values.push(JSON.stringify(query.label));
    }
    if (after) {
      where.push("(created_at, label) > (?, ?)");
      values.push(after.createdAt, after.label);
    }
    return this.#sql
      .exec<{ body: string }>(
        `SELECT body FROM sandboxes WHERE ${where.join(" AND ")} ORDER BY created_at, label LIMIT ?`,
        ...values,
        limit,
      )
      .toArray()
      .map((row) => JSON.parse(row.body) as Sandbox);
  }
}

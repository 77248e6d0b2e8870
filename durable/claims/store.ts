/** The rows of an account's domains, and the alarm that they ask for. No rules. */
import { Changes } from "../changes.ts";
import { Tables } from "../migrations.ts";
import { migrations } from "./schema.ts";

export interface ClaimRow {
  readonly id: string;
  readonly sandboxId: string;
  readonly hostname: string;
  /** As it was asked for; the host name's object has the one that counts. */
  readonly port: number;
  /** `claiming` and `releasing`: begun, and not heard that it is done. */
  readonly state: "claiming" | "claimed" | "releasing";
  readonly createdAt: number;
  readonly attempts: number;
  /** When a step that was begun is looked after, Unix milliseconds. */
  readonly dueAt: number | null;
}

const COLUMNS =
  "id, sandbox_id AS sandboxId, hostname, port, state, created_at AS createdAt, attempts, due_at AS dueAt";
/** Rows that one look takes up. */
const DUE_MAX = 50;

export class ClaimsStore {
  readonly #ctx: DurableObjectState;
  readonly #sql: SqlStorage;
  readonly #tables: Tables;
  readonly changes: Changes;

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
    this.#sql = ctx.storage.sql;
    this.#tables = new Tables(ctx.storage, migrations);
    this.changes = new Changes(ctx.storage.sql, this.#tables);
  }

  /** Whose they are; null where nothing was ever stored: asking leaves no trace. */
  get account(): string | null {
    if (!this.#tables.exist) return null;
    return this.#sql.exec<{ account: string }>("SELECT account FROM whose").one().account;
  }

  open(account: string): void {
    if (!this.#tables.make()) return;
    this.#sql.exec("INSERT INTO whose VALUES (1, ?)", account);
  }

  claim(sandboxId: string, hostname: string): ClaimRow | null {
    return this.#all("sandbox_id = ? AND hostname = ?", sandboxId, hostname)[0] ?? null;
  }

  /** The oldest first. */
  claimsOf(sandboxId: string): ClaimRow[] {
    return this.#all("sandbox_id = ? ORDER BY created_at, hostname", sandboxId);
  }

  due(now: number): ClaimRow[] {
    return this.#all("due_at <= ? ORDER BY due_at LIMIT ?", now, DUE_MAX);
  }

  count(): number {
    if (!this.#tables.exist) return 0;
    return this.#sql.exec<{ count: number }>("SELECT COUNT(*) AS count FROM claims").one().count;
  }

  save(row: ClaimRow): void {
    this.#sql.exec(
      `INSERT INTO claims (id, sandbox_id, hostname, port, state, created_at, attempts, due_at)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
       ON CONFLICT (id) DO UPDATE SET state = ?5, attempts = ?7, due_at = ?8`,
      ...[row.id, row.sandboxId, row.hostname, row.port, row.state, row.createdAt, row.attempts, row.dueAt],
    );
    this.arm();
  }

  remove(id: string): void {
    this.#sql.exec("DELETE FROM claims WHERE id = ?", id);
    this.arm();
  }

  /** Set the alarm to when something is due. At once, so that it is stored with what asks for it. */
  arm(): void {
    if (!this.#tables.exist) return;
    const { at } = this.#sql.exec<{ at: number | null }>("SELECT MIN(due_at) AS at FROM claims").one();
    void (at === null ? this.#ctx.storage.deleteAlarm() : this.#ctx.storage.setAlarm(Math.max(at, Date.now() + 1)));
  }

  transaction<T>(work: () => T): T {
    return this.#ctx.storage.transactionSync(work);
  }

  #all(where: string, ...bindings: SqlStorageValue[]): ClaimRow[] {
    if (!this.#tables.exist) return [];
    return this.#sql
      .exec(`SELECT ${COLUMNS} FROM claims WHERE ${where}`, ...bindings)
      .toArray()
      .map((row) => row as unknown as ClaimRow);
  }
}

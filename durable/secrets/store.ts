/** The rows of an account's secrets, and the alarm that they ask for. No rules. */
import { Changes } from "../changes.ts";
import { Tables } from "../migrations.ts";
import type { SecretRecord } from "./record.ts";
import { migrations } from "./schema.ts";

export interface SecretRow {
  /** A sandbox's id; empty for the account. */
  readonly scope: string;
  readonly sealed: string;
  readonly record: SecretRecord;
  readonly lastUsedAt: number | null;
}

/** A sandbox that is to hear of a change. */
export interface Tell {
  readonly sandboxId: string;
  readonly revision: number;
  readonly attempts: number;
}

type Row = { scope: string; sealed: string; body: string; lastUsedAt: number | null };

/** Rows that one look takes up. */
const DUE_MAX = 100;

export class SecretsStore {
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

  secret(scope: string, name: string): SecretRow | null {
    return this.#secrets("scope = ? AND name = ?", scope, name)[0] ?? null;
  }

  /** By name. */
  secretsOf(scope: string): SecretRow[] {
    return this.#secrets("scope = ? ORDER BY name", scope);
  }

  saveSecret(scope: string, record: SecretRecord, sealed: string): void {
    this.#sql.exec(
      `INSERT INTO secrets (scope, name, sealed, body, last_used_at) VALUES (?1, ?2, ?3, ?4, NULL)
       ON CONFLICT (scope, name) DO UPDATE SET sealed = ?3, body = ?4`,
      ...[scope, record.name, sealed, JSON.stringify(record)],
    );
  }

  removeSecret(scope: string, name: string): void {
    this.#sql.exec("DELETE FROM secrets WHERE scope = ? AND name = ?", scope, name);
  }

  used(scope: string, name: string, at: number): void {
    this.#sql.exec(
      "UPDATE secrets SET last_used_at = MAX(COALESCE(last_used_at, 0), ?) WHERE scope = ? AND name = ?",
      ...[at, scope, name],
    );
  }

  usesOf(sandboxId: string): string[] {
    return this.#all<{ name: string }>("SELECT name FROM uses WHERE sandbox_id = ? ORDER BY name", sandboxId).map(
      ({ name }) => name,
    );
  }

  setUses(sandboxId: string, names: readonly string[]): void {
    this.#sql.exec("DELETE FROM uses WHERE sandbox_id = ?", sandboxId);
    for (const name of names) this.#sql.exec("INSERT INTO uses VALUES (?, ?)", sandboxId, name);
  }

  usersOf(name: string): string[] {
    return this.#all<{ id: string }>("SELECT sandbox_id AS id FROM uses WHERE name = ?", name).map(({ id }) => id);
  }

  tell(sandboxId: string): Tell | null {
    const [row] = this.#all<{ revision: number; attempts: number }>(
      "SELECT revision, attempts FROM tells WHERE sandbox_id = ?",
      sandboxId,
    );
    return row ? { sandboxId, ...row } : null;
  }

  /** It is to hear of a change, now. */
  addTell(sandboxId: string, now: number): void {
    this.#sql.exec(
      `INSERT INTO tells VALUES (?1, 1, 0, ?2)
       ON CONFLICT (sandbox_id) DO UPDATE SET revision = revision + 1, attempts = 0, due_at = ?2`,
      ...[sandboxId, now],
    );
  }

  /** It has heard of all up to there. */
  removeTell({ sandboxId, revision }: Tell): void {
    this.#sql.exec("DELETE FROM tells WHERE sandbox_id = ? AND revision = ?", sandboxId, revision);
    this.arm();
  }

  putOff({ sandboxId, attempts }: Tell, dueAt: number): void {
    this.#sql.exec(
      "UPDATE tells SET attempts = ?, due_at = ? WHERE sandbox_id = ?",
      ...[attempts + 1, dueAt, sandboxId],
    );
    this.arm();
  }

  due(now: number): string[] {
    return this.#all<{ id: string }>(
      "SELECT sandbox_id AS id FROM tells WHERE due_at <= ? ORDER BY due_at LIMIT ?",
      ...[now, DUE_MAX],
    ).map(({ id }) => id);
  }

  /** Everything of a sandbox. */
  forget(sandboxId: string): void {
    if (!this.#tables.exist) return;
    this.#sql.exec("DELETE FROM secrets WHERE scope = ?", sandboxId);
    this.#sql.exec("DELETE FROM uses WHERE sandbox_id = ?", sandboxId);
    this.#sql.exec("DELETE FROM tells WHERE sandbox_id = ?", sandboxId);
    this.arm();
  }

  /** Set the alarm to when somebody is to be told. At once, so that it is stored with what asks for it. */
  arm(): void {
    if (!this.#tables.exist) return;
    const { at } = this.#sql.exec<{ at: number | null }>("SELECT MIN(due_at) AS at FROM tells").one();
    void (at === null ? this.#ctx.storage.deleteAlarm() : this.#ctx.storage.setAlarm(Math.max(at, Date.now() + 1)));
  }

  transaction<T>(work: () => T): T {
    return this.#ctx.storage.transactionSync(work);
  }

  #secrets(where: string, ...bindings: SqlStorageValue[]): SecretRow[] {
    return this.#all<Row>(
      `SELECT scope, sealed, body, last_used_at AS lastUsedAt FROM secrets WHERE ${where}`,
      ...bindings,
    ).map(({ body, ...row }) => ({ ...row, record: JSON.parse(body) as SecretRecord }));
  }

  #all<T extends Record<string, SqlStorageValue>>(query: string, ...bindings: SqlStorageValue[]): T[] {
    return this.#tables.exist ? this.#sql.exec<T>(query, ...bindings).toArray() : [];
  }
}

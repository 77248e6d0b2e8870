/** The rows of an account's shared stores, and the alarm that they ask for. No rules. */
import type { Grant, StoreKind } from "../../sdk/contract/store.ts";
import { Changes } from "../changes.ts";
import { Tables } from "../migrations.ts";
import { migrations } from "./schema.ts";

/** Times in Unix milliseconds. */
export interface StoreRow {
  readonly id: string;
  readonly name: string;
  readonly kinds: readonly StoreKind[];
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** A grant, and the label of the sandbox that it means, or `*`. */
export type GrantRow = Grant & { readonly label: string };

export interface LeavingRow {
  readonly id: string;
  readonly attempts: number;
  readonly dueAt: number;
}

export class StoresStore {
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

  open(): void {
    this.#tables.make();
  }

  named(name: string): StoreRow | null {
    return this.#stores("name = ?", name)[0] ?? null;
  }

  /** By name. */
  all(): StoreRow[] {
    return this.#stores("1 ORDER BY name");
  }

  save({ id, name, kinds, createdAt, updatedAt }: StoreRow): void {
    this.#sql.exec(
      `INSERT INTO stores VALUES (?1, ?2, ?3, ?4, ?5)
       ON CONFLICT (id) DO UPDATE SET kinds = ?3, updated_at = ?5`,
      ...[id, name, JSON.stringify(kinds), createdAt, updatedAt],
    );
  }

  /** By agent. */
  grants(storeId: string): Grant[] {
    if (!this.#tables.exist) return [];
    return this.#sql
      .exec("SELECT agent, access FROM grants WHERE store_id = ? ORDER BY agent", storeId)
      .toArray()
      .map((row) => row as unknown as Grant);
  }

  /** Those that fit a sandbox of that label. */
  grantsFor(storeId: string, label: string): Grant[] {
    if (!this.#tables.exist) return [];
    return this.#sql
      .exec(
        "SELECT agent, access FROM grants WHERE store_id = ? AND label IN (?, '*') ORDER BY agent",
        ...[storeId, label],
      )
      .toArray()
      .map((row) => row as unknown as Grant);
  }

  countGrants(storeId: string): number {
    return this.#sql.exec<{ n: number }>("SELECT COUNT(*) AS n FROM grants WHERE store_id = ?", storeId).one().n;
  }

  saveGrant(storeId: string, { label, agent, access }: GrantRow): void {
    this.#sql.exec("INSERT OR REPLACE INTO grants VALUES (?, ?, ?, ?)", storeId, label, agent, access);
  }

  /** @param label null: of all */
  removeGrants(storeId: string, label: string | null): void {
    this.#sql.exec("DELETE FROM grants WHERE store_id = ?1 AND (?2 IS NULL OR label = ?2)", storeId, label);
  }

  /** It is no store any more; what it held is to go. */
  leave(id: string, dueAt: number): void {
    this.removeGrants(id, null);
    this.#sql.exec("DELETE FROM stores WHERE id = ?", id);
    this.saveLeaving({ id, attempts: 0, dueAt });
  }

  saveLeaving({ id, attempts, dueAt }: LeavingRow): void {
    this.#sql.exec("INSERT OR REPLACE INTO leaving VALUES (?, ?, ?)", id, attempts, dueAt);
    this.arm();
  }

  leaving(now: number): LeavingRow[] {
    if (!this.#tables.exist) return [];
    return this.#sql
      .exec("SELECT id, attempts, due_at AS dueAt FROM leaving WHERE due_at <= ?", now)
      .toArray()
      .map((row) => row as unknown as LeavingRow);
  }

  left(id: string): void {
    this.#sql.exec("DELETE FROM leaving WHERE id = ?", id);
    this.arm();
  }

  /** Set the alarm to when something is due. At once, so that it is stored with what asks for it. */
  arm(): void {
    const { at } = this.#sql.exec<{ at: number | null }>("SELECT MIN(due_at) AS at FROM leaving").one();
    void (at === null ? this.#ctx.storage.deleteAlarm() : this.#ctx.storage.setAlarm(Math.max(at, Date.now() + 1)));
  }

  transaction<T>(work: () => T): T {
    return this.#ctx.storage.transactionSync(work);
  }

  #stores(where: string, ...bindings: SqlStorageValue[]): StoreRow[] {
    if (!this.#tables.exist) return [];
    return this.#sql
      .exec<{ id: string; name: string; kinds: string; createdAt: number; updatedAt: number }>(
        `SELECT id, name, kinds, created_at AS createdAt, updated_at AS updatedAt FROM stores WHERE ${where}`,
        ...bindings,
      )
      .toArray()
      .map((row) => ({ ...row, kinds: JSON.parse(row.kinds) as StoreKind[] }));
  }
}

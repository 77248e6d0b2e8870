/** The rows of a host name, and the alarm that they ask for. No rules. */
import { Tables } from "../migrations.ts";
import type { ClaimRecord } from "./record.ts";
import { migrations } from "./schema.ts";

/** Claims that one look takes up. */
const DUE_MAX = 200;

export class DomainStore {
  readonly #ctx: DurableObjectState;
  readonly #sql: SqlStorage;
  readonly #tables: Tables;

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
    this.#sql = ctx.storage.sql;
    this.#tables = new Tables(ctx.storage, migrations);
  }

  claim(id: string): ClaimRecord | null {
    return this.#all("SELECT body FROM claims WHERE id = ?", id)[0] ?? null;
  }

  claimOf(account: string, sandboxId: string): ClaimRecord | null {
    return this.#all("SELECT body FROM claims WHERE account = ? AND sandbox_id = ?", account, sandboxId)[0] ?? null;
  }

  /** Who has the name. Asking leaves no trace. */
  holder(): ClaimRecord | null {
    return this.#all("SELECT body FROM claims WHERE state = 'verified'")[0] ?? null;
  }

  due(now: number): ClaimRecord[] {
    return this.#all("SELECT body FROM claims WHERE next_at <= ? ORDER BY next_at LIMIT ?", now, DUE_MAX);
  }

  withTokens(tokens: readonly string[]): ClaimRecord[] {
    return tokens.flatMap((token) => this.#all("SELECT body FROM claims WHERE token = ?", token));
  }

  add(claim: ClaimRecord): void {
    this.#tables.make();
    const { id, account, sandboxId, token, state, nextAt } = claim;
    this.#sql.exec(
      "INSERT INTO claims (id, account, sandbox_id, token, state, next_at, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
      ...[id, account, sandboxId, token, state, nextAt, JSON.stringify(claim)],
    );
    this.arm();
  }

  /** Those that are known still, all or nothing: first whoever has the name no more. */
  save(claims: readonly ClaimRecord[]): void {
    if (!this.#tables.exist) return;
    const last = (claim: ClaimRecord) => Number(claim.state === "verified");
    this.#ctx.storage.transactionSync(() => {
      for (const claim of claims.toSorted((a, b) => last(a) - last(b)))
        this.#sql.exec(
          "UPDATE claims SET state = ?, next_at = ?, body = ? WHERE id = ?",
          ...[claim.state, claim.nextAt, JSON.stringify(claim), claim.id],
        );
    });
    this.arm();
  }

  async remove(id: string): Promise<void> {
    if (!this.#tables.exist) return;
    this.#sql.exec("DELETE FROM claims WHERE id = ?", id);
    const isEmpty = this.#sql.exec("SELECT 1 FROM claims LIMIT 1").toArray().length === 0;
    if (!isEmpty) return this.arm();
    await this.#tables.drop();
  }

  /** Set the alarm to when something is due. At once, so that it is stored with what asks for it. */
  arm(): void {
    if (!this.#tables.exist) return;
    const { at } = this.#sql
      .exec<{ at: number | null }>("SELECT MIN(next_at) AS at FROM claims WHERE next_at IS NOT NULL")
      .one();
    void (at === null ? this.#ctx.storage.deleteAlarm() : this.#ctx.storage.setAlarm(Math.max(at, Date.now() + 1)));
  }

  #all(query: string, ...bindings: SqlStorageValue[]): ClaimRecord[] {
    if (!this.#tables.exist) return [];
    return this.#sql
      .exec<{ body: string }>(query, ...bindings)
      .toArray()
      .map(({ body }) => JSON.parse(body) as ClaimRecord);
  }
}

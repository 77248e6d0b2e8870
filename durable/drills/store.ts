/** The rows of a sandbox's drills, and the alarm that they ask for. No rules. */
import { drillLimits } from "../../sdk/contract/drill.ts";
import { Tables } from "../migrations.ts";
import { earliest } from "../time.ts";
import type { DrillRecord } from "./record.ts";
import { migrations } from "./schema.ts";

type Row = { readonly body: string };

export interface Whose {
  readonly account: string;
  readonly label: string;
  readonly sandboxId: string;
}

export class DrillsStore {
  readonly #ctx: DurableObjectState;
  readonly #sql: SqlStorage;
  readonly #tables: Tables;

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
    this.#sql = ctx.storage.sql;
    this.#tables = new Tables(ctx.storage, migrations);
  }

  /** Whose they are; null where nothing was ever stored: asking leaves no trace. */
  get whose(): Whose | null {
    if (!this.#tables.exist) return null;
    return this.#sql
      .exec<{ account: string; label: string; sandboxId: string }>(
        "SELECT account, label, sandbox_id AS sandboxId FROM whose",
      )
      .one();
  }

  open({ account, label, sandboxId }: Whose): void {
    if (this.#tables.make()) this.#sql.exec("INSERT INTO whose VALUES (1, ?, ?, ?)", account, label, sandboxId);
  }

  /** Everything, the alarm too. */
  async clear(): Promise<void> {
    await this.#tables.drop();
  }

  drill(id: string): DrillRecord | null {
    return this.#all("SELECT body FROM drills WHERE id = ?", id)[0] ?? null;
  }

  /** The newest first. */
  drills(): DrillRecord[] {
    return this.#all("SELECT body FROM drills ORDER BY seq DESC");
  }

  /** The one that goes on. */
  running(): DrillRecord | null {
    if (!this.#tables.exist) return null;
    return this.#all("SELECT body FROM drills WHERE due_at IS NOT NULL ORDER BY seq LIMIT 1")[0] ?? null;
  }

  keyed(key: string): { readonly fingerprint: string; readonly record: DrillRecord } | null {
    const [row] = this.#sql
      .exec<{ fingerprint: string; body: string }>("SELECT fingerprint, body FROM drills WHERE key = ?", key)
      .toArray();
    return row ? { fingerprint: row.fingerprint, record: JSON.parse(row.body) as DrillRecord } : null;
  }

  add(record: DrillRecord, key: string | null, fingerprint: string): void {
    this.#sql.exec(
      "INSERT INTO drills (id, key, fingerprint, due_at, body) VALUES (?, ?, ?, ?, ?)",
      ...[record.id, key, fingerprint, record.dueAt, JSON.stringify(record)],
    );
    this.#sql.exec(
      "DELETE FROM drills WHERE due_at IS NULL AND seq NOT IN (SELECT seq FROM drills ORDER BY seq DESC LIMIT ?)",
      drillLimits.kept,
    );
  }

  save(record: DrillRecord): void {
    this.#sql.exec(
      "UPDATE drills SET due_at = ?, body = ? WHERE id = ?",
      ...[record.dueAt, JSON.stringify(record), record.id],
    );
  }

  /** @param at not later than this, Unix milliseconds */
  arm(at: number | null = null): void {
    const time = earliest(this.running()?.dueAt ?? null, at);
    if (time !== null) void this.#ctx.storage.setAlarm(time);
  }

  #all(query: string, ...values: (string | number)[]): DrillRecord[] {
    return this.#sql
      .exec<Row>(query, ...values)
      .toArray()
      .map(({ body }) => JSON.parse(body) as DrillRecord);
  }
}

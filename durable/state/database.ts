/**
 * The database of one sandbox. Its SQL is the user's, and everything in this object's SQLite is too: what is ours is in
 * the platform's key-value table, which SQL can neither read nor change (ADR 23).
 */
import { DurableObject } from "cloudflare:workers";
import { stateLimits, type RunSql, type SqlParam, type SqlResult, type SqlValue } from "../../sdk/contract/state.ts";
import { refuse, type Result } from "../result.ts";
import { toBase64 } from "../standard-webhooks.ts";
import type { Asker, DatabaseApi } from "./api.ts";
import { gone } from "./store.ts";

/** When it was deleted for good, Unix milliseconds. */
const GONE = "gone";
/** The newest run of a machine that was seen. */
const fence = (sandboxId: string) => `generation ${sandboxId}`;

/** Thrown within the transaction, so that nothing of it is done. */
class Failed extends Error {
  readonly answer: ReturnType<typeof refuse>;

  constructor(answer: ReturnType<typeof refuse>) {
    super("failed");
    this.answer = answer;
  }
}

export class DatabaseObject extends DurableObject<Env> implements DatabaseApi {
  async run(asker: Asker, { statements }: RunSql): Promise<Result<{ results: SqlResult[] }>> {
    const refusal = this.#refusal(asker);
    if (refusal) return refusal;
    const { storage } = this.ctx;
    try {
      return storage.transactionSync(() => {
        const before = storage.sql.databaseSize;
        const room = { bytes: stateLimits.resultBytesMax };
        const results = statements.map(({ sql, params = [] }, at) => this.#statement(sql, params, at, room));
        this.#mustHold(statements.map(({ sql }) => sql));
        const after = storage.sql.databaseSize;
        // Who deletes may do so however full it is.
        if (after > stateLimits.sqlBytesMax && after > before) {
          const details = { heldBytes: before, maxBytes: stateLimits.sqlBytesMax, neededBytes: after - before };
          throw new Failed(refuse("storage_full", `The database would have ${after} bytes.`, details));
        }
        return { ok: true, results };
      });
    } catch (fault) {
      if (fault instanceof Failed) return fault.answer;
      throw fault;
    }
  }

  async bytes(asker: Asker): Promise<Result<{ bytes: number }>> {
    const { sql } = this.ctx.storage;
    const isEmpty = sql.exec("SELECT 1 FROM sqlite_master WHERE name NOT GLOB '_cf*' LIMIT 1").toArray().length === 0;
    return this.#refusal(asker) ?? { ok: true, bytes: isEmpty ? 0 : sql.databaseSize };
  }

  async purge(): Promise<void> {
    const { storage } = this.ctx;
    if (storage.kv.get(GONE) !== undefined) return;
    // Before and after, so that nothing comes in between.
    storage.kv.put(GONE, Date.now());
    await storage.deleteAll();
    storage.kv.put(GONE, Date.now());
  }

  #refusal({ sandboxId, generation }: Asker): ReturnType<typeof refuse> | null {
    const { kv } = this.ctx.storage;
    if (kv.get(GONE) !== undefined) return gone;
    if (generation === null) return null;
    const newest = kv.get<number>(fence(sandboxId)) ?? 0;
    if (generation < newest)
      return refuse("stale_generation", `Run ${newest} has followed run ${generation}.`, { newest });
    if (generation > newest) kv.put(fence(sandboxId), generation);
    return null;
  }

  /** @param room for rows of all statements */
  #statement(sql: string, params: readonly SqlParam[], at: number, room: { bytes: number }): SqlResult {
    try {
      const cursor = this.ctx.storage.sql.exec(sql, ...params.map(bound));
      const columns = cursor.columnNames;
      const rows: SqlValue[][] = [];
      let truncated = false;
      for (const values of cursor.raw()) {
        const row = values.map(shown);
        room.bytes -= JSON.stringify(row).length;
        truncated ||= room.bytes < 0;
        if (!truncated) rows.push(row);
        // What writes has to come to its end; what only reads may be without one.
        else if (cursor.rowsWritten === 0) break;
      }
      return { columns, rows, rowsWritten: cursor.rowsWritten, truncated };
    } catch (fault) {
      const message = fault instanceof Error ? fault.message : String(fault);
      throw new Failed(refuse("sql_failed", `Statement ${at}: ${message}`, { statement: at, sqlite: message }));
    }
  }

  /** What a transaction may break until its end has to hold there: the platform looks only when it stores. */
  #mustHold(statements: readonly string[]): void {
    const { sql } = this.ctx.storage;
    const isDeferred =
      statements.some((text) => /defer/i.test(text)) ||
      sql.exec("SELECT 1 FROM sqlite_master WHERE sql LIKE '%INITIALLY%DEFERRED%' LIMIT 1").toArray().length > 0;
    if (!isDeferred) return;
    const [broken] = sql.exec("PRAGMA foreign_key_check").toArray();
    if (!broken) return;
    const message = "FOREIGN KEY constraint failed: SQLITE_CONSTRAINT";
    const statement = statements.length - 1;
    throw new Failed(refuse("sql_failed", message, { statement, sqlite: message, table: broken["table"] }));
  }
}

function bound(param: SqlParam): SqlStorageValue {
  if (typeof param === "boolean") return param ? 1 : 0;
  if (typeof param !== "object" || param === null) return param;
  return Uint8Array.from(atob(param.base64), (char) => char.charCodeAt(0)).buffer;
}

function shown(value: SqlStorageValue): SqlValue {
  return value instanceof ArrayBuffer ? { base64: toBase64(new Uint8Array(value)) } : (value as SqlValue);
}

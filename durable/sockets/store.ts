/** The rows of held sockets and of what their clients sent. No rules. */
import { Tables } from "../migrations.ts";
import type { SocketRecord } from "./record.ts";
import { migrations } from "./schema.ts";

export interface Whose {
  readonly account: string;
  readonly label: string;
  readonly sandboxId: string;
}

/** A message of a client: text, or bytes. */
export type Message = string | ArrayBuffer;

/** What waits of one socket. */
export interface Waiting {
  readonly newest: number;
  readonly frames: number;
  readonly bytes: number;
}

export class SocketStore {
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;
  readonly #tables: Tables;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#sql = storage.sql;
    this.#tables = new Tables(storage, migrations);
  }

  /** Whose it is; null where nothing was ever held: asking leaves no trace. */
  whose(): Whose | null {
    if (!this.#tables.exist) return null;
    const rows = this.#sql.exec<{ account: string; label: string; sandboxId: string }>(
      "SELECT account, label, sandbox_id AS sandboxId FROM holder",
    );
    return rows.toArray()[0] ?? null;
  }

  open({ account, label, sandboxId }: Whose): void {
    this.#tables.make();
    this.#sql.exec(
      "INSERT OR REPLACE INTO holder (one, account, label, sandbox_id) VALUES (1, ?, ?, ?)",
      ...[account, label, sandboxId],
    );
  }

  async clear(): Promise<void> {
    await this.#tables.drop();
  }

  transaction<T>(work: () => T): T {
    return this.#storage.transactionSync(work);
  }

  get(id: string): { record: SocketRecord; reached: number } | null {
    if (!this.#tables.exist) return null;
    const [row] = this.#sql
      .exec<{ body: string; reached: number }>("SELECT body, reached FROM sockets WHERE id = ?", id)
      .toArray();
    return row ? { record: JSON.parse(row.body) as SocketRecord, reached: row.reached } : null;
  }

  /** The oldest first. */
  ids(): string[] {
    if (!this.#tables.exist) return [];
    const rows = this.#sql.exec<{ id: string }>("SELECT id FROM sockets ORDER BY since, id");
    return rows.toArray().map(({ id }) => id);
  }

  add(record: SocketRecord): void {
    this.#sql.exec(
      "INSERT INTO sockets (id, since, reached, body) VALUES (?, ?, 0, ?)",
      ...[record.id, record.since, JSON.stringify(record)],
    );
  }

  save(record: SocketRecord): void {
    this.#sql.exec("UPDATE sockets SET body = ? WHERE id = ?", JSON.stringify(record), record.id);
  }

  /** With what its client sent. */
  remove(id: string): void {
    this.#sql.exec("DELETE FROM sockets WHERE id = ?", id);
    this.#sql.exec("DELETE FROM frames WHERE socket_id = ?", id);
  }

  addFrame(id: string, number: number, message: Message, bytes: number): void {
    this.#sql.exec(
      "INSERT INTO frames (socket_id, number, bytes, data) VALUES (?, ?, ?, ?)",
      ...[id, number, bytes, message],
    );
  }

  frame(id: string, number: number): Message | null {
    const [row] = this.#sql
      .exec<{ data: Message }>("SELECT data FROM frames WHERE socket_id = ? AND number = ?", id, number)
      .toArray();
    return row?.data ?? null;
  }

  /** The program has the first so many. */
  reached(id: string, number: number): void {
    this.#sql.exec("UPDATE sockets SET reached = ? WHERE id = ?", number, id);
    this.#sql.exec("DELETE FROM frames WHERE socket_id = ? AND number <= ?", id, number);
  }

  waiting(id: string): Waiting | null {
    const row = this.#sql
      .exec<{ newest: number | null; frames: number; bytes: number | null }>(
        "SELECT MAX(number) AS newest, COUNT(*) AS frames, SUM(bytes) AS bytes FROM frames WHERE socket_id = ?",
        id,
      )
      .one();
    return row.newest === null ? null : { newest: row.newest, frames: row.frames, bytes: row.bytes ?? 0 };
  }

  /** Of all sockets. */
  bytesWaiting(): number {
    return this.#sql.exec<{ bytes: number | null }>("SELECT SUM(bytes) AS bytes FROM frames").one().bytes ?? 0;
  }

  /** The ping and its answer that all sockets have in common; null where they differ, or one has none. */
  commonPing(): { ping: string; pong: string } | null {
    if (!this.#tables.exist) return null;
    const rows = this.#sql
      .exec<{ ping: string | null; pong: string | null }>(
        "SELECT DISTINCT body ->> '$.rule.ping' AS ping, body ->> '$.rule.pong' AS pong FROM sockets",
      )
      .toArray();
    const [row] = rows;
    return rows.length === 1 && row && row.ping !== null && row.pong !== null
      ? { ping: row.ping, pong: row.pong }
      : null;
  }

  /** Whether the account was told of the key. */
  knowsKey(id: string): boolean {
    return this.#sql.exec("SELECT 1 FROM keys WHERE id = ?", id).toArray().length > 0;
  }

  addKey(id: string): void {
    this.#sql.exec("INSERT OR IGNORE INTO keys (id) VALUES (?)", id);
  }

  /** @param keptMs older ones are forgotten */
  revoke(credentials: readonly string[], now: number, keptMs: number): void {
    this.#sql.exec("DELETE FROM over WHERE at < ?", now - keptMs);
    for (const credential of credentials) {
      this.#sql.exec("INSERT OR REPLACE INTO over (credential, at) VALUES (?, ?)", credential, now);
      this.#sql.exec("DELETE FROM keys WHERE id = ?", credential);
    }
  }

  isOver(credential: string): boolean {
    return this.#sql.exec("SELECT 1 FROM over WHERE credential = ?", credential).toArray().length > 0;
  }
}

/** The rows of an outbox, and the alarm that they ask for. No rules. */
import type { EventDeliveryListQuery, RouseEvent } from "../../sdk/contract/event.ts";
import { Tables } from "../migrations.ts";
import { earliest } from "../time.ts";
import { Watchers } from "../watchers.ts";
import { again, ended, expiryOf, type DeliveryRecord, type EndpointRecord } from "./record.ts";
import { migrations } from "./schema.ts";

/** Rows that one look at what is over takes up. */
const SWEEP_MAX = 500;
/** Deliveries that one call has sent again. */
const AGAIN_MAX = 10_000;
/** How long it is known that events of a subject came, milliseconds: longer than one can come again. */
const TAKEN_MS = 45 * 86_400_000;
/** A try that is under way is looked after so often, milliseconds: who made it may be gone. */
export const SAFETY_MS = 30_000;

export class OutboxStore {
  readonly #ctx: DurableObjectState;
  readonly #sql: SqlStorage;
  readonly #watchers = new Watchers();
  /** Deliveries that wait, by endpoint: counted before the first change, and kept true from then on. */
  readonly #waiting = new Map<string, number>();
  readonly #tables: Tables;

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
    this.#sql = ctx.storage.sql;
    this.#tables = new Tables(ctx.storage, migrations);
  }

  /** Asking an outbox that was never used leaves no trace. */
  get isOpen(): boolean {
    return this.#tables.exist;
  }

  open(account: string): void {
    if (!this.#tables.make()) return;
    this.#sql.exec("INSERT INTO outbox VALUES (1, ?, 0)", account);
  }

  transaction<T>(work: () => T): T {
    return this.#ctx.storage.transactionSync(work);
  }

  get account(): string {
    return this.#sql.exec<{ account: string }>("SELECT account FROM outbox").one().account;
  }

  /** What the account was told of whether somebody listens; null while it is being told. */
  get told(): boolean | null {
    if (!this.#tables.exist) return false;
    const { told } = this.#sql.exec<{ told: number | null }>("SELECT told FROM outbox").one();
    return told === null ? null : told === 1;
  }

  setTold(told: boolean | null): void {
    this.#sql.exec("UPDATE outbox SET told = ?", told === null ? null : told ? 1 : 0);
  }

  endpoint(id: string): EndpointRecord | null {
    return this.#all<EndpointRecord>("SELECT body FROM endpoints WHERE id = ?", id)[0] ?? null;
  }

  /** The oldest first. */
  endpoints(): EndpointRecord[] {
    return this.#all<EndpointRecord>("SELECT body FROM endpoints ORDER BY created_at, id");
  }

  saveEndpoint(record: EndpointRecord): void {
    this.#sql.exec(
      `INSERT INTO endpoints VALUES (?1, ?2, ?3) ON CONFLICT (id) DO UPDATE SET body = ?3`,
      ...[record.id, record.createdAt, JSON.stringify(record)],
    );
  }

  /** An endpoint with its deliveries. */
  removeEndpoint(id: string): void {
    this.#sql.exec("DELETE FROM endpoints WHERE id = ?", id);
    this.#sql.exec("DELETE FROM queues WHERE endpoint_id = ?", id);
    this.#forget("endpoint_id = ?", id);
    this.#waiting.delete(id);
  }

  /** Whether the event is new; from here on it is known. */
  take({ subject, sequence }: RouseEvent, now: number): boolean {
    return (
      this.#sql
        .exec(
          `INSERT INTO taken VALUES (?1, ?2, ?3) ON CONFLICT (subject) DO UPDATE SET sequence = ?2, at = ?3
           WHERE excluded.sequence > taken.sequence RETURNING subject`,
          ...[subject, sequence, now],
        )
        .toArray().length > 0
    );
  }

  taken(subject: string): number {
    const [row] = this.#sql
      .exec<{ sequence: number }>("SELECT sequence FROM taken WHERE subject = ?", subject)
      .toArray();
    return row?.sequence ?? 0;
  }

  addEvent(event: RouseEvent): void {
    this.#sql.exec("INSERT OR IGNORE INTO events VALUES (?, ?)", event.id, JSON.stringify(event));
  }

  /** As it is sent. */
  eventText(id: string): string | null {
    const [row] = this.#sql.exec<{ body: string }>("SELECT body FROM events WHERE id = ?", id).toArray();
    return row?.body ?? null;
  }

  addDelivery(record: DeliveryRecord): void {
    const { id, endpointId, eventId, subject, state, createdAt, endedAt } = record;
    this.#count(endpointId, "", state);
    this.#sql.exec(
      `INSERT INTO deliveries (id, endpoint_id, event_id, subject, state, created_at, ended_at, expires_at, body)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[id, endpointId, eventId, subject, state, createdAt, endedAt, expiryOf(record), JSON.stringify(record)],
    );
    // Whoever waits already goes first.
    if (state === "waiting")
      this.#sql.exec("INSERT OR IGNORE INTO queues VALUES (?, ?, ?)", endpointId, subject, record.nextAt ?? createdAt);
  }

  saveDelivery(record: DeliveryRecord): void {
    const before = this.delivery(record.id);
    if (!before) return;
    const { id, endpointId, subject, state, endedAt } = record;
    this.#count(endpointId, before.state, state);
    this.#sql.exec(
      "UPDATE deliveries SET state = ?, ended_at = ?, expires_at = ?, body = ? WHERE id = ?",
      ...[state, endedAt, expiryOf(record), JSON.stringify(record), id],
    );
    this.requeue(endpointId, subject);
    this.#watchers.changed(id);
  }

  delivery(id: string): DeliveryRecord | null {
    return this.#all<DeliveryRecord>("SELECT body FROM deliveries WHERE id = ?", id)[0] ?? null;
  }

  /** Resolves when the delivery is as wanted, or the time is up. */
  until(id: string, isWanted: () => boolean, waitMs: number): Promise<void> {
    return this.#watchers.until(id, isWanted, waitMs);
  }

  /** The newest first, from there on. */
  deliveriesBefore(endpointId: string, createdAt: number, id: string, { state }: EventDeliveryListQuery) {
    return this.#each<DeliveryRecord>(
      `SELECT body FROM deliveries WHERE endpoint_id = ?1 AND (created_at, id) < (?2, ?3)
       ${state === undefined ? "AND ?4 IS NULL" : "AND state = ?4"} ORDER BY created_at DESC, id DESC`,
      ...[endpointId, createdAt, id, state ?? null],
    );
  }

  /** Those that were given up since then wait again, the first in order, 10,000 at most. Answers how many. */
  againSince(endpointId: string, since: number, now: number): number {
    const ids = this.#sql
      .exec<{ id: string }>(
        "SELECT id FROM deliveries WHERE endpoint_id = ? AND state = 'dead' AND ended_at >= ? ORDER BY seq LIMIT ?",
        ...[endpointId, since, AGAIN_MAX],
      )
      .toArray();
    for (const { id } of ids) {
      const record = this.delivery(id);
      if (record) this.saveDelivery(again(record, now));
    }
    return ids.length;
  }

  /** The endpoint is off: nothing waits for it. */
  giveUpWaiting(endpointId: string, reason: string, now: number): void {
    for (const record of this.#all<DeliveryRecord>(
      "SELECT body FROM deliveries WHERE endpoint_id = ? AND state = 'waiting'",
      endpointId,
    ))
      this.saveDelivery(ended(record, "dead", reason, now));
  }

  waiting(endpointId: string): number {
    const known = this.#waiting.get(endpointId);
    if (known !== undefined) return known;
    const count = this.#countOf(endpointId, "waiting");
    this.#waiting.set(endpointId, count);
    return count;
  }

  dead(endpointId: string): number {
    return this.#countOf(endpointId, "dead");
  }

  /** Queues with something due, the longest due first. */
  due(endpointId: string, now: number, limit: number): string[] {
    return this.#sql
      .exec<{ subject: string }>(
        "SELECT subject FROM queues WHERE endpoint_id = ? AND next_at <= ? ORDER BY next_at LIMIT ?",
        ...[endpointId, now, limit],
      )
      .toArray()
      .map(({ subject }) => subject);
  }

  /** The first in order. */
  head(endpointId: string, subject: string): DeliveryRecord | null {
    return (
      this.#all<DeliveryRecord>(
        "SELECT body FROM deliveries WHERE endpoint_id = ? AND subject = ? AND state = 'waiting' ORDER BY seq LIMIT 1",
        ...[endpointId, subject],
      )[0] ?? null
    );
  }

  change(key: string, since: number): { fingerprint: string; endpointId: string; shown: string | null } | null {
    if (!this.#tables.exist) return null;
    const [row] = this.#sql
      .exec<{ fingerprint: string; endpointId: string; shown: string | null }>(
        "SELECT fingerprint, endpoint_id AS endpointId, shown FROM changes WHERE key = ? AND at >= ?",
        ...[key, since],
      )
      .toArray();
    return row ?? null;
  }

  saveChange(key: string, fingerprint: string, endpointId: string, shown: string | null, now: number, keptMs: number) {
    this.#sql.exec("DELETE FROM changes WHERE at < ?", now - keptMs);
    this.#sql.exec("INSERT OR REPLACE INTO changes VALUES (?, ?, ?, ?, ?)", key, fingerprint, endpointId, shown, now);
  }

  /** Forget what would be forgotten first, until there is no more than so much of what has ended. */
  trim(most: number): void {
    const { count } = this.#sql
      .exec<{ count: number }>("SELECT COUNT(*) AS count FROM deliveries WHERE expires_at IS NOT NULL")
      .one();
    if (count > most)
      this.#forget(
        "seq IN (SELECT seq FROM deliveries WHERE expires_at IS NOT NULL ORDER BY expires_at LIMIT ?)",
        count - most,
      );
  }

  /** Forget what is over. */
  sweep(now: number): void {
    this.#forget(
      "seq IN (SELECT seq FROM deliveries WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)",
      ...[now, SWEEP_MAX],
    );
    this.#sql.exec(
      "DELETE FROM taken WHERE subject IN (SELECT subject FROM taken WHERE at < ? ORDER BY at LIMIT ?)",
      ...[now - TAKEN_MS, SWEEP_MAX],
    );
  }

  /** Set the alarm to when something is due. At once, so that it is stored with what asks for it. */
  arm(extraAt: number | null = null): void {
    if (!this.#tables.exist) return;
    const { at } = this.#sql
      .exec<{ at: number | null }>(
        `SELECT MIN(at) AS at FROM (SELECT MIN(next_at) AS at FROM queues
         UNION ALL SELECT MIN(expires_at) FROM deliveries WHERE expires_at IS NOT NULL
         UNION ALL SELECT MIN(at) + ? FROM taken)`,
        TAKEN_MS,
      )
      .one();
    const next = earliest(at, extraAt);
    void (next === null ? this.#ctx.storage.deleteAlarm() : this.#ctx.storage.setAlarm(Math.max(next, Date.now() + 1)));
  }

  /** A queue is due when its first is. One that is being tried is looked after later. */
  requeue(endpointId: string, subject: string): void {
    const head = this.head(endpointId, subject);
    if (!head) {
      this.#sql.exec("DELETE FROM queues WHERE endpoint_id = ? AND subject = ?", endpointId, subject);
      return;
    }
    const at = head.begunAt === null ? (head.nextAt ?? 0) : head.begunAt + SAFETY_MS;
    this.#sql.exec("INSERT OR REPLACE INTO queues VALUES (?, ?, ?)", endpointId, subject, at);
  }

  #forget(where: string, ...bindings: SqlStorageValue[]): void {
    const gone = this.#sql
      .exec<{ eventId: string; id: string }>(
        `DELETE FROM deliveries WHERE ${where} RETURNING event_id AS eventId, id`,
        ...bindings,
      )
      .toArray();
    for (const { eventId, id } of gone) {
      this.#sql.exec(
        "DELETE FROM events WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM deliveries WHERE event_id = ?1)",
        eventId,
      );
      this.#watchers.changed(id);
    }
  }

  #count(endpointId: string, before: string, after: string): void {
    const change = (after === "waiting" ? 1 : 0) - (before === "waiting" ? 1 : 0);
    if (change !== 0) this.#waiting.set(endpointId, this.waiting(endpointId) + change);
  }

  #countOf(endpointId: string, state: string): number {
    return this.#sql
      .exec<{ count: number }>(
        "SELECT COUNT(*) AS count FROM deliveries WHERE endpoint_id = ? AND state = ?",
        ...[endpointId, state],
      )
      .one().count;
  }

  #all<T>(query: string, ...bindings: SqlStorageValue[]): T[] {
    return [...this.#each<T>(query, ...bindings)];
  }

  *#each<T>(query: string, ...bindings: SqlStorageValue[]): Generator<T> {
    if (!this.#tables.exist) return;
    for (const { body } of this.#sql.exec<{ body: string }>(query, ...bindings)) yield JSON.parse(body) as T;
  }
}

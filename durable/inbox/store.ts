/** The rows of an inbox, the body of an event, and the alarm that they ask for. No rules. */
import type { HookEventListQuery, HookEventState } from "../../sdk/contract/hook.ts";
import { Tables } from "../migrations.ts";
import { Watchers } from "../watchers.ts";
import type { EventNote } from "../sandbox/api.ts";
import { deadLetterOf, DISABLED_MS, expiryOf, REQUESTS, SEEN_MS, type EventRecord, type HookRecord } from "./record.ts";
import { migrations } from "./schema.ts";

type Bytes = Uint8Array<ArrayBuffer>;
type Row = { readonly body: string };

export interface Whose {
  readonly account: string;
  readonly label: string;
  readonly sandboxId: string;
}

/** What a program answered. */
export interface ProgramAnswer {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly bytes: Bytes;
}

interface Total {
  count: number;
  bytes: number;
}

/** Rows that one look at what is over takes up. */
const SWEEP_MAX = 200;
/** Answers that are kept, the newest: each may have a megabyte, and an object has room for 10 GB. */
const ANSWERS_MAX = 1000;
/** A try that is under way is looked after so often, milliseconds: who made it may be gone. */
const SAFETY_MS = 30_000;

export class InboxStore {
  readonly #ctx: DurableObjectState;
  readonly #sql: SqlStorage;
  readonly #watchers = new Watchers();
  readonly #tables: Tables;
  #whose: Whose | null = null;
  /** By state; counted before the first change, and kept true from then on: a full inbox is not counted by each event. */
  #totals: Map<HookEventState, Total> | null = null;
  /** Hooks whose deliveries are under way here. */
  readonly busy = new Set<string>();

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
    this.#sql = ctx.storage.sql;
    this.#tables = new Tables(ctx.storage, migrations);
  }

  /** Whose it is; null where nothing was ever stored: asking leaves no trace. */
  get whose(): Whose | null {
    if (!this.#tables.exist) return null;
    this.#whose ??= this.#sql
      .exec<{ account: string; label: string; sandboxId: string }>(
        "SELECT account, label, sandbox_id AS sandboxId FROM inbox",
      )
      .one();
    return this.#whose;
  }

  open(whose: Whose): void {
    if (!this.#tables.make()) return;
    const { account, label, sandboxId } = whose;
    this.#sql.exec("INSERT INTO inbox VALUES (1, ?, ?, ?)", account, label, sandboxId);
    this.#whose = whose;
  }

  /** Everything, the alarm too. */
  async clear(): Promise<void> {
    this.#whose = null;
    this.#totals = null;
    await this.#tables.drop();
  }

  hook(id: string): HookRecord | null {
    return this.#one<HookRecord>("SELECT body FROM hooks WHERE id = ?", id);
  }

  hookCalled(hook: string): HookRecord | null {
    return this.hook(hook) ?? this.#one<HookRecord>("SELECT body FROM hooks WHERE name = ?", hook);
  }

  hookOfToken(tokenHash: string): HookRecord | null {
    return this.#one<HookRecord>("SELECT body FROM hooks WHERE token_hash = ?", tokenHash);
  }

  /** The oldest first. */
  hooks(): HookRecord[] {
    return this.#all<HookRecord>("SELECT body FROM hooks ORDER BY created_at, id");
  }

  addHook(record: HookRecord, tokenHash: string): void {
    this.#sql.exec(
      "INSERT INTO hooks (id, name, token_hash, created_at, body) VALUES (?, ?, ?, ?, ?)",
      ...[record.id, record.name, tokenHash, record.createdAt, JSON.stringify(record)],
    );
  }

  saveHook(record: HookRecord): void {
    if (!this.#tables.exist) return;
    this.#sql.exec("UPDATE hooks SET name = ?, body = ? WHERE id = ?", record.name, JSON.stringify(record), record.id);
    this.arm();
  }

  setToken(hookId: string, tokenHash: string): void {
    this.#sql.exec("UPDATE hooks SET token_hash = ? WHERE id = ?", tokenHash, hookId);
  }

  /** A hook with its events. */
  removeHook(id: string): void {
    this.#sql.exec("DELETE FROM hooks WHERE id = ?", id);
    this.#forget("hook_id = ?", id);
  }

  event(id: string): EventRecord | null {
    return this.#one<EventRecord>("SELECT body FROM events WHERE id = ?", id);
  }

  /** What a hook took under the provider's id, lately. */
  eventSeen(hookId: string, providerId: string, now: number): EventRecord | null {
    return this.#one<EventRecord>(
      "SELECT body FROM events WHERE hook_id = ? AND provider_id = ? AND created_at > ?",
      ...[hookId, providerId, now - SEEN_MS],
    );
  }

  /** The newest first, from there on. */
  *eventsBefore(createdAt: number, id: string, { hookId, state }: HookEventListQuery): Generator<EventRecord> {
    yield* this.#each<EventRecord>(
      `SELECT body FROM events WHERE (created_at, id) < (?1, ?2) AND (?3 IS NULL OR hook_id = ?3)
       AND (?4 IS NULL OR state = ?4) ORDER BY created_at DESC, id DESC`,
      ...[createdAt, id, hookId ?? null, state ?? null],
    );
  }

  /** The oldest first. */
  deadOf(hookId: string): EventRecord[] {
    return this.#all<EventRecord>("SELECT body FROM events WHERE hook_id = ? AND state = 'dead' ORDER BY seq", hookId);
  }

  /** @param bytes its body, where that is kept in a row */
  addEvent(event: EventRecord, bytes: Bytes | null): void {
    this.#counted();
    // An id of so long ago may mean another event by now.
    if (event.providerId !== null)
      this.#sql.exec(
        "UPDATE events SET provider_id = NULL WHERE hook_id = ? AND provider_id = ?",
        ...[event.hookId, event.providerId],
      );
    const { id, hookId, providerId, createdAt, state, blob } = event;
    this.#sql.exec(
      `INSERT INTO events (id, hook_id, provider_id, created_at, state, late, next_at, expires_at, bytes, blob, body)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[id, hookId, providerId, createdAt, state, event.late ? 1 : 0, event.nextAt, expiryOf(event)],
      ...[event.bytes, blob, JSON.stringify(event)],
    );
    if (bytes) this.#sql.exec("INSERT INTO bodies VALUES (?, ?)", id, bytes);
    this.#count(state, 1, event.bytes);
  }

  saveEvent(event: EventRecord): void {
    const before = this.event(event.id);
    if (!before) return;
    this.#counted();
    this.#sql.exec(
      "UPDATE events SET state = ?, late = ?, next_at = ?, expires_at = ?, body = ? WHERE id = ?",
      ...[event.state, event.late ? 1 : 0, event.nextAt, expiryOf(event), JSON.stringify(event), event.id],
    );
    if (event.state === "dead" && before.state !== "dead") this.#noteDead(event);
    this.#count(before.state, -1, -before.bytes);
    this.#count(event.state, 1, event.bytes);
    this.#watchers.changed(event.id);
    this.arm();
  }

  /** null: it is in the blob store, or not kept. */
  bodyOf(eventId: string): Bytes | null {
    if (!this.#tables.exist) return null;
    const [row] = this.#sql
      .exec<{ bytes: ArrayBuffer }>("SELECT bytes FROM bodies WHERE event_id = ?", eventId)
      .toArray();
    return row ? new Uint8Array(row.bytes) : null;
  }

  /** Nobody needs it any more. */
  dropBody(eventId: string): void {
    if (this.#tables.exist) this.#sql.exec("DELETE FROM bodies WHERE event_id = ?", eventId);
  }

  total(state: HookEventState): Readonly<Total> {
    return this.#counted().get(state) ?? { count: 0, bytes: 0 };
  }

  countOf(hookId: string, state: "waiting" | "dead"): number {
    return this.#sql
      .exec<{ count: number }>("SELECT COUNT(*) AS count FROM events WHERE hook_id = ? AND state = ?", hookId, state)
      .one().count;
  }

  /** Hooks, and what stands in the place of one, that may have something to deliver. */
  senders(): string[] {
    return this.#tables.exist
      ? [
          ...this.hooks()
            .filter(({ enabled }) => enabled)
            .map(({ id }) => id),
          REQUESTS,
        ]
      : [];
  }

  /** The first in order, and those that others do not wait for, the next due first. */
  heads(hookId: string): EventRecord[] {
    const first = this.#all<EventRecord>(
      "SELECT body FROM events WHERE hook_id = ? AND state = 'waiting' AND late = 0 ORDER BY seq LIMIT 1",
      hookId,
    );
    const late = this.#all<EventRecord>(
      "SELECT body FROM events WHERE hook_id = ? AND state = 'waiting' AND late = 1 ORDER BY next_at, seq LIMIT 1",
      hookId,
    );
    return [...late, ...first].toSorted((a, b) => (a.nextAt ?? 0) - (b.nextAt ?? 0));
  }

  answer(eventId: string, now: number): ProgramAnswer | null {
    if (!this.#tables.exist) return null;
    const [row] = this.#sql
      .exec<{ status: number; headers: string; bytes: ArrayBuffer }>(
        "SELECT status, headers, bytes FROM answers WHERE event_id = ? AND expires_at > ?",
        ...[eventId, now],
      )
      .toArray();
    return row
      ? { status: row.status, headers: JSON.parse(row.headers) as [string, string][], bytes: new Uint8Array(row.bytes) }
      : null;
  }

  saveAnswer(eventId: string, { status, headers, bytes }: ProgramAnswer, expiresAt: number): void {
    this.#sql.exec(
      "DELETE FROM answers WHERE event_id IN (SELECT event_id FROM answers ORDER BY expires_at DESC LIMIT -1 OFFSET ?)",
      ANSWERS_MAX - 1,
    );
    this.#sql.exec(
      "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)",
      ...[eventId, status, JSON.stringify(headers), bytes, expiresAt],
    );
  }

  /** Resolves when the event is as wanted, or the time is up. */
  until(eventId: string, isWanted: () => boolean, waitMs: number): Promise<void> {
    return this.#watchers.until(eventId, isWanted, waitMs);
  }

  change(key: string, since: number): { fingerprint: string; hookId: string; shown: string | null } | null {
    if (!this.#tables.exist) return null;
    const [row] = this.#sql
      .exec<{ fingerprint: string; hookId: string; shown: string | null }>(
        "SELECT fingerprint, hook_id AS hookId, shown FROM changes WHERE key = ? AND at >= ?",
        ...[key, since],
      )
      .toArray();
    return row ?? null;
  }

  saveChange(
    key: string,
    fingerprint: string,
    hookId: string,
    shown: string | null,
    now: number,
    keptMs: number,
  ): void {
    this.#sql.exec("DELETE FROM changes WHERE at < ?", now - keptMs);
    this.#sql.exec("INSERT OR REPLACE INTO changes VALUES (?, ?, ?, ?, ?)", key, fingerprint, hookId, shown, now);
  }

  /** The blob is deleted then, unless it is kept before. */
  dropAt(key: string, dueAt: number): void {
    this.#sql.exec("INSERT OR REPLACE INTO drops VALUES (?, ?)", key, dueAt);
    this.arm();
  }

  /** An event has it. false: it is being deleted. */
  keep(key: string, now: number): boolean {
    return (
      this.#sql.exec("DELETE FROM drops WHERE key = ? AND due_at > ? RETURNING key", key, now).toArray().length > 0
    );
  }

  dropsDue(now: number, most: number): string[] {
    if (!this.#tables.exist) return [];
    return this.#sql
      .exec<{ key: string }>("SELECT key FROM drops WHERE due_at <= ? LIMIT ?", now, most)
      .toArray()
      .map(({ key }) => key);
  }

  dropped(keys: readonly string[]): void {
    if (!this.#tables.exist) return;
    for (const key of keys) this.#sql.exec("DELETE FROM drops WHERE key = ?", key);
  }

  /** Every blob that there may be. */
  blobs(): string[] {
    return this.#sql
      .exec<{ key: string }>("SELECT blob AS key FROM events WHERE blob IS NOT NULL UNION SELECT key FROM drops")
      .toArray()
      .map(({ key }) => key);
  }

  /** What the sandbox has not noted yet, as far as it is due. */
  notesDue(now: number): { key: string; note: EventNote; attempts: number }[] {
    if (!this.#tables.exist) return [];
    return this.#sql
      .exec<{ key: string; body: string; attempts: number }>(
        "SELECT key, body, attempts FROM notes WHERE due_at <= ? LIMIT ?",
        ...[now, SWEEP_MAX],
      )
      .toArray()
      .map(({ key, body, attempts }) => ({ key, note: JSON.parse(body) as EventNote, attempts }));
  }

  /** @param dueAt when it is told again; null: it is noted */
  noted(key: string, dueAt: number | null): void {
    if (!this.#tables.exist) return;
    if (dueAt === null) this.#sql.exec("DELETE FROM notes WHERE key = ?", key);
    else this.#sql.exec("UPDATE notes SET attempts = attempts + 1, due_at = ? WHERE key = ?", dueAt, key);
  }

  /** Forget what is over. */
  sweep(now: number): void {
    if (!this.#tables.exist) return;
    this.#forget(
      "id IN (SELECT id FROM events WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)",
      ...[now, SWEEP_MAX],
    );
    this.#sql.exec("DELETE FROM answers WHERE expires_at <= ?", now);
  }

  /** Forget what would be forgotten first, until there is no more than so much of what has ended. */
  trim(most: number): void {
    const over = this.total("delivered").count + this.total("ignored").count + this.total("dead").count - most;
    if (over <= 0) return;
    // Some more, so that it is not done with each event.
    this.#forget(
      "id IN (SELECT id FROM events WHERE expires_at IS NOT NULL ORDER BY expires_at LIMIT ?)",
      over + SWEEP_MAX,
    );
  }

  /** Some of them, the oldest first. */
  waitingOf(hookId: string): EventRecord[] {
    return this.#all<EventRecord>(
      "SELECT body FROM events WHERE hook_id = ? AND state = 'waiting' ORDER BY seq LIMIT ?",
      ...[hookId, SWEEP_MAX],
    );
  }

  /** Set the alarm to when something is due. At once, so that it is stored with what asks for it. */
  arm(): void {
    if (!this.#tables.exist) return;
    const now = Date.now();
    const times = this.senders().map((id) => {
      const at = this.#nextAt(id);
      return at !== null && this.busy.has(id) ? now + SAFETY_MS : at;
    });
    for (const { id, disabledAt } of this.hooks())
      if (disabledAt !== null && this.#nextAt(id) !== null) times.push(disabledAt + DISABLED_MS);
    const { due } = this.#sql
      .exec<{ due: number | null }>(
        `SELECT MIN(due) AS due FROM (SELECT MIN(expires_at) AS due FROM events WHERE expires_at IS NOT NULL
         UNION ALL SELECT MIN(expires_at) FROM answers UNION ALL SELECT MIN(due_at) FROM drops
         UNION ALL SELECT MIN(due_at) FROM notes)`,
      )
      .one();
    const all = [due, ...times].filter((time) => time !== null);
    void (all.length === 0
      ? this.#ctx.storage.deleteAlarm()
      : this.#ctx.storage.setAlarm(Math.max(Math.min(...all), now + 1)));
  }

  transaction<T>(work: () => T): T {
    return this.#ctx.storage.transactionSync(work);
  }

  #noteDead(event: EventRecord): void {
    const note = deadLetterOf(event);
    this.#sql.exec("INSERT OR IGNORE INTO notes VALUES (?, ?, 0, ?)", note.key, JSON.stringify(note), Date.now());
  }

  /** Events with all that is of them. */
  #forget(where: string, ...bindings: SqlStorageValue[]): void {
    this.#counted();
    const now = Date.now();
    const rows = this.#sql
      .exec<{ id: string; state: string; bytes: number; blob: string | null }>(
        `DELETE FROM events WHERE ${where} RETURNING id, state, bytes, blob`,
        ...bindings,
      )
      .toArray();
    for (const { id, state, bytes, blob } of rows) {
      this.#sql.exec("DELETE FROM bodies WHERE event_id = ?", id);
      this.#sql.exec("DELETE FROM answers WHERE event_id = ?", id);
      if (blob !== null) this.#sql.exec("INSERT OR REPLACE INTO drops VALUES (?, ?)", blob, now);
      this.#count(state as HookEventState, -1, -bytes);
      this.#watchers.changed(id);
    }
    this.arm();
  }

  /** When the first of `heads` is due. */
  #nextAt(hookId: string): number | null {
    return this.#sql
      .exec<{ at: number | null }>(
        `SELECT MIN(at) AS at FROM (
           SELECT MIN(next_at) AS at FROM events WHERE hook_id = ?1 AND state = 'waiting' AND late = 1
           UNION ALL SELECT at FROM (SELECT next_at AS at FROM events
             WHERE hook_id = ?1 AND state = 'waiting' AND late = 0 ORDER BY seq LIMIT 1))`,
        hookId,
      )
      .one().at;
  }

  #count(state: HookEventState, count: number, bytes: number): void {
    const total = this.#counted().get(state) ?? { count: 0, bytes: 0 };
    this.#counted().set(state, { count: total.count + count, bytes: total.bytes + bytes });
  }

  #counted(): Map<HookEventState, Total> {
    return (this.#totals ??= new Map(
      this.#sql
        .exec<{ state: string; count: number; bytes: number }>(
          "SELECT state, COUNT(*) AS count, SUM(bytes) AS bytes FROM events GROUP BY state",
        )
        .toArray()
        .map(({ state, count, bytes }) => [state as HookEventState, { count, bytes }]),
    ));
  }

  #one<T>(query: string, ...bindings: SqlStorageValue[]): T | null {
    return this.#all<T>(query, ...bindings)[0] ?? null;
  }

  #all<T>(query: string, ...bindings: SqlStorageValue[]): T[] {
    return [...this.#each<T>(query, ...bindings)];
  }

  *#each<T>(query: string, ...bindings: SqlStorageValue[]): Generator<T> {
    if (!this.#tables.exist) return;
    for (const { body } of this.#sql.exec<Row>(query, ...bindings)) yield JSON.parse(body) as T;
  }
}

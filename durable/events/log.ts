/**
 * What happened, as the object that it happened in writes it down: in the same turn as the change itself, and numbered
 * by subject. From there it is handed on to the account's outbox, at least once and in order, while anybody there listens.
 */
import { eventLimits, type RouseEvent } from "../../sdk/contract/event.ts";
import { BASE36, randomText } from "../../sdk/contract/random.ts";
import { backoffMs } from "../backoff.ts";
import { iso } from "../time.ts";
import type { About, Draft } from "./draft.ts";

/** Events of one call. */
const BATCH = 100;
const FIRST_RETRY_MS = 1000;
const KEPT_MS = eventLimits.keptDays * 86_400_000;
/** The number of a subject that is over is remembered for longer than anything of it is under way, milliseconds. */
const CLOSED_KEPT_MS = 60 * 86_400_000;

/**
 * Tables in the object that writes them; a part of released migrations, so it never changes.
 * event_streams.handed: up to there the outbox has them. closed: no more will come.
 * event_listening.since: events from then on are handed on; null: nobody listens.
 */
export const eventTables = `
  CREATE TABLE event_streams (
    subject TEXT PRIMARY KEY,
    sequence INTEGER NOT NULL,
    handed INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX event_streams_pending ON event_streams (subject) WHERE sequence > handed;
  CREATE INDEX event_streams_closed ON event_streams (at) WHERE closed = 1;
  CREATE TABLE events (
    subject TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    key TEXT,
    at INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (subject, sequence)
  ) STRICT, WITHOUT ROWID;
  CREATE UNIQUE INDEX events_by_key ON events (subject, key) WHERE key IS NOT NULL;
  CREATE TABLE event_listening (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    since INTEGER,
    attempts INTEGER NOT NULL,
    due_at INTEGER
  ) STRICT;
  INSERT INTO event_listening VALUES (1, NULL, 0, NULL);
`;

export class EventLog {
  readonly #sql: SqlStorage;
  readonly #send: (events: readonly RouseEvent[]) => Promise<unknown>;
  #handing: Promise<void> | null = null;

  /** @param send resolves once all of them are taken */
  constructor(sql: SqlStorage, send: (events: readonly RouseEvent[]) => Promise<unknown>) {
    this.#sql = sql;
    this.#send = send;
  }

  /** Write down what happened, in the turn of the change. @param last nothing will come of that subject any more */
  append({ subject, sandbox }: About, drafts: readonly Draft[], now: number, last = false): void {
    for (const { type, data, key = null } of drafts) {
      if (
        key !== null &&
        this.#sql.exec("SELECT 1 FROM events WHERE subject = ? AND key = ?", subject, key).toArray()[0]
      )
        continue;
      const { sequence, handed } = this.#sql
        .exec<{ sequence: number; handed: number }>(
          `INSERT INTO event_streams VALUES (?1, 1, 0, ?2, ?3)
           ON CONFLICT (subject) DO UPDATE SET sequence = sequence + 1, closed = ?2, at = ?3 RETURNING sequence, handed`,
          ...[subject, last ? 1 : 0, now],
        )
        .one();
      const event = { id: `ev-${randomText(BASE36, 20)}`, type, timestamp: iso(now), subject, sequence, sandbox, data };
      this.#sql.exec("INSERT INTO events VALUES (?, ?, ?, ?, ?)", subject, sequence, key, now, JSON.stringify(event));
      this.#sql.exec("UPDATE event_listening SET due_at = MIN(IFNULL(due_at, ?1), ?1) WHERE since IS NOT NULL", now);
      this.#trim(subject, sequence, handed, now);
    }
    if (last) this.#sql.exec("DELETE FROM event_streams WHERE closed = 1 AND at < ?", now - CLOSED_KEPT_MS);
  }

  /** The number of the newest of a subject; 0 without any. */
  last(subject: string): number {
    const [row] = this.#sql
      .exec<{ sequence: number }>("SELECT sequence FROM event_streams WHERE subject = ?", subject)
      .toArray();
    return row?.sequence ?? 0;
  }

  /** Those that come after a number, the oldest first. */
  after(subject: string, sequence: number, limit: number, now: number): RouseEvent[] {
    return this.#sql
      .exec<{ body: string }>(
        "SELECT body FROM events WHERE subject = ? AND sequence > ? AND at > ? ORDER BY sequence LIMIT ?",
        ...[subject, sequence, now - KEPT_MS, limit],
      )
      .toArray()
      .map(({ body }) => JSON.parse(body) as RouseEvent);
  }

  /** Since when somebody listens; null for nobody. What happened before then is not handed on. */
  listen(since: number | null): void {
    const { known } = this.#sql.exec<{ known: number | null }>("SELECT since AS known FROM event_listening").one();
    if (known === since) return;
    this.#sql.exec("UPDATE event_listening SET since = ?, attempts = 0, due_at = NULL", since);
    if (since === null) return;
    this.#sql.exec(
      `UPDATE event_streams SET handed = MAX(handed, IFNULL((SELECT MAX(events.sequence) FROM events
         WHERE events.subject = event_streams.subject AND events.at < ?), 0)) WHERE sequence > handed`,
      since,
    );
    if (this.#pending().length > 0) this.#sql.exec("UPDATE event_listening SET due_at = ?", since);
  }

  /** When there is something to hand on; null: never. */
  dueAt(): number | null {
    return this.#sql.exec<{ at: number | null }>("SELECT due_at AS at FROM event_listening").one().at;
  }

  /** Hand on all there is; what is not taken is due again later. Concurrent callers share one run. */
  handOn(): Promise<void> {
    this.#handing ??= this.#handOn().finally(() => {
      this.#handing = null;
    });
    return this.#handing;
  }

  /** A new subject begins where there were others, which nobody will ask for: what is old of them goes. */
  forgetBefore(now: number): void {
    this.#sql.exec("DELETE FROM events WHERE at < ?", now - KEPT_MS);
    this.#sql.exec("DELETE FROM event_streams WHERE at < ?", now - CLOSED_KEPT_MS);
  }

  async #handOn(): Promise<void> {
    while (this.dueAt() !== null) {
      const batch = this.#pending();
      if (batch.length === 0) {
        this.#sql.exec("UPDATE event_listening SET attempts = 0, due_at = NULL");
        return;
      }
      try {
        await this.#send(batch);
      } catch {
        const { attempts } = this.#sql.exec<{ attempts: number }>("SELECT attempts FROM event_listening").one();
        const dueAt = Date.now() + backoffMs(FIRST_RETRY_MS, attempts);
        this.#sql.exec("UPDATE event_listening SET attempts = attempts + 1, due_at = ? WHERE since IS NOT NULL", dueAt);
        return;
      }
      for (const { subject, sequence } of batch)
        this.#sql.exec("UPDATE event_streams SET handed = MAX(handed, ?) WHERE subject = ?", sequence, subject);
    }
  }

  #pending(): RouseEvent[] {
    return this.#sql
      .exec<{ body: string }>(
        `SELECT events.body AS body FROM event_streams AS stream JOIN events
         ON events.subject = stream.subject AND events.sequence > stream.handed
         WHERE stream.sequence > stream.handed ORDER BY events.subject, events.sequence LIMIT ?`,
        BATCH,
      )
      .toArray()
      .map(({ body }) => JSON.parse(body) as RouseEvent);
  }

  /** What is too old goes, but not before it is handed on, where somebody listens. */
  #trim(subject: string, sequence: number, handed: number, now: number): void {
    const { since } = this.#sql.exec<{ since: number | null }>("SELECT since FROM event_listening").one();
    const upTo = since === null ? sequence : handed;
    this.#sql.exec(
      "DELETE FROM events WHERE subject = ? AND sequence <= ?",
      ...[subject, Math.min(sequence - eventLimits.keptEvents, upTo)],
    );
    // Two with each that comes, so that what is old goes away without a look at all of them.
    this.#sql.exec(
      `DELETE FROM events WHERE subject = ?1 AND at < ?2 AND sequence <= ?3
         AND sequence < (SELECT MIN(sequence) + 2 FROM events WHERE subject = ?1)`,
      ...[subject, now - KEPT_MS, upTo],
    );
  }
}

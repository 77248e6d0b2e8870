/** When the sandbox slept and woke, and who had it do so: the newest entries. */
import type { Cause, TimelineEntry } from "../../sdk/contract/timeline.ts";
import { iso } from "../time.ts";
import type { Life, LifeEvent } from "./life.ts";

const KEPT = 500;
const DAY_MS = 86_400_000;

interface Entry {
  readonly at: number;
  readonly event: TimelineEntry["event"];
  readonly generation: number;
  readonly tookMs: number | null;
  readonly reason: string | null;
  readonly cause: Cause | null;
}

interface Row extends Omit<Entry, "cause"> {
  readonly cause: string | null;
}

const runs = { create: "created", wake: "woke", boot: "booted" } as const;

export class Timeline {
  readonly #sql: SqlStorage;
  /** Of a wake that was asked for while the sandbox was going to sleep. */
  #waiting: Cause | null = null;

  constructor(storage: DurableObjectStorage) {
    this.#sql = storage.sql;
  }

  /** The sandbox is made; what was under its name before is another's. */
  begin(at: number, generation: number, cause: Cause | null): void {
    this.#sql.exec("DELETE FROM timeline");
    this.#add({ at, event: "created", generation, tookMs: null, reason: null, cause });
  }

  /** What a change of its life adds. */
  note(before: Life, after: Life, event: LifeEvent, cause: Cause | null, now: number): void {
    const { generation } = after;
    if (generation > before.generation) {
      const why = cause ?? this.#waiting;
      this.#waiting = null;
      const reason = after.run === "boot" ? ramGone(before, after, event) : null;
      this.#add({ at: now, event: runs[after.run], generation, tookMs: null, reason, cause: why });
    } else if (event.type === "wake" && after.wakeAfterPause) this.#waiting ??= cause;
    if (event.type === "ran" && after.state === "running") this.#ran(generation, now);
    if (event.type === "runFailed")
      this.#add({ at: now, event: "failed", generation, tookMs: null, reason: event.failure.code, cause: null });
    const { state, stopReason: reason } = after;
    if (state !== before.state && (state === "paused" || state === "stopped") && event.type !== "runFailed")
      this.#add({ at: now, event: state, generation, tookMs: null, reason, cause: null });
  }

  /** The newest first. */
  newest(count: number): TimelineEntry[] {
    return this.#rows("ORDER BY ordinal DESC LIMIT ?", count);
  }

  lastRun(): TimelineEntry | null {
    return this.#rows("WHERE event IN ('created', 'woke', 'booted') ORDER BY ordinal DESC LIMIT 1")[0] ?? null;
  }

  /** The run of a generation; null when it is not known any more. */
  runOf(generation: number): TimelineEntry | null {
    return this.#rows("WHERE generation = ? AND event IN ('created', 'woke', 'booted') LIMIT 1", generation)[0] ?? null;
  }

  /** Runs that were begun in the last 24 hours. */
  runsToday(now: number): number {
    return this.#sql
      .exec<{ count: number }>(
        "SELECT COUNT(*) AS count FROM timeline WHERE event IN ('created', 'woke', 'booted') AND at > ?",
        now - DAY_MS,
      )
      .one().count;
  }

  /** When requests, webhooks, messages and timers woke it since a time, the newest first, so many at most. */
  wokenSince(since: number, count: number): number[] {
    return this.#sql
      .exec<{ at: number }>(
        `SELECT at FROM timeline WHERE event = 'woke' AND at > ? AND cause ->> 'kind' NOT IN ('api', 'schedule')
         ORDER BY ordinal DESC LIMIT ?`,
        ...[since, count],
      )
      .toArray()
      .map(({ at }) => at);
  }

  #ran(generation: number, now: number): void {
    this.#sql.exec(
      `UPDATE timeline SET took_ms = ? - at
       WHERE generation = ? AND took_ms IS NULL AND event IN ('created', 'woke', 'booted')`,
      ...[now, generation],
    );
  }

  #add({ at, event, generation, tookMs, reason, cause }: Entry): void {
    this.#sql.exec(
      "INSERT INTO timeline (at, event, generation, took_ms, reason, cause) VALUES (?, ?, ?, ?, ?, ?)",
      ...[at, event, generation, tookMs, reason, cause && JSON.stringify(cause)],
    );
    this.#sql.exec("DELETE FROM timeline WHERE ordinal <= last_insert_rowid() - ?", KEPT);
  }

  #rows(rest: string, ...bindings: SqlStorageValue[]): TimelineEntry[] {
    return this.#sql
      .exec<Row & Record<string, SqlStorageValue>>(
        `SELECT at, event, generation, took_ms AS tookMs, reason, cause FROM timeline ${rest}`,
        ...bindings,
      )
      .toArray()
      .map(({ at, cause, ...row }) => ({ ...row, at: iso(at), cause: cause === null ? null : JSON.parse(cause) }));
  }
}

/** Why a run begins without the RAM of before. */
function ramGone(before: Life, after: Life, event: LifeEvent): string {
  if (event.type === "runFailed") return after.stopReason ?? "wake_failed";
  if (event.type === "ended") return event.reason;
  return before.state === "stopped" ? (before.stopReason ?? "restart") : "restart";
}

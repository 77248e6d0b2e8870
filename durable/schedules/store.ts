/** The rows of a sandbox's schedules, and the alarm that they ask for. No rules. */
import { scheduleLimits, type ScheduleRunState } from "../../sdk/contract/schedule.ts";
import { Tables } from "../migrations.ts";
import { earliest } from "../time.ts";
import { DAY_MS, type Output, type RunRecord, type ScheduleRecord } from "./record.ts";
import { migrations } from "./schema.ts";

type Row = { readonly body: string };

export interface Whose {
  readonly account: string;
  readonly label: string;
  readonly sandboxId: string;
}

/** A step that is under way is looked after so often, milliseconds: who made it may be gone. */
const SAFETY_MS = 30_000;
const KEPT_MS = scheduleLimits.runDaysKept * DAY_MS;
/** Rows that one look at what is over takes up. */
const SWEEP_MAX = 200;

export class SchedulesStore {
  readonly #ctx: DurableObjectState;
  readonly #sql: SqlStorage;
  readonly #tables: Tables;
  #whose: Whose | null = null;
  /** Runs whose steps are under way here. */
  readonly busy = new Set<string>();

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
    this.#sql = ctx.storage.sql;
    this.#tables = new Tables(ctx.storage, migrations);
  }

  /** Whose they are; null where nothing was ever stored: asking leaves no trace. */
  get whose(): Whose | null {
    if (!this.#tables.exist) return null;
    this.#whose ??= this.#sql
      .exec<{ account: string; label: string; sandboxId: string }>(
        "SELECT account, label, sandbox_id AS sandboxId FROM whose",
      )
      .one();
    return this.#whose;
  }

  open(whose: Whose): void {
    if (!this.#tables.make()) return;
    this.#sql.exec("INSERT INTO whose VALUES (1, ?, ?, ?)", whose.account, whose.label, whose.sandboxId);
    this.#whose = whose;
  }

  /** Everything, the alarm too. */
  async clear(): Promise<void> {
    this.#whose = null;
    await this.#tables.drop();
  }

  schedule(id: string): ScheduleRecord | null {
    return this.#one<ScheduleRecord>("SELECT body FROM schedules WHERE id = ?", id);
  }

  scheduleCalled(called: string): ScheduleRecord | null {
    return this.schedule(called) ?? this.#one<ScheduleRecord>("SELECT body FROM schedules WHERE name = ?", called);
  }

  /** The oldest first. */
  schedules(): ScheduleRecord[] {
    return this.#all<ScheduleRecord>("SELECT body FROM schedules ORDER BY created_at, id");
  }

  schedulesDue(now: number): ScheduleRecord[] {
    return this.#all<ScheduleRecord>(
      "SELECT body FROM schedules WHERE enabled = 1 AND next_at <= ? ORDER BY next_at, id",
      now,
    );
  }

  saveSchedule(record: ScheduleRecord): void {
    const { id, name, createdAt, enabled, nextAt } = record;
    this.#sql.exec(
      `INSERT INTO schedules (id, name, created_at, enabled, next_at, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
       ON CONFLICT (id) DO UPDATE SET name = ?2, enabled = ?4, next_at = ?5, body = ?6`,
      ...[id, name, createdAt, enabled ? 1 : 0, nextAt, JSON.stringify(record)],
    );
    this.arm();
  }

  /** A schedule with its runs. */
  removeSchedule(id: string): void {
    this.#sql.exec("DELETE FROM schedules WHERE id = ?", id);
    this.#forget("schedule_id = ?", id);
    this.arm();
  }

  run(id: string): RunRecord | null {
    return this.#one<RunRecord>("SELECT body FROM runs WHERE id = ?", id);
  }

  newestRun(scheduleId: string): RunRecord | null {
    return this.#one<RunRecord>("SELECT body FROM runs WHERE schedule_id = ? ORDER BY seq DESC LIMIT 1", scheduleId);
  }

  /** The one that goes on. */
  openRun(scheduleId: string): RunRecord | null {
    return this.#one<RunRecord>("SELECT body FROM runs WHERE schedule_id = ? AND state = 'running'", scheduleId);
  }

  /** The newest first, from there on. */
  *runsBefore(
    scheduleId: string,
    createdAt: number,
    id: string,
    state: ScheduleRunState | undefined,
  ): Generator<RunRecord> {
    yield* this.#each<RunRecord>(
      `SELECT body FROM runs WHERE schedule_id = ?1 AND (created_at, id) < (?2, ?3) AND (?4 IS NULL OR state = ?4)
       ORDER BY created_at DESC, id DESC`,
      ...[scheduleId, createdAt, id, state ?? null],
    );
  }

  addRun(run: RunRecord): void {
    const { id, scheduleId, createdAt, state, dueAt, endedAt } = run;
    this.#sql.exec(
      "INSERT INTO runs (id, schedule_id, created_at, state, due_at, ended_at, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
      ...[id, scheduleId, createdAt, state, dueAt, endedAt, JSON.stringify(run)],
    );
    const beyond = (which: string) =>
      `schedule_id = ?1 AND state <> 'running' AND seq IN
       (SELECT seq FROM runs WHERE schedule_id = ?1 ${which} ORDER BY seq DESC LIMIT -1 OFFSET ?2)`;
    // Else a long run of a schedule of every minute would leave nothing but what was skipped meanwhile.
    this.#forget(beyond("AND state = 'skipped'"), scheduleId, scheduleLimits.skippedKept);
    this.#forget(beyond(""), scheduleId, scheduleLimits.runsKept);
    this.arm();
  }

  /** Of one that is known still. */
  saveRun(run: RunRecord): void {
    if (!this.#tables.exist) return;
    this.#sql.exec(
      "UPDATE runs SET state = ?, due_at = ?, ended_at = ?, body = ? WHERE id = ?",
      ...[run.state, run.dueAt, run.endedAt, JSON.stringify(run), run.id],
    );
    this.arm();
  }

  output(runId: string): Output | null {
    if (!this.#tables.exist) return null;
    const [row] = this.#sql
      .exec<{ stdout: ArrayBuffer | null; stderr: ArrayBuffer | null; body: ArrayBuffer | null }>(
        "SELECT stdout, stderr, body FROM outputs WHERE run_id = ?",
        runId,
      )
      .toArray();
    const bytes = (buffer: ArrayBuffer | null) => buffer && new Uint8Array(buffer);
    return row ? { stdout: bytes(row.stdout), stderr: bytes(row.stderr), body: bytes(row.body) } : null;
  }

  saveOutput(runId: string, { stdout, stderr, body }: Output): void {
    if (!this.run(runId)) return;
    this.#sql.exec("INSERT OR REPLACE INTO outputs VALUES (?, ?, ?, ?)", runId, stdout, stderr, body);
  }

  /** Runs whose next step is due, and is not under way. */
  runsDue(now: number): RunRecord[] {
    return this.#all<RunRecord>("SELECT body FROM runs WHERE due_at <= ? ORDER BY due_at, seq", now).filter(
      ({ id }) => !this.busy.has(id),
    );
  }

  change(key: string, since: number): { fingerprint: string; id: string } | null {
    if (!this.#tables.exist) return null;
    const [row] = this.#sql
      .exec<{ fingerprint: string; id: string }>(
        "SELECT fingerprint, id FROM changes WHERE key = ? AND at >= ?",
        ...[key, since],
      )
      .toArray();
    return row ?? null;
  }

  saveChange(key: string, fingerprint: string, id: string, now: number, keptMs: number): void {
    this.#sql.exec("DELETE FROM changes WHERE at < ?", now - keptMs);
    this.#sql.exec("INSERT OR REPLACE INTO changes VALUES (?, ?, ?, ?)", key, fingerprint, id, now);
  }

  /** Forget what is over for long. */
  sweep(now: number): void {
    if (!this.#tables.exist) return;
    this.#forget(
      "seq IN (SELECT seq FROM runs WHERE ended_at <= ? ORDER BY ended_at LIMIT ?)",
      now - KEPT_MS,
      SWEEP_MAX,
    );
  }

  /** Set the alarm to when something is due. At once, so that it is stored with what asks for it. */
  arm(): void {
    if (!this.#tables.exist) return;
    const now = Date.now();
    const min = (query: string) => this.#sql.exec<{ at: number | null }>(query).one().at;
    const ended = min("SELECT MIN(ended_at) AS at FROM runs WHERE ended_at IS NOT NULL");
    const steps = this.#sql
      .exec<{ id: string; at: number }>("SELECT id, due_at AS at FROM runs WHERE due_at IS NOT NULL")
      .toArray()
      .map(({ id, at }) => (this.busy.has(id) ? now + SAFETY_MS : at));
    const due = earliest(
      min("SELECT MIN(next_at) AS at FROM schedules WHERE enabled = 1"),
      ended === null ? null : ended + KEPT_MS,
      ...steps,
    );
    void (due === null ? this.#ctx.storage.deleteAlarm() : this.#ctx.storage.setAlarm(Math.max(due, now + 1)));
  }

  transaction<T>(work: () => T): T {
    return this.#ctx.storage.transactionSync(work);
  }

  /** Runs with their output. */
  #forget(where: string, ...bindings: SqlStorageValue[]): void {
    const gone = this.#sql.exec<{ id: string }>(`DELETE FROM runs WHERE ${where} RETURNING id`, ...bindings).toArray();
    for (const { id } of gone) this.#sql.exec("DELETE FROM outputs WHERE run_id = ?", id);
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

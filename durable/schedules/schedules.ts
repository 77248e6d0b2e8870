/** Schedules themselves: made, changed, looked at, deleted; and runs that are begun when they are due, or by hand. */
import { scheduleId, scheduleRunId } from "../../sdk/contract/names.ts";
import {
  scheduleLimits,
  type CreateSchedule,
  type DeletedSchedule,
  type Schedule,
  type ScheduleRun,
  type ScheduleRunList,
  type ScheduleRunListQuery,
  type UpdateSchedule,
} from "../../sdk/contract/schedule.ts";
import type { Once } from "../account/api.ts";
import { page } from "../page.ts";
import { refuse, type Result } from "../result.ts";
import { replayed } from "../sandbox/api.ts";
import {
  DAY_MS,
  ended,
  newRun,
  newSchedule,
  toOutput,
  toRun,
  toSchedule,
  updatedSchedule,
  type RunRecord,
  type ScheduleRecord,
} from "./record.ts";
import { dueOf, isUnderWay } from "./rules.ts";
import type { SchedulesStore } from "./store.ts";

/** How long changes with an Idempotency-Key are remembered, milliseconds. */
const CHANGES_KEPT_MS = DAY_MS;

type Refusal = ReturnType<typeof refuse>;
export const scheduleNotFound = refuse("schedule_not_found", "There is no such schedule.");
const runNotFound = refuse("schedule_run_not_found", "There is no such run.");

export class Schedules {
  readonly #store: SchedulesStore;

  constructor(store: SchedulesStore) {
    this.#store = store;
  }

  async create(input: CreateSchedule, once: Once): Promise<Result<{ schedule: Schedule }>> {
    const id = await scheduleId(this.#store.whose?.sandboxId ?? "", once.key);
    const now = Date.now();
    const known = this.#known(once);
    if (known) return known.ok ? this.#again(known.id) : known;
    // Made under the key longer ago than changes are remembered.
    if (this.#store.schedule(id)) return this.#again(id);
    const record = newSchedule(id, input, now);
    const fault = timeFault(record, now) ?? this.#nameFault(record);
    if (fault) return fault;
    const { perSandbox: max } = scheduleLimits;
    if (this.#store.schedules().length >= max)
      return refuse("quota_exceeded", `A sandbox has at most ${max} schedules.`, { max });
    this.#save(record, once, now);
    return { ok: true, schedule: this.shown(record) };
  }

  list(): Schedule[] {
    return this.#store.schedules().map((record) => this.shown(record));
  }

  get(called: string): Result<{ schedule: Schedule }> {
    const record = this.#store.scheduleCalled(called);
    return record ? { ok: true, schedule: this.shown(record) } : scheduleNotFound;
  }

  update(called: string, input: UpdateSchedule, once: Once): Result<{ schedule: Schedule }> {
    const now = Date.now();
    const known = this.#known(once);
    if (known) return known.ok ? this.#again(known.id) : known;
    const before = this.#store.scheduleCalled(called);
    if (!before) return scheduleNotFound;
    if (input.zone !== undefined && input.cron === undefined && before.cron === null)
      return invalid("zone", "only with cron: at has an offset");
    const record = updatedSchedule(before, input, now);
    const fault = (record.nextAt === before.nextAt ? null : timeFault(record, now)) ?? this.#nameFault(record);
    if (fault) return fault;
    this.#save(record, once, now);
    return { ok: true, schedule: this.shown(record) };
  }

  remove(called: string, once: Once): Result<{ schedule: DeletedSchedule }> {
    const sandboxId = this.#store.whose?.sandboxId ?? "";
    const known = this.#known(once);
    if (known)
      return known.ok ? { ok: true, schedule: { id: known.id, sandboxId, deleted: true, replayed: true } } : known;
    const record = this.#store.scheduleCalled(called);
    if (!record) return scheduleNotFound;
    this.#store.transaction(() => {
      this.#store.removeSchedule(record.id);
      this.#remember(once, record.id, Date.now());
    });
    return { ok: true, schedule: { id: record.id, sandboxId, deleted: true } };
  }

  async runNow(called: string, once: Once): Promise<Result<{ run: ScheduleRun }>> {
    const found = this.#store.scheduleCalled(called);
    const id = await scheduleRunId(`${found?.id ?? ""} by hand`, once.key);
    const now = Date.now();
    const known = this.#known(once);
    if (known && !known.ok) return known;
    const before = known && this.#store.run(known.id);
    if (before) return replayed({ ok: true, run: this.#shownRun(before) });
    const schedule = this.#store.schedule(found?.id ?? "");
    if (known || !schedule) return known ? runNotFound : scheduleNotFound;
    const run = this.#store.transaction(() => {
      this.#remember(once, id, now);
      return this.#begin(schedule, { id, scheduledAt: now, manual: true, caughtUp: false }, now);
    });
    return { ok: true, run: this.#shownRun(run) };
  }

  runs(called: string, query: ScheduleRunListQuery): Result<{ page: ScheduleRunList | null }> {
    const schedule = this.#store.scheduleCalled(called);
    if (!schedule) return scheduleNotFound;
    const runs = page(
      query,
      /^(\d{1,15})\.(run-[0-9a-z]{20})$/,
      (at, id) => this.#store.runsBefore(schedule.id, at, id, query.state),
      () => true,
      (run) => this.#shownRun(run),
    );
    return { ok: true, page: runs };
  }

  run(called: string, id: string, withOutput: boolean): Result<{ run: ScheduleRun }> {
    const schedule = this.#store.scheduleCalled(called);
    if (!schedule) return scheduleNotFound;
    const run = this.#store.run(id);
    if (run?.scheduleId !== schedule.id) return runNotFound;
    const shown = this.#shownRun(run);
    return { ok: true, run: withOutput ? { ...shown, output: toOutput(run, this.#store.output(id)) } : shown };
  }

  /** Store a run of each schedule that is due, and when it is due next, all in one. */
  async fire(): Promise<void> {
    for (const { id } of this.#store.schedulesDue(Date.now())) {
      const time = this.#dueNow(id)?.due.time;
      if (time === undefined) continue;
      // The same for the same time: whatever happens, it runs once.
      const runId = await scheduleRunId(id, `at ${time}`);
      this.#fire(id, time, runId);
    }
  }

  shown(record: ScheduleRecord): Schedule {
    return toSchedule(record, this.#store.whose?.sandboxId ?? "", this.#store.newestRun(record.id));
  }

  #dueNow(id: string) {
    const schedule = this.#store.schedule(id);
    const due = schedule && dueOf(schedule, Date.now());
    return due ? { schedule, due } : null;
  }

  #fire(id: string, time: number, runId: string): void {
    const now = Date.now();
    const found = this.#dueNow(id);
    // Changed, or a minute further, while the run got its id: that is another look's.
    if (found?.due.time !== time) return;
    const { schedule, due } = found;
    const { nextAt, what } = due;
    this.#store.transaction(() => {
      this.#store.saveSchedule({ ...schedule, nextAt });
      if (this.#store.run(runId)) return;
      const of = { id: runId, scheduledAt: time, manual: false, caughtUp: what === "caughtUp" };
      if (what === "missed") this.#store.addRun(ended(newRun(schedule, of, now), "skipped", "missed", now));
      else this.#begin(schedule, of, now);
    });
  }

  #begin(schedule: ScheduleRecord, of: Parameters<typeof newRun>[1], now: number): RunRecord {
    const run = newRun(schedule, of, now);
    const open = this.#store.openRun(schedule.id);
    if (open && isUnderWay(open)) {
      const skipped = ended(run, "skipped", "overlap", now);
      this.#store.addRun(skipped);
      // Where its machine was put to sleep, it is this time that wakes it, so that the command goes on.
      if (open.processId !== null && !open.insist) this.#store.saveRun({ ...open, insist: true, dueAt: now });
      return skipped;
    }
    // It waited for a next try until here.
    if (open) this.#store.saveRun(ended(open, "failed", open.reason, now));
    this.#store.addRun(run);
    return run;
  }

  #save(record: ScheduleRecord, once: Once, now: number): void {
    this.#store.transaction(() => {
      this.#store.saveSchedule(record);
      this.#remember(once, record.id, now);
    });
  }

  #nameFault({ id, name }: ScheduleRecord): Refusal | null {
    const holder = name === null ? null : this.#store.scheduleCalled(name);
    return holder && holder.id !== id
      ? refuse("name_taken", "The sandbox has a schedule of that name.", { name })
      : null;
  }

  /** What the first call of an Idempotency-Key changed, or that it was another call. */
  #known({ key, fingerprint }: Once): { ok: true; id: string } | Refusal | null {
    const known = key === null ? null : this.#store.change(key, Date.now() - CHANGES_KEPT_MS);
    if (!known) return null;
    if (known.fingerprint !== fingerprint)
      return refuse("idempotency_key_reused", "The Idempotency-Key was used for another request.");
    return { ok: true, id: known.id };
  }

  #remember({ key, fingerprint }: Once, id: string, now: number): void {
    if (key !== null) this.#store.saveChange(key, fingerprint, id, now, CHANGES_KEPT_MS);
  }

  #again(id: string): Result<{ schedule: Schedule }> {
    const record = this.#store.schedule(id);
    return record ? replayed({ ok: true, schedule: this.shown(record) }) : scheduleNotFound;
  }

  #shownRun(run: RunRecord): ScheduleRun {
    return toRun(run, this.#store.whose?.sandboxId ?? "");
  }
}

/** Why it could not run at its time. */
function timeFault({ at, nextAt }: ScheduleRecord, now: number): Refusal | null {
  const { aheadDaysMax } = scheduleLimits;
  if (at !== null && at <= now) return invalid("at", "it is over");
  if (at !== null && at > now + aheadDaysMax * DAY_MS) return invalid("at", `at most ${aheadDaysMax} days ahead`);
  return nextAt === null ? invalid("cron", "it would never run") : null;
}

function invalid(path: string, message: string): Refusal {
  return refuse("invalid_request", `The schedule is not valid: ${path}: ${message}`, { issues: [{ path, message }] });
}

/** What is due, and what follows a try: done, another try, or the end. Pure. */
import type { ErrorCode } from "../../sdk/contract/error-codes.ts";
import { scheduleLimits } from "../../sdk/contract/schedule.ts";
import { parseCron } from "../../sdk/contract/cron.ts";
import { newestTime } from "./calendar.ts";
import { timeAfter, type RunRecord, type ScheduleRecord } from "./record.ts";

const SECOND = 1000;
const MINUTE = 60 * SECOND;

/** A run that begins no later than this is on time, milliseconds: an alarm may be late. */
export const ON_TIME_MS = 5 * MINUTE;
const CATCH_UP_MS = scheduleLimits.catchUpSeconds * SECOND;
/** Waits between tries, milliseconds; after the last it failed: within 10 minutes. */
export const RETRIES_MS: readonly number[] = [5 * SECOND, 30 * SECOND, 2 * MINUTE, 5 * MINUTE];
/** Waits after a wake until its port listens, milliseconds; only after the last does a try count. */
export const SETTLING_MS: readonly number[] = [1, 2, 4, 8, 16, 30].map((seconds) => seconds * SECOND);
/** Waits of one that can't run now, milliseconds: the last over and over. */
const PATIENCE_MS: readonly number[] = [MINUTE, 2 * MINUTE, 5 * MINUTE, 15 * MINUTE];
/** A command that was not reached for so long is given up, milliseconds. */
export const LOST_MS = 24 * 60 * MINUTE;

export interface Due {
  /** The newest time that is due; others before it are one with it. */
  readonly time: number;
  /** `missed`: it is too late for it. */
  readonly what: "run" | "caughtUp" | "missed";
  /** The first that is not due yet. */
  readonly nextAt: number | null;
}

/** null: nothing is. A time is due once: `nextAt` only ever goes on, whatever the clock does. */
export function dueOf(record: ScheduleRecord, now: number): Due | null {
  const { enabled, nextAt, catchUp } = record;
  if (!enabled || nextAt === null || nextAt > now) return null;
  const time = newestOf(record, nextAt, now);
  const late = now - time;
  const what = late <= ON_TIME_MS ? "run" : catchUp && late < CATCH_UP_MS ? "caughtUp" : "missed";
  return { time, what, nextAt: timeAfter(record, now) };
}

/** Times that nobody would catch up with are not counted one by one. */
function newestOf({ cron, zone }: ScheduleRecord, nextAt: number, now: number): number {
  const parsed = cron === null ? null : parseCron(cron);
  if (!parsed?.ok) return nextAt;
  return newestTime(parsed.cron, zone, Math.max(nextAt, now - CATCH_UP_MS), now) ?? nextAt;
}

/** Why a try did not reach its end. */
export interface Fault {
  readonly reason: ErrorCode | "timeout" | "broke_off";
  readonly retryAfterMs?: number | undefined;
  /** The sandbox woke a moment ago: its programs need one. */
  readonly settling: boolean;
}

/** The sandbox, or its account, can't have it run now; that may be mended by somebody. */
const HELD_BACK: ReadonlySet<Fault["reason"]> = new Set([
  "sandbox_stopped",
  "sandbox_paused",
  "insufficient_funds",
  "spending_limit_reached",
  "account_blocked",
  "quota_exceeded",
  "wake_limit_reached",
]);
/** Another try would end as this one did. */
const FINAL: ReadonlySet<Fault["reason"]> = new Set([
  "not_found",
  "sandbox_gone",
  "invalid_request",
  "invalid_path",
  "file_not_found",
  "not_a_directory",
  "idempotency_key_reused",
  "timeout",
]);

export type Next =
  | { readonly next: "failed"; readonly attempts: number }
  | { readonly next: "retry"; readonly at: number; readonly attempts: number; readonly settling: number };

type Progress = Pick<RunRecord, "attempts" | "settling" | "patient" | "scheduledAt">;

export function judge(run: Progress, fault: Fault, now: number): Next {
  const { reason, retryAfterMs = 0, settling } = fault;
  if (settling) {
    const wait = SETTLING_MS[run.settling];
    if (wait !== undefined)
      return { next: "retry", at: now + wait, attempts: run.attempts, settling: run.settling + 1 };
  }
  const attempts = run.attempts + 1;
  const failed = { next: "failed", attempts } as const;
  if (FINAL.has(reason)) return failed;
  if (run.patient && HELD_BACK.has(reason)) {
    const wait = PATIENCE_MS[Math.min(run.attempts, PATIENCE_MS.length - 1)] ?? MINUTE;
    return now - run.scheduledAt < CATCH_UP_MS
      ? { next: "retry", at: now + Math.max(wait, Math.min(retryAfterMs, 60 * MINUTE)), attempts, settling: 0 }
      : failed;
  }
  const wait = RETRIES_MS[run.attempts];
  if (wait === undefined) return failed;
  return { next: "retry", at: now + Math.max(wait, Math.min(retryAfterMs, 5 * MINUTE)), attempts, settling: 0 };
}

/** What it is about is gone with the machine's RAM, or with the sandbox. */
export function isLost(reason: string): boolean {
  return reason === "not_found" || reason === "sandbox_gone" || reason === "sandbox_stopped";
}

/** How long until a command is looked at again, milliseconds: a tenth of its age. */
export function lookAgainMs(ageMs: number): number {
  return Math.min(15 * SECOND, Math.max(100, Math.round(ageMs / 10)));
}

/** Whether another run of the schedule can't begin: this one has reached the machine, or is about to. */
export function isUnderWay({ begunAt, processId, startedAt }: RunRecord): boolean {
  return begunAt !== null || processId !== null || startedAt === null;
}

/** Schedules and runs as they are stored, and as the API shows them. Pure. */
import { parseCron } from "../../sdk/contract/cron.ts";
import {
  scheduleLimits,
  type CreateSchedule,
  type Schedule,
  type ScheduleAction,
  type ScheduleOutput,
  type ScheduleRun,
  type ScheduleRunState,
  type UpdateSchedule,
} from "../../sdk/contract/schedule.ts";
import { iso, isoOrNull } from "../time.ts";
import { nextTime } from "./calendar.ts";

export const DAY_MS = 86_400_000;

export interface ScheduleRecord {
  readonly id: string;
  readonly name: string | null;
  readonly cron: string | null;
  readonly zone: string;
  /** Unix milliseconds. */
  readonly at: number | null;
  readonly action: ScheduleAction;
  readonly enabled: boolean;
  readonly catchUp: boolean;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** The time that is due next; also while it is off, so that what it missed is known. */
  readonly nextAt: number | null;
}

export interface RunRecord {
  readonly id: string;
  readonly scheduleId: string;
  readonly createdAt: number;
  readonly scheduledAt: number;
  readonly manual: boolean;
  readonly caughtUp: boolean;
  readonly kind: ScheduleAction["kind"];
  /** As the schedule had it then; null once it ended. */
  readonly action: ScheduleAction | null;
  /** Whether it may wait for a sandbox that can't run now. */
  readonly patient: boolean;
  readonly state: ScheduleRunState;
  readonly reason: string | null;
  /** Tries that count, and tries in a row that did not: the sandbox had just woken. */
  readonly attempts: number;
  readonly settling: number;
  /** When its next step is due; null once it ended. */
  readonly dueAt: number | null;
  /** A try is under way, or broke off. */
  readonly begunAt: number | null;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** The command runs, and when its machine last said so. */
  readonly processId: string | null;
  readonly processAt: number | null;
  readonly reachedAt: number | null;
  /** Looks at the command in a row that did not reach it. */
  readonly unreached: number;
  /** Wake the sandbox for it, also where somebody put it to sleep. */
  readonly insist: boolean;
  /** Until when the sandbox is held awake for it. */
  readonly heldUntil: number | null;
  readonly exitCode: number | null;
  readonly status: number | null;
  readonly wasAsleep: boolean | null;
  readonly wakeMs: number | null;
  readonly outputBytes: number;
  readonly truncated: boolean;
}

type Bytes = Uint8Array<ArrayBuffer>;

/** What a run wrote, as far as it is kept. */
export interface Output {
  readonly stdout: Bytes | null;
  readonly stderr: Bytes | null;
  readonly body: Bytes | null;
}

type Timing = Pick<ScheduleRecord, "cron" | "zone" | "at">;

/** The first time after another. */
export function timeAfter({ cron, zone, at }: Timing, after: number): number | null {
  if (cron === null) return at !== null && at > after ? at : null;
  const parsed = parseCron(cron);
  return parsed.ok ? nextTime(parsed.cron, zone, after) : null;
}

export function newSchedule(id: string, input: CreateSchedule, now: number): ScheduleRecord {
  const { name = null, cron = null, zone = "UTC", action, enabled = true, catchUp = true } = input;
  const at = input.at === undefined ? null : Date.parse(input.at);
  const nextAt = timeAfter({ cron, zone, at }, now);
  return { id, name, cron, zone, at, action, enabled, catchUp, createdAt: now, updatedAt: now, nextAt };
}

export function updatedSchedule(record: ScheduleRecord, input: UpdateSchedule, now: number): ScheduleRecord {
  const { name, cron, zone, at, action, enabled, catchUp } = input;
  const timing: Timing =
    at === undefined
      ? { cron: cron ?? record.cron, zone: zone ?? record.zone, at: cron === undefined ? record.at : null }
      : { cron: null, zone: "UTC", at: Date.parse(at) };
  // What is due stays due, unless it is at other times now.
  const isSame = timing.cron === record.cron && timing.zone === record.zone && timing.at === record.at;
  return {
    ...{ ...record, ...timing, name: name ?? record.name, action: action ?? record.action },
    ...{ enabled: enabled ?? record.enabled, catchUp: catchUp ?? record.catchUp, updatedAt: now },
    nextAt: isSame ? record.nextAt : timeAfter(timing, now),
  };
}

interface NewRun {
  readonly id: string;
  readonly scheduledAt: number;
  readonly manual: boolean;
  readonly caughtUp: boolean;
}

export function newRun(schedule: ScheduleRecord, of: NewRun, now: number): RunRecord {
  const { id: scheduleId, action, catchUp } = schedule;
  return {
    ...{ ...of, scheduleId, createdAt: now, kind: action.kind, action, patient: catchUp && !of.manual },
    ...{ state: "running", reason: null, attempts: 0, settling: 0, dueAt: now, begunAt: null },
    ...{ startedAt: null, endedAt: null, processId: null, processAt: null, reachedAt: null, unreached: 0 },
    ...{ insist: false, heldUntil: null, exitCode: null, status: null, wasAsleep: null, wakeMs: null },
    ...{ outputBytes: 0, truncated: false },
  };
}

/** It is over. */
export function ended(
  run: RunRecord,
  state: Exclude<ScheduleRunState, "running">,
  reason: string | null,
  now: number,
): RunRecord {
  return { ...run, state, reason, action: null, dueAt: null, begunAt: null, endedAt: now };
}

/** The newest time that is shown last. */
export function nextTimes(record: ScheduleRecord): number[] {
  if (!record.enabled) return [];
  const times: number[] = [];
  for (let time = record.nextAt; time !== null; time = timeAfter(record, time)) {
    times.push(time);
    if (times.length === scheduleLimits.nextShown) break;
  }
  return times;
}

export function toSchedule(record: ScheduleRecord, sandboxId: string, lastRun: RunRecord | null): Schedule {
  const { id, name, cron, zone, at, action, enabled, catchUp } = record;
  return {
    ...{ id, kind: "schedule", sandboxId, name, cron, zone, at: isoOrNull(at), action, enabled, catchUp },
    next: nextTimes(record).map(iso),
    lastRun: lastRun && toRun(lastRun, sandboxId),
    createdAt: iso(record.createdAt),
    updatedAt: iso(record.updatedAt),
  };
}

export function toRun(run: RunRecord, sandboxId: string): ScheduleRun {
  const { id, scheduleId, kind, manual, caughtUp, state, reason, attempts, exitCode, status } = run;
  return {
    ...{ id, kind: "schedule-run", sandboxId, scheduleId, action: kind, manual, caughtUp, state, reason, attempts },
    scheduledAt: iso(run.scheduledAt),
    startedAt: isoOrNull(run.startedAt),
    endedAt: isoOrNull(run.endedAt),
    // Of a command that runs, its next look is nobody's business.
    nextAttemptAt: isoOrNull(run.processId === null ? run.dueAt : null),
    ...{ exitCode, status, wasAsleep: run.wasAsleep, wakeMs: run.wakeMs, processId: run.processId },
  };
}

/** @param of null: nothing was kept */
export function toOutput(run: RunRecord, of: Output | null): ScheduleOutput | null {
  if (!of) return null;
  const { outputBytes: bytes, truncated } = run;
  const [stdout, stderr] = [of.stdout, of.stderr].map((one) => one && encoded(one, truncated));
  return {
    ...{ stdout: stdout ?? null, stderr: stderr ?? null, body: of.body && encoded(of.body, truncated) },
    ...{ bytes, truncated },
  };
}

/** @param isCut a character may be cut at either end */
function encoded(bytes: Bytes, isCut: boolean): { encoding: "text" | "base64"; data: string } {
  const from = isCut ? leadOf(bytes) : 0;
  for (let to = bytes.length; to >= from && to >= bytes.length - (isCut ? 3 : 0); to--) {
    try {
      const data = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes.subarray(from, to));
      return { encoding: "text", data };
    } catch {
      // Not text up to there.
    }
  }
  return { encoding: "base64", data: toBase64(bytes) };
}

/** Where the first whole character begins. */
function leadOf(bytes: Bytes): number {
  let at = 0;
  while (at < 3 && at < bytes.length && ((bytes[at] ?? 0) & 0xc0) === 0x80) at++;
  return at;
}

function toBase64(bytes: Bytes): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

/** Schedules and their runs as the API shows them. */
import type { Schedule, ScheduleRun } from "../../sdk/contract/schedule.ts";

export const SCHEDULE_ID = "sch-0123456789abcdefghij";
export const RUN_ID = "run-0123456789abcdefghij";
export const SCHEDULES = "/v1/sandboxes/demo~abcdefghijkl/schedules";

const AT = "2031-01-02T09:00:00.000Z";

export function scheduleAnswer(changes: Partial<Schedule> = {}): Schedule {
  return {
    ...{ id: SCHEDULE_ID, kind: "schedule", sandboxId: "demo~abcdefghijkl", name: "report", cron: "0 9 * * *" },
    ...{ zone: "Europe/Berlin", at: null, action: { kind: "command", command: "date" }, enabled: true, catchUp: true },
    ...{ next: [AT, "2031-01-03T09:00:00.000Z"], lastRun: null, createdAt: AT, updatedAt: AT, ...changes },
  };
}

export function runAnswer(changes: Partial<ScheduleRun> = {}): ScheduleRun {
  return {
    ...{ id: RUN_ID, kind: "schedule-run", sandboxId: "demo~abcdefghijkl", scheduleId: SCHEDULE_ID },
    ...{ action: "command", manual: false, caughtUp: false, scheduledAt: AT, startedAt: AT },
    ...{ endedAt: "2031-01-02T09:00:01.500Z", state: "succeeded", reason: null, attempts: 1, nextAttemptAt: null },
    ...{ exitCode: 0, status: null, wasAsleep: true, wakeMs: 40, processId: "p-1-abcdef", ...changes },
  };
}

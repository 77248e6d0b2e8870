/** Operations on the schedules of a sandbox. */
import { z } from "zod";
import {
  CreateSchedule,
  DeletedSchedule,
  Schedule,
  ScheduleList,
  ScheduleRun,
  ScheduleRunList,
  ScheduleRunListQuery,
  UpdateSchedule,
} from "../../sdk/contract/schedule.ts";
import type { Operation } from "./operation.ts";

const Empty = z.strictObject({});
const NoQuery = z.strictObject({});
const S = "/v1/sandboxes/{id}/schedules";
const ONE = `${S}/{schedule}`;

export const schedules: readonly Omit<Operation, "work">[] = [
  {
    method: "POST",
    path: S,
    summary: "Make a schedule: a command, a request or a wake, at its times.",
    query: NoQuery,
    body: CreateSchedule,
    answer: Schedule,
  },
  { method: "GET", path: S, summary: "List schedules, the oldest first.", query: NoQuery, answer: ScheduleList },
  { method: "GET", path: ONE, summary: "Read a schedule, by id or name.", query: NoQuery, answer: Schedule },
  {
    method: "POST",
    path: `${ONE}:update`,
    summary: "Change when it runs or what it does, or turn it on or off.",
    query: NoQuery,
    body: UpdateSchedule,
    answer: Schedule,
  },
  {
    method: "POST",
    path: `${ONE}:run`,
    summary: "Run it now.",
    query: NoQuery,
    body: Empty,
    answer: ScheduleRun,
  },
  {
    method: "POST",
    path: `${ONE}:delete`,
    summary: "Delete a schedule with its runs.",
    query: NoQuery,
    body: Empty,
    answer: DeletedSchedule,
  },
  {
    method: "DELETE",
    path: ONE,
    summary: "Delete a schedule with its runs.",
    query: NoQuery,
    answer: DeletedSchedule,
  },
  {
    method: "GET",
    path: `${ONE}/runs`,
    summary: "List runs of a schedule, the newest first.",
    query: ScheduleRunListQuery,
    answer: ScheduleRunList,
  },
  {
    method: "GET",
    path: `${ONE}/runs/{run}`,
    summary: "Read a run with its output.",
    query: NoQuery,
    answer: ScheduleRun,
  },
];

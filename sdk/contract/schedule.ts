/** Schedules of a sandbox: when it is woken, what runs in it then, and what became of each run. */
import { z } from "zod";
import { CRON_MAX, parseCron } from "./cron.ts";
import { DrillKill } from "./drill.ts";
import { AGENT_PORT } from "./guest-limits.ts";
import { ScheduleId, ScheduleRunId, SandboxId } from "./names.ts";
import { Env } from "./sandbox.ts";

export const scheduleLimits = {
  /** Schedules of one sandbox. */
  perSandbox: 100,
  /** How far ahead `at` may be, days. */
  aheadDaysMax: 366,
  /** Time limit of a command, and of a request, seconds. */
  commandSecondsDefault: 3600,
  commandSecondsMax: 86_400,
  requestSecondsDefault: 60,
  requestSecondsMax: 900,
  /** Characters of a command, and of a request's body. */
  textMax: 65_536,
  headersMax: 64,
  /** Output kept of one run, bytes: the newest of a command's, the first of an answer's. */
  outputBytes: 65_536,
  /** Runs kept of one schedule, and for how many days; of those that were skipped, the newest. */
  runsKept: 100,
  skippedKept: 20,
  runDaysKept: 30,
  /** Times that an answer looks ahead. */
  nextShown: 5,
  /** A time that was missed is caught up with while it is younger, seconds. */
  catchUpSeconds: 86_400,
  listMax: 100,
} as const;

const Time = z.iso.datetime();
const Name = z.string().min(1).max(128);
const Port = z
  .int()
  .min(1)
  .max(65_535)
  .refine((port) => port !== AGENT_PORT, "not the port of the guest agent");
const GuestPath = z
  .string()
  .min(1)
  .max(4096)
  .refine((path) => !path.includes("\0"), "a path has no NUL")
  .refine((path) => !path.split("/").includes(".."), 'a path has no ".." in it; name the place itself');
const UrlPath = z
  .string()
  .max(2048)
  .refine((path) => isPlainPath(path), "a path that begins with / and is written as URLs write it, without ..");

/** What a URL makes nothing else of. */
function isPlainPath(path: string): boolean {
  if (!path.startsWith("/") || path.startsWith("//")) return false;
  const url = new URL(path, "http://sandbox");
  return url.pathname + url.search === path;
}

/** An expression such as `0 9 * * mon-fri`, or a word such as `@daily`. */
const CronText = z
  .string()
  .max(CRON_MAX)
  .superRefine((text, context) => {
    const parsed = parseCron(text);
    if (!parsed.ok) for (const message of parsed.faults) context.addIssue({ code: "custom", message });
  });
/** IANA, such as `Europe/Berlin`. */
const Zone = z.string().max(64).refine(isZone, "a time zone such as Europe/Berlin or UTC");

function isZone(name: string): boolean {
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    new Intl.DateTimeFormat("en", { timeZone: name }).format(0);
    return true;
  } catch {
    return false;
  }
}

/** Said by us, or of the connection. */
const OWN_HEADER =
  /^(?:host|connection|content-length|transfer-encoding|keep-alive|te|trailer|upgrade|proxy-.*|x-rouse-.*)$/;
const HeaderName = z
  .string()
  .max(128)
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, "a header's name")
  .refine((name) => !OWN_HEADER.test(name.toLowerCase()), "a header that a program may be sent");
const HeaderValue = z
  .string()
  .max(8192)
  .regex(/^[\t\x20-\x7e\x80-\xff]*$/, "a header's value: one line");

const Command = z
  .strictObject({
    kind: z.literal("command"),
    /** Run by `bash -c`. */
    command: z.string().min(1).max(scheduleLimits.textMax).optional(),
    /** Run as it is, in the place of `command`. */
    argv: z.array(z.string().max(scheduleLimits.textMax)).min(1).max(256).optional(),
    /** `/workspace` unless given. */
    cwd: GuestPath.optional(),
    /** Beside those of the sandbox. */
    env: Env.optional(),
    /** Then it is killed; 3600 unless given, 1 to 86 400. */
    timeoutSeconds: z.int().min(1).max(scheduleLimits.commandSecondsMax).optional(),
  })
  .refine(({ command, argv }) => (command === undefined) !== (argv === undefined), {
    message: "exactly one of command and argv",
    path: ["command"],
  });

const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] as const;
const Request = z
  .strictObject({
    kind: z.literal("request"),
    /** `POST` unless given. */
    method: z.enum(methods).optional(),
    /** Of the program; 8080 unless given. */
    port: Port.optional(),
    /** With its query; `/` unless given. */
    path: UrlPath.optional(),
    headers: z
      .record(HeaderName, HeaderValue)
      .refine((all) => Object.keys(all).length <= scheduleLimits.headersMax, `at most ${scheduleLimits.headersMax}`)
      .optional(),
    body: z.string().max(scheduleLimits.textMax).optional(),
    /** Time for its whole answer; 60 unless given, 1 to 900. */
    timeoutSeconds: z.int().min(1).max(scheduleLimits.requestSecondsMax).optional(),
  })
  .refine(({ method, body }) => body === undefined || (method !== "GET" && method !== "HEAD"), {
    message: "none with GET and HEAD",
    path: ["body"],
  });

/** Kill that, and see what comes back. What is made of it is the drill itself; its end is the run's. */
const Drill = z.strictObject({ kind: z.literal("drill"), kill: DrillKill });

/** What a schedule does: a command, a request to a program in the sandbox, a drill, or only a wake. */
export const ScheduleAction = z
  .discriminatedUnion("kind", [Command, Request, Drill, z.strictObject({ kind: z.literal("wake") })])
  .meta({ id: "ScheduleAction" });
export type ScheduleAction = z.infer<typeof ScheduleAction>;
export const scheduleActionKinds = ["command", "request", "drill", "wake"] as const;

const settings = {
  /** No other schedule of the sandbox has it. */
  name: Name.optional(),
  /** When it runs, again and again: five fields, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. */
  cron: CronText.optional(),
  /** Whose clock `cron` goes by; UTC unless given. */
  zone: Zone.optional(),
  /** When it runs, once, in the place of `cron`: with an offset, at most 366 days ahead. */
  at: z.iso.datetime({ offset: true }).optional(),
  /** Whether it runs; true unless given. */
  enabled: z.boolean().optional(),
  /** Whether a time that was missed runs late, once, within a day; true unless given. */
  catchUp: z.boolean().optional(),
};

const oneTime = { message: "cron or at, not both", path: ["at"] };
const zoned = { message: "only with cron: at has an offset", path: ["zone"] };

/** `POST /v1/sandboxes/{id}/schedules`. */
export const CreateSchedule = z
  .strictObject({ ...settings, action: ScheduleAction })
  .refine(({ cron, at }) => cron !== undefined || at !== undefined, { message: "cron or at", path: ["cron"] })
  .refine(({ cron, at }) => cron === undefined || at === undefined, oneTime)
  .refine(({ zone, at }) => zone === undefined || at === undefined, zoned)
  .meta({ id: "CreateSchedule" });
export type CreateSchedule = z.infer<typeof CreateSchedule>;

/** `at` takes the place of `cron`, and the other way round. A run that has begun ends as it began. */
export const UpdateSchedule = z
  .strictObject({ ...settings, action: ScheduleAction.optional() })
  .refine(({ cron, at }) => cron === undefined || at === undefined, oneTime)
  .refine(({ zone, at }) => zone === undefined || at === undefined, zoned)
  .meta({ id: "UpdateSchedule" });
export type UpdateSchedule = z.infer<typeof UpdateSchedule>;

/** `running`: it goes on, or waits for its next try. */
export const scheduleRunStates = ["running", "succeeded", "failed", "skipped"] as const;
export const ScheduleRunState = z.enum(scheduleRunStates);
export type ScheduleRunState = z.infer<typeof ScheduleRunState>;

const Text = z.object({ encoding: z.enum(["text", "base64"]), data: z.string() });

/** What a run wrote, or what it was answered. `base64` for what is not UTF-8. */
export const ScheduleOutput = z
  .object({
    stdout: Text.nullable(),
    stderr: Text.nullable(),
    /** Of the program's answer to a request. */
    body: Text.nullable(),
    /** All that there was, bytes. */
    bytes: z.int(),
    /** Only 64 KiB are kept: the end of a command's output, the beginning of an answer. */
    truncated: z.boolean(),
  })
  .meta({ id: "ScheduleOutput" });
export type ScheduleOutput = z.infer<typeof ScheduleOutput>;

const run = {
  id: ScheduleRunId,
  kind: z.literal("schedule-run"),
  sandboxId: SandboxId,
  scheduleId: ScheduleId,
  action: z.enum(scheduleActionKinds),
  /** Asked for by `:run`. */
  manual: z.boolean(),
  /** It stands for one or more times that were missed. */
  caughtUp: z.boolean(),
  scheduledAt: Time,
  /** When it was tried first. */
  startedAt: Time.nullable(),
  endedAt: Time.nullable(),
  state: ScheduleRunState,
  /**
   * Why it failed, was skipped, or waits: an error code such as `sandbox_stopped`, or `exit_code`, `http_status`,
   * `drill_lost`, `drill_failed`, `timeout`, `process_lost`, `broke_off`, `overlap`, `missed`.
   */
  reason: z.string().nullable(),
  /** Tries so far that count. */
  attempts: z.int(),
  nextAttemptAt: Time.nullable(),
  /** Of a command; the negative number of the signal that ended it. */
  exitCode: z.int().nullable(),
  /** What the program answered a request with. */
  status: z.int().nullable(),
  /** Whether it woke the sandbox, and how long that took, milliseconds. */
  wasAsleep: z.boolean().nullable(),
  wakeMs: z.int().nullable(),
  /** Of a command, while it runs: read and follow its output with `.../processes/{processId}/output`. */
  processId: z.string().nullable(),
  replayed: z.boolean().optional(),
};

export const ScheduleRun = z
  .object({
    ...run,
    /** In lists, and for keys that only read, it is left out. */
    output: ScheduleOutput.nullable().optional(),
  })
  .meta({ id: "ScheduleRun" });
export type ScheduleRun = z.infer<typeof ScheduleRun>;

export const ScheduleRunList = z
  .object({ data: z.array(ScheduleRun), nextCursor: z.string().nullable() })
  .meta({ id: "ScheduleRunList" });
export type ScheduleRunList = z.infer<typeof ScheduleRunList>;

/** Query of `GET .../schedules/{schedule}/runs`. */
export const ScheduleRunListQuery = z.strictObject({
  state: ScheduleRunState.optional(),
  limit: z.coerce.number().int().min(1).max(scheduleLimits.listMax).optional(),
  cursor: z.string().optional(),
});
export type ScheduleRunListQuery = z.infer<typeof ScheduleRunListQuery>;

export const Schedule = z
  .object({
    id: ScheduleId,
    kind: z.literal("schedule"),
    sandboxId: SandboxId,
    name: z.string().nullable(),
    /** null: it runs once, at `at`. */
    cron: z.string().nullable(),
    zone: z.string(),
    at: Time.nullable(),
    /** For keys that only read: without `env`, `headers` and `body`. */
    action: ScheduleAction,
    enabled: z.boolean(),
    catchUp: z.boolean(),
    /** The next times, five at most; empty while it is off, and once `at` is over. */
    next: z.array(Time),
    /** The newest run, without its output. */
    lastRun: ScheduleRun.nullable(),
    createdAt: Time,
    updatedAt: Time,
    replayed: z.boolean().optional(),
  })
  .meta({ id: "Schedule" });
export type Schedule = z.infer<typeof Schedule>;

export const ScheduleList = z.object({ data: z.array(Schedule) }).meta({ id: "ScheduleList" });
export type ScheduleList = z.infer<typeof ScheduleList>;

export const DeletedSchedule = z
  .object({ id: ScheduleId, sandboxId: SandboxId, deleted: z.literal(true), replayed: z.boolean().optional() })
  .meta({ id: "DeletedSchedule" });
export type DeletedSchedule = z.infer<typeof DeletedSchedule>;

/** When a sandbox slept and woke, who or what had it do so, and what keeps it awake. */
import { z } from "zod";
import { Generation } from "./names.ts";
import { SandboxState } from "./sandbox.ts";

const Time = z.iso.datetime();

/** Longest text of a request in a cause. */
export const CAUSE_REQUEST_MAX = 200;

/** Who or what began a run. */
export const Cause = z
  .object({
    /**
     * `request`: to a named URL. `api`: a call of the API. `hook`: a webhook. `schedule`: a time of one. `socket`: a
     * message. `timer`: of a program in it.
     */
    kind: z.enum(["request", "api", "hook", "schedule", "socket", "timer"]),
    /** The API key; null for another credential, or none. */
    keyId: z.string().nullable(),
    /**
     * Method and path, without the query; at most 200 characters. Of a webhook, its endpoint and event; of a
     * schedule, its name or id; of a timer, its name.
     */
    request: z.string().max(CAUSE_REQUEST_MAX),
    /** Of the program that the request was for; null where it was for none. */
    port: z.int().nullable(),
    /**
     * `x-request-id` of the answer, as in logs; the event of a webhook, the run of a schedule, the socket of a message,
     * the time of a timer.
     */
    requestId: z.string(),
  })
  .meta({ id: "Cause" });
export type Cause = z.infer<typeof Cause>;

export const timelineEvents = ["created", "woke", "booted", "failed", "paused", "stopped"] as const;

export const TimelineEntry = z
  .object({
    /** Of a run, when it was asked for. */
    at: Time,
    event: z.enum(timelineEvents),
    generation: Generation,
    /** Milliseconds until the machine ran; null for what is no run, or not done. */
    tookMs: z.int().nullable(),
    /** Of an end, its `stopReason`; of a boot, why its RAM was gone; of a failure, its error code. */
    reason: z.string().nullable(),
    /** Of a run; null where it was not asked for from outside, or is not known any more. */
    cause: Cause.nullable(),
  })
  .meta({ id: "TimelineEntry" });
export type TimelineEntry = z.infer<typeof TimelineEntry>;

/** One thing that keeps a sandbox awake. */
export const Awake = z
  .discriminatedUnion("because", [
    z.object({ because: z.literal("hold"), name: z.string(), until: Time }),
    /** Requests and connections under way. */
    z.object({ because: z.literal("connections"), count: z.int() }),
    /** It was used lately. It pauses then, unless it is used again, or its CPU is at work. */
    z.object({ because: z.literal("recent_use"), lastActiveAt: Time, pausesAt: Time }),
    /** Its idle time is over, and its CPU was at work when that was looked at. */
    z.object({ because: z.literal("cpu"), lastActiveAt: Time }),
    /** `idlePauseSeconds` is 0: it never pauses by itself. */
    z.object({ because: z.literal("no_idle_pause") }),
  ])
  .meta({ id: "Awake" });
export type Awake = z.infer<typeof Awake>;

/** Answer to `GET /v1/sandboxes/{id}:why`. */
export const Why = z
  .object({
    state: SandboxState,
    generation: Generation,
    /** Since when it is so; null when that is not known any more. */
    since: Time.nullable(),
    /** When it will be awake by itself, for a program in it; null for never. */
    wakesAt: Time.nullable().optional(),
    /** Empty while it does not run. */
    awake: z.array(Awake),
    /** False: its host did not say what is under way. */
    hostAnswered: z.boolean(),
    /** The newest run, and who had it begin. */
    lastRun: TimelineEntry.nullable(),
    /** Runs that were begun in the last 24 hours. */
    runsToday: z.int(),
    chargedMicros: z.int(),
    /** The newest first, 50 at most. */
    timeline: z.array(TimelineEntry),
  })
  .meta({ id: "Why" });
export type Why = z.infer<typeof Why>;

/** Drills: something is ended on purpose, and what comes back is compared with what there was. */
import { z } from "zod";
import { SandboxId } from "./names.ts";

export const drillLimits = {
  /** Drills kept of one sandbox. */
  kept: 50,
  /** Files that are compared, the newest; larger ones by size alone. */
  files: 200,
  hashedBytes: 8 * 1_048_576,
  /** Time for the sandbox to answer again, seconds. */
  returnSeconds: 600,
  /** Time for what is killed to end, seconds. */
  endSeconds: 60,
} as const;

/** `guest`: the machine's system. `vmm`: the process that runs it. `host`: its host agent. `edge`: the edge. */
export const drillKills = ["guest", "vmm", "host", "edge"] as const;
export const DrillKill = z.enum(drillKills);
export type DrillKill = z.infer<typeof DrillKill>;

export const DrillId = z.string().regex(/^drl-[0-9a-z]{20}$/, "a drill id such as drl-...");
const Time = z.iso.datetime();

/** `POST /v1/sandboxes/{id}/drills`. */
export const CreateDrill = z.strictObject({ kill: DrillKill }).meta({ id: "CreateDrill" });
export type CreateDrill = z.infer<typeof CreateDrill>;

/** How things are, before or after. */
export const DrillView = z.object({
  at: Time,
  /** Another after each boot from disk. */
  bootId: z.string(),
  /** Of the sandbox: one more with each wake. */
  generation: z.int(),
  /** Files below /workspace that are looked at, without checkpoints. */
  files: z.object({ count: z.int(), bytes: z.int() }),
  /** A word in memory (`/dev/shm`), and a process, both put there by the drill. */
  ram: z.object({ marker: z.boolean(), process: z.boolean() }),
  /** On the machine's disk: the newest version that is whole. */
  checkpoints: z.array(z.object({ name: z.string(), version: z.int(), step: z.int().nullable() })),
  /** The one saved last, outside of the machine. */
  mirror: z.object({ name: z.string(), version: z.int(), step: z.int().nullable() }).nullable(),
  /** Tasks that are not done. */
  queues: z.array(z.object({ name: z.string(), tasks: z.int() })),
  services: z.array(z.object({ name: z.string(), state: z.string() })),
});
export type DrillView = z.infer<typeof DrillView>;

export const DrillLoss = z.object({
  what: z.enum(["file", "ram", "checkpoint", "service"]),
  name: z.string(),
  message: z.string(),
});
export type DrillLoss = z.infer<typeof DrillLoss>;

/**
 * `passed`: all that was acknowledged is there. `lost`: something is not. `failed`: the kill did nothing, or the sandbox
 * did not answer again in its time. `unavailable`: this installation can't kill that.
 */
export const DrillState = z.enum(["running", "passed", "lost", "failed", "unavailable"]);
export type DrillState = z.infer<typeof DrillState>;

export const Drill = z
  .object({
    id: DrillId,
    kind: z.literal("drill"),
    sandboxId: SandboxId,
    kill: DrillKill,
    state: DrillState,
    /** What is done now; null when it is over. */
    step: z.enum(["before", "kill", "after"]).nullable(),
    /** Why it failed, or what it waits for: an error code, or `not_killed`, `broke_off`. */
    reason: z.string().nullable(),
    message: z.string().nullable(),
    createdAt: Time,
    killedAt: Time.nullable(),
    endedAt: Time.nullable(),
    /** From the kill to the first answer of the machine, milliseconds. */
    answeredAfterMs: z.int().nullable(),
    before: DrillView.nullable(),
    after: DrillView.nullable(),
    /** What was acknowledged and is not there. RAM counts where host or edge were killed: those do not carry it. */
    lost: z.array(DrillLoss),
    replayed: z.boolean().optional(),
  })
  .meta({ id: "Drill" });
export type Drill = z.infer<typeof Drill>;

export const DrillList = z.object({ data: z.array(Drill) }).meta({ id: "DrillList" });
export type DrillList = z.infer<typeof DrillList>;

/** Snapshots, forks and points of a sandbox's history: what a caller may ask for and what every answer holds. */
import { z } from "zod";
import { Labels } from "./labels.ts";
import { limits, Sandbox } from "./sandbox.ts";
import { SandboxName, SnapshotId } from "./names.ts";
import { VolumeMode } from "./volume.ts";

export const snapshotLimits = {
  /** Days that a snapshot is kept unless it says otherwise, and at most. */
  retentionDaysDefault: 365,
  retentionDaysMax: limits.retentionDaysMax,
  /** Forks of one call. */
  forksMax: 16,
  listMax: 100,
} as const;

/** `memory`: RAM, processes and disk. `disk`: the disk alone, which may start with any vCPU and memory. */
export const SnapshotMode = z.enum(["memory", "disk"]);
export type SnapshotMode = z.infer<typeof SnapshotMode>;

export const snapshotStates = ["capturing", "ready", "failed", "deleting", "deleted"] as const;
export const SnapshotState = z.enum(snapshotStates);
export type SnapshotState = z.infer<typeof SnapshotState>;

const Name = z.string().min(1).max(128);
const RetentionDays = z.int().min(1).max(snapshotLimits.retentionDaysMax);
const Time = z.iso.datetime();

/** `POST /v1/sandboxes/{id}:snapshot`: of a running sandbox, which goes on, or of a paused one. */
export const CreateSnapshot = z
  .strictObject({
    mode: SnapshotMode.optional(),
    name: Name.optional(),
    labels: Labels.optional(),
    retentionDays: RetentionDays.optional(),
  })
  .meta({ id: "CreateSnapshot" });
export type CreateSnapshot = z.infer<typeof CreateSnapshot>;

/** `POST /v1/snapshots/{id}:update`; with `ifLabels` only while its labels are those. */
export const UpdateSnapshot = z
  .strictObject({ name: Name.nullable().optional(), labels: Labels.optional(), ifLabels: Labels.optional() })
  .meta({ id: "UpdateSnapshot" });
export type UpdateSnapshot = z.infer<typeof UpdateSnapshot>;

/** `POST /v1/snapshots/{id}:extend`: kept so many days from now. */
export const ExtendSnapshot = z.strictObject({ retentionDays: RetentionDays }).meta({ id: "ExtendSnapshot" });
export type ExtendSnapshot = z.infer<typeof ExtendSnapshot>;

export const Snapshot = z
  .object({
    id: SnapshotId,
    kind: z.literal("snapshot"),
    mode: SnapshotMode,
    state: SnapshotState,
    /** Twin of `state`, kept for older clients. */
    status: SnapshotState,
    name: z.string().nullable(),
    labels: z.record(z.string(), z.string()),
    sourceSandboxId: z.string(),
    shape: z.object({ image: z.string(), vcpu: z.int(), memoryMiB: z.int(), diskMiB: z.int() }),
    retentionDays: z.int(),
    compressionPending: z.boolean(),
    /** Compressed bytes of all that it needs; 0 before it is ready. */
    storedBytes: z.int(),
    /** Of those, what nothing else needs: what it is charged for. */
    meteredBytes: z.int(),
    /** It is off its host: a snapshot is ready only then. */
    backedUp: z.boolean(),
    durability: z.object({
      state: z.enum(["none", "pending", "durable", "failed"]),
      durableAt: Time.nullable(),
      storedBytes: z.int().nullable(),
    }),
    /** Milliseconds that the sandbox stood still for it; null of a paused one. */
    frozenMs: z.number().nullable(),
    /** Volumes that it has copies of: they come back as new ones. */
    volumes: z.array(z.object({ path: z.string(), mode: VolumeMode })).optional(),
    error: z.string().nullable(),
    createdAt: Time,
    readyAt: Time.nullable(),
    expiresAt: Time.nullable(),
    replayed: z.boolean().optional(),
  })
  .meta({ id: "Snapshot" });
export type Snapshot = z.infer<typeof Snapshot>;

export const SnapshotList = z
  .object({ data: z.array(Snapshot), nextCursor: z.string().nullable() })
  .meta({ id: "SnapshotList" });
export type SnapshotList = z.infer<typeof SnapshotList>;

/** Query of `GET /v1/snapshots`. */
export const SnapshotListQuery = z.strictObject({
  sandboxId: z.string().optional(),
  name: z.string().optional(),
  state: z.enum(["capturing", "ready", "failed", "deleting"]).optional(),
  limit: z.coerce.number().int().min(1).max(snapshotLimits.listMax).optional(),
  cursor: z.string().optional(),
});
export type SnapshotListQuery = z.infer<typeof SnapshotListQuery>;

/** `POST /v1/sandboxes/{id}:fork`: copies with RAM and processes, and an identity of their own. The source goes on. */
export const ForkSandbox = z
  .strictObject({
    /** 1 unless said. */
    count: z.int().min(1).max(snapshotLimits.forksMax).optional(),
    /** `name`, or with more than one `name`, `name-1`, `name-2`, ... */
    name: SandboxName.optional(),
    /** Those of the source unless said. */
    labels: Labels.optional(),
    keepSnapshot: z.boolean().optional(),
    // Accepted and ignored: clients of the wire send it.
    funding: z.enum(["trial", "paid"]).optional(),
  })
  .meta({ id: "ForkSandbox" });
export type ForkSandbox = z.infer<typeof ForkSandbox>;

export const Forks = z
  .object({
    sandboxes: z.array(Sandbox).min(1),
    /** Milliseconds that the source stood still. */
    frozenMs: z.number().nullable(),
    replayed: z.boolean().optional(),
  })
  .meta({ id: "Forks" });
export type Forks = z.infer<typeof Forks>;

/** A state that the sandbox slept with, and that is still stored. */
export const HistoryPoint = z
  .object({
    /** Names it for `:rollback`. */
    point: z.string(),
    generation: z.int(),
    mode: SnapshotMode,
    savedAt: Time,
    durableAt: Time.nullable(),
    storedBytes: z.int(),
    /** The sandbox rests with it. */
    current: z.boolean(),
  })
  .meta({ id: "HistoryPoint" });
export type HistoryPoint = z.infer<typeof HistoryPoint>;

/** `GET /v1/sandboxes/{id}/history`: the newest first. */
export const History = z.object({ data: z.array(HistoryPoint) }).meta({ id: "History" });
export type History = z.infer<typeof History>;

/**
 * `POST /v1/sandboxes/{id}:rollback`: the sandbox is what it was at that point, under the same name and id. What it is
 * now is a point itself, if it has been stored.
 */
export const Rollback = z.strictObject({ point: z.string().min(1).max(64) }).meta({ id: "Rollback" });
export type Rollback = z.infer<typeof Rollback>;

/** Most entries of a diff. */
export const DIFF_ENTRIES_MAX = 10_000;

/** A folder whose files are compared: absolute, without a slash at its end. */
export const DiffPath = z
  .string()
  .max(1024)
  .regex(/^(\/(?!\.{1,2}(\/|$))[^/\0]+)+$/, "an absolute path without . and .., and without a slash at its end");

/** Query of `GET /v1/sandboxes/{id}/diff`. */
export const DiffQuery = z.strictObject({
  /** The point before `to` unless given. */
  from: z.string().min(1).max(64).optional(),
  /** The newest point that is stored unless given. */
  to: z.string().min(1).max(64).optional(),
  /** Only what is in that folder; the whole disk unless given, which takes much longer. */
  path: DiffPath.optional(),
});
export type DiffQuery = z.infer<typeof DiffQuery>;

export const DiffEntry = z
  .object({
    /** Absolute. Bytes that are not UTF-8 are shown as U+FFFD. */
    path: z.string(),
    change: z.enum(["added", "removed", "modified"]),
    /** What it is; of one that was removed, what it was. */
    kind: z.enum(["file", "directory", "symlink", "other"]),
    /** Bytes of a file; null of anything else, and where there was none. */
    sizeBefore: z.int().nullable(),
    sizeAfter: z.int().nullable(),
  })
  .meta({ id: "DiffEntry" });
export type DiffEntry = z.infer<typeof DiffEntry>;

/** `GET /v1/sandboxes/{id}/diff`: files that differ between two points, sorted by path. Volumes are not compared. */
export const Diff = z
  .object({
    from: z.string(),
    to: z.string(),
    data: z.array(DiffEntry).max(DIFF_ENTRIES_MAX),
    /** There is more than was listed. */
    truncated: z.boolean(),
  })
  .meta({ id: "Diff" });
export type Diff = z.infer<typeof Diff>;

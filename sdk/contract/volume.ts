/** Volumes: disks that outlive sandboxes. What a caller may ask for and what every answer holds. */
import { z } from "zod";
import { Labels } from "./labels.ts";
import { AttachmentId, BackupId, VolumeId } from "./names.ts";

export const volumeLimits = {
  sizeMiBMin: 64,
  sizeMiBMax: 1_048_576,
  /** Volumes of one sandbox: it has that many places for them. */
  perSandbox: 4,
  /** Days that a backup is kept unless it says otherwise, and at most. */
  backupDaysDefault: 7,
  backupDaysMax: 365,
  listMax: 100,
} as const;

export const volumeStates = ["creating", "ready", "failed", "deleting", "deleted"] as const;
export const VolumeState = z.enum(volumeStates);
export type VolumeState = z.infer<typeof VolumeState>;

/** `rw`: one sandbox at a time. `snapshot`: read-only, what the volume was when it was last known to be consistent. */
export const VolumeMode = z.enum(["rw", "snapshot"]);
export type VolumeMode = z.infer<typeof VolumeMode>;

/** `detaching`: what was written is being stored off the host; only then may another sandbox write. */
export const attachmentStates = ["attaching", "active", "detaching", "detached"] as const;
export const AttachmentState = z.enum(attachmentStates);
export type AttachmentState = z.infer<typeof AttachmentState>;

const Name = z.string().min(1).max(128);
const Size = z.int().min(volumeLimits.sizeMiBMin).max(volumeLimits.sizeMiBMax);
const RetentionDays = z.int().min(1).max(volumeLimits.backupDaysMax);
const Time = z.iso.datetime();

/** Folders of the system: a volume over one of them would hide what the guest runs by. */
const systemPaths = [
  "/bin",
  "/boot",
  "/dev",
  "/etc",
  "/lib",
  "/lib64",
  "/proc",
  "/run",
  "/sbin",
  "/sys",
  "/tmp",
  "/usr",
];

/** Where a volume appears in the guest. */
export const VolumePath = z
  .string()
  .max(512)
  .regex(/^\/[^\0]*$/, "an absolute path")
  .refine((path) => path !== "/" && !path.endsWith("/"), "not / and without a slash at its end")
  .refine(
    (path) =>
      path
        .slice(1)
        .split("/")
        .every((part) => part !== "" && part !== "." && part !== ".."),
    "without empty parts, . and ..",
  )
  .refine(
    (path) => !systemPaths.some((system) => path === system || path.startsWith(`${system}/`)),
    "not in a folder of the system",
  );

/** A volume that a sandbox is made with. */
export const CreateVolumeMount = z.strictObject({
  volumeId: VolumeId,
  path: VolumePath,
  mode: VolumeMode.optional(),
});
export type CreateVolumeMount = z.infer<typeof CreateVolumeMount>;

/** `volumes` of a sandbox that is made. */
export const CreateVolumeMounts = z
  .array(CreateVolumeMount)
  .max(volumeLimits.perSandbox)
  .refine((list) => new Set(list.map(({ path }) => path)).size === list.length, "each path once")
  .refine((list) => new Set(list.map((one) => one.volumeId)).size === list.length, "each volume once")
  .refine(
    (list) => !list.some((a) => list.some((b) => a !== b && b.path.startsWith(`${a.path}/`))),
    "no path inside another",
  );

/** A volume of a sandbox, as the sandbox shows it. */
export const VolumeMount = z.object({
  attachmentId: AttachmentId,
  volumeId: VolumeId,
  path: z.string(),
  mode: VolumeMode,
  sizeMiB: z.int(),
});
export type VolumeMount = z.infer<typeof VolumeMount>;

/** `POST /v1/volumes`: empty, or what a backup holds. */
export const CreateVolume = z
  .strictObject({
    /** With `fromBackup`: at least the backup's, which it is unless said. */
    sizeMiB: Size.optional(),
    fromBackup: BackupId.optional(),
    /** No other volume of the account has it. */
    name: Name.optional(),
    labels: Labels.optional(),
    // Accepted and ignored: clients of the wire send it.
    region: z.string().max(64).optional(),
  })
  .refine((body) => body.sizeMiB !== undefined || body.fromBackup !== undefined, {
    message: "sizeMiB or fromBackup is needed",
    path: ["sizeMiB"],
  })
  .meta({ id: "CreateVolume" });
export type CreateVolume = z.infer<typeof CreateVolume>;

export const UpdateVolume = z
  .strictObject({ name: Name.nullable().optional(), labels: Labels.optional() })
  .meta({ id: "UpdateVolume" });
export type UpdateVolume = z.infer<typeof UpdateVolume>;

/** `:resize`; it can only grow. */
export const ResizeVolume = z.strictObject({ sizeMiB: Size }).meta({ id: "ResizeVolume" });

/** `:attach`: to a sandbox that runs or is stopped, by its id or name. */
export const AttachVolume = z
  .strictObject({ sandboxId: z.string().min(1).max(128), path: VolumePath, mode: VolumeMode.optional() })
  .meta({ id: "AttachVolume" });
export type AttachVolume = z.infer<typeof AttachVolume>;

export const BackupVolume = z
  .strictObject({ name: Name.optional(), labels: Labels.optional(), retentionDays: RetentionDays.optional() })
  .meta({ id: "BackupVolume" });
export type BackupVolume = z.infer<typeof BackupVolume>;

/** `:backup-policy`: a backup a day, the first an hour after the volume was made; each kept so many days. */
export const BackupPolicy = z
  .strictObject({ daily: z.boolean().optional(), retentionDays: RetentionDays.optional() })
  .meta({ id: "BackupPolicy" });
export type BackupPolicy = z.infer<typeof BackupPolicy>;

export const Attachment = z
  .object({
    id: AttachmentId,
    volumeId: VolumeId,
    sandboxId: z.string(),
    path: z.string(),
    mode: VolumeMode,
    state: AttachmentState,
    /** The run of the sandbox whose state of the volume is stored; 0 before the first. */
    generation: z.int(),
    error: z.string().nullable(),
    attachedAt: Time,
    changedAt: Time,
    replayed: z.boolean().optional(),
  })
  .meta({ id: "Attachment" });
export type Attachment = z.infer<typeof Attachment>;

export const Volume = z
  .object({
    id: VolumeId,
    kind: z.literal("volume"),
    state: VolumeState,
    /** Twin of `state`, kept for older clients. */
    status: VolumeState,
    name: z.string().nullable(),
    labels: z.record(z.string(), z.string()),
    region: z.string(),
    sizeMiB: z.int(),
    filesystem: z.literal("ext4"),
    usedMiB: z.null(),
    measuredAt: z.null(),
    /** Some backup of it is there. */
    backedUp: z.boolean(),
    backups: z.object({ daily: z.boolean(), retentionDays: z.int(), lastReadyAt: Time.nullable() }),
    /** The backup that it began as. */
    restoredFrom: z.string().nullable(),
    /** What is stored of it off any host: since when, and its compressed bytes. null: nothing was written yet. */
    storedAt: Time.nullable(),
    storedBytes: z.int(),
    /** Those that are not over. */
    attachments: z.array(Attachment),
    error: z.string().nullable(),
    createdAt: Time,
    readyAt: Time.nullable(),
    replayed: z.boolean().optional(),
  })
  .meta({ id: "Volume" });
export type Volume = z.infer<typeof Volume>;

export const VolumeList = z
  .object({ data: z.array(Volume), nextCursor: z.string().nullable() })
  .meta({ id: "VolumeList" });
export type VolumeList = z.infer<typeof VolumeList>;

/** Query of `GET /v1/volumes`. */
export const VolumeListQuery = z.strictObject({
  name: z.string().optional(),
  state: z.enum(["creating", "ready", "failed", "deleting"]).optional(),
  limit: z.coerce.number().int().min(1).max(volumeLimits.listMax).optional(),
  cursor: z.string().optional(),
});
export type VolumeListQuery = z.infer<typeof VolumeListQuery>;

export const backupStates = ["pending", "ready", "failed", "deleting", "deleted"] as const;
export const BackupState = z.enum(backupStates);

/** A volume as it was at one instant; it outlives the volume. */
export const VolumeBackup = z
  .object({
    id: BackupId,
    kind: z.literal("volume-backup"),
    state: BackupState,
    status: BackupState,
    name: z.string().nullable(),
    labels: z.record(z.string(), z.string()),
    region: z.string(),
    volumeId: VolumeId,
    sizeMiB: z.int(),
    trigger: z.enum(["manual", "daily"]),
    retentionDays: z.int(),
    /** Size of the volume, bytes. */
    logicalBytes: z.int(),
    /** Compressed bytes of all that it needs; 0 before it is ready. */
    storedBytes: z.int(),
    /** Of those, what nothing else needs: what it is charged for. */
    meteredBytes: z.int(),
    error: z.string().nullable(),
    createdAt: Time,
    readyAt: Time.nullable(),
    expiresAt: Time.nullable(),
    replayed: z.boolean().optional(),
  })
  .meta({ id: "VolumeBackup" });
export type VolumeBackup = z.infer<typeof VolumeBackup>;

export const VolumeBackupList = z
  .object({ data: z.array(VolumeBackup), nextCursor: z.string().nullable() })
  .meta({ id: "VolumeBackupList" });
export type VolumeBackupList = z.infer<typeof VolumeBackupList>;

/** Query of `GET /v1/volume-backups`. */
export const VolumeBackupListQuery = z.strictObject({
  volumeId: VolumeId.optional(),
  state: z.enum(["pending", "ready", "failed", "deleting"]).optional(),
  limit: z.coerce.number().int().min(1).max(volumeLimits.listMax).optional(),
  cursor: z.string().optional(),
});
export type VolumeBackupListQuery = z.infer<typeof VolumeBackupListQuery>;

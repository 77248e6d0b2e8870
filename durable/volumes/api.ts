/** What edge and sandboxes may ask of the object that holds an account's volumes. */
import type { ArchiveStep } from "../../sdk/contract/archive.ts";
import type {
  Attachment,
  BackupPolicy,
  BackupVolume,
  CreateVolume,
  UpdateVolume,
  Volume,
  VolumeBackup,
  VolumeBackupList,
  VolumeBackupListQuery,
  VolumeList,
  VolumeListQuery,
  VolumeMode,
} from "../../sdk/contract/volume.ts";
import type { Once } from "../account/api.ts";
import type { Result } from "../result.ts";
import type { ArchiveAnswer } from "../sandbox/api.ts";
import type { HeldVolume } from "../sandbox/held-volume.ts";

/** A sandbox that wants volumes. */
export interface AttachAsk {
  readonly sandboxId: string;
  readonly volumes: readonly {
    readonly attachment: string;
    readonly volumeId: string;
    readonly path: string;
    readonly mode: VolumeMode;
  }[];
}

/** A volume as it is given to a sandbox. */
export type AttachedVolume = Omit<HeldVolume, "slot">;

export interface DetachAsk {
  readonly sandboxId: string;
  /** null: all of the sandbox's. */
  readonly attachments: readonly string[] | null;
  /** The newest run that may have written. */
  readonly generation: number;
  /** No host has anything of it that is not stored: it is over at once. */
  readonly settled: boolean;
}

/** A copy of a volume that comes into being with a snapshot of its sandbox, and goes with that. */
export interface SnapshotCopyAsk {
  readonly backup: string;
  readonly snapshot: string;
  readonly attachment: string;
  /** The host that stores it; null: there is nothing to store. */
  readonly hostId: string | null;
  /** It is stored already, as this; with no host, null is an empty volume. */
  readonly manifest: string | null;
}

export interface VolumesApi {
  /** @returns `name_taken`, `backup_not_found`, `volume_not_ready` (the backup is not), `disk_too_small`, `quota_exceeded` */
  create(input: CreateVolume, once: Once): Promise<Result<{ readonly volume: Volume }>>;
  /** @param volume its id or name */
  get(volume: string): Promise<Result<{ readonly volume: Volume }>>;
  /** The newest first. null when the cursor is not one of ours. */
  list(query: VolumeListQuery): Promise<VolumeList | null>;
  update(volume: string, input: UpdateVolume, once: Once): Promise<Result<{ readonly volume: Volume }>>;
  /**
   * It can only grow (`disk_too_small`). The sandbox that has it read-write is told; when that fails, the failure is
   * answered and the new size stays: asked again, the sandbox is told again, and its next run has it in any case.
   */
  resize(volume: string, sizeMiB: number, once: Once): Promise<Result<{ readonly volume: Volume }>>;
  setPolicy(volume: string, input: BackupPolicy, once: Once): Promise<Result<{ readonly volume: Volume }>>;
  /** Its backups stay. @returns `volume_attached`, `volume_releasing` while a sandbox has it (`details.sandboxId`) */
  remove(volume: string, once: Once): Promise<Result<{ readonly volume: Volume }>>;

  /**
   * Give volumes to a sandbox: all, or none. Asked again with the same attachment ids, the answer is the same.
   * @returns `volume_not_found`, `volume_attached` (another sandbox writes; `details.sandboxId`), `volume_releasing`
   * (one is letting go; `retryAfterMs`), `volume_not_ready` (`snapshot` of one that has no consistent state yet),
   * `conflict` (the sandbox has it already, or the attachment is over)
   */
  attach(ask: AttachAsk): Promise<Result<{ readonly attached: readonly AttachedVolume[] }>>;
  /** The sandbox has noted them. Those that it never notes are given up after a while (`attachment_not_found`). */
  noted(sandboxId: string, attachments: readonly string[]): Promise<Result<object>>;
  /**
   * The sandbox is on that host from now on: no other may store what is written. Before it runs there. What is
   * `detaching` stays with the host that had it.
   */
  arrive(sandboxId: string, hostId: string): Promise<Result<object>>;
  detach(ask: DetachAsk): Promise<Result<object>>;
  /** @param waitMs for it to be over, when it is `detaching` */
  attachment(id: string, waitMs: number): Promise<Result<{ readonly attachment: Attachment }>>;

  /** @returns the backup, `pending` or `ready`; what a sandbox writes now is copied by its host. */
  backup(
    volume: string,
    input: BackupVolume,
    once: Once,
    waitMs: number,
  ): Promise<Result<{ readonly backup: VolumeBackup }>>;
  getBackup(id: string, waitMs: number): Promise<Result<{ readonly backup: VolumeBackup }>>;
  listBackups(query: VolumeBackupListQuery): Promise<VolumeBackupList | null>;
  removeBackup(id: string): Promise<Result<{ readonly backup: VolumeBackup }>>;

  /** Copies for a snapshot: hidden from lists, free of a policy's expiry. All, or none. Repeatable. */
  beginSnapshot(copies: readonly SnapshotCopyAsk[]): Promise<Result<object>>;
  /** New volumes that begin as the copies of a snapshot, in their order; ids are made of `key`, so that it is repeatable. */
  restoreSnapshot(snapshot: string, key: string): Promise<Result<{ readonly volumeIds: readonly string[] }>>;
  /** The snapshot is gone, or failed: its copies go. */
  dropSnapshot(snapshot: string): Promise<Result<object>>;

  /** A host stores what it has of an attachment (`att-`) or of a copy (`bak-`). */
  archiveStep(id: string, step: ArchiveStep, hostId: string): Promise<Result<{ readonly answer: ArchiveAnswer }>>;
}

export function volumesObject(namespace: DurableObjectNamespace<never>, account: string): VolumesApi {
  return namespace.getByName(account) as unknown as VolumesApi;
}

/** Volumes, attachments and backups as the API shows them. */
import type { Attachment, Volume, VolumeBackup } from "../../sdk/contract/volume.ts";

export const VOLUME_ID = "vol-0123456789abcdefghij";
export const ATTACHMENT_ID = "att-0123456789abcdefghij";
export const BACKUP_ID = "bak-0123456789abcdefghij";
/** Paths of what the functions below answer. */
export const VOLUME = `/v1/volumes/${VOLUME_ID}`;
export const ATTACHMENT = `${VOLUME}/attachments/${ATTACHMENT_ID}`;
export const BACKUP = `/v1/volume-backups/${BACKUP_ID}`;

export function volumeAnswer(changes: Partial<Volume> = {}): Volume {
  const state = changes.state ?? "ready";
  return {
    id: VOLUME_ID,
    kind: "volume",
    state,
    status: state,
    name: "data",
    labels: {},
    region: "local",
    sizeMiB: 10_240,
    filesystem: "ext4",
    usedMiB: null,
    measuredAt: null,
    backedUp: false,
    backups: { daily: true, retentionDays: 7, lastReadyAt: null },
    restoredFrom: null,
    storedAt: null,
    storedBytes: 0,
    attachments: [],
    error: null,
    createdAt: "2031-01-02T03:05:00.000Z",
    readyAt: state === "creating" ? null : "2031-01-02T03:05:00.000Z",
    ...changes,
  };
}

export function attachmentAnswer(changes: Partial<Attachment> = {}): Attachment {
  return {
    id: ATTACHMENT_ID,
    volumeId: VOLUME_ID,
    sandboxId: "demo~abcdefghijkl",
    path: "/data",
    mode: "rw",
    state: "active",
    generation: 1,
    error: null,
    attachedAt: "2031-01-02T03:05:01.000Z",
    changedAt: "2031-01-02T03:05:01.000Z",
    ...changes,
  };
}

export function backupAnswer(changes: Partial<VolumeBackup> = {}): VolumeBackup {
  const state = changes.state ?? "ready";
  const ready = state === "ready";
  return {
    id: BACKUP_ID,
    kind: "volume-backup",
    state,
    status: state,
    name: null,
    labels: {},
    region: "local",
    volumeId: VOLUME_ID,
    sizeMiB: 10_240,
    trigger: "manual",
    retentionDays: 7,
    logicalBytes: 10_737_418_240,
    storedBytes: ready ? 52_428_800 : 0,
    meteredBytes: ready ? 1_048_576 : 0,
    error: null,
    createdAt: "2031-01-02T03:05:00.000Z",
    readyAt: ready ? "2031-01-02T03:05:04.000Z" : null,
    expiresAt: "2031-01-09T03:05:00.000Z",
    ...changes,
  };
}

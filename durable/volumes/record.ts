/** Volumes, their stays with sandboxes and their backups: as they are remembered, and as the API shows them. Pure. */
import type { Attachment, AttachmentState, Volume, VolumeBackup, VolumeMode } from "../../sdk/contract/volume.ts";
import { iso, isoOrNull } from "../time.ts";

/** What is stored of a volume. All times are Unix milliseconds. */
export interface Content {
  readonly manifest: string;
  /** The run of the sandbox that wrote it; 0 of what a volume began as. */
  readonly generation: number;
  /** By which stay it was stored; null of what a volume began as, or of a backup. */
  readonly attachment: string | null;
  readonly storedBytes: number;
  readonly at: number;
}

export interface VolumeRecord {
  readonly id: string;
  readonly state: "creating" | "ready" | "deleting";
  readonly name: string | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly sizeMiB: number;
  readonly vault: string;
  /** Opens all its manifests. */
  readonly key: string;
  /** The backup that it began as. */
  readonly restoredFrom: string | null;
  /** The newest that is stored. */
  readonly latest: Content | null;
  /** The newest that mounts read-only as it is. */
  readonly clean: Content | null;
  /** Manifests that it needs no more and that the vault was not told of yet. */
  readonly dropped: readonly string[];
  readonly daily: boolean;
  readonly backupDays: number;
  readonly nextDailyAt: number;
  readonly createdAt: number;
  readonly readyAt: number | null;
}

/** A volume's stay with a sandbox. */
export interface AttachmentRecord {
  readonly id: string;
  readonly volumeId: string;
  readonly vault: string;
  readonly sandboxId: string;
  readonly path: string;
  readonly mode: VolumeMode;
  readonly state: AttachmentState;
  /** The host that may store what is written; null before the sandbox ran with it. */
  readonly hostId: string | null;
  /** What it began with. */
  readonly given: string | null;
  /** The vault keeps `given` for it. */
  readonly keeps: boolean;
  /** What is stored of it. */
  readonly stored: { readonly manifest: string; readonly generation: number } | null;
  /** What is being stored. */
  readonly upload: { readonly manifest: string; readonly clean: boolean } | null;
  /** `detaching`: it is over when that run, or a later one, is stored. */
  readonly awaits: number | null;
  readonly error: string | null;
  readonly attachedAt: number;
  readonly changedAt: number;
}

export interface BackupRecord {
  readonly id: string;
  readonly state: Exclude<VolumeBackup["state"], "deleted">;
  readonly volumeId: string;
  /** The snapshot that it belongs to, and its place in it: hidden from lists. */
  readonly snapshot: { readonly id: string; readonly place: number } | null;
  readonly name: string | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly sizeMiB: number;
  readonly trigger: "manual" | "daily";
  readonly retentionDays: number;
  readonly vault: string;
  readonly key: string;
  /** null: of an empty volume, or not known yet. */
  readonly manifest: string | null;
  /** It mounts read-only as it is. */
  readonly clean: boolean;
  /** What was stored before: parts that are the same are not stored again. */
  readonly previous: { readonly manifest: string; readonly key: string } | null;
  /** The host that stores it. */
  readonly hostId: string | null;
  readonly storedBytes: number;
  readonly ownedBytes: number;
  readonly error: string | null;
  readonly createdAt: number;
  readonly readyAt: number | null;
}

export const DAY_MS = 86_400_000;
export const HOUR_MS = 3_600_000;
/** One that the sandbox did not note by then may be given up. */
export const NOTED_MS = 60_000;
/** How often the board is asked for the host of what is `detaching`. */
export const LOST_CHECK_MS = 15_000;
/** A copy that is not stored by then never will be. */
export const COPY_MS = 1_800_000;
/** How long what is over, or failed, can be read. */
const KEPT_MS = DAY_MS;
/** What failed is tried again after this. */
const RETRY_MS = 30_000;

/** When it is to be looked at; always later than now, so that what fails is not tried without a pause. */
export function volumeDueAt(record: VolumeRecord, now: number): number | null {
  if (record.state !== "ready") return now + RETRY_MS;
  const times: number[] = [];
  if (record.daily) times.push(record.nextDailyAt);
  if (record.dropped.length > 0) times.push(now + RETRY_MS);
  return times.length === 0 ? null : later(Math.min(...times), now);
}

export function attachmentDueAt(record: AttachmentRecord, now: number): number | null {
  switch (record.state) {
    case "attaching":
      return later(record.attachedAt + NOTED_MS, now);
    case "active":
      return null;
    case "detaching":
      return now + LOST_CHECK_MS;
    case "detached":
      return later(record.keeps ? 0 : record.changedAt + KEPT_MS, now);
  }
}

export function backupDueAt(record: BackupRecord, now: number): number | null {
  switch (record.state) {
    case "pending":
      return later(record.createdAt + COPY_MS, now);
    case "ready":
      return later(expiresAt(record), now);
    case "failed":
      // One of a snapshot goes with that.
      return record.snapshot ? null : later(record.createdAt + KEPT_MS, now);
    case "deleting":
      return now + RETRY_MS;
  }
}

function later<T extends number | null>(at: T, now: number): T | number {
  return at === null || at > now ? at : now + RETRY_MS;
}

export function expiresAt({ readyAt, retentionDays, snapshot }: BackupRecord): number | null {
  return snapshot || readyAt === null ? null : readyAt + retentionDays * DAY_MS;
}

export function isOver({ state }: Pick<AttachmentRecord, "state">): boolean {
  return state === "detached";
}

/** A volume that has stored that, and what it needs no more. */
export function withContent(volume: VolumeRecord, content: Content, isClean: boolean): VolumeRecord {
  const clean = isClean ? content : volume.clean;
  return dropping({ ...volume, latest: content, clean }, volume);
}

/** A volume whose newest clean state is a copy that was made of it, unless it has a newer one. */
export function withCleanCopy(volume: VolumeRecord, content: Content): VolumeRecord {
  if (volume.clean && volume.clean.at > content.at) return dropping(volume, { ...volume, clean: content });
  return dropping({ ...volume, clean: content }, volume);
}

function dropping(after: VolumeRecord, before: VolumeRecord): VolumeRecord {
  const kept = new Set([after.latest?.manifest, after.clean?.manifest]);
  const old = [...after.dropped, before.latest?.manifest, before.clean?.manifest];
  return { ...after, dropped: [...new Set(old.filter((one) => one !== undefined && !kept.has(one)))] as string[] };
}

export function toAttachment(record: AttachmentRecord): Attachment {
  const { id, volumeId, sandboxId, path, mode, state, stored, error } = record;
  return {
    ...{ id, volumeId, sandboxId, path, mode, state, error },
    generation: stored?.generation ?? 0,
    attachedAt: iso(record.attachedAt),
    changedAt: iso(record.changedAt),
  };
}

/** @param readyAt of its newest backup that is ready; null when there is none */
export function toVolume(
  record: VolumeRecord,
  attachments: readonly AttachmentRecord[],
  readyAt: number | null,
): Volume {
  const { state, latest } = record;
  return {
    id: record.id,
    kind: "volume",
    state,
    status: state,
    name: record.name,
    labels: { ...record.labels },
    region: "local",
    sizeMiB: record.sizeMiB,
    filesystem: "ext4",
    usedMiB: null,
    measuredAt: null,
    backedUp: readyAt !== null,
    backups: { daily: record.daily, retentionDays: record.backupDays, lastReadyAt: isoOrNull(readyAt) },
    restoredFrom: record.restoredFrom,
    storedAt: isoOrNull(latest?.at ?? null),
    storedBytes: latest?.storedBytes ?? 0,
    attachments: attachments.filter((one) => !isOver(one)).map(toAttachment),
    error: null,
    createdAt: iso(record.createdAt),
    readyAt: isoOrNull(record.readyAt),
  };
}

export function toBackup(record: BackupRecord): VolumeBackup {
  const { id, state, name, volumeId, sizeMiB, trigger, retentionDays, error } = record;
  const isReady = state === "ready";
  return {
    ...{ id, kind: "volume-backup", state, status: state, name, volumeId, sizeMiB, trigger, retentionDays, error },
    labels: { ...record.labels },
    region: "local",
    logicalBytes: sizeMiB * 1_048_576,
    storedBytes: isReady ? record.storedBytes : 0,
    meteredBytes: isReady ? record.ownedBytes : 0,
    createdAt: iso(record.createdAt),
    readyAt: isoOrNull(record.readyAt),
    expiresAt: isoOrNull(expiresAt(record)),
  };
}

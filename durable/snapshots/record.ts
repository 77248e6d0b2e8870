/** A snapshot as it is remembered, and as the API shows it. Pure. */
import type { About, Draft } from "../events/draft.ts";
import { iso, isoOrNull } from "../time.ts";
import type { MachineBoot } from "../../sdk/contract/boot.ts";
import type { Failure } from "../../sdk/contract/error-codes.ts";
import type { Shape } from "../../sdk/contract/host.ts";
import type { NetworkRules } from "../../sdk/contract/network.ts";
import type { VolumeMode } from "../../sdk/contract/volume.ts";
import type { CreateSandbox } from "../../sdk/contract/sandbox.ts";
import type { Snapshot, SnapshotListQuery, SnapshotMode, SnapshotState } from "../../sdk/contract/snapshot.ts";

/** All times are Unix milliseconds. */
export interface SnapshotRecord {
  readonly id: string;
  readonly mode: SnapshotMode;
  readonly state: Exclude<SnapshotState, "deleted">;
  readonly name: string | null;
  readonly labels: Readonly<Record<string, string>>;
  /** The sandbox that it was taken of. */
  readonly source: { readonly id: string; readonly name: string | null };
  readonly shape: Shape;
  readonly retentionDays: number;
  readonly vault: string;
  /** Opens its manifest. */
  readonly key: string;
  readonly manifest: string | null;
  /** What its source has stored: parts that are the same are not stored again. */
  readonly previous: { readonly manifest: string; readonly key: string } | null;
  readonly compatibility: string | null;
  /** The host that stores it; null when it was stored before. */
  readonly hostId: string | null;
  readonly storedBytes: number;
  readonly ownedBytes: number;
  readonly frozenMs: number | null;
  /** Of its sandbox; their copies are with the account's volumes. Not known before the first version with volumes. */
  readonly volumes?: readonly SnapshotVolume[];
  /** Of its sandbox. Not known before the first version with rules. */
  readonly network?: NetworkRules;
  /** What its sandbox starts with. */
  readonly boot?: MachineBoot;
  readonly error: string | null;
  readonly createdAt: number;
  readonly readyAt: number | null;
  /** Its retention counts from here: when it was ready, extended or used last. */
  readonly keptFrom: number | null;
}

/** A volume of the sandbox that it was taken of, and its place. */
export interface SnapshotVolume {
  readonly slot: number;
  readonly path: string;
  readonly mode: VolumeMode;
}

/** What a sandbox begins with. */
export interface Origin {
  readonly id: string;
  readonly mode: SnapshotMode;
  readonly shape: Shape;
  readonly vault: string;
  readonly manifest: string;
  readonly key: string;
  readonly compatibility: string;
  readonly storedBytes: number;
  readonly volumes: readonly SnapshotVolume[];
  /** Rules of the sandbox that it was taken of. */
  readonly network?: NetworkRules;
  readonly boot?: MachineBoot;
}

/** A copy that is not stored so long after it was taken never will be, milliseconds. */
export const CAPTURE_MS = 1_800_000;
/** A deletion that failed is tried again, milliseconds. */
const DELETE_RETRY_MS = 30_000;
/** One that failed is shown so long, milliseconds. */
const FAILED_KEPT_MS = 86_400_000;
const DAY_MS = 86_400_000;

export function expiresAt({ keptFrom, retentionDays }: SnapshotRecord): number | null {
  return keptFrom === null ? null : keptFrom + retentionDays * DAY_MS;
}

/** When it is to be looked at. */
export function dueAt(record: SnapshotRecord, now: number): number | null {
  switch (record.state) {
    case "capturing":
      return record.createdAt + CAPTURE_MS;
    case "ready":
      return expiresAt(record);
    case "failed":
      return record.createdAt + FAILED_KEPT_MS;
    case "deleting":
      return now + DELETE_RETRY_MS;
  }
}

/** What an event of it is about: the sandbox that it was taken of, and its own labels. */
export function aboutOf({ id, source, labels }: SnapshotRecord): About {
  return { subject: id, sandbox: { ...source, labels: { ...labels } } };
}

/** Which events a change is. */
export function eventsOf(before: SnapshotRecord | null, after: SnapshotRecord): Draft[] {
  if (!before || before.state === after.state) return [];
  const { id: snapshotId, name, mode, storedBytes, error } = after;
  switch (after.state) {
    case "ready":
      return [{ type: "snapshot.created", data: { snapshotId, name, labels: { ...after.labels }, mode, storedBytes } }];
    case "failed":
      return [{ type: "snapshot.failed", data: { snapshotId, name, message: error ?? "" } }];
    case "deleting":
      return before.state === "ready" ? [{ type: "snapshot.deleted", data: { snapshotId, name } }] : [];
    case "capturing":
      return [];
  }
}

export function matches(record: SnapshotRecord, query: SnapshotListQuery, namePrefix: string | null): boolean {
  if (query.sandboxId !== undefined && record.source.id !== query.sandboxId) return false;
  if (query.name !== undefined && record.name !== query.name) return false;
  if (query.state !== undefined && record.state !== query.state) return false;
  return isVisible(record, namePrefix);
}

/** A key that is limited to names sees the snapshots of their sandboxes. */
export function isVisible({ source }: SnapshotRecord, namePrefix: string | null): boolean {
  return namePrefix === null || (source.name?.startsWith(namePrefix) ?? false);
}

export function toSnapshot(record: SnapshotRecord): Snapshot {
  const { state, readyAt, storedBytes } = record;
  const isReady = state === "ready";
  return {
    id: record.id,
    kind: "snapshot",
    mode: record.mode,
    state,
    status: state,
    name: record.name,
    labels: { ...record.labels },
    sourceSandboxId: record.source.id,
    shape: { ...record.shape },
    retentionDays: record.retentionDays,
    compressionPending: false,
    storedBytes: isReady ? storedBytes : 0,
    meteredBytes: isReady ? record.ownedBytes : 0,
    backedUp: isReady,
    durability: {
      state: isReady ? "durable" : state === "failed" ? "failed" : state === "capturing" ? "pending" : "none",
      durableAt: isoOrNull(readyAt),
      storedBytes: isReady ? storedBytes : null,
    },
    frozenMs: record.frozenMs,
    volumes: (record.volumes ?? []).map(({ path, mode }) => ({ path, mode })),
    error: record.error,
    createdAt: iso(record.createdAt),
    readyAt: isoOrNull(readyAt),
    expiresAt: isoOrNull(expiresAt(record)),
  };
}

/** Why a sandbox of that size can't begin as the snapshot; null when it can. */
export function shapeFault(
  { vcpu, memoryMiB, diskMiB }: Pick<CreateSandbox, "vcpu" | "memoryMiB" | "diskMiB">,
  { mode, shape }: Origin,
): Failure | null {
  if (mode === "disk") {
    if (diskMiB === undefined || diskMiB >= shape.diskMiB) return null;
    const message = `The snapshot's disk has ${shape.diskMiB} MiB.`;
    return { code: "disk_too_small", message, details: { diskMiB: shape.diskMiB } };
  }
  const wanted = Object.entries({ vcpu, memoryMiB, diskMiB });
  const other = wanted.flatMap(([path, size]) =>
    size === undefined || size === shape[path as "vcpu"]
      ? []
      : [{ path, message: `the snapshot's is ${shape[path as "vcpu"]}; RAM wakes only with the size that it had` }],
  );
  if (other.length === 0) return null;
  const message = `The size is not the snapshot's: ${other.map((one) => `${one.path}: ${one.message}`).join("; ")}`;
  return { code: "invalid_request", message, details: { issues: other } };
}

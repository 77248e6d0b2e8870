/** Snapshots, history and durability as the API shows them. */
import type { Durability } from "../../sdk/contract/sandbox.ts";
import type { Diff, HistoryPoint, Snapshot } from "../../sdk/contract/snapshot.ts";

export const SNAPSHOT_ID = "snap-0123456789abcdefghij";
/** Path of the snapshot of {@link snapshotAnswer}. */
export const SNAPSHOT = `/v1/snapshots/${SNAPSHOT_ID}`;

export function snapshotAnswer(changes: Partial<Snapshot> = {}): Snapshot {
  const state = changes.state ?? "ready";
  const ready = state === "ready";
  return {
    id: SNAPSHOT_ID,
    kind: "snapshot",
    mode: "memory",
    state,
    status: state,
    name: null,
    labels: {},
    sourceSandboxId: "demo~abcdefghijkl",
    shape: { image: "default", vcpu: 2, memoryMiB: 2048, diskMiB: 8192 },
    retentionDays: 365,
    compressionPending: false,
    storedBytes: ready ? 734_003_200 : 0,
    meteredBytes: ready ? 52_428_800 : 0,
    backedUp: ready,
    durability: {
      state: ready ? "durable" : "pending",
      durableAt: ready ? "2031-01-02T03:05:04.000Z" : null,
      storedBytes: ready ? 734_003_200 : null,
    },
    frozenMs: 41.2,
    error: null,
    createdAt: "2031-01-02T03:05:00.000Z",
    readyAt: ready ? "2031-01-02T03:05:04.000Z" : null,
    expiresAt: "2032-01-02T03:05:00.000Z",
    ...changes,
  };
}

export function durabilityAnswer(state: Durability["state"]): Durability {
  const off = state === "durable" || state === "cold";
  return {
    state,
    cachedAt: "2031-01-02T03:05:00.000Z",
    localAt: state === "cached" ? null : "2031-01-02T03:05:01.000Z",
    durableAt: off ? "2031-01-02T03:05:02.000Z" : null,
    coldAt: state === "cold" ? "2031-01-02T03:05:03.000Z" : null,
    logicalBytes: state === "cached" ? null : 2_147_483_648,
    storedBytes: state === "cached" ? null : 52_428_800,
    ownedBytes: off ? 1_048_576 : 0,
  };
}

export function pointAnswer(changes: Partial<HistoryPoint> = {}): HistoryPoint {
  return {
    point: "p-7",
    generation: 7,
    mode: "memory",
    savedAt: "2031-01-02T03:05:00.000Z",
    durableAt: "2031-01-02T03:05:02.000Z",
    storedBytes: 52_428_800,
    current: true,
    ...changes,
  };
}

export function diffAnswer(changes: Partial<Diff> = {}): Diff {
  return {
    from: "p6",
    to: "p7",
    data: [
      { path: "/workspace/a\u001b[2J", change: "added", kind: "file", sizeBefore: null, sizeAfter: 10 },
      { path: "/workspace/b", change: "modified", kind: "file", sizeBefore: 1024, sizeAfter: 0 },
      { path: "/workspace/c", change: "removed", kind: "file", sizeBefore: 3, sizeAfter: null },
      { path: "/workspace/d", change: "added", kind: "directory", sizeBefore: null, sizeAfter: null },
      { path: "/workspace/e", change: "modified", kind: "symlink", sizeBefore: 5, sizeAfter: null },
    ],
    truncated: false,
    ...changes,
  };
}

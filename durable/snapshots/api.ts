/** What the edge may ask of the object that holds an account's snapshots. */
import type { ArchiveStep } from "../../sdk/contract/archive.ts";
import type {
  ExtendSnapshot,
  Snapshot,
  SnapshotList,
  SnapshotListQuery,
  UpdateSnapshot,
} from "../../sdk/contract/snapshot.ts";
import type { Result } from "../result.ts";
import type { ArchiveAnswer } from "../sandbox/api.ts";
import type { Origin, SnapshotRecord } from "./record.ts";

/** A snapshot that is about to be taken. */
export type NewSnapshot = Pick<
  SnapshotRecord,
  | "id"
  | "mode"
  | "name"
  | "labels"
  | "source"
  | "shape"
  | "retentionDays"
  | "vault"
  | "previous"
  | "hostId"
  | "volumes"
  | "network"
  | "boot"
>;

export interface SnapshotsApi {
  /** Note it before anything is copied. One that is known already is answered as it is. */
  begin(input: NewSnapshot): Promise<Result<{ readonly snapshot: Snapshot }>>;
  /** The copy is made; it is being stored. */
  captured(id: string, frozenMs: number | null): Promise<void>;
  /** It is a state that was stored before. */
  stored(
    id: string,
    state: Pick<Origin, "manifest" | "key" | "compatibility">,
  ): Promise<Result<{ readonly snapshot: Snapshot }>>;
  failed(id: string, error: string): Promise<void>;
  /** A host stores the copy that it holds. */
  archiveStep(id: string, step: ArchiveStep, hostId: string): Promise<Result<{ readonly answer: ArchiveAnswer }>>;
  /** @param waitMs for a `capturing` one to be something else */
  get(id: string, namePrefix: string | null, waitMs: number): Promise<Result<{ readonly snapshot: Snapshot }>>;
  /** The newest first. null when the cursor is not one of ours. */
  list(query: SnapshotListQuery, namePrefix: string | null): Promise<SnapshotList | null>;
  update(
    id: string,
    input: UpdateSnapshot,
    namePrefix: string | null,
  ): Promise<Result<{ readonly snapshot: Snapshot }>>;
  extend(
    id: string,
    input: ExtendSnapshot,
    namePrefix: string | null,
  ): Promise<Result<{ readonly snapshot: Snapshot }>>;
  remove(id: string, namePrefix: string | null): Promise<Result<{ readonly snapshot: Snapshot }>>;
  /** Nobody pays for them: all end, as what sleeps does. */
  endRetention(): Promise<void>;
  /** For a sandbox that is made of it. Use keeps it: its retention begins anew. */
  origin(id: string): Promise<Result<{ readonly origin: Origin }>>;
}

export function snapshotsObject(namespace: DurableObjectNamespace<never>, account: string): SnapshotsApi {
  return namespace.getByName(account) as unknown as SnapshotsApi;
}

/** What the edge may ask of the object that has the mirror of a sandbox's checkpoints. */
import type { CheckpointHeader, CheckpointInfo, DeletedCheckpoint } from "../../sdk/contract/checkpoint.ts";
import type { Result } from "../result.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** The newest of all, for whoever asks how far a sandbox got. */
export type LastCheckpoint = Pick<CheckpointHeader, "name" | "version" | "step" | "savedAt">;

export interface CheckpointsApi {
  /**
   * Keep a version. One that is there already, or older than the five that are kept, changes nothing.
   * @param whole its container, verified, with that header
   * @param generation the run of the machine that asks; null: somebody with a key
   * @returns `storage_full`, `stale_generation`
   */
  put(sandboxId: string, header: CheckpointHeader, whole: Bytes, generation: number | null): Promise<Result<object>>;
  /** @param version the newest unless given. @returns `checkpoint_not_found` */
  get(sandboxId: string, name: string, version: number | null): Promise<Result<{ readonly whole: Bytes }>>;
  /** By name. */
  list(sandboxId: string): Promise<CheckpointInfo[]>;
  /** The version that was saved last, of all checkpoints. */
  last(sandboxId: string): Promise<LastCheckpoint | null>;
  /** All versions of one. @returns `checkpoint_not_found` */
  remove(sandboxId: string, name: string): Promise<Result<{ readonly checkpoint: DeletedCheckpoint }>>;
  /** The sandbox is deleted for good. Those of another one, which has the name by now, are left alone. Repeatable. */
  purge(sandboxId: string): Promise<void>;
}

export function checkpointsObject(
  namespace: DurableObjectNamespace<never>,
  account: string,
  label: string,
): CheckpointsApi {
  return namespace.getByName(`${account}/${label}`) as unknown as CheckpointsApi;
}

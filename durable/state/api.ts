/** What the edge may ask of the object that keeps the state of a sandbox, or of what an organisation shares. */
import type {
  AckTask,
  DeletedTask,
  ExtendTask,
  LeasedTask,
  NackTask,
  PutTask,
  Queue,
  TakeTasks,
  Task,
  TaskList,
  TaskListQuery,
} from "../../sdk/contract/queue.ts";
import type {
  BeginObjectUpload,
  ObjectList,
  ObjectListQuery,
  ObjectUpload,
  StoredObject,
} from "../../sdk/contract/object.ts";
import type {
  RunSql,
  SqlResult,
  StateBatch,
  StateBatched,
  StateEntry,
  StateList,
  StateListQuery,
  StateUsage,
} from "../../sdk/contract/state.ts";
import type { Once } from "../account/api.ts";
import type { Result } from "../result.ts";

export type Bytes = Uint8Array<ArrayBuffer>;

/** Who asks. */
export interface Asker {
  /** As it is shown with what they write. */
  readonly by: string;
  /** Whose machine it is about. */
  readonly sandboxId: string;
  /** The machine's run; null: somebody outside. An older one than was seen is refused, `stale_generation`. */
  readonly generation: number | null;
}

/** What must be there for a write: of `If-Match` and `If-None-Match: *`. */
export interface Condition {
  /** The version or etag that it must have; `*`: any. */
  readonly match: string | null;
  /** It must not be there. */
  readonly absent: boolean;
}

export interface PutValue extends Condition {
  readonly value: Bytes;
  readonly contentType: string;
  readonly ttlSeconds: number | null;
}

/** A blob of an object, with its bytes. */
export type Part = readonly [blob: string, bytes: number];

/** Where to store what comes. */
export interface Berth {
  /** Names what is stored until it is done. */
  readonly upload: string;
  readonly blob: string;
}

export type Usage = Omit<StateUsage, "sql" | "bytes">;

/** Every refusal may also be `sandbox_gone` or `stale_generation`. */
export interface StateApi {
  /** @returns `state_not_found` */
  value(asker: Asker, key: string): Promise<Result<{ readonly entry: StateEntry; readonly value: Bytes }>>;
  /** @returns `version_mismatch`, `storage_full` */
  putValue(asker: Asker, key: string, put: PutValue): Promise<Result<{ readonly entry: StateEntry }>>;
  /** @returns `version_mismatch` */
  deleteValue(asker: Asker, key: string, condition: Condition): Promise<Result<{ readonly deleted: boolean }>>;
  values(asker: Asker, query: StateListQuery): Promise<Result<{ readonly page: StateList }>>;
  /** @returns `version_mismatch` with `details.mismatches`, `storage_full`, `invalid_request` for `add` to no number */
  batch(asker: Asker, batch: StateBatch): Promise<Result<{ readonly batched: StateBatched }>>;
  usage(asker: Asker): Promise<Result<{ readonly usage: Usage }>>;

  /** @returns `storage_full`, `idempotency_key_reused` */
  putTask(asker: Asker, queue: string, input: PutTask, once: Once): Promise<Result<{ readonly task: Task }>>;
  /** The oldest that are ready. Waits for a first one, if asked to. */
  takeTasks(asker: Asker, queue: string, input: TakeTasks): Promise<Result<{ readonly tasks: LeasedTask[] }>>;
  /** @returns `lease_lost`, `task_not_found` */
  ackTask(asker: Asker, queue: string, input: AckTask): Promise<Result<{ readonly task: Task }>>;
  nackTask(asker: Asker, queue: string, input: NackTask): Promise<Result<{ readonly task: Task }>>;
  extendTask(asker: Asker, queue: string, input: ExtendTask): Promise<Result<{ readonly task: LeasedTask }>>;
  queues(asker: Asker): Promise<Result<{ readonly queues: Queue[] }>>;
  /** `queue` itself is a name that the platform has for something else. */
  queueCounts(asker: Asker, queue: string): Promise<Result<{ readonly queue: Queue }>>;
  tasks(asker: Asker, queue: string, query: TaskListQuery): Promise<Result<{ readonly page: TaskList }>>;
  task(asker: Asker, queue: string, id: string): Promise<Result<{ readonly task: Task }>>;
  /** A dead one is ready again, as if it had not been taken. @returns `conflict` for one that is not dead */
  retryTask(asker: Asker, queue: string, id: string): Promise<Result<{ readonly task: Task }>>;
  retryDead(asker: Asker, queue: string): Promise<Result<{ readonly retried: number }>>;
  /** Whatever its state: its lease is lost. */
  deleteTask(asker: Asker, queue: string, id: string): Promise<Result<{ readonly task: DeletedTask }>>;

  /** @returns `object_not_found` */
  object(
    asker: Asker,
    key: string,
  ): Promise<Result<{ readonly object: StoredObject; readonly parts: readonly Part[] }>>;
  objects(asker: Asker, query: ObjectListQuery): Promise<Result<{ readonly page: ObjectList }>>;
  /**
   * Room for an object of so many bytes, for `BERTH_MS`: store the blob, then `landObject`.
   * @returns `storage_full`, `version_mismatch`
   */
  berthObject(
    asker: Asker,
    key: string,
    bytes: number,
    contentType: string,
    condition: Condition,
  ): Promise<Result<{ readonly berth: Berth }>>;
  /** It is stored: from here on it is the object. @returns `version_mismatch`, `upload_not_found` when it took too long */
  landObject(
    asker: Asker,
    upload: string,
    sha256: string,
    condition: Condition,
  ): Promise<Result<{ readonly object: StoredObject }>>;
  /** It came to nothing; what there may be of it is deleted. */
  sinkObject(blob: string): Promise<void>;
  deleteObject(asker: Asker, key: string, condition: Condition): Promise<Result<{ readonly deleted: boolean }>>;
  /** @returns `quota_exceeded` */
  beginUpload(asker: Asker, input: BeginObjectUpload): Promise<Result<{ readonly upload: ObjectUpload }>>;
  upload(asker: Asker, id: string): Promise<Result<{ readonly upload: ObjectUpload }>>;
  /** @returns `upload_not_found`, `storage_full` */
  berthPart(asker: Asker, id: string, part: number, bytes: number): Promise<Result<{ readonly berth: Berth }>>;
  landPart(asker: Asker, blob: string, sha256: string): Promise<Result<{ readonly upload: ObjectUpload }>>;
  /** @returns `upload_incomplete` with `details.missing`, `payload_too_large`, `version_mismatch` */
  completeUpload(
    asker: Asker,
    id: string,
    parts: number,
    condition: Condition,
  ): Promise<Result<{ readonly object: StoredObject }>>;
  abortUpload(asker: Asker, id: string): Promise<Result<unknown>>;

  /** The sandbox is deleted for good: all of it goes, blobs too, by and by. Repeatable. */
  purge(): Promise<void>;
}

/** What the edge may ask of the object that holds a sandbox's database, and nothing else. */
export interface DatabaseApi {
  /** One transaction. @returns `sql_failed` with `details.statement`, `storage_full` */
  run(asker: Asker, input: RunSql): Promise<Result<{ readonly results: SqlResult[] }>>;
  bytes(asker: Asker): Promise<Result<{ readonly bytes: number }>>;
  purge(): Promise<void>;
}

/** How long a blob may take to be stored, milliseconds; and how long the edge waits for it, which is less. */
export const BERTH_MS = 1_800_000;
export const STORE_MS = 900_000;

/** @param place a sandbox's id, or what an organisation shares: `store:<name>` */
export function stateObject(namespace: DurableObjectNamespace<never>, account: string, place: string): StateApi {
  return namespace.getByName(`${account}/${place}`) as unknown as StateApi;
}

export function databaseObject(namespace: DurableObjectNamespace<never>, account: string, place: string): DatabaseApi {
  return namespace.getByName(`${account}/${place}`) as unknown as DatabaseApi;
}

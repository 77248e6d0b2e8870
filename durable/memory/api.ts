/** What the edge may ask of the object that is one memory. */
import type {
  MemoryAuthor,
  MemoryEntry,
  MemoryFilter,
  MemoryHits,
  MemoryList,
  MemoryUsage,
  NewMemory,
  SearchMemory,
  UpdateMemory,
} from "../../sdk/contract/memory.ts";
import type { Result } from "../result.ts";
import type { Origin } from "./record.ts";

/** Whoever writes, as the edge knows it. */
export interface Writer {
  readonly author: MemoryAuthor;
  /** The run of the machine that writes; null: a key does. One older than the newest that wrote is refused. */
  readonly generation: number | null;
}

export interface Addition {
  readonly input: NewMemory;
  /** Added once by its author under it; null: each time. */
  readonly key: string | null;
  /** Of what is added under the key. */
  readonly fingerprint: string;
  readonly origin: Origin | null;
}

export interface MemoryPageAsk {
  readonly filter: MemoryFilter;
  readonly order: "newest" | "oldest";
  readonly limit: number;
  readonly cursor: string | null;
  readonly embeddings: boolean;
}

export interface MemoryApi {
  /**
   * All of them or none, in order; those that were added under their keys before are answered as they are.
   * @returns `storage_full`, `invalid_request` for another dimension, `idempotency_key_reused`, `stale_generation`
   */
  add(writer: Writer, additions: readonly Addition[]): Promise<Result<{ readonly entries: MemoryEntry[] }>>;
  /** @returns `invalid_request` for another dimension */
  search(ask: SearchMemory): Promise<Result<{ readonly hits: MemoryHits }>>;
  /** A page ends early where texts are long. null when the cursor is not one of ours. */
  list(ask: MemoryPageAsk): Promise<MemoryList | null>;
  get(id: string, embeddings: boolean): Promise<Result<{ readonly entry: MemoryEntry }>>;
  /** @returns `memory_not_found`, `version_mismatch`, `storage_full` */
  update(writer: Writer, id: string, input: UpdateMemory): Promise<Result<{ readonly entry: MemoryEntry }>>;
  /** Those that there are of these, or all that the filter says. */
  forget(writer: Writer, which: readonly string[] | MemoryFilter): Promise<Result<{ readonly forgotten: number }>>;
  usage(): Promise<MemoryUsage>;
  /** Its sandbox or store is deleted for good: all goes, and nothing is taken any more. Repeatable. */
  purge(): Promise<void>;
}

/** The memory of a sandbox. */
export function memoryOfSandbox(
  namespace: DurableObjectNamespace<never>,
  account: string,
  sandboxId: string,
): MemoryApi {
  return namespace.getByName(`${account}/${sandboxId}`) as unknown as MemoryApi;
}

/** The memory of a store. By its id: one of the same name that comes later has nothing of it. */
export function memoryOfStore(namespace: DurableObjectNamespace<never>, account: string, store: string): MemoryApi {
  return namespace.getByName(`${account}/store:${store}`) as unknown as MemoryApi;
}

/** What the edge may ask of the object that keeps an account's shared stores. */
import type { Grant, PutStore, Store, StoreAccess, StoreKind } from "../../sdk/contract/store.ts";
import type { Once } from "../account/api.ts";
import type { Result } from "../result.ts";

/** A store that is open to whoever asked. */
export interface OpenStore {
  readonly storeId: string;
  readonly access: StoreAccess;
}

export interface StoresApi {
  /** Made, or as this says from now on. @returns `quota_exceeded`, `conflict` for kinds that it would lose */
  put(name: string, input: PutStore): Promise<Result<{ readonly store: Store }>>;
  /** By name. @param label of a sandbox: those that are open to it, with its own grants alone */
  list(label: string | null): Promise<Store[]>;
  get(name: string): Promise<Result<{ readonly store: Store }>>;
  /** In the place of the agent's other one. @returns `quota_exceeded` */
  grant(name: string, grant: Grant): Promise<Result<{ readonly store: Store }>>;
  /** Counts for each request that begins after the answer. */
  revoke(name: string, agent: string): Promise<Result<{ readonly store: Store }>>;
  /** With all that is in it, which no grant opens any more. */
  remove(name: string, once: Once): Promise<Result<{ readonly replayed: boolean }>>;
  /**
   * @param label of the sandbox that asks; null: a key, which may all
   * @returns `store_not_found`; to a sandbox `forbidden`, the same whether there is one or not
   */
  open(name: string, kind: StoreKind, label: string | null): Promise<Result<OpenStore>>;
}

export function storesObject(namespace: DurableObjectNamespace<never>, account: string): StoresApi {
  return namespace.getByName(account) as unknown as StoresApi;
}

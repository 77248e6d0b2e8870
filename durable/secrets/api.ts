/** What the edge and sandboxes may ask of the object that holds an account's secrets. */
import type { DeletedSecret, PutSecret, Secret, StoredSecret } from "../../sdk/contract/secret.ts";
import type { Once } from "../account/api.ts";
import type { Result } from "../result.ts";
import type { Given } from "./record.ts";

export type { Given };

/** When a host put a secret into a request last, Unix milliseconds. */
export interface Use {
  readonly name: string;
  readonly lastAt: number;
}

/** A scope is a sandbox's id, or empty for the account. */
export interface SecretsApi {
  /** @returns `quota_exceeded`, `idempotency_key_reused`; `not_found` where the sandbox is gone */
  put(scope: string, name: string, input: PutSecret, once: Once): Promise<Result<{ readonly secret: StoredSecret }>>;
  list(scope: string): Promise<Secret[]>;
  /** @returns `secret_not_found` */
  get(scope: string, name: string): Promise<Result<{ readonly secret: Secret }>>;
  /** @returns `secret_not_found`, `idempotency_key_reused` */
  remove(scope: string, name: string, once: Once): Promise<Result<{ readonly secret: DeletedSecret }>>;
  /** Those of the names that the account has no secret of. */
  missing(names: readonly string[]): Promise<string[]>;
  /**
   * What a run of a sandbox has, with values: its own, and the account's of those names. From then on the sandbox hears
   * of changes of any of them.
   */
  give(sandboxId: string, names: readonly string[]): Promise<Given>;
  used(sandboxId: string, uses: readonly Use[]): Promise<void>;
  /** The sandbox is deleted for good: its secrets go. Repeatable; thrown failures are tried again by the caller. */
  purge(sandboxId: string): Promise<void>;
}

export function secretsObject(namespace: DurableObjectNamespace<never>, account: string): SecretsApi {
  return namespace.getByName(account) as unknown as SecretsApi;
}

/** What the edge may ask of the object that keeps an account's domains. */
import type { CreateDomain, DeletedDomain, Domain } from "../../sdk/contract/domain.ts";
import type { Once } from "../account/api.ts";
import type { Result } from "../result.ts";

export interface ClaimsApi {
  /** The same domain again where the sandbox has it. @returns `quota_exceeded`, `conflict` for one with another port */
  create(sandboxId: string, input: CreateDomain, once: Once): Promise<Result<{ readonly domain: Domain }>>;
  /** The oldest first. */
  list(sandboxId: string): Promise<Domain[]>;
  get(sandboxId: string, hostname: string): Promise<Result<{ readonly domain: Domain }>>;
  setPort(sandboxId: string, hostname: string, port: number): Promise<Result<{ readonly domain: Domain }>>;
  /** Look at its TXT record now. */
  verify(sandboxId: string, hostname: string): Promise<Result<{ readonly domain: Domain }>>;
  remove(sandboxId: string, hostname: string, once: Once): Promise<Result<{ readonly domain: DeletedDomain }>>;
  /** The sandbox is deleted for good: its domains go. Repeatable; thrown failures are tried again by the caller. */
  purge(sandboxId: string): Promise<void>;
}

export function claimsObject(namespace: DurableObjectNamespace<never>, account: string): ClaimsApi {
  return namespace.getByName(account) as unknown as ClaimsApi;
}

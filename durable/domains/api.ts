/** What the edge and the keepers of claims may ask of the object of a host name. */
import type { Domain } from "../../sdk/contract/domain.ts";
import type { Claimant } from "./record.ts";

/** Whom requests for a host name reach. */
export interface DomainTarget {
  readonly account: string;
  readonly label: string;
  readonly sandboxId: string;
  readonly port: number;
}

export interface DomainApi {
  /** Claim the name for a sandbox. Repeatable: a claim is made once. */
  claim(claimant: Claimant): Promise<Domain>;
  /** null: there is no such claim. */
  get(id: string): Promise<Domain | null>;
  setPort(id: string, port: number): Promise<Domain | null>;
  /** Look at its TXT record now. */
  verify(id: string): Promise<Domain | null>;
  /** Give a claim up. Repeatable. */
  release(id: string): Promise<void>;
  /** null: nobody has the name. Asking leaves no trace, and wakes nothing. */
  target(): Promise<DomainTarget | null>;
}

export function domainObject(namespace: DurableObjectNamespace<never>, hostname: string): DomainApi {
  return namespace.getByName(hostname) as unknown as DomainApi;
}

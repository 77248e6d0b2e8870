/** What the edge may ask of the object that runs a sandbox's drills. */
import type { CreateDrill, Drill } from "../../sdk/contract/drill.ts";
import type { Once } from "../account/api.ts";
import type { Result } from "../result.ts";

export interface DrillsApi {
  /** Begin one. @returns `conflict` while another goes on, `idempotency_key_reused` */
  begin(sandboxId: string, input: CreateDrill, once: Once): Promise<Result<{ readonly drill: Drill }>>;
  /** The newest first. */
  list(sandboxId: string): Promise<Drill[]>;
  /** @returns `not_found` */
  get(sandboxId: string, drill: string): Promise<Result<{ readonly drill: Drill }>>;
  /** The sandbox is deleted for good. Those of another one, which has the name by now, are left alone. Repeatable. */
  purge(sandboxId: string): Promise<void>;
}

export function drillsObject(namespace: DurableObjectNamespace<never>, account: string, label: string): DrillsApi {
  return namespace.getByName(`${account}/${label}`) as unknown as DrillsApi;
}

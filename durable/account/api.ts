/** What edge and sandboxes may ask of an account's object. */
import type { ListQuery, Sandbox, SandboxList } from "../../sdk/contract/sandbox.ts";
import type { Usage, UsageReport } from "../../sdk/contract/usage.ts";

/** One sandbox as its object last described it. */
export interface Summary {
  readonly label: string;
  /** Grows with every change of what is under the label; an older one is ignored. */
  readonly sequence: number;
  /** null: deleted. */
  readonly sandbox: Sandbox | null;
}

export interface AccountApi {
  /** The key's id when the hash (SHA-256, hex) belongs to a key of this account, else null. */
  verifyKey(hash: string): Promise<string | null>;
  applySummary(summary: Summary): Promise<void>;
  /** Book what hosts report. Answers how many reports were refused because an amount went down. */
  recordUsage(reports: readonly UsageReport[]): Promise<number>;
  usage(month: string | undefined): Promise<Usage>;
  /** Oldest first. null when the cursor is not one of ours. */
  list(query: ListQuery): Promise<SandboxList | null>;
}

export function accountObject(namespace: DurableObjectNamespace<never>, account: string): AccountApi {
  return namespace.getByName(account) as unknown as AccountApi;
}

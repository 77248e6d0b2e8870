/** Whether a run fits an account's quotas. Pure. */
import type { Quotas } from "../../sdk/contract/account.ts";
import type { Failure } from "../../sdk/contract/error-codes.ts";

export const NO_QUOTAS: Quotas = { running: null, vcpus: null, memoryMiB: null, kept: null, createdPerDay: null };

/** What counts towards the quotas, without the run that is asked for. */
export interface Used {
  readonly running: number;
  readonly vcpus: number;
  readonly memoryMiB: number;
  readonly kept: number;
  readonly createdToday: number;
}

/** What the run adds. `isNew`: the sandbox is only being made. */
export interface Wanted {
  readonly vcpu: number;
  readonly memoryMiB: number;
  readonly isNew: boolean;
}

/** The quotas that the run would break, all of them in one failure; null when it fits. */
export function overQuota(quotas: Quotas, used: Used, { vcpu, memoryMiB, isNew }: Wanted): Failure | null {
  const one = isNew ? 1 : 0;
  const after: Readonly<Record<keyof Quotas, number>> = {
    running: used.running + 1,
    vcpus: used.vcpus + vcpu,
    memoryMiB: used.memoryMiB + memoryMiB,
    kept: used.kept + one,
    createdPerDay: used.createdToday + one,
  };
  const broken = (Object.keys(after) as (keyof Quotas)[]).filter((name) => {
    const max = quotas[name];
    // Where nothing is added nothing gets worse, however low the quota was set meanwhile.
    const adds = isNew || (name !== "kept" && name !== "createdPerDay");
    return max !== null && adds && after[name] > max;
  });
  if (broken.length === 0) return null;
  const limits = Object.fromEntries(broken.map((name) => [name, { max: quotas[name], wouldBe: after[name] }]));
  return {
    code: "quota_exceeded",
    message: `The account's quota of ${broken.join(", ")} does not allow it.`,
    details: { limits },
    retryAfterMs: broken.includes("createdPerDay") ? 60_000 : 5000,
  };
}

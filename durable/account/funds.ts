/** Whether an account can pay for a run, and when one must end. Pure; money in whole microdollars. */
import type { AccountPlan } from "../../sdk/contract/account.ts";
import type { Failure } from "../../sdk/contract/error-codes.ts";
import { priceOf, type Rates } from "../../sdk/contract/pricing.ts";
import type { StopReason } from "../../sdk/contract/sandbox.ts";

/** So much of a run at full load is set aside when it begins, so that the balance never falls below nothing. */
export const HOLD_MS = 600_000;
/** How long what sleeps is kept, free of charge, once there is no credit. */
export const UNPAID_KEPT_MS = 7 * 86_400_000;
/** Of a 30-day month. */
export const MONTH_MS = 30 * 86_400_000;

/** Plans that draw on prepaid credit. */
export function isPrepaid(plan: AccountPlan): boolean {
  return plan !== "unmetered";
}

/** What a sandbox's existence comes to on the plan `flat`, rounded half up. */
export function flatPrice(existedMs: number, microsPerMonth: number): number {
  return Number((2n * BigInt(existedMs) * BigInt(microsPerMonth) + BigInt(MONTH_MS)) / (2n * BigInt(MONTH_MS)));
}

/** What is set aside for a run. */
export function holdOf(plan: AccountPlan, shape: { vcpu: number; memoryMiB: number }, rates: Rates): number {
  if (plan !== "metered" && plan !== "trial") return 0;
  const ms = BigInt(HOLD_MS);
  const cpu = priceOf("cpu", BigInt(shape.vcpu) * ms * 1_000_000n, rates);
  return Number(cpu + priceOf("memory", BigInt(shape.memoryMiB) * ms, rates));
}

export interface Balance {
  readonly plan: AccountPlan;
  readonly credited: number;
  readonly spent: number;
  /** Set aside for all runs but the one that is asked for. */
  readonly held: number;
}

/** Why a run can't be paid for; null when it can. */
export function shortOf({ plan, credited, spent, held }: Balance, hold: number): Failure | null {
  if (!isPrepaid(plan)) return null;
  const availableMicros = credited - spent - held;
  const neededMicros = Math.max(1, hold);
  if (availableMicros >= neededMicros) return null;
  const missingMicros = neededMicros - availableMicros;
  return {
    code: "insufficient_funds",
    message: `The account's credit does not cover it: ${missingMicros} microdollars are missing.`,
    details: { neededMicros, availableMicros, missingMicros },
  };
}

/** A limit on spending, and how far it is used. */
export interface Spending {
  /** What sets it: `account`, `key`, `sandbox`. */
  readonly of: "account" | "key" | "sandbox";
  readonly spent: number;
  /** null: no limit. */
  readonly limit: number | null;
}

export function isReached({ spent, limit }: Spending): boolean {
  return limit !== null && spent >= limit;
}

/** Why spending must not go on; null when it may. */
export function overLimit(spendings: readonly Spending[]): Failure | null {
  const reached = spendings.filter(isReached);
  const [first] = reached;
  if (!first) return null;
  const limits = reached.map(({ of, spent, limit }) => ({ of, spentMicros: spent, limitMicros: limit }));
  return {
    code: "spending_limit_reached",
    message: `The spending limit of the ${reached.map(({ of }) => of).join(" and the ")} is reached.`,
    details: { limits },
  };
}

/** Why a run that is under way must end; null when it may go on. */
export function endOf(
  suspended: boolean,
  { plan, credited, spent, held }: Balance,
  spendings: readonly Spending[],
): StopReason | null {
  if (suspended) return "operator_stopped";
  if (isPrepaid(plan) && credited - spent - held < 0) return "insufficient_funds";
  const reached = spendings.find(isReached);
  if (!reached) return null;
  return reached.of === "sandbox" ? "lifetime_cap" : "spending_limit";
}

/** A setting of the installation. @throws Error for one that is no amount */
export function microsOf(name: string, setting: string | undefined, otherwise: number): number {
  const micros = setting === undefined ? otherwise : Number(setting);
  if (!Number.isSafeInteger(micros) || micros < 0) throw new Error(`${name} is ${setting}, not microdollars`);
  return micros;
}

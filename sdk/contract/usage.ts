/** What machines used: how hosts report it, and how an account reads it. */
import { z } from "zod";
import { AccountName } from "./account.ts";
import { Generation } from "./host.ts";
import { SandboxId } from "./names.ts";
import type { Amounts } from "./pricing.ts";

/** A whole number that may be past 2^53, as decimal digits. */
const Amount = z.string().regex(/^\d{1,30}$/, "a whole number, in digits");

/** Amounts of one generation of a machine so far; a later report holds all of an earlier one. Volumes are not here yet. */
export const UsageReport = z.object({
  account: AccountName,
  id: SandboxId,
  generation: Generation,
  /** Grows with every report of the generation. */
  sequence: z.int().min(1),
  /** CPU-nanoseconds. */
  cpu: Amount,
  /** MiB-milliseconds. */
  memory: Amount,
  /** Byte-milliseconds. */
  stored: Amount,
});
export type UsageReport = z.infer<typeof UsageReport>;

/** Reports of one call. */
export const USAGE_BATCH = 500;

/** `POST <edge>/internal/usage`, host secret. At least once, any order. */
export const UsageReports = z.object({ reports: z.array(UsageReport).max(USAGE_BATCH) });

/** Amounts as they travel and are stored: whole numbers past 2^53 are digits there. */
export interface AmountDigits {
  readonly cpu: string;
  readonly memory: string;
  readonly stored: string;
}

export function fromDigits({ cpu, memory, stored }: AmountDigits): Amounts {
  return { cpu: BigInt(cpu), memory: BigInt(memory), stored: BigInt(stored), volume: 0n };
}

export function toDigits({ cpu, memory, stored }: Amounts): AmountDigits {
  return { cpu: String(cpu), memory: String(memory), stored: String(stored) };
}

export const Month = z.string().regex(/^\d{4}-(0[1-9]|1[0-2])$/, "a month such as 2026-11");

/** Query of `GET /v1/usage`; the month under way (UTC) unless said. */
export const UsageQuery = z.strictObject({ month: Month.optional() });

/** One sandbox in one month. Money in microdollars; amounts as digits, in the units of a report. */
export const UsageLine = z
  .object({
    sandboxId: z.string(),
    cpu: Amount,
    memory: Amount,
    stored: Amount,
    cpuMicros: z.int(),
    memoryMicros: z.int(),
    storedMicros: z.int(),
    totalMicros: z.int(),
  })
  .meta({ id: "UsageLine" });
export type UsageLine = z.infer<typeof UsageLine>;

/** Costs at the rates each sandbox was made under. Nothing is collected: this installation has no credit to draw on. */
export const Usage = z.object({ month: Month, lines: z.array(UsageLine), totalMicros: z.int() }).meta({ id: "Usage" });
export type Usage = z.infer<typeof Usage>;

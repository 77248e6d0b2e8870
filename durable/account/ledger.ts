/** What reports of hosts add to an account's books, and what it comes to. Pure. */
import { meters, priceOf, type Amounts, type Rates } from "../../sdk/contract/pricing.ts";
import { toDigits, type UsageLine } from "../../sdk/contract/usage.ts";

/** The newest report of a generation that was booked. */
export interface Booked {
  readonly sequence: number;
  readonly amounts: Amounts;
}

/**
 * What a report adds to what is booked of its generation: the same report twice, or an older one late, add nothing. null
 * for a report in which an amount went down, which no honest meter sends.
 */
export function addedBy(booked: Booked | null, report: Booked): Amounts | "nothing" | null {
  if (!booked) return report.amounts;
  if (report.sequence <= booked.sequence) return "nothing";
  if (meters.some((meter) => report.amounts[meter] < booked.amounts[meter])) return null;
  return {
    cpu: report.amounts.cpu - booked.amounts.cpu,
    memory: report.amounts.memory - booked.amounts.memory,
    stored: report.amounts.stored - booked.amounts.stored,
    volume: report.amounts.volume - booked.amounts.volume,
  };
}

/** `2026-11`, UTC. */
export function monthOf(at: number): string {
  return new Date(at).toISOString().slice(0, 7);
}

/** A sandbox's month, priced: each meter is rounded once. */
export function lineOf(sandboxId: string, amounts: Amounts, rates: Rates): UsageLine {
  const cpuMicros = Number(priceOf("cpu", amounts.cpu, rates));
  const memoryMicros = Number(priceOf("memory", amounts.memory, rates));
  const storedMicros = Number(priceOf("stored", amounts.stored, rates));
  return {
    sandboxId,
    ...toDigits(amounts),
    cpuMicros,
    memoryMicros,
    storedMicros,
    totalMicros: cpuMicros + memoryMicros + storedMicros,
  };
}

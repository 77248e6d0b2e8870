/** What reports of hosts add to an account's books, and what it comes to. Pure. */
import { meters, priceOf, subtract, type Amounts, type Rates } from "../../sdk/contract/pricing.ts";
import type { UsageGroup, UsageLine } from "../../sdk/contract/usage.ts";
import type { AccountPlan } from "../../sdk/contract/account.ts";
import { flatPrice } from "./funds.ts";

/** The newest report of a generation that was booked. */
export interface Booked {
  readonly sequence: number;
  readonly amounts: Amounts;
}

/** What a sandbox used in a month on a plan, or what something that is kept came to. */
export interface Line {
  readonly month: string;
  /** Its id, or that of what is kept. */
  readonly sandboxId: string;
  readonly plan: AccountPlan;
  readonly amounts: Amounts;
  /** Milliseconds that it existed, counted on the plan `flat` only. */
  readonly existedMs: number;
}

/**
 * What a report adds to what is booked of its generation: the same report twice, or an older one late, add nothing. null
 * for a report in which an amount went down, which no honest meter sends.
 */
export function addedBy(booked: Booked | null, report: Booked): Amounts | "nothing" | null {
  if (!booked) return report.amounts;
  if (report.sequence <= booked.sequence) return "nothing";
  if (meters.some((meter) => report.amounts[meter] < booked.amounts[meter])) return null;
  return subtract(report.amounts, booked.amounts);
}

/** `2026-11`, UTC. */
export function monthOf(at: number): string {
  return new Date(at).toISOString().slice(0, 7);
}

/** Months since the year 0. */
export function monthNumber(month: string): number {
  return Number(month.slice(0, 4)) * 12 + Number(month.slice(5));
}

/** `2026-11-29`, UTC. */
export function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

/** A time span cut where months begin (UTC). */
export function byMonth(from: number, to: number): { month: string; ms: number }[] {
  const parts: { month: string; ms: number }[] = [];
  let at = from;
  while (at < to) {
    const start = new Date(at);
    const end = Math.min(to, Date.UTC(start.getUTCFullYear(), start.getUTCMonth() + 1, 1));
    parts.push({ month: monthOf(at), ms: end - at });
    at = end;
  }
  return parts;
}

/** What a line comes to: each meter is rounded once. */
export function priceOfLine({ plan, amounts, existedMs }: Line, rates: Rates, flatMicrosPerMonth: number): PricedLine {
  const metered = plan !== "flat";
  const cpuMicros = metered ? Number(priceOf("cpu", amounts.cpu, rates)) : 0;
  const memoryMicros = metered ? Number(priceOf("memory", amounts.memory, rates)) : 0;
  // What sleeps on a trial is free.
  const storedMicros = metered && plan !== "trial" ? Number(priceOf("stored", amounts.stored, rates)) : 0;
  const flatMicros = metered ? 0 : flatPrice(existedMs, flatMicrosPerMonth);
  // The flat price is a sandbox's, snapshots included; volumes and their backups cost what they cost on every plan.
  const volumeMicros = Number(priceOf("volume", amounts.volume, rates));
  const backupMicros = Number(priceOf("backup", amounts.backup, rates));
  const totalMicros = cpuMicros + memoryMicros + storedMicros + flatMicros + volumeMicros + backupMicros;
  return { cpuMicros, memoryMicros, storedMicros, flatMicros, volumeMicros, backupMicros, totalMicros };
}

export type PricedLine = Pick<
  UsageLine,
  "cpuMicros" | "memoryMicros" | "storedMicros" | "flatMicros" | "volumeMicros" | "backupMicros" | "totalMicros"
>;

/** Totals by the value of a label, or by month. */
export function groupsOf(lines: readonly UsageLine[], by: string): UsageGroup[] {
  const groups = new Map<string | null, { totalMicros: number; sandboxes: Set<string> }>();
  const label = by.startsWith("label:") ? by.slice("label:".length) : null;
  for (const line of lines) {
    const key = label === null ? (by === "month" ? line.month : line.sandboxId) : (line.labels[label] ?? null);
    const group = groups.get(key) ?? { totalMicros: 0, sandboxes: new Set() };
    group.totalMicros += line.totalMicros;
    if (line.kind === "sandbox") group.sandboxes.add(line.sandboxId);
    groups.set(key, group);
  }
  return [...groups]
    .map(([key, { totalMicros, sandboxes }]) => ({ key, totalMicros, sandboxes: sandboxes.size }))
    .toSorted((a, b) => (a.key ?? "").localeCompare(b.key ?? ""));
}

/** What `rouse top` shows of each sandbox. Pure. */
import type { SandboxInfo, Usage } from "../src/index.ts";
import { ago } from "./output.ts";
import { usd } from "./money.ts";

/** What a sandbox has used this month, as far as it has been booked. */
export interface Booked {
  readonly cpuNs: bigint;
  readonly micros: number;
}

export interface TopLine {
  readonly name: string;
  readonly state: string;
  /** Of one virtual CPU, percent, on average since the look before; null: not known yet, or not to this key. */
  readonly cpuPercent: number | null;
  readonly vcpu: number;
  readonly memoryMiB: number;
  /** null: it has not been used yet. */
  readonly lastActiveAt: string | null;
  /** This month; null: the key does not see money. */
  readonly monthMicros: number | null;
}

export function bookedOf(usage: Usage): Map<string, Booked> {
  return new Map(usage.lines.map((line) => [line.sandboxId, { cpuNs: BigInt(line.cpu), micros: line.totalMicros }]));
}

/**
 * @param before what was booked at the look before; null at the first
 * @param elapsedMs since then
 */
export function topLines(
  infos: readonly SandboxInfo[],
  booked: ReadonlyMap<string, Booked> | null,
  before: ReadonlyMap<string, Booked> | null,
  elapsedMs: number,
): TopLine[] {
  const lines = infos.map((info): TopLine => {
    const [now, then] = [booked?.get(info.id), before?.get(info.id)];
    const used = now && then && elapsedMs > 0 ? Number(now.cpuNs - then.cpuNs) : null;
    return {
      name: info.name ?? info.id,
      state: info.state,
      cpuPercent: used === null ? null : Math.max(0, used / elapsedMs / 10_000),
      vcpu: info.vcpu,
      memoryMiB: info.memoryMiB,
      lastActiveAt: info.lastActiveAt,
      monthMicros: booked === null ? null : (now?.micros ?? 0),
    };
  });
  const rank = (line: TopLine) => (line.state === "running" ? 0 : line.state === "paused" ? 2 : 1);
  return lines.toSorted(
    (a, b) => rank(a) - rank(b) || (b.cpuPercent ?? 0) - (a.cpuPercent ?? 0) || (a.name < b.name ? -1 : 1),
  );
}

export const topHeading = ["NAME", "STATE", "CPU", "VCPU", "MEMORY", "IDLE", "MONTH"];

export function topRow(line: TopLine, nowMs: number): string[] {
  const { cpuPercent, monthMicros } = line;
  return [
    line.name,
    line.state,
    cpuPercent === null ? "-" : `${cpuPercent.toFixed(0)}%`,
    String(line.vcpu),
    `${line.memoryMiB} MiB`,
    ago(line.lastActiveAt, nowMs),
    monthMicros === null ? "-" : usd(monthMicros),
  ];
}

/** Such as `3 running, 12 paused; $1.20 this month`. */
export function topSummary(lines: readonly TopLine[]): string {
  const counts = Map.groupBy(lines, ({ state }) => state);
  const states = [...counts].map(([state, those]) => `${those.length} ${state}`).join(", ") || "No sandboxes";
  const known = lines.some(({ monthMicros }) => monthMicros !== null);
  return known ? `${states}; ${usd(lines.reduce((sum, line) => sum + (line.monthMicros ?? 0), 0))} this month` : states;
}

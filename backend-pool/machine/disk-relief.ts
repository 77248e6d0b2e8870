/** Sleepers give up files when the host's disk is short, or the host is to be emptied. Pure. */
import type { Machine, SleepDepth } from "../../sdk/contract/host.ts";

/** Less free disk than this is short, MiB. */
export const SHORT_MIB = 4096;
/** Sleepers that are made to sleep deeper at once; the next heartbeat looks again. */
const AT_ONCE = 8;

/** Who sleeps deeper, and how deep: those that were used longest ago, and whole ones before compact ones. */
export function relief(
  machines: readonly Machine[],
  freeDiskMiB: number,
  draining: boolean,
): { id: string; depth: SleepDepth }[] {
  if (freeDiskMiB >= SHORT_MIB && !draining) return [];
  const asleep = machines
    .filter(({ state, depth }) => state === "paused" && depth !== null && depth !== "cold")
    .toSorted((a, b) => a.lastActiveAt.localeCompare(b.lastActiveAt));
  if (draining) return asleep.slice(0, AT_ONCE).map(({ id }) => ({ id, depth: "cold" }));
  const whole = asleep.filter(({ depth }) => depth !== "compact");
  const compact = asleep.filter(({ depth }) => depth === "compact");
  return [
    ...whole.map(({ id }) => ({ id, depth: "compact" as const })),
    ...compact.map(({ id }) => ({ id, depth: "cold" as const })),
  ].slice(0, AT_ONCE);
}

/** How often a sandbox may be woken by what is not its owner. */
import type { Failure } from "../../sdk/contract/error-codes.ts";
import type { SandboxRecord } from "./record.ts";
import type { Timeline } from "./timeline.ts";

const HOUR_MS = 3_600_000;

/** Why nothing but its owner may wake the sandbox again now; null where it may. */
export function wakeLimit(
  { maxWakesPerHour }: Pick<SandboxRecord, "maxWakesPerHour">,
  timeline: Pick<Timeline, "wokenSince">,
  now: number,
): Failure | null {
  if (maxWakesPerHour === null) return null;
  const woken = timeline.wokenSince(now - HOUR_MS, maxWakesPerHour);
  const oldest = woken.at(-1);
  if (oldest === undefined || woken.length < maxWakesPerHour) return null;
  return {
    code: "wake_limit_reached",
    message: `Requests woke the sandbox ${maxWakesPerHour} times within an hour, as often as they may.`,
    details: { maxWakesPerHour },
    retryAfterMs: oldest + HOUR_MS - now,
  };
}

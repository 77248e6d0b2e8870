/** What keeps a running sandbox awake. Pure. */
import type { Machine } from "../../sdk/contract/host.ts";
import type { Awake } from "../../sdk/contract/timeline.ts";
import { iso } from "../time.ts";
import { activeHolds } from "./holds.ts";
import type { SandboxRecord } from "./record.ts";

/** @param machine as its host says it is; null when that did not answer */
export function awakeBecause(
  { holds, idlePauseSeconds, life }: Pick<SandboxRecord, "holds" | "idlePauseSeconds" | "life">,
  machine: Pick<Machine, "lastActiveAt" | "open" | "lastUse"> | null,
  now: number,
): Awake[] {
  if (life.state !== "running") return [];
  const reasons: Awake[] = Object.entries(activeHolds(holds, now)).map(([name, until]) => ({
    ...{ because: "hold", name, until: iso(until) },
  }));
  if (idlePauseSeconds === 0) reasons.push({ because: "no_idle_pause" });
  if (machine?.open) reasons.push({ because: "connections", count: machine.open });
  const last = machine ? Date.parse(machine.lastActiveAt) : (life.lastActiveAt ?? now);
  const lastActiveAt = iso(last);
  if (machine?.lastUse === "cpu") reasons.push({ because: "cpu", lastActiveAt });
  else if (idlePauseSeconds > 0 && !machine?.open)
    reasons.push({ because: "recent_use", lastActiveAt, pausesAt: iso(last + idlePauseSeconds * 1000) });
  return reasons;
}

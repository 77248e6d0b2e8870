/** What a machine is after a start of the host agent, by what was noted of it and what is really there. Pure. */
import type { StopReason } from "../../sdk/contract/sandbox.ts";
import type { JournalRow } from "../store/journal.ts";
import type { Actual } from "./driver.ts";
import { news } from "./held.ts";

export interface Reclaimed {
  readonly change: Partial<JournalRow>;
  /** `watch` it for idleness, let it `settle` into its sleep, or leave it to the next call. */
  readonly next: "watch" | "settle" | "wait";
}

/** null: nothing of it is left. */
export function reclaimed(row: JournalRow, actual: Actual): Reclaimed | null {
  if (!actual.exists) return null;
  // Nobody was told of a creation or a boot that was under way: whoever asked for it asks again, and it goes on.
  if (row.state === "creating" && !actual.running && !actual.frozen) return { change: {}, next: "wait" };
  if (row.state === "waking" && !row.memoryRestored && actual.running) return { change: {}, next: "wait" };
  const live = { state: "running", savedGeneration: null } as const;
  if (actual.frozen) return { change: live, next: "wait" };
  if (actual.running) return { change: live, next: "watch" };
  const ended = { endedGeneration: row.generation };
  const over = { ...ended, savedGeneration: row.generation };
  if (actual.memory === "saved") {
    // Only a run that was under way has left a new state.
    const change = row.state === "waking" ? {} : row.state === "paused" ? ended : over;
    return { change: { state: "paused", ...change }, next: "settle" };
  }
  if (row.state === "stopped") return { change: {}, next: "wait" };
  // It ran when this host agent last looked, or a step was under way that used up its RAM.
  const reason: StopReason = "vm_crashed";
  return {
    change: { state: "stopped", endReason: reason, ...over, ...news(row, { type: "ended", reason }) },
    next: "wait",
  };
}

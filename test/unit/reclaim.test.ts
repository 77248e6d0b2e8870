/** What a host agent makes of its machines when it starts, whatever the end before was like. */
import { expect, it } from "vitest";
import type { Actual } from "../../backend-pool/machine/driver.ts";
import { reclaimed } from "../../backend-pool/machine/reclaim.ts";
import type { JournalRow } from "../../backend-pool/store/journal.ts";

const row = (state: JournalRow["state"], change: Partial<JournalRow> = {}) =>
  ({ state, generation: 3, endedGeneration: 2, memoryRestored: true, ...change }) as JournalRow;
const gone: Actual = { exists: false, running: false, memory: "none", depth: null };
const runs: Actual = { exists: true, running: true, memory: "live", depth: null };
const sleeps: Actual = { exists: true, running: false, memory: "saved", depth: "local" };
const disk: Actual = { exists: true, running: false, memory: "none", depth: null };
const frozen: Actual = { ...runs, running: false, frozen: true };

it.each<[string, JournalRow, Actual, object | null]>([
  ["a machine whose files are gone is forgotten", row("running"), gone, null],
  [
    "a running one runs on",
    row("running"),
    runs,
    { change: { state: "running", savedGeneration: null }, next: "watch" },
  ],
  [
    "a frozen one waits for the edge's word",
    row("running"),
    frozen,
    { change: { state: "running", savedGeneration: null }, next: "wait" },
  ],
  ["a creation that was cut off goes on with the next call", row("creating"), sleeps, { change: {}, next: "wait" }],
  [
    "a creation that ran does run",
    row("creating"),
    runs,
    { change: { state: "running", savedGeneration: null }, next: "watch" },
  ],
  ["a boot that was cut off begins anew", row("waking", { memoryRestored: false }), runs, { change: {}, next: "wait" }],
  [
    "a wake that ran does run",
    row("waking"),
    runs,
    { change: { state: "running", savedGeneration: null }, next: "watch" },
  ],
  ["a wake that did not begin may begin", row("waking"), sleeps, { change: { state: "paused" }, next: "settle" }],
  [
    "a pause that was whole is one, and its run over",
    row("pausing"),
    sleeps,
    { change: { state: "paused", endedGeneration: 3, savedGeneration: 3 }, next: "settle" },
  ],
  [
    "a sleeper sleeps on with the state that it has",
    row("paused", { savedGeneration: 2 }),
    sleeps,
    { change: { state: "paused", endedGeneration: 3 }, next: "settle" },
  ],
  [
    "a pause that was not is none",
    row("pausing"),
    runs,
    { change: { state: "running", savedGeneration: null }, next: "watch" },
  ],
  ["a stopped one stays so", row("stopped"), disk, { change: {}, next: "wait" }],
])("%s", (_, noted, actual, expected) => {
  expect(reclaimed(noted, actual)).toEqual(expected);
});

it.each(["running", "waking", "pausing", "paused"] as const)(
  "says that a %s machine ended which is there no more",
  (state) => {
    expect(reclaimed(row(state), disk)?.change).toMatchObject({
      state: "stopped",
      endReason: "vm_crashed",
      endedGeneration: 3,
      savedGeneration: 3,
      pendingEvent: { type: "ended", generation: 3 },
    });
  },
);

/** Who gives up files when a host's disk is short. */
import { expect, it } from "vitest";
import { relief, SHORT_MIB } from "../../backend-pool/machine/disk-relief.ts";
import type { Machine } from "../../sdk/contract/host.ts";

const machine = (id: string, state: Machine["state"], depth: Machine["depth"], minute: number) =>
  ({ id, state, depth, lastActiveAt: `2026-01-01T00:${String(minute).padStart(2, "0")}:00.000Z` }) as Machine;

it("asks nothing of anybody while there is room", () => {
  expect(relief([machine("a", "paused", "local", 1)], SHORT_MIB, false)).toEqual([]);
});

it("makes whole sleepers compact, the longest asleep first, and then compact ones cold", () => {
  const machines = [
    machine("runs", "running", null, 0),
    machine("packed", "paused", "compact", 1),
    machine("gone", "paused", "cold", 0),
    machine("young", "paused", "resident", 9),
    machine("old", "paused", "local", 2),
  ];
  expect(relief(machines, SHORT_MIB - 1, false)).toEqual([
    { id: "old", depth: "compact" },
    { id: "young", depth: "compact" },
    { id: "packed", depth: "cold" },
  ]);
});

it("goes about it a few at a time", () => {
  const many = Array.from({ length: 100 }, (_, i) => machine(`m${i}`, "paused", "local", i % 60));
  expect(relief(many, 0, false)).toHaveLength(8);
});

it("gives up all that sleeps on a host that is to be emptied, however much room it has", () => {
  const machines = [
    machine("runs", "running", null, 0),
    machine("a", "paused", "resident", 2),
    machine("b", "paused", "compact", 1),
  ];
  expect(relief(machines, SHORT_MIB * 9, true)).toEqual([
    { id: "b", depth: "cold" },
    { id: "a", depth: "cold" },
  ]);
});

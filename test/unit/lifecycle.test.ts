import { describe, expect, it } from "vitest";
import { newLease } from "../../durable/sandbox/lease.ts";
import type { Life, LifeEvent } from "../../durable/sandbox/life.ts";
import { fateOf, isTransitional, newLife, reduce, timersOf } from "../../durable/sandbox/lifecycle.ts";
import type { SandboxState } from "../../sdk/contract/sandbox.ts";
import { seeded } from "../support/random.ts";

const failure = { code: "wake_failed", message: "no" } as const;
const NOW = 1_800_000_000_000;
const SOON = { name: "soon", at: new Date(NOW + 3000).toISOString() };
const LATE = { name: "late", at: new Date(NOW + 600_000).toISOString() };

function someEvent(life: Life, next: () => number): LifeEvent {
  const generation = Math.max(1, life.generation - (next() < 0.2 ? 1 : 0));
  const options: LifeEvent[] = [
    { type: "wake" },
    { type: "restart" },
    { type: "pause", reason: next() < 0.5 ? "idle" : "requested" },
    { type: "stop" },
    { type: "expire" },
    { type: "extend", seconds: 1 + Math.floor(next() * 86_400) },
    { type: "leaseEnd" },
    { type: "ran", generation, lastActiveAt: NOW },
    { type: "ran", generation, lastActiveAt: NOW },
    { type: "runFailed", generation, memory: next() < 0.5 ? "saved" : "none", nothingMade: next() < 0.1, failure },
    { type: "paused", generation },
    { type: "paused", generation, timer: next() < 0.5 ? SOON : LATE },
    {
      type: "timer",
      generation,
      ...(next() < 0.2 ? { putOffTo: NOW } : {}),
      ...(next() < 0.2 ? { failed: true } : {}),
    },
    { type: "pauseRefused", generation },
    { type: "pauseFailed", generation, failure },
    { type: "stopped", generation },
    { type: "ended", generation, reason: "vm_crashed" },
    { type: "unreachable", generation, from: life.state, failure },
    { type: "recover" },
    { type: "refused", generation, failure },
    ...(next() < 0.2 ? [{ type: "hostLost", generation, failure } as const] : []),
    ...(next() < 0.2 ? [{ type: "cutOff", reason: "insufficient_funds" } as const] : []),
    ...(next() < 0.05 ? [{ type: "delete", graceMs: next() < 0.7 ? 600_000 : 0 } as const] : []),
    ...(life.state === "deleted" ? [{ type: "undelete" } as const] : []),
    { type: "purged" },
  ];
  return options[Math.floor(next() * options.length)] ?? { type: "wake" };
}

/** What a step of a life breaks. */
function broken(life: Life, event: LifeEvent, now: number): string[] {
  const outcome = reduce(life, event, now);
  const isReport = "generation" in event;
  if (!outcome.ok) {
    const known = ["conflict", "sandbox_stopped", "sandbox_gone", "not_running"].includes(outcome.failure.code);
    return [...(isReport ? ["a report is refused"] : []), ...(known ? [] : ["the refusal has a strange code"])];
  }
  const after = outcome.life;
  const twice = reduce(after, event, now);
  const begins = (after.state === "starting" || after.state === "resuming") && after.state !== life.state;
  const runs = after.state === "running" && life.state !== "running" && life.state !== "pausing";
  const repeats = isReport && event.type !== "unreachable" && twice.ok;
  const rests = after.state === "paused" || after.state === "stopped";
  const saved = after.savedGeneration;
  const rules: [string, boolean][] = [
    ["generation only grows", after.generation >= life.generation],
    ["a run has a generation of its own", !begins || after.generation === life.generation + 1],
    ["only the current generation runs", !runs || (event.type === "ran" && event.generation === life.generation)],
    ["a step has a timer", !isTransitional(after.state) || timersOf(after).step !== null],
    ["a purge has a timer", !after.purgePending || after.state !== "deleted" || timersOf(after).step !== null],
    ["a paused state ends", after.state !== "paused" || timersOf(after).retention !== null],
    ["a time limit has a timer", after.state !== "running" || timersOf(after).lease === after.lease.endsAt],
    ["a time limit keeps to the cap", (after.lease.endsAt ?? 0) <= now + 86_400_000],
    [
      "a run with a time limit ends",
      after.state !== "running" || after.lease.seconds === 0 || after.lease.endsAt !== null,
    ],
    ["deleted is final", life.state !== "deleted" || event.type === "undelete" || after.state === "deleted"],
    ["what is taken back was at rest", event.type !== "undelete" || ["paused", "stopped"].includes(after.state)],
    ["a lost host runs nothing", event.type !== "hostLost" || !outcome.changed || after.state !== "running"],
    ["a refused run does not begin", event.type !== "refused" || !isTransitional(after.state) || !outcome.changed],
    ["a late report changes nothing", !repeats || event.generation === life.generation || !outcome.changed],
    ["a repeated report changes nothing", !repeats || JSON.stringify(twice.life) === JSON.stringify(after)],
    ["nothing rests while it runs", after.state !== "running" || after.savedGeneration === null],
    ["what rests is of some run", !rests || (saved !== null && saved >= 1 && saved <= after.generation)],
    ["a run that was live leaves its own state", !rests || life.savedGeneration !== null || saved === life.generation],
    [
      "a timer is of what sleeps or wakes",
      !["running", "stopped", "starting"].includes(after.state) || after.timer === null,
    ],
    [
      "a timer that was tried is tried later",
      event.type !== "timer" || !outcome.changed || (after.timer?.nextAt ?? now + 1) > now,
    ],
    ["delete works", reduce(after, { type: "delete" }, now).ok],
  ];
  return rules.filter(([, holds]) => !holds).map(([rule]) => rule);
}

it("keeps its invariants over 400 random lives", () => {
  const visited = new Set<SandboxState>();
  const faults: string[] = [];
  for (let seed = 1; seed <= 400; seed++) {
    const next = seeded(seed);
    let now = NOW;
    const onEnd = (["stop", "pause", "delete"] as const)[seed % 3] ?? "stop";
    let life = newLife(30, now, newLease(seed % 4 === 0 ? 0 : 60 * seed, onEnd));
    for (let step = 0; step < 120; step++) {
      now += Math.floor(next() * 60_000);
      const event = someEvent(life, next);
      for (const rule of broken(life, event, now))
        faults.push(`${rule}: seed ${seed}, ${life.state} ${life.generation} + ${JSON.stringify(event)}`);
      const outcome = reduce(life, event, now);
      if (outcome.ok) life = outcome.life;
      visited.add(life.state);
    }
  }
  expect(faults).toEqual([]);
  expect(visited.size).toBe(8);
});

describe("the table", () => {
  const running = after(newLife(30, NOW), { type: "ran", generation: 1, lastActiveAt: NOW });
  const paused = after(running, { type: "pause", reason: "requested" }, { type: "paused", generation: 1 });

  function after(life: Life, ...events: LifeEvent[]): Life {
    return events.reduce((now, event) => {
      const outcome = reduce(now, event, NOW);
      if (!outcome.ok) throw new Error(outcome.failure.message);
      return outcome.life;
    }, life);
  }

  it("loses no wake that arrives during a pause", () => {
    const pausing = after(running, { type: "pause", reason: "idle" }, { type: "wake" });
    expect(pausing.state).toBe("pausing");
    expect(after(pausing, { type: "paused", generation: 1 })).toMatchObject({ state: "resuming", generation: 2 });
    expect(after(pausing, { type: "pauseRefused", generation: 1 })).toMatchObject({ state: "running", generation: 1 });
  });

  it("goes back to running with the reason when a pause fails", () => {
    const failed = after(
      running,
      { type: "pause", reason: "requested" },
      { type: "pauseFailed", generation: 1, failure: { code: "pause_failed", message: "disk" } },
    );
    expect(failed).toMatchObject({ state: "running", failure: { message: "disk" } });
  });

  it("pauses on request even when the idle pause under way is refused", () => {
    const asked = after(
      running,
      { type: "pause", reason: "idle" },
      { type: "pause", reason: "requested" },
      { type: "pauseRefused", generation: 1 },
    );
    expect(asked).toMatchObject({ state: "pausing", pauseReason: "requested" });
  });

  it("keeps a saved state when a wake fails, and boots when the RAM is lost", () => {
    const resuming = after(paused, { type: "wake" });
    const kept = after(resuming, { type: "runFailed", generation: 2, memory: "saved", nothingMade: false, failure });
    expect(kept).toMatchObject({ state: "paused", generation: 2, pausedAt: NOW });
    const lost = after(resuming, { type: "runFailed", generation: 2, memory: "none", nothingMade: false, failure });
    expect(lost).toMatchObject({ state: "starting", run: "boot", generation: 3, stopReason: "wake_failed" });
    expect(after(lost, { type: "ran", generation: 3, lastActiveAt: NOW })).toMatchObject({
      memoryRestored: false,
      stopReason: "wake_failed",
    });
  });

  it("expires a paused state only when its time has come, counted from the last pause", () => {
    const day = 86_400_000;
    expect(reduce(paused, { type: "expire" }, NOW + 30 * day - 1)).toMatchObject({ ok: true, changed: false });
    expect(reduce(paused, { type: "expire" }, NOW + 30 * day)).toMatchObject({
      life: { state: "deleted", stopReason: "paused_expired" },
    });
    expect(timersOf({ ...paused, retentionDays: 1 }).retention).toBe(NOW + day);
  });

  it("takes back what was deleted within its grace time, as it was, and no later", () => {
    const gone = after(paused, { type: "delete", graceMs: 60_000 });
    expect(gone).toMatchObject({ state: "deleted", purgePending: true, undeleteTo: "paused", nextTryAt: NOW + 60_000 });
    expect(after(gone, { type: "undelete" })).toMatchObject({ state: "paused", purgePending: false, undeleteTo: null });
    expect(reduce(gone, { type: "undelete" }, NOW + 60_000)).toMatchObject({ failure: { code: "sandbox_gone" } });
    const forGood = after(gone, { type: "delete" });
    expect(forGood).toMatchObject({ undeleteTo: null, nextTryAt: NOW });
    expect(reduce(forGood, { type: "undelete" }, NOW)).toMatchObject({ failure: { code: "sandbox_gone" } });
    // What runs can't be frozen by a word: it is deleted at once.
    expect(after(running, { type: "delete", graceMs: 60_000 })).toMatchObject({ undeleteTo: null });
  });

  it("recovers whatever it takes: from RAM, else from disk", () => {
    expect(after(paused, { type: "recover" })).toMatchObject({ state: "resuming", run: "wake" });
    const crashed = after(running, { type: "ended", generation: 1, reason: "vm_crashed" });
    expect(after(crashed, { type: "recover" })).toMatchObject({ state: "starting", run: "boot", generation: 2 });
    expect(after(running, { type: "recover" })).toEqual(running);
  });

  it("gives a lost host's machine up without forgetting its RAM, and a creation to another host", () => {
    const lost = after(running, { type: "hostLost", generation: 1, failure });
    expect(lost).toMatchObject({ state: "paused", stopReason: "host_lost", generation: 1 });
    expect(fateOf(lost, 1)).toBe("sleep");
    expect(fateOf(running, 1)).toBe("run");
    expect(fateOf(after(paused, { type: "wake" }, { type: "ran", generation: 2, lastActiveAt: NOW }), 1)).toBe("end");
    expect(fateOf(after(running, { type: "delete" }), 1)).toBe("end");
    const again = after(newLife(30, NOW), { type: "hostLost", generation: 1, failure });
    expect(again).toMatchObject({ state: "starting", run: "create", generation: 2 });
    expect(reduce(running, { type: "hostLost", generation: 0, failure }, NOW)).toMatchObject({ changed: false });
  });

  it("ends a run that nobody pays for, and stops it where it can't sleep", () => {
    const ending = after(running, { type: "cutOff", reason: "spending_limit" });
    expect(after(ending, { type: "paused", generation: 1 })).toMatchObject({ stopReason: "spending_limit" });
    expect(after(ending, { type: "pauseFailed", generation: 1, failure })).toMatchObject({
      state: "stopping",
      stopReason: "spending_limit",
    });
    expect(reduce(paused, { type: "cutOff", reason: "spending_limit" }, NOW)).toMatchObject({
      ok: true,
      changed: false,
    });
  });

  it("leaves a run that was refused as it was", () => {
    const woken = after(paused, { type: "wake" }, { type: "refused", generation: 2, failure });
    expect(woken).toMatchObject({ state: "paused", stopReason: "requested", pausedAt: NOW, failure });
    const stopped = after(running, { type: "ended", generation: 1, reason: "vm_crashed" });
    expect(after(stopped, { type: "restart" }, { type: "refused", generation: 2, failure })).toMatchObject({
      state: "stopped",
      stopReason: "vm_crashed",
    });
    expect(after(newLife(30, NOW), { type: "refused", generation: 1, failure })).toMatchObject({
      state: "deleted",
      purgePending: false,
    });
  });

  it("tries an absent host again, later each time", () => {
    let life = after(paused, { type: "wake" });
    const waits: number[] = [];
    for (let i = 0; i < 9; i++) {
      life = after(life, {
        type: "unreachable",
        generation: 2,
        from: "resuming",
        failure: { code: "host_unavailable", message: "away" },
      });
      waits.push((life.nextTryAt ?? 0) - NOW);
    }
    expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 15_000, 30_000, 30_000, 30_000]);
    expect(life.state).toBe("resuming");
  });

  it.each<[SandboxState, LifeEvent["type"], string]>([
    ["stopped", "wake", "sandbox_stopped"],
    ["stopped", "pause", "not_running"],
    ["stopping", "restart", "conflict"],
    ["starting", "pause", "conflict"],
    ["deleted", "wake", "sandbox_gone"],
    ["deleted", "restart", "sandbox_gone"],
  ])("refuses in %s to %s with %s", (state, type, code) => {
    const outcome = reduce({ ...running, state }, { type, reason: "requested" } as LifeEvent, NOW);
    expect(outcome).toMatchObject({ ok: false, failure: { code } });
  });
});

/** When a sleeper is woken for a program in it: what a guest says is bounded, and a wake that fails is begun again. */
import { describe, expect, it } from "vitest";
import {
  awakeAt,
  causeOfTimer,
  LEAD_MS,
  SLEEP_MIN_MS,
  triedTimer,
  wakeTimer,
} from "../../durable/sandbox/guest-timer.ts";
import type { Life } from "../../durable/sandbox/life.ts";
import { newLife, reduce, timersOf } from "../../durable/sandbox/lifecycle.ts";

const NOW = 1_800_000_000_000;
const DAY_MS = 86_400_000;
const said = (ms: number) => ({ name: "report", at: new Date(NOW + ms).toISOString() });

it("is woken a moment before, after some sleep, and at most 366 days ahead", () => {
  expect(wakeTimer(said(60_000), NOW)).toEqual({
    name: "report",
    at: NOW + 60_000,
    nextAt: NOW + 60_000 - LEAD_MS,
    tries: 0,
  });
  for (const soon of [-DAY_MS, 0, 1500, 6000]) expect(wakeTimer(said(soon), NOW)?.nextAt).toBe(NOW + SLEEP_MIN_MS);
  expect(wakeTimer(said(-DAY_MS), NOW)?.at).toBe(NOW + 1000);
  expect(wakeTimer(said(900 * DAY_MS), NOW)?.at).toBe(NOW + 366 * DAY_MS);
  for (const none of [null, undefined, { name: "x", at: "soon" }]) expect(wakeTimer(none, NOW)).toBeNull();
});

it("is woken again later each time, for a day", () => {
  let timer = wakeTimer(said(60_000), NOW);
  let now = NOW;
  const waits: number[] = [];
  for (; timer; timer = triedTimer(timer, now)) {
    if (timer.tries > 0) waits.push(timer.nextAt - now);
    now = timer.nextAt;
  }
  expect(waits.slice(0, 5)).toEqual([5000, 10_000, 20_000, 40_000, 80_000]);
  expect(Math.max(...waits)).toBe(3_600_000);
  expect(now).toBeGreaterThan(NOW + DAY_MS);
  expect(now).toBeLessThan(NOW + DAY_MS + 7_200_000);
  expect(waits.length).toBeLessThan(40);
});

it("says when it will be awake, and what for", () => {
  const timer = wakeTimer(said(60_000), NOW);
  expect([awakeAt(timer), awakeAt(null)]).toEqual([NOW + 60_000, null]);
  const tried = timer && triedTimer(timer, NOW + 70_000);
  expect(awakeAt(tried)).toBe(NOW + 75_000);
  expect(timer && causeOfTimer(timer)).toEqual({
    ...{ kind: "timer", keyId: null, request: "report", port: null },
    requestId: new Date(NOW + 60_000).toISOString(),
  });
});

describe("the life of a sleeper with a timer", () => {
  const step = (life: Life, event: Parameters<typeof reduce>[1], now: number): Life => {
    const outcome = reduce(life, event, now);
    if (!outcome.ok) throw new Error(outcome.failure.message);
    return outcome.life;
  };
  const running = step(newLife(30, NOW), { type: "ran", generation: 1, lastActiveAt: NOW }, NOW);
  const asleep = step(running, { type: "paused", generation: 1, timer: said(60_000) }, NOW);
  const due = NOW + 60_000 - LEAD_MS;

  it("wakes once, when it is due, and a timer of before does nothing", () => {
    expect(timersOf(asleep).timer).toBe(due);
    expect(step(asleep, { type: "timer", generation: 1 }, due - 1)).toBe(asleep);
    const waking = step(asleep, { type: "timer", generation: 1 }, due);
    expect(waking).toMatchObject({ state: "resuming", generation: 2, timer: { tries: 1 } });
    expect(timersOf(waking).timer).toBeNull();
    expect(step(waking, { type: "timer", generation: 1 }, due + DAY_MS)).toBe(waking);
    expect(step(waking, { type: "timer", generation: 2 }, due + DAY_MS)).toBe(waking);
    const awake = step(waking, { type: "ran", generation: 2, lastActiveAt: due }, due);
    expect(awake.timer).toBeNull();
    expect(step(awake, { type: "paused", generation: 2 }, due).timer).toBeNull();
  });

  it("is tried again when the account refuses, or its host can't be reached", () => {
    const failure = { code: "insufficient_funds", message: "no" } as const;
    const waking = step(asleep, { type: "timer", generation: 1 }, due);
    const refused = step(waking, { type: "refused", generation: 2, failure }, due + 10);
    expect(refused.state).toBe("paused");
    expect(timersOf(refused).timer).toBe(due + 5000);
    const failed = step(asleep, { type: "timer", generation: 1, failed: true }, due);
    expect([failed.state, failed.generation, timersOf(failed).timer]).toEqual(["paused", 1, due + 5000]);
    const late = step(refused, { type: "timer", generation: 2 }, NOW + 60_001 + DAY_MS);
    expect([late.state, late.timer]).toEqual(["paused", null]);
  });

  it("does not wake before it may", () => {
    const capped = step(asleep, { type: "timer", generation: 1, putOffTo: due + 1_000_000 }, due);
    expect([capped.state, timersOf(capped).timer]).toEqual(["paused", due + 1_000_000]);
  });

  it("is over when it is stopped, and waits for a deletion that is taken back", () => {
    const stopped = step(step(asleep, { type: "stop" }, NOW), { type: "stopped", generation: 1 }, NOW);
    expect(stopped.timer).toBeNull();
    const deleted = step(asleep, { type: "delete", graceMs: DAY_MS }, NOW);
    expect(timersOf(deleted).timer).toBeNull();
    expect(timersOf(step(deleted, { type: "undelete" }, NOW)).timer).toBe(due);
  });
});

/** How fast the pure code is on this machine, by the clock on the wall. */
import { placeOn } from "../../durable/hosts/placement.ts";
import type { Life, LifeEvent } from "../../durable/sandbox/life.ts";
import { newLife, reduce, timersOf } from "../../durable/sandbox/lifecycle.ts";
import { sample } from "./board.ts";
import { SHAPE } from "./objects.ts";

const LIVES = 10_000;

/** Events per second that go through the table, each with a look at the timers that follow. */
export function reduceRate(events: number): number {
  const lives = Array.from({ length: LIVES }, (_, name) => newLife(30, name));
  let at = 0;
  const from = performance.now();
  for (let done = 0; done < events; done++) {
    const name = done % LIVES;
    const life = lives[name];
    if (!life) continue;
    const outcome = reduce(life, next(life, at), at);
    if (!outcome.ok) throw new Error(outcome.failure.message);
    lives[name] = outcome.life;
    at += timersOf(outcome.life).lease === null ? 1 : 0;
  }
  return (events * 1000) / (performance.now() - from);
}

/** The ordinary round: run, pause, wake. */
function next({ state, generation }: Life, now: number): LifeEvent {
  switch (state) {
    case "running":
      return { type: "pause", reason: "idle" };
    case "pausing":
      return { type: "paused", generation };
    case "paused":
      return { type: "wake" };
    default:
      return { type: "ran", generation, lastActiveAt: now };
  }
}

/** Microseconds of one choice among so many hosts. */
export function placementMicros(hosts: number): number {
  const board = Array.from({ length: hosts }, (_, host) => ({ ...sample(host), freeDiskMiB: 100_000 }));
  const calls = Math.max(20, Math.floor(1_000_000 / hosts));
  const from = performance.now();
  for (let call = 0; call < calls; call++) placeOn(board, SHAPE);
  return ((performance.now() - from) * 1000) / calls;
}

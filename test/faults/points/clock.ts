/** The host's wall clock jumps. Real machines: their clocks are right, their books too, and nothing ends early. */
import { setTimeout as delay } from "node:timers/promises";
import type { Point, Stage } from "../point.ts";

const MINUTE_MS = 60_000;

/** What is metered, limited and told to the guest goes by clocks that don't jump. */
async function jump(stage: Stage, ms: number): Promise<void> {
  const witness = await stage.create({ leaseSeconds: 3600 });
  const before = Date.parse(witness.patient.info.endsAt ?? "");
  const awake = await stage.witness();
  await stage.world.shiftHostClock(ms);
  stage.note(`host's clock jumped by ${ms / MINUTE_MS} minutes while one runs and one sleeps`);
  await witness.pause();
  // A heartbeat with what was used, by the wrong clock.
  await delay(6000);
  await witness.wake();
  const after = Date.parse((await witness.patient.refresh()).info.endsAt ?? "");
  stage.expect(Math.abs(after - before) < MINUTE_MS, `the time limit moved by ${after - before} ms`);
  await stage.world.shiftHostClock(0);
  await awake.line();
}

/** A host whose clock is off carries requests all the same. */
async function reachable(stage: Stage, ms: number): Promise<void> {
  const witness = await stage.witness();
  await stage.world.shiftHostClock(ms);
  stage.note(`command sent to a host whose clock is off by ${ms / MINUTE_MS} minutes`);
  const code = await stage.calm(witness.once("true"));
  stage.expect(code === null, `a command through a host whose clock is off failed with ${code}`);
}

export const clock: readonly Point[] = [
  { name: "clock/host-jumps-an-hour-ahead", place: "qemu", play: (stage) => jump(stage, 60 * MINUTE_MS) },
  {
    name: "clock/host-jumps-an-hour-back",
    place: "qemu",
    thorough: true,
    play: (stage) => jump(stage, -60 * MINUTE_MS),
  },
  { name: "clock/host-is-ten-minutes-ahead", place: "qemu", play: (stage) => reachable(stage, 10 * MINUTE_MS) },
];

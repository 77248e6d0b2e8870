/**
 * Timers of the edge: time limits, holds and retention, with the edge or the host away when they are due. Hours and days
 * pass by moving back what the edge has stored while it is down.
 */
import { age } from "../edge-storage.ts";
import { about } from "../proxy.ts";
import type { Point, Stage } from "../point.ts";
import type { Witness } from "../witness.ts";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

/** The edge dies, and is away for so long. */
async function edgeAwayFor(stage: Stage, witness: Witness, ms: number): Promise<void> {
  await stage.world.killEdge();
  await age(stage.world.stateDir, witness.id, ms);
  await stage.world.startEdge();
}

/** Its time was up: it is stopped, whatever died meanwhile. */
async function outOfTime(stage: Stage, witness: Witness): Promise<void> {
  await stage.until("its run is over", async () => (await witness.patient.refresh()).state === "stopped", 60_000);
  const { stopReason } = witness.patient.info;
  stage.expect(stopReason === "time_limit", `it is stopped with ${stopReason}`);
}

/** Nothing is left of it, and the edge says so. */
async function expired(stage: Stage, witness: Witness): Promise<void> {
  witness.gone = true;
  await stage.until(
    "it is deleted",
    async () => (await stage.calm(stage.world.direct.sandboxes.get(witness.id))) === "sandbox_gone",
    60_000,
  );
}

async function leased(stage: Stage): Promise<Witness> {
  const witness = await stage.create({ leaseSeconds: 60 });
  witness.stopped = true;
  return witness;
}

export const timers: readonly Point[] = [
  {
    name: "lease/over-while-all-else-dies",
    place: "qemu",
    async begin(stage) {
      // A minute is the shortest, so it passes beside the other points.
      await stage.create({ leaseSeconds: 60, onLeaseEnd: "pause" });
      stage.note("a minute, with all the kills of the points before");
    },
    async play(stage) {
      const [witness] = stage.witnesses;
      await stage.until("its run is over", async () => (await witness?.patient.refresh())?.state === "paused", 90_000);
      const stopReason = witness?.patient.info.stopReason;
      stage.expect(stopReason === "time_limit", `it is paused with ${stopReason}`);
    },
  },
  {
    name: "lease/over-while-the-edge-is-down",
    place: "fake",
    async play(stage) {
      const witness = await leased(stage);
      await edgeAwayFor(stage, witness, HOUR_MS);
      stage.note("edge killed, and back an hour after the end of the time limit");
      await outOfTime(stage, witness);
    },
  },
  {
    name: "lease/edge-killed-between-alarm-and-work",
    place: "fake",
    async play(stage) {
      const witness = await leased(stage);
      const held = stage.world.toHost.rule("held", about.act(stage.label, "stop"));
      await edgeAwayFor(stage, witness, HOUR_MS);
      await held.seen;
      await stage.killEdge("the stop that the alarm asked for", 50);
      stage.note(`the first stop arrived after that, answered ${await held.release()}`);
      await outOfTime(stage, witness);
    },
  },
  {
    name: "lease/host-away-at-the-end",
    place: "fake",
    async play(stage) {
      const witness = await leased(stage);
      stage.world.toHost.cut = true;
      await edgeAwayFor(stage, witness, HOUR_MS);
      const ms = stage.random.int(1000, 3000);
      stage.note(`no way to the host at the end of the time limit and ${ms} ms on`);
      await stage.moment(ms);
      stage.world.toHost.cut = false;
      await outOfTime(stage, witness);
    },
  },
  {
    name: "hold/over-while-the-edge-is-down",
    place: "fake",
    async play(stage) {
      const witness = await stage.create({ idlePauseSeconds: 10 });
      await witness.patient.hold("work", 600);
      await edgeAwayFor(stage, witness, HOUR_MS);
      stage.note("edge killed, and back after the end of a hold");
      await stage.until("it falls asleep", async () => (await witness.patient.refresh()).state === "paused", 60_000);
      stage.expect(witness.patient.info.stopReason === "idle", `it is paused with ${witness.patient.info.stopReason}`);
      witness.asleep();
    },
  },
  {
    name: "hold/news-of-its-end-lost",
    place: "fake",
    async play(stage) {
      const witness = await stage.create({ idlePauseSeconds: 10 });
      const lost = stage.world.toHost.rule("lost", about.act(stage.label, "configure"), 2);
      await witness.patient.hold("work", 2);
      await lost.seen;
      stage.note("what a hold changes was lost twice on its way to the host");
      await stage.until("it falls asleep", async () => (await witness.patient.refresh()).state === "paused", 60_000);
      witness.asleep();
    },
  },
  {
    name: "retention/over-while-the-edge-is-down",
    place: "qemu",
    async play(stage) {
      const witness = await stage.create();
      await witness.pause();
      await edgeAwayFor(stage, witness, 31 * DAY_MS);
      stage.note("edge killed, and back a day after the end of the retention");
      await expired(stage, witness);
    },
  },
  {
    name: "retention/edge-killed-between-alarm-and-work",
    place: "fake",
    async play(stage) {
      const witness = await stage.create();
      await witness.pause();
      const held = stage.world.toHost.rule("held", about.destroy(stage.label));
      await edgeAwayFor(stage, witness, 31 * DAY_MS);
      await held.seen;
      await stage.killEdge("the deletion that the alarm asked for", 50);
      stage.note(`the first deletion arrived after that, answered ${await held.release()}`);
      await expired(stage, witness);
    },
  },
  {
    name: "retention/not-over-by-a-restart",
    place: "fake",
    async play(stage) {
      const witness = await stage.create();
      await witness.pause();
      await edgeAwayFor(stage, witness, 29 * DAY_MS);
      stage.note("edge killed, and back a day before the end of the retention");
      await stage.moment(1000);
      const { state } = await witness.patient.refresh();
      stage.expect(state === "paused", `a day before its end it is ${state}`);
    },
  },
];

/** What was used on its way into the account's books: lost, told twice, overtaken, or cut off by a death. */
import { setTimeout as delay } from "node:timers/promises";
import { about, type Fate } from "../proxy.ts";
import type { Point, Stage } from "../point.ts";
import type { Witness } from "../witness.ts";

/** A heartbeat and a bit, milliseconds. */
const BEAT_MS = 6000;

/** A run and a sleep that cost something, and a report of them that meets a fate. */
async function reported(stage: Stage, fate: Fate): Promise<void> {
  const witness = await stage.create();
  const rule = stage.world.toEdge.rule(fate, about.usage(stage.label));
  await witness.pause();
  await rule.seen;
  stage.note(`report of what was used: ${fate}`);
  await witness.wake();
}

/** Host and edge agree about it before it is deleted, too. */
async function agreed(stage: Stage, witness: Witness): Promise<void> {
  for (const fault of await stage.world.books.settle(witness.id, false)) stage.complain(fault);
}

export const ledger: readonly Point[] = [
  { name: "ledger/report-lost", place: "fake", play: (stage) => reported(stage, "lost") },
  { name: "ledger/report-answer-lost", place: "fake", play: (stage) => reported(stage, "answer lost") },
  { name: "ledger/report-told-twice", place: "fake", play: (stage) => reported(stage, "twice") },
  {
    name: "ledger/report-overtaken",
    place: "fake",
    async play(stage) {
      const witness = await stage.create();
      const old = stage.world.toEdge.rule("late", about.usage(stage.label));
      await witness.pause();
      await old.seen;
      const taken = () => stage.world.books.told(witness.id).length;
      await stage.until("a newer report arrives", () => taken() > 0);
      const before = await stage.world.books.shown(witness.id);
      stage.note(`an older report arrived after a newer one, answered ${await old.release()}`);
      const after = await stage.world.books.shown(witness.id);
      stage.expect(after.memory >= before.memory, "an older report lowered what is booked");
      await agreed(stage, witness);
    },
  },
  {
    name: "ledger/host-killed-before-the-edge-took-it",
    place: "qemu",
    async play(stage) {
      const witness = await stage.create();
      const rule = stage.world.toEdge.rule("lost", about.usage(stage.label), 100);
      await rule.seen;
      await stage.killHost("a report that never arrived", 100);
      await stage.world.toEdge.heal();
      await agreed(stage, witness);
    },
  },
  {
    name: "ledger/host-killed-after-the-edge-took-it",
    place: "qemu",
    async play(stage) {
      const witness = await stage.create();
      const rule = stage.world.toEdge.rule("answer held", about.usage(stage.label));
      await rule.arrived;
      const before = await stage.world.books.shown(witness.id);
      await stage.killHost("a report that the edge took and the host does not know of", 100);
      await stage.world.toEdge.heal();
      await agreed(stage, witness);
      const after = await stage.world.books.shown(witness.id);
      stage.expect(after.memory >= before.memory, "what was booked went down");
    },
  },
  {
    name: "ledger/edge-killed-with-a-report",
    place: "fake",
    async play(stage) {
      const witness = await stage.create();
      const rule = stage.world.toEdge.rule("answer held", about.usage(stage.label));
      await witness.pause();
      await rule.arrived;
      await stage.killEdge("a report that it took and did not answer", 50);
      await stage.world.toEdge.heal();
      await agreed(stage, witness);
    },
  },
  {
    name: "ledger/host-killed-with-machines-of-its-own",
    place: "fake",
    async play(stage) {
      const witness = await stage.create();
      witness.crash = "yes";
      await delay(BEAT_MS);
      await stage.killHost("a run that is metered", 2000);
      await agreed(stage, witness);
    },
  },
  {
    name: "ledger/no-heartbeat-for-long-is-free",
    place: "fake",
    thorough: true,
    async play(stage) {
      const witness = await stage.create();
      await agreed(stage, witness);
      const before = await stage.world.books.shown(witness.id);
      stage.world.toEdge.cut = true;
      stage.note("the edge heard nothing of the host for 22 s");
      await delay(22_000);
      stage.world.toEdge.cut = false;
      const freeFrom = performance.now();
      // The first answer after so long only begins to count again.
      await delay(BEAT_MS);
      await agreed(stage, witness);
      const added = (await stage.world.books.shown(witness.id)).memory - before.memory;
      // What ran since the cut ended, and the beat before it that was not confirmed yet.
      const most = BigInt(Math.ceil((performance.now() - freeFrom + BEAT_MS) * witness.patient.info.memoryMiB));
      stage.expect(added <= most, `${added} MiB-ms were booked, and at most ${most} were not free`);
    },
  },
  {
    name: "ledger/sleeper-pays-no-memory",
    place: "fake",
    async play(stage) {
      const witness = await stage.create();
      await witness.pause();
      await stage.killEdge("a sleep that is metered", 500);
      // The end of the run is told with the first beat that is answered again.
      await delay(BEAT_MS + 2000);
      await agreed(stage, witness);
      const before = await stage.world.books.shown(witness.id);
      await delay(BEAT_MS + 1000);
      await agreed(stage, witness);
      const after = await stage.world.books.shown(witness.id);
      stage.expect(after.memory === before.memory && after.cpu === before.cpu, "a sleeper was billed memory or CPU");
      // Its storage is told of once an hour, and when it wakes.
      await witness.wake();
      await delay(BEAT_MS + 2000);
      await agreed(stage, witness);
      const woken = await stage.world.books.shown(witness.id);
      stage.expect(woken.stored > before.stored, "a sleeper's storage is not metered any more");
    },
  },
];

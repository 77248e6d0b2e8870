/** What a host tells of its machines, lost, told twice, or told late. */
import { about, type Fate, type Rule } from "../proxy.ts";
import type { Point, Stage } from "../point.ts";

/** A machine ends by itself, and the news of it meets a fate. */
async function ended(stage: Stage, fate: Fate): Promise<Rule> {
  const witness = await stage.create();
  witness.crash = "yes";
  const rule = stage.world.toEdge.rule(fate, about.event(stage.label, "ended"));
  await stage.killMachine(witness);
  await rule.seen;
  stage.note(`machine killed; news of its end: ${fate}`);
  await stage.until("its end is told", async () => (await witness.patient.refresh()).state === "stopped");
  stage.expect(
    witness.patient.info.stopReason === "vm_crashed",
    `it is stopped with ${witness.patient.info.stopReason}`,
  );
  return rule;
}

export const events: readonly Point[] = [
  { name: "event/ended-lost", place: "fake", play: async (stage) => void (await ended(stage, "lost")) },
  { name: "event/ended-answer-lost", place: "fake", play: async (stage) => void (await ended(stage, "answer lost")) },
  { name: "event/ended-told-twice", place: "fake", play: async (stage) => void (await ended(stage, "twice")) },
  {
    name: "event/ended-late-copy-after-restart",
    place: "fake",
    async play(stage) {
      const copy = await ended(stage, "copied");
      const [witness] = stage.witnesses;
      const back = await stage.revived();
      const status = await copy.release();
      stage.note(`copy of the news arrived after the restart, answered ${status}`);
      await witness?.patient.refresh();
      const { generation } = back.info;
      stage.expect(witness?.patient.state === "running", `a late event made it ${witness?.patient.state}`);
      stage.expect(witness?.patient.info.generation === generation, "a late event led to another generation");
    },
  },
  {
    name: "event/host-killed-before-it-is-told",
    place: "qemu",
    thorough: true,
    async play(stage) {
      const witness = await stage.create();
      witness.crash = "yes";
      const rule = stage.world.toEdge.rule("lost", about.event(stage.label, "ended"), 100);
      const killed = await stage.killMachine(witness);
      await rule.seen;
      stage.note(`${killed} QEMU killed`);
      await stage.killHost("telling of it", 300);
      await stage.world.toEdge.heal();
      await stage.until("its end is told", async () => (await witness.patient.refresh()).state === "stopped");
    },
  },
  {
    name: "event/idle-late-after-wake",
    place: "fake",
    async play(stage) {
      const witness = await stage.create({ idlePauseSeconds: 10 });
      const idle = stage.world.toEdge.rule("copied", about.event(stage.label, "idle"));
      await stage.until("it falls asleep", async () => (await witness.patient.refresh()).state === "paused");
      witness.asleep();
      await witness.wake();
      stage.note(`copy of "idle" arrived after the wake, answered ${await idle.release()}`);
      await stage.moment(500);
      await witness.patient.refresh();
      stage.expect(witness.patient.state === "running", `a late "idle" made it ${witness.patient.state}`);
      await witness.patient.update({ idlePauseSeconds: 0 });
    },
  },
];

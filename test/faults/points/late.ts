/** Messages that arrive late: after others that were sent later, or after the run that they belong to. */
import { about, type Letter } from "../proxy.ts";
import type { Point, Stage } from "../point.ts";
import type { Witness } from "../witness.ts";

/** What edge and host say of the sandbox stays as it is for a while: whatever came late changed nothing. */
async function unchanged(stage: Stage, witness: Witness, state: string): Promise<void> {
  const until = performance.now() + 1500;
  while (performance.now() < until) {
    await stage.moment(100);
    const seen = (await witness.patient.refresh()).state;
    const host = (await stage.world.hostView(witness.id))?.state;
    if (seen !== state || host !== state)
      return stage.complain(`a late message made a ${state} sandbox ${seen} at the edge and ${host} on the host`);
  }
}

export const late: readonly Point[] = [
  {
    name: "create/delayed-past-delete",
    place: "fake",
    async play(stage) {
      const held = stage.world.toHost.rule("held", about.create(stage.label));
      const { direct } = stage.world;
      const call = stage.calm(direct.sandboxes.create({ name: stage.label, idlePauseSeconds: 0 }));
      await held.seen;
      await stage.calm(direct.sandboxes.delete(stage.label));
      await call;
      await stage.moment(300);
      stage.note(`creation arrived after the deletion, answered ${await held.release()}`);
      await stage.moment(300);
    },
  },
  {
    name: "create/late-copy-after-pause",
    place: "fake",
    async play(stage) {
      const copy = stage.world.toHost.rule("copied", about.create(stage.label));
      const witness = await stage.create();
      await witness.pause();
      stage.note(`copy of the creation arrived after a pause, answered ${await copy.release()}`);
      await unchanged(stage, witness, "paused");
    },
  },
  {
    name: "create/late-copy-after-delete",
    place: "fake",
    async play(stage) {
      const copy = stage.world.toHost.rule("copied", about.create(stage.label));
      const witness = await stage.create();
      witness.gone = true;
      await witness.patient.delete();
      stage.note(`copy of the creation arrived after the deletion, answered ${await copy.release()}`);
    },
  },
  {
    name: "pause/late-copy-after-wake",
    place: "fake",
    async play(stage) {
      const witness = await stage.create();
      const copy = stage.world.toHost.rule("copied", about.act(stage.label, "pause"));
      await witness.pause();
      await witness.wake();
      stage.note(`copy of the pause arrived after the wake, answered ${await copy.release()}`);
      await unchanged(stage, witness, "running");
    },
  },
  {
    name: "wake/late-copy-after-pause",
    place: "fake",
    async play(stage) {
      const witness = await stage.create();
      await witness.pause();
      const copy = stage.world.toHost.rule("copied", about.act(stage.label, "wake"));
      await witness.wake();
      await witness.patient.pause();
      stage.note(`copy of the wake arrived after the next pause, answered ${await copy.release()}`);
      await unchanged(stage, witness, "paused");
    },
  },
  {
    name: "restart/late-copy-after-stop",
    place: "fake",
    async play(stage) {
      const witness = await stage.create();
      witness.stopped = true;
      await witness.patient.stop();
      const copy = stage.world.toHost.rule("copied", about.act(stage.label, "boot"));
      await witness.patient.restart();
      await witness.patient.stop();
      stage.note(`copy of the boot arrived after the next stop, answered ${await copy.release()}`);
      await unchanged(stage, witness, "stopped");
    },
  },
  {
    name: "stop/late-copy-after-restart",
    place: "fake",
    async play(stage) {
      const witness = await stage.create();
      witness.stopped = true;
      const copy = stage.world.toHost.rule("copied", about.act(stage.label, "stop"));
      await witness.patient.stop();
      await witness.patient.restart();
      stage.note(`copy of the stop arrived after the restart, answered ${await copy.release()}`);
      await unchanged(stage, witness, "running");
    },
  },
  {
    name: "pause/held-while-the-edge-restarts",
    place: "fake",
    async play(stage) {
      const witness = await stage.create();
      const held = stage.world.toHost.rule("held", about.act(stage.label, "pause"));
      const call = stage.calm(witness.patient.pause());
      await held.seen;
      await stage.killEdge("a pause that is on its way", 100);
      await call;
      await stage.until("it is paused", async () => (await witness.patient.refresh()).state === "paused");
      await witness.wake();
      stage.note(`the first pause arrived after the wake, answered ${await held.release()}`);
      await unchanged(stage, witness, "running");
    },
  },
  {
    name: "create/two-swapped",
    place: "fake",
    async play(stage) {
      const labels = [stage.label, `${stage.label}-b`];
      const either = (letter: Letter) => labels.some((label) => about.create(label)(letter));
      const rules = labels.map((label) => stage.world.toHost.rule("held", about.create(label)));
      const bornAt = performance.now();
      const { patient } = stage.world;
      const calls = labels.map((name) => stage.calm(patient.sandboxes.create({ name, idlePauseSeconds: 0 })));
      await Promise.all(rules.map((rule) => rule.seen));
      // The one that was sent last arrives first.
      for (const rule of rules.toReversed()) await rule.release();
      stage.note("two creations arrived in the other order");
      await Promise.all(calls);
      const made = stage.world.toHost.delivered.filter(({ letter, status }) => either(letter) && status === 200);
      stage.expect(made.length === 2, `${made.length} creations were answered well`);
      for (const label of labels) await stage.adopt(await stage.revived(label), bornAt);
    },
  },
];

/** Every step that the edge asks of a host, with its message lost, its answer lost, or the message there twice. */
import { about, type Fate, type Letter } from "../proxy.ts";
import type { Point, Stage } from "../point.ts";

interface Step {
  readonly name: string;
  readonly message: (label: string) => (letter: Letter) => boolean;
  play(stage: Stage, strike: () => void): Promise<void>;
}

const steps: readonly Step[] = [
  {
    name: "create",
    message: about.create,
    async play(stage, strike) {
      strike();
      const bornAt = performance.now();
      await stage.calm(stage.world.direct.sandboxes.create({ name: stage.label, idlePauseSeconds: 0 }));
      await stage.adopt(await stage.revived(), bornAt);
    },
  },
  {
    name: "pause",
    message: (label) => about.act(label, "pause"),
    async play(stage, strike) {
      const witness = await stage.create();
      strike();
      await stage.calm(witness.patient.pause());
      const slept = await stage.until("it sleeps", async () => (await witness.patient.refresh()).state === "paused");
      if (slept) witness.asleep();
      stage.expect(
        witness.patient.info.generation === 1,
        `a pause led to generation ${witness.patient.info.generation}`,
      );
    },
  },
  {
    name: "wake",
    message: (label) => about.act(label, "wake"),
    async play(stage, strike) {
      const witness = await stage.create();
      await witness.pause();
      strike();
      witness.waking();
      await stage.calm(witness.patient.exec("true"));
      await stage.until("it runs", async () => (await witness.patient.refresh()).state === "running");
      stage.expect(
        witness.patient.info.generation === 2,
        `one wake led to generation ${witness.patient.info.generation}`,
      );
    },
  },
  {
    name: "stop",
    message: (label) => about.act(label, "stop"),
    async play(stage, strike) {
      const witness = await stage.create();
      witness.stopped = true;
      strike();
      await stage.calm(witness.patient.stop());
      await stage.until("it is stopped", async () => (await witness.patient.refresh()).state === "stopped");
      const { stopReason } = witness.patient.info;
      stage.expect(stopReason === "requested", `it is stopped with ${stopReason}`);
    },
  },
  {
    name: "restart",
    message: (label) => about.act(label, "boot"),
    async play(stage, strike) {
      const witness = await stage.create();
      witness.stopped = true;
      await witness.patient.stop();
      strike();
      await stage.calm(witness.patient.restart());
      await stage.until("it runs", async () => (await witness.patient.refresh()).state === "running");
      stage.expect(
        witness.patient.info.generation === 2,
        `a restart led to generation ${witness.patient.info.generation}`,
      );
    },
  },
  {
    name: "delete",
    message: about.destroy,
    async play(stage, strike) {
      const witness = await stage.create();
      witness.gone = true;
      strike();
      await stage.calm(witness.patient.delete());
    },
  },
];

const fates: readonly [string, Fate][] = [
  ["request-lost", "lost"],
  ["answer-lost", "answer lost"],
  ["sent-twice", "twice"],
];

export const messages: readonly Point[] = steps.flatMap((step) =>
  fates.map(([name, fate]) => ({
    name: `${step.name}/${name}`,
    place: "fake" as const,
    async play(stage: Stage) {
      let struck: Promise<unknown> = Promise.resolve();
      await step.play(stage, () => {
        struck = stage.world.toHost.rule(fate, step.message(stage.label)).seen;
      });
      await struck;
      stage.note(`message ${step.name}: ${fate}`);
    },
  })),
);

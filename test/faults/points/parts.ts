/** Host agent or edge dies, or stands still, while machines run and commands are under way. Real machines. */
import type { Point, Stage } from "../point.ts";
import type { Witness } from "../witness.ts";

/** A command that takes a while and then writes a line: whatever breaks, it must have run exactly once. */
function slowLine(stage: Stage, witness: Witness): Promise<string | null> {
  return stage.calm(witness.line("sleep 0.8"));
}

/** Sandboxes in different states, and what the list says of them. */
async function several(stage: Stage): Promise<Witness[]> {
  const awake = await stage.witness();
  const asleep = await stage.witness();
  await asleep.pause();
  return [awake, asleep];
}

export const parts: readonly Point[] = [
  {
    name: "host/killed-at-rest",
    place: "qemu",
    async play(stage) {
      const [awake, asleep] = await several(stage);
      const generation = awake?.patient.info.generation;
      await stage.killHost("a time of rest", 300);
      await stage.until("both are as they were", async () => {
        const states = [(await awake?.patient.refresh())?.state, (await asleep?.patient.refresh())?.state];
        return states.join() === "running,paused";
      });
      stage.expect(awake?.patient.info.generation === generation, "the one that ran on is in another generation");
    },
  },
  {
    name: "host/killed-twice-in-a-row",
    place: "qemu",
    thorough: true,
    async play(stage) {
      await stage.witness();
      await stage.killHost("a time of rest", 100, 0);
      await stage.killHost("its new start", 600, 0);
    },
  },
  {
    name: "host/killed-while-a-command-runs",
    place: "qemu",
    async play(stage) {
      const witness = await stage.witness();
      const command = slowLine(stage, witness);
      await stage.killHost("a command", 900);
      await command;
    },
  },
  {
    name: "host/hangs-while-a-command-runs",
    place: "qemu",
    async play(stage) {
      const witness = await stage.witness();
      const command = slowLine(stage, witness);
      const ms = await stage.moment(900);
      const hangs = stage.random.int(1000, 3000);
      stage.note(`host agent stood still for ${hangs} ms, ${ms} ms into a command`);
      await stage.world.hangHost(hangs);
      stage.expect((await command) === null, "the command failed, though the host only was slow");
    },
  },
  {
    name: "host/hangs-until-it-counts-as-silent",
    place: "qemu",
    thorough: true,
    async play(stage) {
      await stage.witness();
      stage.note("host agent stood still for 17 s");
      const hang = stage.world.hangHost(17_000);
      await new Promise((resolve) => setTimeout(resolve, 16_000));
      const refused = await stage.calm(
        stage.world.direct.sandboxes.create({ name: `${stage.label}-b` }, { timeoutMs: 10_000 }),
      );
      await hang;
      stage.expect(refused === "no_host" || refused === "host_unavailable", `a creation without a host: ${refused}`);
      const bornAt = performance.now() - 17_000;
      await stage.adopt(await stage.revived(`${stage.label}-b`), bornAt);
    },
  },
  {
    name: "edge/killed-at-rest",
    place: "qemu",
    async play(stage) {
      const [awake, asleep] = await several(stage);
      await stage.killEdge("a time of rest", 300);
      await awake?.patient.refresh();
      await asleep?.patient.refresh();
      stage.expect(awake?.patient.state === "running", `the one that ran is ${awake?.patient.state}`);
      stage.expect(asleep?.patient.state === "paused", `the one that slept is ${asleep?.patient.state}`);
      const listed = await (await stage.world.patient.sandboxes.list({ state: "paused" })).toArray();
      stage.expect(
        listed.some(({ id }) => id === asleep?.id),
        "the list does not show the one that slept",
      );
    },
  },
  {
    name: "edge/killed-while-a-command-runs",
    place: "qemu",
    async play(stage) {
      const witness = await stage.witness();
      const command = slowLine(stage, witness);
      await stage.killEdge("a command", 900);
      await command;
    },
  },
  {
    name: "edge/killed-twice-in-a-row",
    place: "qemu",
    thorough: true,
    async play(stage) {
      const witness = await stage.witness();
      const call = stage.calm(witness.patient.pause());
      await stage.killEdge("a pause", 60, 0);
      await stage.killEdge("its new start", 100, 0);
      await call;
    },
  },
  {
    name: "both/killed-together",
    place: "qemu",
    async play(stage) {
      const witness = await stage.witness();
      const call = stage.calm(witness.patient.pause());
      const ms = await stage.moment(200);
      stage.note(`edge and host agent killed ${ms} ms into a pause`);
      await Promise.all([stage.world.killEdge(), stage.world.killHost()]);
      await stage.moment(500);
      await Promise.all([stage.world.startEdge(), stage.world.startHost()]);
      await call;
    },
  },
];

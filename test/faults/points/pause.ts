/** What dies while a machine goes to sleep. Real machines: it slept or it ran on, and nothing that it held is lost. */
import { about } from "../proxy.ts";
import type { Point, Stage } from "../point.ts";
import type { Witness } from "../witness.ts";

/** A pause takes about so long, milliseconds. */
const PAUSE_MS = 200;

/** Ask for a pause, let something happen meanwhile. */
async function pausing(stage: Stage, strike: (witness: Witness) => Promise<void>): Promise<void> {
  const witness = await stage.witness();
  const call = stage.calm(witness.patient.pause());
  await strike(witness);
  await call;
}

export const pause: readonly Point[] = [
  {
    name: "pause/host-killed-in-the-middle",
    place: "qemu",
    play: (stage) => pausing(stage, () => stage.killHost("a pause", PAUSE_MS)),
  },
  {
    name: "pause/host-killed-before-answer",
    place: "qemu",
    play: (stage) =>
      pausing(stage, async ({ label }) => {
        await stage.world.toHost.rule("answer held", about.act(label, "pause")).arrived;
        await stage.killHost("the time between a pause and its answer", 50);
        await stage.world.toHost.heal();
      }),
  },
  {
    name: "pause/edge-killed-in-the-middle",
    place: "qemu",
    play: (stage) => pausing(stage, () => stage.killEdge("a pause", PAUSE_MS)),
  },
  {
    name: "pause/qemu-killed-in-the-middle",
    place: "qemu",
    play: (stage) =>
      pausing(stage, async (witness) => {
        witness.crash = "maybe";
        const ms = await stage.moment(PAUSE_MS);
        const killed = await stage.killMachine(witness);
        stage.note(`${killed} QEMU killed ${ms} ms into a pause`);
      }),
  },
  {
    name: "pause/host-hangs-in-the-middle",
    place: "qemu",
    thorough: true,
    play: (stage) =>
      pausing(stage, async () => {
        const ms = await stage.moment(PAUSE_MS);
        const hangs = stage.random.int(1500, 3000);
        stage.note(`host agent stood still for ${hangs} ms, ${ms} ms into a pause`);
        await stage.world.hangHost(hangs);
      }),
  },
  {
    name: "pause/network-cut-in-the-middle",
    place: "qemu",
    play: (stage) =>
      pausing(stage, async () => {
        const ms = await stage.moment(PAUSE_MS);
        const cutMs = stage.random.int(1500, 3000);
        stage.note(`edge and host apart for ${cutMs} ms, ${ms} ms into a pause`);
        stage.world.toHost.cut = true;
        stage.world.toEdge.cut = true;
        await stage.moment(cutMs);
        await stage.world.heal();
      }),
  },
];

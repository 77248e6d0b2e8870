/** What dies while a machine is stopped, restarted or deleted. Real machines. */
import { about } from "../proxy.ts";
import type { Point, Stage } from "../point.ts";
import type { Witness } from "../witness.ts";

/** An orderly end takes about so long, milliseconds. */
const STOP_MS = 1500;
const DELETE_MS = 150;

async function stopping(stage: Stage, strike: (witness: Witness) => Promise<void>): Promise<void> {
  const witness = await stage.witness();
  witness.stopped = true;
  const call = stage.calm(witness.patient.stop());
  await strike(witness);
  await call;
  await stage.until("it is stopped", async () => (await witness.patient.refresh()).state === "stopped");
  const { stopReason } = witness.patient.info;
  stage.expect(stopReason === "requested", `it is stopped with ${stopReason}`);
}

async function deleting(stage: Stage, strike: (witness: Witness) => Promise<void>): Promise<void> {
  const witness = await stage.witness();
  if (stage.random.next() < 0.5) await witness.pause();
  witness.gone = true;
  const call = stage.calm(witness.patient.delete());
  await strike(witness);
  await call;
}

export const end: readonly Point[] = [
  {
    name: "stop/host-killed-in-the-middle",
    place: "qemu",
    play: (stage) => stopping(stage, () => stage.killHost("a stop", STOP_MS)),
  },
  {
    name: "stop/qemu-killed-in-the-middle",
    place: "qemu",
    thorough: true,
    play: (stage) =>
      stopping(stage, async (witness) => {
        // Its disk was not flushed then, or not whole.
        witness.crash = "yes";
        witness.stopped = false;
        const ms = await stage.moment(100);
        const killed = await stage.killMachine(witness);
        stage.note(`${killed} QEMU killed ${ms} ms into a stop`);
      }),
  },
  {
    name: "restart/host-killed-in-the-middle",
    place: "qemu",
    thorough: true,
    async play(stage) {
      const witness = await stage.witness();
      witness.crash = "yes";
      await witness.patient.exec("sync", { check: true });
      witness.lines.durable(witness.lines.mark());
      const call = stage.calm(witness.patient.restart());
      await stage.killHost("a boot from disk", 5000);
      await call;
      await stage.until(
        "it is at rest",
        async () => {
          await witness.patient.refresh();
          return witness.patient.state === "running" || witness.patient.state === "stopped";
        },
        120_000,
      );
    },
  },
  {
    name: "delete/host-killed-in-the-middle",
    place: "qemu",
    play: (stage) => deleting(stage, () => stage.killHost("a deletion", DELETE_MS)),
  },
  {
    name: "delete/edge-killed-in-the-middle",
    place: "qemu",
    thorough: true,
    play: (stage) => deleting(stage, () => stage.killEdge("a deletion", DELETE_MS)),
  },
  {
    name: "delete/edge-killed-before-answer",
    place: "qemu",
    thorough: true,
    play: (stage) =>
      deleting(stage, async ({ label }) => {
        await stage.world.toHost.rule("answer held", about.destroy(label)).arrived;
        await stage.killEdge("the time between a deletion and its answer", 50);
        await stage.world.toHost.heal();
      }),
  },
  {
    name: "delete/qemu-killed-before",
    place: "qemu",
    play: async (stage) => {
      const witness = await stage.witness();
      witness.gone = true;
      const killed = await stage.killMachine(witness);
      const ms = await stage.moment(100);
      stage.note(`${killed} QEMU killed ${ms} ms before a deletion`);
      await stage.calm(witness.patient.delete());
    },
  },
];

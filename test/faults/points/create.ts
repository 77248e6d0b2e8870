/** What dies while a machine is made. Real machines: one name, one machine, nothing half made left behind. */
import { setTimeout as delay } from "node:timers/promises";
import { about } from "../proxy.ts";
import type { Point, Stage } from "../point.ts";

/** A creation takes about so long, milliseconds. */
const CREATE_MS = 700;

/** Ask for a sandbox, let something happen meanwhile, and judge what the name holds in the end. */
async function making(stage: Stage, strike: () => Promise<void>): Promise<void> {
  const bornAt = performance.now();
  const call = stage.calm(stage.world.patient.sandboxes.create({ name: stage.label, idlePauseSeconds: 0 }));
  await strike();
  await call;
  const witness = await stage.adopt(await stage.revived(), bornAt);
  const found = await (await stage.world.patient.sandboxes.list({ name: stage.label })).toArray();
  stage.expect(found.length === 1 && found[0]?.id === witness.id, `the list shows ${found.length} of that name`);
}

export const create: readonly Point[] = [
  {
    name: "create/host-killed-in-the-middle",
    place: "qemu",
    play: (stage) => making(stage, () => stage.killHost("a creation", CREATE_MS)),
  },
  {
    name: "create/host-killed-before-answer",
    place: "qemu",
    thorough: true,
    play: (stage) =>
      making(stage, async () => {
        await stage.world.toHost.rule("answer held", about.create(stage.label)).arrived;
        await stage.killHost("the time between a creation and its answer", 50);
        await stage.world.toHost.heal();
      }),
  },
  {
    name: "create/edge-killed-in-the-middle",
    place: "qemu",
    play: (stage) => making(stage, () => stage.killEdge("a creation", CREATE_MS)),
  },
  {
    name: "create/qemu-killed-in-the-middle",
    place: "qemu",
    play: (stage) =>
      making(stage, async () => {
        let pid: number | undefined;
        await stage.until(
          "a process for the machine comes",
          async () => {
            pid = (await stage.world.machines()).find(({ id }) => id?.startsWith(`${stage.label}~`))?.pid;
            return pid !== undefined;
          },
          10_000,
        );
        const ms = stage.random.int(0, 150);
        await delay(ms);
        stage.note(`QEMU killed ${ms} ms after it came`);
        if (pid !== undefined) process.kill(pid, "SIGKILL");
      }),
  },
];

/** A host's disk is full. Real machines, with their files or all state on a small disk of its own. */
import { setTimeout as delay } from "node:timers/promises";
import { about } from "../proxy.ts";
import type { Point } from "../point.ts";
import type { SmallDisk } from "../small-disk.ts";
import type { World } from "../world.ts";

function diskOf({ disk }: World): SmallDisk {
  if (!disk) throw new Error("this place has no small disk");
  return disk;
}

export const disk: readonly Point[] = [
  {
    name: "disk/full-at-a-pause",
    place: "small disk",
    async play(stage) {
      const witness = await stage.create();
      const left = stage.random.int(0, 128) * 1024;
      diskOf(stage.world).fill(left);
      stage.note(`${left / 1024} KiB of disk left for a pause`);
      const code = await stage.calm(witness.patient.pause({ idempotencyKey: crypto.randomUUID() }));
      // A guest that writes to memory it never used finds no room for it: its end is told, and not hidden.
      const { state } = await witness.patient.refresh();
      if (state === "stopped") stage.note("the machine ended");
      if (state === "stopped") witness.crash = "yes";
      else
        stage.expect(
          state === "running" && code === "pause_failed",
          `the pause ended with ${code}, and it is ${state}`,
        );
      diskOf(stage.world).free();
      if (state === "running") await witness.pause();
    },
  },
  {
    name: "disk/full-at-a-creation",
    place: "small disk",
    async play(stage) {
      const left = stage.random.int(0, 200) * 1024 * 1024;
      diskOf(stage.world).fill(left);
      stage.note(`${left / 1024 / 1024} MiB of disk left for a creation`);
      const bornAt = performance.now();
      const { direct } = stage.world;
      const code = await stage.calm(direct.sandboxes.create({ name: stage.label, idlePauseSeconds: 0 }));
      stage.expect(
        code === "disk_full" || code === "no_capacity" || code === "start_failed",
        `the creation ended with ${code ?? "a machine"}`,
      );
      diskOf(stage.world).free();
      await stage.adopt(await stage.revived(), bornAt);
    },
  },
  {
    name: "disk/full-at-a-wake",
    place: "small disk",
    thorough: true,
    async play(stage) {
      const witness = await stage.create();
      await witness.pause();
      await stage.world.settle(witness.id, "local");
      diskOf(stage.world).fill(0);
      stage.note("no disk left for a wake");
      witness.waking();
      await stage.calm(stage.world.direct.sandboxes.get(witness.id).then((one) => one.wake()));
      diskOf(stage.world).free();
      const { state, info } = await witness.patient.refresh();
      if (state === "stopped" || info.memoryRestored === false) witness.crash = "maybe";
    },
  },
  {
    name: "disk/full-under-everything",
    place: "small state",
    thorough: true,
    async play(stage) {
      const witness = await stage.create();
      diskOf(stage.world).fill(0);
      stage.note("no disk left for host agent, edge and logs for 7 s");
      // Who can't note anything down may fail in any way, if only all is well again after it.
      const calls = [witness.patient.pause(), stage.world.direct.sandboxes.create({ name: `${stage.label}-b` })];
      await Promise.allSettled(calls);
      await delay(7000);
      diskOf(stage.world).free();
      await stage.until("the host is known again", async () => (await stage.world.patient.hosts())[0]?.live === true);
      if ((await witness.patient.refresh()).state === "stopped") witness.crash = "yes";
      await stage.calm(stage.world.patient.sandboxes.delete(`${stage.label}-b`));
    },
  },
  {
    name: "create/host-killed-while-cloning",
    place: "small disk",
    async play(stage) {
      // Clones that are kept ready are on another disk, so that each is copied whole.
      const bornAt = performance.now();
      const { patient } = stage.world;
      const seen = stage.world.toHost.rule("copied", about.create(stage.label)).seen;
      const call = stage.calm(patient.sandboxes.create({ name: stage.label, idlePauseSeconds: 0 }));
      await seen;
      await stage.killHost("a copy of the golden state", 400);
      await call;
      await stage.world.toHost.heal();
      await stage.adopt(await stage.revived(), bornAt);
    },
  },
  {
    name: "delete/host-killed-while-cloning",
    place: "small disk",
    async play(stage) {
      const { direct } = stage.world;
      const held = stage.world.toHost.rule("answer held", about.create(stage.label));
      const made = stage.calm(direct.sandboxes.create({ name: stage.label, idlePauseSeconds: 0 }));
      await held.seen;
      const ms = await stage.moment(400);
      stage.note(`host agent killed ${ms} ms into a copy of the golden state, and the sandbox deleted`);
      await stage.world.killHost();
      await stage.calm(direct.sandboxes.delete(stage.label));
      await made;
      await stage.world.startHost();
      await stage.world.toHost.heal();
      await stage.until(
        "its deletion is done",
        async () => (await stage.calm(direct.sandboxes.get(stage.label))) === "sandbox_gone",
      );
    },
  },
];

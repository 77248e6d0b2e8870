/** What dies while a machine wakes, or while it sleeps. Real machines: RAM must be what it was. */
import { about } from "../proxy.ts";
import type { Point, Stage } from "../point.ts";
import type { Witness } from "../witness.ts";

/** A local wake takes about so long, milliseconds. */
const WAKE_MS = 350;

async function sleeper(stage: Stage): Promise<Witness> {
  const witness = await stage.witness();
  await witness.pause();
  await stage.world.settle(witness.id, stage.random.weighted({ resident: 1, prestarted: 1, local: 2 }));
  witness.waking();
  return witness;
}

export const wake: readonly Point[] = [
  {
    name: "wake/host-killed-in-the-middle",
    place: "qemu",
    async play(stage) {
      const witness = await sleeper(stage);
      const waking = stage.calm(witness.patient.exec("true"));
      await stage.killHost("a wake", WAKE_MS);
      await waking;
    },
  },
  {
    name: "wake/host-killed-before-answer",
    place: "qemu",
    async play(stage) {
      const witness = await sleeper(stage);
      const answer = stage.world.toHost.rule("answer held", about.act(witness.label, "wake"));
      const waking = stage.calm(witness.patient.exec("true"));
      await answer.arrived;
      await stage.killHost("the time between a wake and its answer", 50);
      await stage.world.toHost.heal();
      await waking;
    },
  },
  {
    name: "wake/edge-killed-in-the-middle",
    place: "qemu",
    thorough: true,
    async play(stage) {
      const witness = await sleeper(stage);
      const waking = stage.calm(witness.patient.exec("true"));
      await stage.killEdge("a wake", WAKE_MS);
      await waking;
    },
  },
  {
    name: "wake/edge-killed-before-answer",
    place: "qemu",
    async play(stage) {
      const witness = await sleeper(stage);
      const answer = stage.world.toHost.rule("answer held", about.act(witness.label, "wake"));
      const waking = stage.calm(witness.patient.exec("true"));
      await answer.arrived;
      await stage.killEdge("the time between a wake and its answer", 50);
      await waking;
    },
  },
  {
    name: "wake/qemu-killed-in-the-middle",
    place: "qemu",
    async play(stage) {
      const witness = await sleeper(stage);
      witness.crash = "maybe";
      const waking = stage.calm(witness.patient.exec("true"));
      const ms = await stage.moment(WAKE_MS);
      const killed = await stage.killMachine(witness);
      stage.note(`${killed} QEMU killed ${ms} ms into a wake`);
      await waking;
    },
  },
  {
    name: "wake/host-hangs-in-the-middle",
    place: "qemu",
    thorough: true,
    async play(stage) {
      const witness = await sleeper(stage);
      const waking = stage.calm(witness.patient.exec("true"));
      const ms = await stage.moment(WAKE_MS);
      const hangs = stage.random.int(2000, 4000);
      stage.note(`host agent stood still for ${hangs} ms, ${ms} ms into a wake`);
      await stage.world.hangHost(hangs);
      stage.expect((await waking) === null, "the command failed, though the host only was slow");
    },
  },
  {
    name: "wake/host-killed-under-many-first-contacts",
    place: "qemu",
    async play(stage) {
      const witness = await sleeper(stage);
      const contacts = Array.from({ length: 8 }, () => stage.calm(witness.patient.exec("true")));
      await stage.killHost("a wake by 8 requests", WAKE_MS);
      await Promise.all(contacts);
    },
  },
  {
    name: "sleep/qemu-killed-while-resident",
    place: "qemu",
    async play(stage) {
      const witness = await stage.witness();
      await witness.pause();
      await stage.moment(200);
      const killed = await stage.killMachine(witness);
      stage.note(`${killed} QEMU of a resident sleeper killed`);
      stage.expect(killed === 1, `a resident sleeper has ${killed} processes`);
    },
  },
  {
    name: "sleep/qemu-killed-while-prestarted",
    place: "qemu",
    thorough: true,
    async play(stage) {
      const witness = await stage.witness();
      await witness.pause();
      await stage.world.settle(witness.id, "prestarted");
      await stage.moment(200);
      const killed = await stage.killMachine(witness);
      stage.note(`${killed} QEMU of a prestarted sleeper killed`);
      stage.expect(killed === 1, `a prestarted sleeper has ${killed} processes`);
    },
  },
  {
    name: "sleep/host-killed-while-asleep",
    place: "qemu",
    thorough: true,
    async play(stage) {
      await sleeper(stage);
      await stage.killHost("a sleep", 300);
    },
  },
];

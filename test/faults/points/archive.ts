/** What dies while the state of a sleeper leaves its host. It becomes durable all the same, and wakes as it was. */
import { about, type Fate } from "../proxy.ts";
import type { Point, Stage } from "../point.ts";
import type { Witness } from "../witness.ts";

/** A sealing, and the upload behind it, take about so long, milliseconds. */
const SEAL_MS = 1500;
const STORE_MS = 2500;
/** The golden image may have to go first, milliseconds. */
const DURABLE_MS = 240_000;

async function durable(stage: Stage, witness: Witness): Promise<void> {
  await stage.until(
    "its state is durable",
    async () => {
      const { durability } = (await witness.patient.refresh()).info;
      return durability?.state === "durable" || durability?.state === "cold";
    },
    DURABLE_MS,
  );
}

/** Asleep, with its golden image stored, so that what follows is about the state alone. */
async function sleeper(stage: Stage): Promise<Witness> {
  const witness = await stage.witness();
  await witness.pause();
  await durable(stage, witness);
  witness.waking();
  await witness.patient.exec("true");
  await witness.work();
  await witness.pause();
  return witness;
}

const strikes: readonly { name: string; strike: (stage: Stage) => Promise<void> }[] = [
  { name: "host-killed-while-sealing", strike: (stage) => stage.killHost("the sealing of a state", SEAL_MS) },
  { name: "host-killed-while-storing", strike: (stage) => stage.killHost("the storing of a state", STORE_MS) },
  { name: "edge-killed-while-storing", strike: (stage) => stage.killEdge("the storing of a state", STORE_MS) },
  {
    name: "host-killed-again-and-again",
    async strike(stage) {
      for (let n = 0; n < 3; n++) await stage.killHost("the storing of a state", STORE_MS, 200);
    },
  },
];

const fates: readonly { step: "begin" | "upload" | "commit"; fate: Fate }[] = [
  { step: "begin", fate: "answer lost" },
  { step: "upload", fate: "answer lost" },
  { step: "commit", fate: "answer lost" },
  { step: "commit", fate: "twice" },
];

export const archive: readonly Point[] = [
  ...strikes.map(({ name, strike }): Point => ({
    name: `archive/${name}`,
    place: "qemu",
    async play(stage) {
      const witness = await sleeper(stage);
      await strike(stage);
      await durable(stage, witness);
      witness.waking();
    },
  })),
  ...fates.map(({ step, fate }): Point => ({
    name: `archive/${step}-${fate.replace(" ", "-")}`,
    place: "qemu",
    async play(stage) {
      const witness = await stage.witness();
      stage.world.toEdge.rule(fate, about.archive(witness.label, step));
      await witness.pause();
      stage.note(`"${step}" of a state: ${fate}`);
      await durable(stage, witness);
      witness.waking();
    },
  })),
  {
    name: "archive/woken-while-sealing",
    place: "qemu",
    async play(stage) {
      const witness = await sleeper(stage);
      for (let n = 0; n < 3; n++) {
        const ms = await stage.moment(SEAL_MS + 3000);
        stage.note(`woken ${ms} ms after it fell asleep`);
        witness.waking();
        await witness.patient.exec("true");
        await witness.work();
        await witness.pause();
      }
      await durable(stage, witness);
      witness.waking();
    },
  },
];

/** What dies while a volume comes to a machine, or leaves it. What was synced to it is there, whoever has it next. */
import type { Attachment } from "rouse";
import { about, type Fate } from "../proxy.ts";
import type { Point, Stage } from "../point.ts";
import type { Witness } from "../witness.ts";

/** Times that plugging in, and letting go with all that is stored for it, take at most, milliseconds. */
const PLUG_MS = 2500;
const LET_GO_MS = 4000;
const OVER_MS = 120_000;

const volumesOf = ({ world }: Stage) => world.patient.volumes;

async function make(stage: Stage): Promise<string> {
  return (await volumesOf(stage).create({ sizeMiB: 64 })).id;
}

async function staysOf(stage: Stage, volume: string): Promise<readonly Attachment[]> {
  return (await volumesOf(stage).get(volume)).attachments;
}

/** Ask until the sandbox has the volume mounted, however often that takes. */
async function attached(stage: Stage, witness: Witness, volume: string): Promise<void> {
  const { patient } = witness;
  await stage.until(
    "the volume is mounted",
    async () => {
      const mine = (await staysOf(stage, volume)).find(({ sandboxId }) => sandboxId === patient.id);
      if (!mine) await patient.attachVolume(volume, "/data");
      return (await patient.exec("findmnt -n /data")).exitCode === 0;
    },
    OVER_MS,
  );
}

async function letGo(stage: Stage, volume: string): Promise<void> {
  await stage.until("the volume is let go of", async () => (await staysOf(stage, volume)).length === 0, OVER_MS);
}

async function write(witness: Witness, text: string): Promise<void> {
  await witness.patient.exec(`echo ${text} >> /data/log; sync`, { check: true });
}

async function read(stage: Stage, witness: Witness, text: string): Promise<void> {
  const { stdout } = await witness.patient.exec("cat /data/log");
  stage.expect(stdout.trim() === text, `the volume holds ${JSON.stringify(stdout)}, and ${text} was synced to it`);
}

/** Let go of it for good. */
async function end(stage: Stage, witness: Witness, volume: string): Promise<void> {
  await stage.until("the volume is taken out", async () => {
    await witness.patient.detachVolume(volume, { timeoutMs: OVER_MS });
    return true;
  });
  await volumesOf(stage).delete(volume);
}

const strikes: readonly { part: string; kill: (stage: Stage, during: string, ms: number) => Promise<void> }[] = [
  { part: "host", kill: (stage, during, ms) => stage.killHost(during, ms) },
  { part: "edge", kill: (stage, during, ms) => stage.killEdge(during, ms) },
];

const lost: readonly { step: "begin" | "upload" | "commit"; fate: Fate }[] = [
  { step: "upload", fate: "answer lost" },
  { step: "commit", fate: "answer lost" },
  { step: "commit", fate: "twice" },
];

export const volumes: readonly Point[] = [
  ...strikes.map(({ part, kill }): Point => ({
    name: `volumes/${part}-killed-while-plugging-in`,
    place: "qemu",
    async play(stage) {
      const witness = await stage.witness();
      const volume = await make(stage);
      const call = stage.calm(witness.patient.attachVolume(volume, "/data"));
      await kill(stage, "a plugging in", PLUG_MS);
      await call;
      await attached(stage, witness, volume);
      await write(witness, "one");
      await read(stage, witness, "one");
      await end(stage, witness, volume);
    },
  })),
  ...strikes.map(({ part, kill }): Point => ({
    name: `volumes/${part}-killed-while-letting-go`,
    place: "qemu",
    async play(stage) {
      const witness = await stage.witness();
      const volume = await make(stage);
      await attached(stage, witness, volume);
      await write(witness, "one");
      const call = stage.calm(witness.patient.detachVolume(volume));
      await kill(stage, "a letting go", LET_GO_MS);
      await call;
      await stage.until("the volume is detached", async () => {
        if ((await staysOf(stage, volume)).length > 0) await witness.patient.detachVolume(volume);
        return true;
      });
      await letGo(stage, volume);
      await attached(stage, witness, volume);
      await read(stage, witness, "one");
      await end(stage, witness, volume);
    },
  })),
  {
    name: "volumes/host-killed-while-its-sandbox-is-deleted",
    place: "qemu",
    async play(stage) {
      const volume = await make(stage);
      const going = await stage.create({ volumes: [{ volumeId: volume, path: "/data" }] });
      const next = await stage.witness();
      await write(going, "one");
      going.gone = true;
      const call = stage.calm(going.patient.delete());
      await stage.killHost("a deletion", LET_GO_MS);
      await call;
      await stage.until("the sandbox is deleted", async () => {
        await going.patient.delete();
        return true;
      });
      await letGo(stage, volume);
      await attached(stage, next, volume);
      await read(stage, next, "one");
      await end(stage, next, volume);
    },
  },
  {
    name: "volumes/machine-killed",
    place: "qemu",
    thorough: true,
    async play(stage) {
      const witness = await stage.witness();
      const volume = await make(stage);
      await attached(stage, witness, volume);
      await write(witness, "one");
      stage.note(`${await stage.killMachine(witness)} processes of the machine killed`);
      witness.crash = "yes";
      await stage.until("its end is known", async () => (await witness.patient.refresh()).state === "stopped");
      await stage.revived(witness.label);
      await attached(stage, witness, volume);
      await read(stage, witness, "one");
      await end(stage, witness, volume);
    },
  },
  ...lost.map(({ step, fate }): Point => ({
    name: `volumes/${step}-${fate.replace(" ", "-")}`,
    place: "qemu",
    async play(stage) {
      const witness = await stage.witness();
      const volume = await make(stage);
      await attached(stage, witness, volume);
      await write(witness, "one");
      stage.world.toEdge.rule(fate, about.volumeArchive(step));
      stage.note(`"${step}" of a volume: ${fate}`);
      await witness.patient.detachVolume(volume, { timeoutMs: OVER_MS });
      await attached(stage, witness, volume);
      await read(stage, witness, "one");
      await end(stage, witness, volume);
    },
  })),
];

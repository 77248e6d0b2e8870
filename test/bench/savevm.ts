/** For comparison: the same guest saved and loaded the ordinary way, by QEMU's own `savevm` and `loadvm`. */
import { Floor, timed, type FloorMachine } from "./floor.ts";

export interface SavevmTimes {
  /** Stop and save everything into the disk. */
  readonly save: number[];
  /** From a process start until the first byte. */
  readonly load: number[];
}

/** Milliseconds. `machine` is a sleeper's files of its own: they are used up. */
export async function measureSavevm(machine: FloorMachine, runs: number): Promise<SavevmTimes> {
  const times: SavevmTimes = { save: [], load: [] };
  // Brought over from the file that its RAM is in, which spares a boot.
  const first = new Floor(machine);
  await first.start();
  await first.wake();
  await first.stop();
  await first.saveWhole();
  await first.monitor("savevm s0");
  await first.end();
  for (let n = 0; n < runs; n++) {
    const floor = new Floor({ ...machine, anonymousRam: true });
    times.load.push(
      await timed(async () => {
        await floor.startStopped();
        await floor.saveWhole();
        await floor.monitor(`loadvm s${n}`);
        await floor.cont();
        await floor.firstByte();
      }),
    );
    await new Promise((resolve) => setTimeout(resolve, 500));
    times.save.push(
      await timed(async () => {
        await floor.stop();
        await floor.monitor(`savevm s${n + 1}`);
      }),
    );
    await floor.monitor(`delvm s${n}`);
    await floor.end();
  }
  return times;
}

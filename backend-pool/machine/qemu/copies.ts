/** Copies of machines: RAM, devices and disk of one instant, in a folder of their own. */
import { copyFile, mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { RouseFailure } from "../../../sdk/contract/errors.ts";
import { isSnapshotId } from "../../../sdk/contract/names.ts";
import { exists } from "../../paths.ts";
import { run } from "../../process.ts";
import type { Identity } from "../driver.ts";
import { DEVICE_STATE, DISK, GOLDEN, RAM } from "./golden.ts";
import { MADE, writeMade, type Made } from "./made.ts";
import type { Vm } from "./vm.ts";

const SYNC_LIMIT_MS = 10_000;
const WAKE_LIMIT_MS = 30_000;

export class Copies {
  /** Machines and copies have a folder each in the same place. */
  readonly #dir: string;

  constructor(machinesDir: string) {
    this.#dir = machinesDir;
  }

  /** `Driver.capture` of a machine; `vm` is its process, if it has one. */
  async capture(
    made: Made,
    vm: Vm | undefined,
    capture: string,
    diskOnly: boolean,
    identity: Identity,
  ): Promise<number | null> {
    const dir = join(this.#dir, capture);
    if (await exists(join(dir, MADE))) return null;
    const part = `${dir}.part`;
    await rm(part, { recursive: true, force: true });
    await mkdir(part, { recursive: true, mode: 0o700 });
    const sleeps = await exists(join(made.dir, DEVICE_STATE));
    let frozenMs: number | null = null;
    try {
      if (sleeps || !vm) {
        await copyFiles(made.dir, part, diskOnly ? [DISK] : [RAM, DISK, DEVICE_STATE]);
      } else {
        await vm.wire.sync(SYNC_LIMIT_MS).catch(() => undefined);
        const began = performance.now();
        await vm.save(join(part, DEVICE_STATE));
        await copyFiles(made.dir, part, diskOnly ? [DISK] : [RAM, DISK]).finally(() => vm.run());
        frozenMs = Math.round(performance.now() - began);
        // Its clock is behind by that much.
        await vm.wire.wake(identity, WAKE_LIMIT_MS).catch(() => undefined);
        if (diskOnly) await rm(join(part, DEVICE_STATE));
      }
      await copyFile(join(made.dir, GOLDEN), join(part, GOLDEN));
      await writeMade(part, made);
      await rename(part, dir);
    } catch (fault) {
      await rm(part, { recursive: true, force: true });
      const text = fault instanceof Error ? fault.message : String(fault);
      throw new RouseFailure("snapshot_failed", `The machine could not be copied: ${text}`, { cause: fault });
    }
    return frozenMs;
  }

  /** `Driver.createFrom`. */
  async createFrom(capture: string, id: string): Promise<void> {
    const [from, dir] = [join(this.#dir, capture), join(this.#dir, id)];
    if (await exists(join(dir, MADE))) return;
    if (!(await exists(join(from, MADE))))
      throw new RouseFailure("snapshot_not_found", "The copy is not on this host.");
    const part = `${dir}.part`;
    await Promise.all([dir, part].map((path) => rm(path, { recursive: true, force: true })));
    await mkdir(part, { recursive: true, mode: 0o700 });
    await copyFiles(from, part, [RAM, DISK, DEVICE_STATE, GOLDEN, MADE]);
    await rename(part, dir);
  }

  async list(): Promise<readonly string[]> {
    return (await readdir(this.#dir).catch(() => [])).filter(isSnapshotId);
  }

  async drop(capture: string): Promise<void> {
    await rm(join(this.#dir, capture), { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Copies that share blocks where the file system can, and leave holes where there is nothing. */
async function copyFiles(from: string, to: string, names: readonly string[]): Promise<void> {
  const copy = (name: string) => run("cp", ["--sparse=always", "--reflink=auto", join(from, name), join(to, name)]);
  await Promise.all(names.map(copy));
}

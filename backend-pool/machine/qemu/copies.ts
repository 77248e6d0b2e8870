/** Copies of machines: RAM, devices and disk of one instant, in a folder of their own. */
import { randomBytes } from "node:crypto";
import { copyFile, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { RouseFailure } from "../../../sdk/contract/errors.ts";
import { isSnapshotId } from "../../../sdk/contract/names.ts";
import { exists } from "../../paths.ts";
import { run } from "../../process.ts";
import type { CaptureOrder, Identity } from "../driver.ts";
import { DEVICE_STATE, DISK, GOLDEN, RAM, type Golden } from "./golden.ts";
import { MADE, writeMade, type Made } from "./made.ts";
import { Mirrors, type MirroredDrive } from "./mirrors.ts";
import { RamCopy } from "./ram-copy.ts";
import { volumeName } from "./plugs.ts";
import type { Vm } from "./vm.ts";
import type { HostVolume, VolumeFiles } from "./volume-files.ts";

const SYNC_LIMIT_MS = 10_000;
const WAKE_LIMIT_MS = 30_000;
/** What is under way on the wire when a machine is to stand still. */
const WIRE_LIMIT_MS = 200;
/** A copy of RAM that took longer has missed much of what a busy guest wrote; it is brought up to date once more. */
const LONG_COPY_MS = 400;

export class Copies {
  /** Machines and copies have a folder each in the same place. */
  readonly #dir: string;
  /** `native/ram-copy.c`; without it RAM is copied while its machine stands still. */
  readonly #helper: string | null;

  readonly #golden: Golden;
  readonly #volumes: VolumeFiles;

  constructor(machinesDir: string, golden: Golden, volumes: VolumeFiles, helper: string | null) {
    this.#dir = machinesDir;
    this.#golden = golden;
    this.#volumes = volumes;
    this.#helper = helper;
  }

  /** `Driver.capture` of a machine; `vm` is its process, if it has one. */
  async capture(
    made: Made,
    vm: Vm | undefined,
    has: readonly HostVolume[],
    { capture, diskOnly, volumes }: CaptureOrder,
    identity: Identity,
  ): Promise<number | null> {
    const dir = join(this.#dir, capture);
    if (await exists(join(dir, MADE))) return null;
    const part = `${dir}.part`;
    const sleeps = await exists(join(made.dir, DEVICE_STATE));
    let frozenMs: number | null = null;
    try {
      if (diskOnly) await makeFolder(part);
      else await this.#begin(part, await readFile(join(made.dir, GOLDEN), "utf8"));
      const copied = volumes.flatMap(({ attachment, backup }) => {
        const volume = has.find(({ id }) => id === attachment);
        return volume ? [{ ...volume, id: backup, from: attachment }] : [];
      });
      if (vm && !sleeps) {
        const drives = await this.#stage(copied);
        frozenMs = await this.#copyLive(made, vm, part, drives, diskOnly, identity);
        for (const { id, from, plugged } of copied)
          await (plugged ? this.#volumes.keep(id) : this.#volumes.copy(from, id));
      } else {
        await this.#copyStill(made.dir, part, diskOnly ? [DISK] : [RAM, DISK, DEVICE_STATE]);
        for (const { from, id } of copied) await this.#volumes.copy(from, id);
      }
      // Read-only volumes of the machine stay what they are: RAM knows them all the same.
      const known = has.filter(({ id, mode }) => mode === "snapshot" && !copied.some(({ from }) => from === id));
      const noted = [...copied.map((volume) => ({ ...volume, from: undefined })), ...known].map((volume) => {
        return diskOnly ? { ...volume, plugged: false } : volume;
      });
      if (noted.length > 0) await this.#volumes.noteIn(part, noted);
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

  /** `Driver.createFrom`. `start` is called once a process can be started that waits to load what is copied meanwhile. */
  async createFrom(capture: string, id: string, start: () => Promise<unknown>): Promise<void> {
    const [from, dir] = [join(this.#dir, capture), join(this.#dir, id)];
    if (await exists(join(dir, MADE))) return;
    if (!(await exists(join(from, MADE))))
      throw new RouseFailure("snapshot_not_found", "The copy is not on this host.");
    await this.#begin(dir, await readFile(join(from, GOLDEN), "utf8"));
    await this.#copyStill(from, dir, [DISK, DEVICE_STATE, GOLDEN]);
    // Without the helper the file grows while it is copied, and a process would take it for too small.
    if (this.#helper === null) await this.#copyStill(from, dir, [RAM]);
    const both = [this.#helper === null ? null : this.#copyStill(from, dir, [RAM]), start()];
    for (const one of await Promise.allSettled(both)) valueOf(one);
    // Last: a folder without it is half made.
    await copyFile(join(from, MADE), join(dir, MADE));
  }

  async list(): Promise<readonly string[]> {
    return (await readdir(this.#dir).catch(() => [])).filter(isSnapshotId);
  }

  async drop(capture: string): Promise<void> {
    // Copies of read-only volumes are none: their disks are the machine's.
    for (const { id, mode } of await this.#volumes.of(capture)) if (mode === "rw") await this.#volumes.drop(id);
    const dir = join(this.#dir, capture);
    // It is gone at once, and its blocks in a while; what a crash leaves of it is removed as half made.
    const trash = `${dir}.${randomBytes(4).toString("hex")}.part`;
    await rename(dir, trash).catch((fault: NodeJS.ErrnoException) => {
      if (fault.code !== "ENOENT") throw fault;
    });
    void rm(trash, { recursive: true, force: true, maxRetries: 5 }).catch(() => undefined);
  }

  /** Answers how long the machine stood still, milliseconds. */
  async #copyLive(
    made: Made,
    vm: Vm,
    part: string,
    volumes: readonly MirroredDrive[],
    diskOnly: boolean,
    identity: Identity,
  ): Promise<number> {
    const drives: MirroredDrive[] = [{ source: "disk", target: join(part, DISK), sync: "top" }, ...volumes];
    const beginning = [
      Mirrors.start(vm.qmp, drives),
      diskOnly ? null : this.#beginRam(join(made.dir, RAM), join(part, RAM)),
      // So that a boot from the copy's disk alone would lose little.
      vm.wire.sync(SYNC_LIMIT_MS).catch(() => undefined),
    ] as const;
    const [mirrors, ram] = await Promise.allSettled(beginning);
    try {
      const [disks, memory] = [valueOf(mirrors), valueOf(ram)];
      const began = performance.now();
      await vm.still();
      await vm.wire.hold(WIRE_LIMIT_MS);
      await vm.stop();
      const memoryEnds = memory?.finish();
      const restEnds = disks.finish().then(() => (diskOnly ? null : vm.deviceState()));
      // Whatever fails, the machine goes on, once nobody reads of it any more.
      await Promise.allSettled([memoryEnds, restEnds]).then(() => vm.run());
      const frozenMs = performance.now() - began;
      vm.wire.release();
      // Its clock is behind by that much.
      await vm.wire.wake(identity, WAKE_LIMIT_MS).catch(() => undefined);
      const state = await restEnds;
      await memoryEnds;
      await disks.close();
      if (state) await writeFile(join(part, DEVICE_STATE), state, { mode: 0o600 });
      return Math.max(1, Math.round(frozenMs));
    } finally {
      vm.wire.release();
      if (ram.status === "fulfilled") ram.value?.end();
      if (mirrors.status === "fulfilled") await mirrors.value.end();
    }
  }

  /** `Driver.copyVolume` of a running machine: its file system stands still for a moment. */
  async copyVolume(vm: Vm, slot: number, to: string): Promise<boolean> {
    const target = await this.#volumes.stage(to);
    const mirrors = await Mirrors.start(vm.qmp, [{ source: volumeName(slot), target, sync: "full" }]);
    try {
      const stands = (await vm.wire.freeze(slot, SYNC_LIMIT_MS).catch(() => 1)) === 0;
      await mirrors.finish().finally(() => stands && vm.wire.thaw(slot, SYNC_LIMIT_MS));
      await mirrors.close();
      await this.#volumes.keep(to);
      return stands;
    } finally {
      await mirrors.end();
    }
  }

  async #stage(volumes: readonly HostVolume[]): Promise<MirroredDrive[]> {
    const staged: MirroredDrive[] = [];
    for (const { id, slot, plugged } of volumes)
      if (plugged) staged.push({ source: volumeName(slot), target: await this.#volumes.stage(id), sync: "full" });
    return staged;
  }

  /** Most of RAM, while it changes. */
  async #beginRam(from: string, to: string): Promise<Pick<RamCopy, "finish" | "end">> {
    if (this.#helper === null) return { finish: () => copySparse(from, to).then(() => 0), end: () => undefined };
    const copy = await RamCopy.start(this.#helper, from, to);
    try {
      const began = performance.now();
      await copy.copy();
      if (performance.now() - began > LONG_COPY_MS) await copy.copy();
      return copy;
    } catch (fault) {
      copy.end();
      throw fault;
    }
  }

  /** Files that nobody writes to, into a folder that may have a clone's RAM. */
  async #copyStill(from: string, to: string, names: readonly string[]): Promise<void> {
    const helper = this.#helper;
    const byHelper = async (name: string) => {
      const copy = await RamCopy.start(helper ?? "", join(from, name), join(to, name));
      await copy.finish().finally(() => copy.end());
    };
    const isBig = (name: string) => helper !== null && name === RAM;
    await Promise.all(
      names.map((name) => (isBig(name) ? byHelper(name) : copySparse(join(from, name), join(to, name)))),
    );
  }

  /** A folder for a copy of a machine that came from a golden state, with a ready clone's RAM if there is one. */
  async #begin(part: string, golden: string): Promise<void> {
    await rm(part, { recursive: true, force: true });
    if (this.#helper !== null && (await this.#golden.takeSpare(golden, part)))
      await Promise.all([DISK, DEVICE_STATE].map((name) => rm(join(part, name))));
    else await makeFolder(part);
  }
}

async function makeFolder(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true });
  await mkdir(path, { recursive: true, mode: 0o700 });
}

/** Shares blocks where the file system can, and leaves holes where there is nothing. */
async function copySparse(from: string, to: string): Promise<void> {
  await run("cp", ["--sparse=always", "--reflink=auto", from, to]);
}

function valueOf<T>(result: PromiseSettledResult<T>): T {
  if (result.status === "rejected") throw result.reason;
  return result.value;
}

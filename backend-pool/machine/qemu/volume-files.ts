/**
 * The disks of volumes: each stay of a volume with a machine (`att-`), and each copy of one (`bak-`), has a folder of its
 * own beside the machines', so that nothing of an earlier stay is ever taken for it. A machine's folder lists its own.
 */
import { mkdir, readFile, rename, rm, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { VolumeMode } from "../../../sdk/contract/volume.ts";
import { syncFolder, writeDurably } from "../../archive/durable-file.ts";
import { FILE_UNIT, type Manifest } from "../../archive/manifest.ts";
import { restore } from "../../archive/restore.ts";
import type { SealPart } from "../../archive/seal.ts";
import { exists } from "../../paths.ts";
import { run } from "../../process.ts";

/** A volume of a machine, as its host remembers it. */
export const HostVolume = z.object({
  /** Of the folder with its bytes: an attachment, or in the copy of a machine a backup. */
  id: z.string(),
  slot: z.int(),
  path: z.string(),
  mode: VolumeMode,
  /** Of the disk, as the guest knows it. */
  sizeMiB: z.int(),
  /** The machine's RAM, or its process, has the disk. */
  plugged: z.boolean(),
  /** It was let go of in order: its file system mounts read-only as it is. */
  clean: z.boolean(),
});
export type HostVolume = z.infer<typeof HostVolume>;

const LIST = "volumes.json";
const DISK = "volume.raw";
/** Owner of an empty volume's root folder: the guest's user. */
const GUEST_USER = "1000:1000";
const PART = "volume";

export class VolumeFiles {
  readonly #dirOf: (id: string) => string;

  constructor(dirOf: (id: string) => string) {
    this.#dirOf = dirOf;
  }

  /** The volumes of a machine, or of a copy of one. */
  async of(machine: string): Promise<readonly HostVolume[]> {
    const text = await readFile(join(this.#dirOf(machine), LIST), "utf8").catch(() => null);
    return text === null ? [] : z.array(HostVolume).parse(JSON.parse(text));
  }

  /** Note the volumes of a machine, whole or not at all. */
  async note(machine: string, volumes: readonly HostVolume[]): Promise<void> {
    await this.noteIn(this.#dirOf(machine), volumes);
  }

  /** @param dir folder of a machine, or of a copy that is being made */
  async noteIn(dir: string, volumes: readonly HostVolume[]): Promise<void> {
    await writeDurably(join(dir, `${LIST}.part`), JSON.stringify(volumes));
    await rename(join(dir, `${LIST}.part`), join(dir, LIST));
    await syncFolder(dir);
  }

  /** Note something else of one volume of a machine, or with null that it has it no more. */
  async change(machine: string, id: string, change: Partial<HostVolume> | null): Promise<void> {
    const volumes = await this.of(machine);
    if (!volumes.some((volume) => volume.id === id)) return;
    const next = volumes.flatMap((volume) =>
      volume.id !== id ? [volume] : change === null ? [] : [{ ...volume, ...change }],
    );
    await this.note(machine, next);
  }

  disk(id: string): string {
    return join(this.#dirOf(id), DISK);
  }

  isHere(id: string): Promise<boolean> {
    return exists(this.disk(id));
  }

  /** MiB. */
  async size(id: string): Promise<number> {
    return Math.ceil((await stat(this.disk(id))).size / 1_048_576);
  }

  /** When the disk was written last, Unix milliseconds. */
  async writtenMs(id: string): Promise<number> {
    return (await stat(this.disk(id))).mtimeMs;
  }

  /** An empty volume, with a file system. */
  async makeEmpty(id: string, sizeMiB: number): Promise<void> {
    await this.#make(id, async (disk) => {
      await writeFile(disk, "", { mode: 0o600 });
      await truncate(disk, sizeMiB * 1_048_576);
      await run("mkfs.ext4", ["-q", "-F", "-m", "0", "-E", `root_owner=${GUEST_USER},nodiscard`, disk]);
    });
  }

  /** @throws DamagedState, and what `fetch` throws; nothing is left then */
  async restore(
    id: string,
    manifest: Manifest,
    fetch: (blob: string, signal: AbortSignal) => Promise<Buffer>,
  ): Promise<void> {
    await this.#make(id, async (disk) => {
      await restore({ manifest, parts: { [PART]: { path: disk, ready: false } }, fetch });
    });
  }

  /** Copy a disk that nothing writes. */
  async copy(from: string, to: string): Promise<void> {
    await this.#make(to, async (disk) => {
      await run("cp", ["--sparse=always", "--reflink=auto", this.disk(from), disk]);
    });
  }

  /**
   * Have a disk made, whole or not at all. Does nothing when it is there.
   * @param fill makes the file
   */
  async #make(id: string, fill: (disk: string) => Promise<void>): Promise<void> {
    if (await this.isHere(id)) return;
    await fill(await this.stage(id));
    await this.keep(id);
  }

  /** Where the disk is to be made, before it counts (`keep`). */
  async stage(id: string): Promise<string> {
    const dir = this.#dirOf(id);
    const part = `${dir}.part`;
    await Promise.all([dir, part].map((path) => rm(path, { recursive: true, force: true })));
    await mkdir(part, { recursive: true, mode: 0o700 });
    return join(part, DISK);
  }

  /** The disk that was staged is whole. */
  async keep(id: string): Promise<void> {
    const dir = this.#dirOf(id);
    await rename(`${dir}.part`, dir);
  }

  async drop(id: string): Promise<void> {
    const dir = this.#dirOf(id);
    const all = { recursive: true, force: true, maxRetries: 5 };
    await Promise.all([dir, `${dir}.part`].map((path) => rm(path, all)));
  }

  /** What a sealer needs to know of it. */
  sealPart(id: string): SealPart {
    return { name: PART, path: this.disk(id), unit: FILE_UNIT, base: null };
  }
}

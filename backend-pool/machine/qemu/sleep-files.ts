/**
 * The files of machines that sleep: whole (RAM, devices, disk), sealed beside that, sealed alone (`compact`), or not
 * here at all (`cold`). A note says which; what it says is true whatever crash comes, because it is written before
 * files go and after files are back.
 */
import { link, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { RouseFailure } from "../../../sdk/contract/errors.ts";
import { Shape } from "../../../sdk/contract/host.ts";
import { BlobNote } from "../../../sdk/contract/archive.ts";
import { FILE_UNIT, RAM_UNIT, type Manifest } from "../../archive/manifest.ts";
import { restore } from "../../archive/restore.ts";
import { sealedIn, type SealPart } from "../../archive/seal.ts";
import { syncFolder, writeDurably } from "../../archive/durable-file.ts";
import { allocatedBytes, exists } from "../../paths.ts";
import { run } from "../../process.ts";
import { DEVICE_STATE, DISK, GOLDEN, RAM, type Golden, type GoldenState } from "./golden.ts";
import { MADE, writeMade } from "./made.ts";
import { HostVolume } from "./volume-files.ts";

/** What is sealed of a machine, and what else of it there is. */
export const SealedNote = z.object({
  /** The run whose state it is. */
  generation: z.int(),
  manifest: z.string(),
  blobs: z.array(BlobNote),
  logicalBytes: z.number(),
  diskOnly: z.boolean(),
  /** `sealed` here, `noted` at the edge, `stored` off this host. */
  step: z.enum(["sealed", "noted", "stored"]),
  /** Bytes that are this machine's alone where it is stored. */
  ownedBytes: z.number(),
  /** RAM and devices are here only sealed, or not at all. */
  shed: z.boolean(),
  /** RAM can be loaded. */
  hasMemory: z.boolean(),
  /** Of a volume: when its disk was written last, Unix milliseconds. */
  writtenMs: z.number().optional(),
});
export type SealedNote = z.infer<typeof SealedNote>;

const Made = z.object({ shape: Shape });

/** What a manifest says beside its parts. */
export const StateFacts = z.object({
  golden: z.string(),
  shape: Shape,
  compatibility: z.string(),
  /** The file that the disk is the difference to, where it was sealed. */
  backing: z.string(),
  /** Volumes that the RAM knows. */
  volumes: z.array(HostVolume.pick({ slot: true, path: true, mode: true })).optional(),
});

/** What a sealer needs to know of a machine that sleeps. */
export interface SealPlan {
  readonly golden: GoldenState;
  readonly parts: readonly SealPart[];
  readonly facts: z.infer<typeof StateFacts>;
}

/** Disks up to this size, allocated bytes, are given up with the RAM; larger ones are worth more whole. */
const DISK_SHED_BYTES = 67_108_864;

const NOTE = "sealed-state.json";
const SEALED = "sealed";
const FILLING = "filling";

/** Brings a blob of a manifest. */
type Fetch = (blob: string, signal: AbortSignal) => Promise<Buffer>;

export class SleepFiles {
  readonly #dirOf: (id: string) => string;
  readonly #golden: Golden;
  /** What this host says of itself. */
  readonly compatibility: string;
  readonly #notes = new Map<string, SealedNote | null>();
  readonly #writes = new Map<string, Promise<unknown>>();

  constructor(dirOf: (id: string) => string, golden: Golden, compatibility: string) {
    this.#dirOf = dirOf;
    this.#golden = golden;
    this.compatibility = compatibility;
  }

  /** Where sealed blobs of the machine lie. */
  sealedDir(id: string): string {
    return join(this.#dirOf(id), SEALED);
  }

  async note(id: string): Promise<SealedNote | null> {
    const known = this.#notes.get(id);
    if (known !== undefined) return known;
    const text = await readFile(join(this.#dirOf(id), NOTE), "utf8").catch(() => null);
    const note = text === null ? null : SealedNote.parse(JSON.parse(text));
    this.#notes.set(id, note);
    return note;
  }

  async change(id: string, change: Partial<SealedNote>): Promise<void> {
    await this.note(id);
    // As it is now: another change may have come while it was read.
    const note = this.#notes.get(id);
    if (note) await this.#write(id, { ...note, ...change });
  }

  forget(id: string): void {
    this.#notes.delete(id);
  }

  /** The golden state that the machine came from. */
  async goldenOf(id: string): Promise<GoldenState> {
    return this.#golden.state(await readFile(join(this.#dirOf(id), GOLDEN), "utf8"));
  }

  /** null: it is sealed alone, or there is no saved state. */
  async plan(id: string, shape: Shape, diskOnly: boolean): Promise<SealPlan | null> {
    const dir = this.#dirOf(id);
    if ((await this.note(id))?.shed) return null;
    // One that was made by an earlier version has no id, and its machines stay where they are.
    const golden = await this.goldenOf(id).catch(() => null);
    if (!golden) return null;
    const disk: SealPart = { name: "disk", path: join(dir, DISK), unit: FILE_UNIT, base: null };
    const memory: SealPart[] = [
      { name: "ram", path: join(dir, RAM), unit: RAM_UNIT, base: { id: golden.id, path: join(golden.dir, RAM) } },
      {
        name: "device-state",
        path: join(dir, DEVICE_STATE),
        unit: RAM_UNIT,
        base: { id: golden.id, path: join(golden.dir, DEVICE_STATE) },
      },
    ];
    const parts = diskOnly ? [disk] : [...memory, disk];
    for (const { path } of parts) if (!(await exists(path))) return null;
    const facts = { golden: golden.id, shape, compatibility: this.compatibility, backing: join(golden.dir, DISK) };
    return { golden, parts, facts };
  }

  /** Take a sealed folder for the machine's. Blobs that an earlier one has as well come along. */
  async keep(id: string, generation: number, from: string, diskOnly: boolean): Promise<SealedNote> {
    const sealed = await sealedIn(from);
    if (!sealed) throw new Error("there is no sealed state");
    const dir = this.sealedDir(id);
    for (const blob of sealed.blobs)
      if (!blob.isNew) await link(join(dir, blob.id), join(from, blob.id)).catch(() => undefined); // only elsewhere
    const { manifest, blobs, logicalBytes } = sealed;
    const note = { generation, manifest, blobs: [...blobs], logicalBytes, diskOnly };
    await rm(dir, { recursive: true, force: true });
    await rename(from, dir);
    const full = { ...note, step: "sealed", ownedBytes: 0, shed: false, hasMemory: !diskOnly } as const;
    await this.#write(id, full);
    return full;
  }

  /** Give up what is sealed. Only when all blobs of the note are in the sealed folder, or the state is stored. */
  async shed(id: string): Promise<void> {
    const dir = this.#dirOf(id);
    const note = await this.note(id);
    if (!note || note.step === "sealed") return;
    await this.change(id, { shed: true });
    const small = (await allocatedBytes(join(dir, DISK))) <= DISK_SHED_BYTES;
    const names = [RAM, DEVICE_STATE, FILLING, ...(small ? [DISK] : [])];
    for (const name of names) await rm(join(dir, name), { recursive: true, force: true });
  }

  /** Give up the sealed blobs as well: the state is stored elsewhere. */
  async giveUp(id: string): Promise<void> {
    await this.shed(id);
    const note = await this.note(id);
    if (note?.step !== "stored" || !note.shed) return;
    await rm(join(this.#dirOf(id), DISK), { force: true });
    await rm(this.sealedDir(id), { recursive: true, force: true });
  }

  /** Blobs of the sealed state that are not on this host. */
  async missing(id: string): Promise<string[]> {
    const { blobs = [] } = (await this.note(id)) ?? {};
    const there = await Promise.all(blobs.map((blob) => exists(join(this.sealedDir(id), blob.id))));
    return blobs.flatMap((blob, i) => (there[i] ? [] : [blob.id]));
  }

  /** Put a blob of the sealed state beside the others. */
  async bring(id: string, blob: string, bytes: Buffer): Promise<void> {
    await writeDurably(join(this.sealedDir(id), blob), bytes);
  }

  /** What there is of a sleeper whose files are given up. */
  async depth(id: string): Promise<"compact" | "cold"> {
    return (await exists(this.sealedDir(id))) ? "compact" : "cold";
  }

  /** A machine that this host has nothing of, with a state that is stored. */
  async adopt(
    id: string,
    state: { manifest: string; golden: GoldenState; shape: Shape; diskOnly: boolean },
  ): Promise<void> {
    const dir = this.#dirOf(id);
    const { golden, manifest, shape, diskOnly } = state;
    await rm(dir, { recursive: true, force: true });
    await mkdir(dir, { recursive: true, mode: 0o700 });
    await writeFile(join(dir, GOLDEN), golden.dir, { mode: 0o600 });
    const nothing = { generation: 0, blobs: [], logicalBytes: 0, ownedBytes: 0 };
    await this.#write(id, { ...nothing, manifest, diskOnly, step: "stored", shed: true, hasMemory: !diskOnly });
    await writeMade(dir, { shape, image: golden.image, slots: golden.slots });
  }

  /**
   * Bring the files of a machine back from its sealed state.
   * @throws DamagedState, and what `fetch` throws; then everything is as it was
   */
  async fill(id: string, manifest: Manifest, fetch: Fetch, diskOnly: boolean): Promise<void> {
    const dir = this.#dirOf(id);
    const filling = join(dir, FILLING);
    const facts = StateFacts.parse(manifest.facts);
    const golden = await this.#golden.find(facts.golden);
    if (!golden) throw new RouseFailure("wake_failed", "The golden image of the saved state is not on this host.");
    await rm(filling, { recursive: true, force: true });
    if (diskOnly) await mkdir(filling, { mode: 0o700 });
    else await this.#golden.cloneOf(golden.dir, filling);
    // The clone's own disk has nothing in it.
    const disk = join(filling, DISK);
    await rm(disk, { force: true });
    const keepsDisk = await exists(join(dir, DISK));
    const parts = {
      ...(diskOnly
        ? {}
        : {
            ram: { path: join(filling, RAM), ready: true },
            "device-state": { path: join(filling, DEVICE_STATE), ready: true },
          }),
      ...(keepsDisk ? {} : { disk: { path: disk, ready: false } }),
    };
    await restore({ manifest, parts, fetch });
    if (!keepsDisk) await rebase(disk, facts.backing, golden);
    const { shape } = Made.parse(JSON.parse(await readFile(join(dir, MADE), "utf8")));
    if (!keepsDisk && shape.diskMiB > facts.shape.diskMiB)
      await run("qemu-img", ["resize", "-q", "-f", "qcow2", disk, `${shape.diskMiB}M`]);
    for (const name of [DISK, RAM, DEVICE_STATE])
      if (await exists(join(filling, name))) await rename(join(filling, name), join(dir, name));
    await this.change(id, { shed: false });
    await rm(filling, { recursive: true, force: true });
  }

  /** A place beside the machine's for a short while: what is left of it goes when the host agent starts. */
  scratchDir(id: string): string {
    return `${this.#dirOf(id)}.scratch.part`;
  }

  /** Make the disk of a saved state at `path`, whosever it is. @throws DamagedState, and what `fetch` throws */
  async restoreDisk(
    manifest: Manifest,
    golden: GoldenState,
    path: string,
    fetch: Fetch,
    signal: AbortSignal,
  ): Promise<void> {
    await restore({ manifest, parts: { disk: { path, ready: false } }, fetch, signal });
    await rebase(path, StateFacts.parse(manifest.facts).backing, golden);
  }

  /** Changes of a note come one after another, each to what the one before made of it. */
  async #write(id: string, note: SealedNote): Promise<void> {
    this.#notes.set(id, note);
    const before = this.#writes.get(id) ?? Promise.resolve();
    const write = before.then(async () => {
      const path = join(this.#dirOf(id), NOTE);
      await writeDurably(`${path}.part`, JSON.stringify(this.#notes.get(id) ?? note));
      await rename(`${path}.part`, path);
      // A note that a power cut took back would wake RAM that is older than the disk.
      await syncFolder(this.#dirOf(id));
    });
    const tail = write.catch(() => undefined);
    this.#writes.set(id, tail);
    await write.finally(() => this.#writes.get(id) === tail && this.#writes.delete(id));
  }
}

/** The golden disk may lie elsewhere than where the disk was sealed. */
async function rebase(disk: string, sealedWith: string, golden: GoldenState): Promise<void> {
  const backing = join(golden.dir, DISK);
  if (sealedWith !== backing)
    await run("qemu-img", ["rebase", "-u", "-f", "qcow2", "-F", "qcow2", "-b", backing, disk]);
}

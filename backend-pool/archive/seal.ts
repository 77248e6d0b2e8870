/**
 * Sealing: the files of a sleeping machine become packs and one manifest, in a local folder. What the base has, what is
 * zero and what an earlier state has already is not stored.
 */
import { hash } from "node:crypto";
import { mkdir, open, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { BlobId, BlobNote } from "../../sdk/contract/archive.ts";
import { exists } from "../paths.ts";
import { assemble, placesOf, type FoundPart, type Row } from "./assembly.ts";
import { changes, readPadded } from "./changes.ts";
import { Kept } from "./compaction.ts";
import { Unsealable } from "./damage.ts";
import { syncFolder, writeDurably } from "./durable-file.ts";
import { HASH_BYTES, NO_STATE, writeManifest, type Facts, type Manifest, type Place, type Unit } from "./manifest.ts";
import { PackWriter } from "./pack.ts";

/** A file of a sleeping machine. */
export interface SealPart {
  readonly name: string;
  readonly path: string;
  /** Bytes of a chunk: `RAM_UNIT` or `FILE_UNIT`. */
  readonly unit: Unit;
  /** What the file is the difference to; `id` is what the manifest will say of it. */
  readonly base: { readonly id: string; readonly path: string } | null;
}

export interface SealOptions {
  readonly parts: readonly SealPart[];
  /** What it has already is not stored again. */
  readonly previous: Manifest | null;
  /** `ManifestKey` of the manifest to be made. */
  readonly key: string;
  readonly facts: Facts;
  /** Made by this call; must not be there yet. `<outDir>.part` is this call's own meanwhile. */
  readonly outDir: string;
  readonly signal?: AbortSignal;
}

/** What was found, bytes of plaintext. */
const SealStats = z.object({
  /** Read of the parts to find what changed; bases not counted. */
  readBytes: z.number(),
  /** Differs from the base, or is not zero where there is none. */
  changedBytes: z.number(),
  /** Was something in the base and is zero now. */
  zeroedBytes: z.number(),
  /** Of the changed ones: lies in the new packs, as it is new, or its old pack was given up. */
  packedBytes: z.number(),
});
export type SealStats = z.infer<typeof SealStats>;

const Sealed = z.object({
  manifest: BlobId,
  /** All packs that the manifest names, then the manifest itself, which is new. The new ones are files of the folder. */
  blobs: z.array(BlobNote),
  /** Size of all parts. */
  logicalBytes: z.number(),
  /** Size of the new blobs. */
  storedBytes: z.number(),
  stats: SealStats,
});
export type Sealed = z.infer<typeof Sealed>;

/** Tells of the sealed state in its folder. Holds no key. */
const NOTE = "sealed.json";

/**
 * Seal a state. The folder appears when all in it is written and synced: it is whole whenever it is there.
 * @throws Unsealable, the reason of an abort, the file system's errors; nothing is left behind then
 */
export async function seal({ parts, previous, key, facts, outDir, signal }: SealOptions): Promise<Sealed> {
  if (await exists(outDir)) throw new Unsealable("The folder for the sealed state is there already.");
  const dir = `${outDir}.part`;
  // A crash may have left one.
  await rm(dir, { recursive: true, force: true });
  await mkdir(dir, { recursive: true, mode: 0o700 });
  try {
    const sealing = new Sealing(dir, previous ?? NO_STATE, signal);
    const manifest = await sealing.manifest(parts, facts);
    const bytes = await writeManifest(manifest, key);
    const id = hash("sha256", bytes, "hex");
    await writeDurably(join(dir, id), bytes);
    const stored = new Set(previous?.packs.map((pack) => pack.id));
    const blobs: BlobNote[] = [
      ...manifest.packs.map((pack) => ({ id: pack.id, bytes: pack.bytes, isNew: !stored.has(pack.id) })),
      { id, bytes: bytes.length, isNew: true },
    ];
    const sealed: Sealed = {
      manifest: id,
      blobs,
      logicalBytes: manifest.parts.reduce((sum, { size }) => sum + size, 0),
      storedBytes: blobs.reduce((sum, blob) => sum + (blob.isNew ? blob.bytes : 0), 0),
      stats: sealing.stats,
    };
    await writeDurably(join(dir, NOTE), JSON.stringify(sealed));
    await syncFolder(dir);
    signal?.throwIfAborted();
    await rename(dir, outDir);
    await syncFolder(dirname(outDir));
    return sealed;
  } catch (fault) {
    await rm(dir, { recursive: true, force: true });
    throw fault;
  }
}

/** The sealed state in a folder; null where there is no folder. */
export async function sealedIn(outDir: string): Promise<Sealed | null> {
  if (!(await exists(outDir))) return null;
  return Sealed.parse(JSON.parse(await readFile(join(outDir, NOTE), "utf8")));
}

/** Chunks that are read again at once. */
const AGAIN_AT_ONCE = 64;

class Sealing {
  readonly stats: SealStats = { readBytes: 0, changedBytes: 0, zeroedBytes: 0, packedBytes: 0 };
  readonly #previous: Manifest;
  readonly #signal: AbortSignal | undefined;
  readonly #writer: PackWriter;
  readonly #kept: Kept;
  /** Where chunks lie in the state before, and in the new packs. By digest. */
  readonly #known: ReadonlyMap<string, Place>;
  readonly #made = new Map<string, Place>();

  constructor(dir: string, previous: Manifest, signal: AbortSignal | undefined) {
    this.#previous = previous;
    this.#signal = signal;
    this.#writer = new PackWriter(dir);
    this.#kept = new Kept(previous);
    this.#known = placesOf(previous);
  }

  async manifest(parts: readonly SealPart[], facts: Facts): Promise<Manifest> {
    const found: FoundPart[] = [];
    for (const part of parts) found.push(await this.#find(part));
    // Only now is it known how much of each old pack is needed.
    const stay = this.#kept.worthwhile();
    for (const [at, { path }] of parts.entries()) {
      const part = found[at];
      if (part) await this.#moveOff(path, part, stay);
    }
    await this.#writer.end();
    const { packs, frames } = this.#previous;
    return assemble(facts, found, [
      { packs: packs.filter((_, number) => stay.has(number)), frames, places: this.#known },
      { packs: this.#writer.packs, frames: this.#writer.frames, places: this.#made },
    ]);
  }

  /** Note what changed in a part, and pack what no state has yet. */
  async #find({ name, path, unit, base }: SealPart): Promise<FoundPart> {
    const rows: Row[] = [];
    const zeroed: number[] = [];
    const { size } = await stat(path);
    for await (const block of changes(path, unit, base?.path ?? null)) {
      this.#signal?.throwIfAborted();
      for (const index of block.changed) {
        const chunk = block.chunk(index);
        const digest = digestOf(chunk);
        const known = this.#known.get(digest);
        if (known) this.#kept.need(known);
        else this.#pack(digest, chunk);
        rows.push({ index, digest });
      }
      zeroed.push(...block.zeroed);
      this.stats.readBytes += block.readBytes;
      this.stats.changedBytes += block.changed.length * unit;
      this.stats.zeroedBytes += block.zeroed.length * unit;
      await this.#writer.write();
    }
    return { name, size, unit, base: base?.id ?? null, rows, zeroed };
  }

  /** Pack what lies in old packs that do not stay; for that it is read again. */
  async #moveOff(path: string, { rows, size, unit }: FoundPart, stay: ReadonlySet<number>): Promise<void> {
    const away = rows.filter(({ digest }) => {
      const known = this.#known.get(digest);
      return known && !stay.has(this.#kept.packOf(known.frame));
    });
    if (away.length === 0) return;
    await using file = await open(path, "r");
    const buffer = Buffer.allocUnsafe(AGAIN_AT_ONCE * unit);
    for (let at = 0; at < away.length; at += AGAIN_AT_ONCE) {
      this.#signal?.throwIfAborted();
      const batch = away
        .slice(at, at + AGAIN_AT_ONCE)
        .map((row, place) => ({ ...row, chunk: buffer.subarray(place * unit, (place + 1) * unit) }));
      await Promise.all(batch.map(({ index, chunk }) => readPadded(file, chunk, index * unit, size)));
      for (const { digest, chunk } of batch) {
        if (digestOf(chunk) !== digest) throw new Unsealable("A file changed while it was sealed.");
        this.#pack(digest, chunk);
      }
      await this.#writer.write();
    }
  }

  #pack(digest: string, chunk: Buffer): void {
    if (this.#made.has(digest)) return;
    this.#made.set(digest, this.#writer.add(chunk));
    this.stats.packedBytes += chunk.length;
  }
}

/** By how much of their SHA-256 chunks are told apart; who could find two of the same would harm only their own state. */
const digestOf = (chunk: Buffer): string => hash("sha256", chunk, "buffer").toString("latin1", 0, HASH_BYTES);

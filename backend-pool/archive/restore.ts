/**
 * Restoring: a manifest becomes files again. On a wake's path: a clone of the base is there already, and only what
 * differs is fetched and written. Nothing is synced, as the blobs stay the truth until the machine sleeps again.
 */
import { webcrypto } from "node:crypto";
import { BaseNeeded, DamagedState } from "./damage.ts";
import type { Manifest, Pack } from "./manifest.ts";
import { openFrame } from "./pack.ts";
import { inParallel } from "./parallel.ts";
import { PartFile } from "./part-file.ts";
import { RestorePlan } from "./restore-plan.ts";

export interface RestoreTarget {
  readonly path: string;
  /** The file is a clone of the part's base, to be changed in place. Otherwise the file is made, and must not be there. */
  readonly ready: boolean;
}

export interface RestoreOptions {
  readonly manifest: Manifest;
  /** By part name. Parts of the manifest that are not named here are left out. */
  readonly parts: Readonly<Record<string, RestoreTarget>>;
  /** Brings a blob; throws a `DamagedState` where it is missing. What it brings is checked. */
  readonly fetch: (blob: string, signal: AbortSignal) => Promise<Buffer>;
  readonly signal?: AbortSignal;
}

export interface Restored {
  readonly fetchedBytes: number;
  /** Zeros included. */
  readonly writtenBytes: number;
}

/** Packs in memory at once, and frames of each. */
const PACKS_AT_ONCE = 4;
const FRAMES_AT_ONCE = 4;

/**
 * Make the files of a state. When this fails, files that it made are gone, and clones are spoilt: remove them.
 * @throws DamagedState, BaseNeeded, what `fetch` throws, the reason of an abort, the file system's errors
 */
export async function restore({ manifest, parts, fetch, signal }: RestoreOptions): Promise<Restored> {
  const wanted = Object.entries(parts).map(([name, target]) => {
    const part = manifest.parts.find((one) => one.name === name);
    if (!part) throw new RangeError(`The state has no part ${name}.`);
    if (part.base !== null && !target.ready) throw new BaseNeeded(name, part.base);
    return { part, ...target };
  });
  const plan = new RestorePlan(
    manifest,
    wanted.map(({ part }) => part),
  );
  const files: PartFile[] = [];
  let fetchedBytes = 0;
  try {
    for (const { part, path, ready } of wanted) files.push(await PartFile.open(part, path, ready));
    const steps = [
      ...files.map((file) => (stop: AbortSignal) => file.clear(stop)),
      ...plan.packs.map((pack) => async (stop: AbortSignal) => {
        const bytes = await fetch(pack.id, stop);
        fetchedBytes += bytes.length;
        await unpack(pack, bytes, manifest, plan, files, stop);
      }),
    ];
    await inParallel(steps, PACKS_AT_ONCE, signal, (step, stop) => step(stop));
    return { fetchedBytes, writtenBytes: files.reduce((sum, file) => sum + file.writtenBytes, 0) };
  } catch (fault) {
    await Promise.all(files.map((file) => file.discard()));
    throw fault;
  } finally {
    await Promise.all(files.map((file) => file.close()));
  }
}

/** Check a pack, and write what is needed of it. */
async function unpack(
  pack: Pack,
  bytes: Buffer,
  { frames }: Manifest,
  plan: RestorePlan,
  files: readonly PartFile[],
  signal: AbortSignal,
): Promise<void> {
  if (bytes.length !== pack.bytes) throw new DamagedState(pack.id, "damaged", "it has another length");
  // By the thread pool, while frames are opened: each of these is authentic for itself.
  const digest = webcrypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>);
  const stored: { frame: number; bytes: Buffer }[] = [];
  for (let frame = pack.begin, at = 0; frame < pack.end; frame++) {
    const length = frames.bytes[frame] ?? 0;
    stored.push({ frame, bytes: bytes.subarray(at, at + length) });
    at += length;
  }
  await inParallel(stored, FRAMES_AT_ONCE, signal, async (one) => {
    const runs = plan.runs(one.frame);
    if (runs.length === 0) return;
    const unit = 2 ** (frames.unitBits[one.frame] ?? 0);
    const plain = await openFrame(pack.key, one.frame - pack.begin, one.bytes, {
      isPacked: frames.packed[one.frame] === 1,
      plainBytes: (frames.chunks[one.frame] ?? 0) * unit,
    }).catch((fault: unknown) => {
      throw new DamagedState(pack.id, "damaged", `frame ${one.frame - pack.begin} is not authentic`, fault);
    });
    for (const run of runs) files[run.part]?.write(run, plain);
  });
  if (Buffer.from(await digest).toString("hex") !== pack.id) {
    throw new DamagedState(pack.id, "damaged", "its bytes are others");
  }
}

/** The manifest of a new state, of what was found in its parts and where that lies. No I/O. */
import {
  HASH_BYTES,
  type Chunks,
  type Frames,
  type Manifest,
  type Pack,
  type Part,
  type Place,
  type Zeros,
} from "./manifest.ts";

/** A changed chunk. */
export interface Row {
  /** Its number in the part. */
  readonly index: number;
  /** `HASH_BYTES` of its SHA-256, a character each. */
  readonly digest: string;
}

/** What a part is, before it is known where its chunks lie. */
export interface FoundPart extends Omit<Part, "chunks" | "zeros"> {
  /** Ascending. */
  readonly rows: readonly Row[];
  /** Numbers of chunks that are zero and were not in the base, ascending. */
  readonly zeroed: readonly number[];
}

/** Packs, and what lies in them. */
export interface Stock {
  readonly packs: readonly Pack[];
  readonly frames: Frames;
  /** By digest. */
  readonly places: ReadonlyMap<string, Place>;
}

/** Where the chunks of a state lie. */
export function placesOf({ parts }: Manifest): Map<string, Place> {
  const places = new Map<string, Place>();
  for (const { chunks } of parts) {
    for (const [row, frame] of chunks.frame.entries()) {
      const digest = chunks.hash.toString("latin1", row * HASH_BYTES, (row + 1) * HASH_BYTES);
      places.set(digest, { frame, slot: chunks.slot[row] ?? 0 });
    }
  }
  return places;
}

/** The manifest of parts whose chunks all lie in the stocks; where several have a chunk, the last one gives it. */
export function assemble(facts: Manifest["facts"], found: readonly FoundPart[], stocks: readonly Stock[]): Manifest {
  const frameCount = stocks.flatMap(({ packs }) => packs).reduce((sum, { begin, end }) => sum + end - begin, 0);
  const frames: Frames = {
    bytes: new Uint32Array(frameCount),
    chunks: new Uint8Array(frameCount),
    unitBits: new Uint8Array(frameCount),
    packed: new Uint8Array(frameCount),
  };
  const packs: Pack[] = [];
  const places = new Map<string, Place>();
  let count = 0;
  for (const stock of stocks) {
    const numbers = new Map<number, number>();
    for (const { begin, end, ...pack } of stock.packs) {
      frames.bytes.set(stock.frames.bytes.subarray(begin, end), count);
      frames.chunks.set(stock.frames.chunks.subarray(begin, end), count);
      frames.unitBits.set(stock.frames.unitBits.subarray(begin, end), count);
      frames.packed.set(stock.frames.packed.subarray(begin, end), count);
      for (let frame = begin; frame < end; frame++) numbers.set(frame, count + frame - begin);
      packs.push({ ...pack, begin: count, end: count + end - begin });
      count += end - begin;
    }
    for (const [digest, { frame, slot }] of stock.places) {
      const number = numbers.get(frame);
      if (number !== undefined) places.set(digest, { frame: number, slot });
    }
  }
  const parts = found.map(({ rows, zeroed, ...part }) => ({
    ...part,
    chunks: chunksOf(rows, places),
    zeros: runsOf(zeroed),
  }));
  return { facts, parts, packs, frames };
}

function chunksOf(rows: readonly Row[], places: ReadonlyMap<string, Place>): Chunks {
  const chunks: Chunks = {
    index: Uint32Array.from(rows, ({ index }) => index),
    frame: new Uint32Array(rows.length),
    slot: new Uint8Array(rows.length),
    hash: Buffer.from(rows.map(({ digest }) => digest).join(""), "latin1"),
  };
  for (const [at, { digest }] of rows.entries()) {
    const place = places.get(digest);
    if (!place) throw new Error("A changed chunk is in no pack.");
    chunks.frame[at] = place.frame;
    chunks.slot[at] = place.slot;
  }
  return chunks;
}

function runsOf(numbers: readonly number[]): Zeros {
  const start = numbers.filter((number, at) => numbers[at - 1] !== number - 1);
  const end = numbers.filter((number, at) => numbers[at + 1] !== number + 1);
  return { start: Uint32Array.from(start), count: Uint32Array.from(end, (last, at) => last + 1 - (start[at] ?? 0)) };
}

/** Which chunks of a file are others than its base has, block by block. */
import { open, type FileHandle } from "node:fs/promises";
import { Unsealable } from "./damage.ts";
import { dataExtents, joined, pieces } from "./extents.ts";
import { FILE_UNIT, type Unit } from "./manifest.ts";

/** Read at once, bytes. */
const BLOCK_BYTES = 4_194_304;
/** Compared at once, bytes: most of a sleeper's RAM is as in its base, and few long comparisons are quicker. */
const GRAIN_BYTES = FILE_UNIT;

const zeros = Buffer.alloc(GRAIN_BYTES);

/** A stretch of the file, valid until the next is asked for. Numbers are those of chunks in the file. */
export interface Block {
  readonly readBytes: number;
  /** Chunks that differ and are not zero. */
  readonly changed: readonly number[];
  /** Chunks that are zero, where the base has something. */
  readonly zeroed: readonly number[];
  /** The bytes of a chunk of this block; beyond the end of the file they are zero. */
  chunk(index: number): Buffer;
}

/**
 * Compare a file with its base, or with zeros where there is none. Takes memory for two blocks.
 * @throws Unsealable when the file ends before its end
 */
export async function* changes(path: string, unit: Unit, basePath: string | null): AsyncGenerator<Block, void, void> {
  await using file = await open(path, "r");
  await using base = basePath === null ? null : await open(basePath, "r");
  const { size } = await file.stat();
  const baseSize = base ? Math.min((await base.stat()).size, size) : 0;
  const [own, others] = await Promise.all([dataExtents(path), basePath === null ? [] : dataExtents(basePath)]);
  const mine = Buffer.allocUnsafe(BLOCK_BYTES);
  const theirs = base ? Buffer.allocUnsafe(BLOCK_BYTES) : null;
  for (const { start, end } of pieces(joined([...own, ...others], { grain: GRAIN_BYTES, size }), BLOCK_BYTES)) {
    const length = Math.ceil((end - start) / GRAIN_BYTES) * GRAIN_BYTES;
    await Promise.all([
      readPadded(file, mine.subarray(0, length), start, size),
      base && theirs && readPadded(base, theirs.subarray(0, length), start, baseSize),
    ]);
    const changed: number[] = [];
    const zeroed: number[] = [];
    for (let grain = 0; grain < length; grain += GRAIN_BYTES) {
      if (isSame(mine, theirs, grain, GRAIN_BYTES)) continue;
      for (let at = grain; at < grain + GRAIN_BYTES; at += unit) {
        if (isSame(mine, theirs, at, unit)) continue;
        (isSame(mine, null, at, unit) ? zeroed : changed).push((start + at) / unit);
      }
    }
    const chunk = (index: number) => mine.subarray(index * unit - start, (index + 1) * unit - start);
    yield { readBytes: end - start, changed, zeroed, chunk };
  }
}

/** Whether two buffers are equal in a stretch; null stands for zeros. */
function isSame(a: Buffer, b: Buffer | null, at: number, length: number): boolean {
  return b ? a.compare(b, at, at + length, at, at + length) === 0 : a.compare(zeros, 0, length, at, at + length) === 0;
}

/**
 * Fill a buffer from a file of that size, with zeros beyond its end.
 * @throws Unsealable when the file is shorter
 */
export async function readPadded(file: FileHandle, into: Buffer, position: number, size: number): Promise<void> {
  const wanted = Math.max(0, Math.min(into.length, size - position));
  for (let got = 0; got < wanted;) {
    const { bytesRead } = await file.read(into, got, wanted - got, position + got);
    if (bytesRead === 0) throw new Unsealable("A file became shorter while it was sealed.");
    got += bytesRead;
  }
  into.fill(0, wanted);
}

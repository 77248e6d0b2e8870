/** Where sparse files hold data, so that holes need not be read. */
import { stat } from "node:fs/promises";
import { z } from "zod";
import { run } from "../process.ts";

/** A stretch of a file, bytes. */
export interface Extent {
  readonly start: number;
  readonly end: number;
}

const SMALL_BYTES = 1_048_576;

const MappedExtents = z.array(z.object({ start: z.int().min(0), length: z.int().min(0), data: z.boolean() }));

/**
 * Stretches of a file that may hold something else than zeros, ascending and apart. The whole file where that can't be
 * told: more to read, and no other result.
 */
export async function dataExtents(path: string): Promise<Extent[]> {
  const { size, blocks } = await stat(path);
  if (size === 0) return [];
  // Not worth a process: small, or without holes.
  if (size <= SMALL_BYTES || blocks * 512 >= size) return [{ start: 0, end: size }];
  try {
    // -U: a process that has the file open does not matter here.
    const { stdout } = await run("qemu-img", ["map", "--output=json", "-f", "raw", "-U", path]);
    const mapped = MappedExtents.parse(JSON.parse(stdout));
    return joined(
      mapped.filter(({ data }) => data).map(({ start, length }) => ({ start, end: start + length })),
      { grain: 1, size },
    );
  } catch {
    return [{ start: 0, end: size }];
  }
}

/** The union of extents, widened to multiples of `grain` and cut off at `size`. */
export function joined(extents: readonly Extent[], { grain, size }: { grain: number; size: number }): Extent[] {
  const union: { start: number; end: number }[] = [];
  for (const extent of extents.toSorted((a, b) => a.start - b.start)) {
    const start = Math.floor(extent.start / grain) * grain;
    const end = Math.min(Math.ceil(extent.end / grain) * grain, size);
    const last = union.at(-1);
    if (last && start <= last.end) last.end = Math.max(last.end, end);
    else if (start < end) union.push({ start, end });
  }
  return union;
}

/** The same stretches in pieces of at most `bytes`. */
export function pieces(extents: readonly Extent[], bytes: number): Extent[] {
  return extents.flatMap(({ start, end }) =>
    Array.from({ length: Math.ceil((end - start) / bytes) }, (_, at) => ({
      start: start + at * bytes,
      end: Math.min(start + (at + 1) * bytes, end),
    })),
  );
}

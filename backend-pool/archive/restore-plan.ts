/** Which packs a restore needs, and what goes where out of each frame. No I/O. */
import type { Manifest, Pack, Part } from "./manifest.ts";

/** Chunks of a frame that lie one after the other in a part. */
export interface Run {
  /** Number of the part. */
  readonly part: number;
  /** Of the first chunk in the part. */
  readonly index: number;
  /** Of each chunk in the frame. */
  readonly slots: number[];
}

export class RestorePlan {
  /** Packs that have something for the parts. */
  readonly packs: readonly Pack[];
  readonly #parts: readonly Part[];
  /** Where the chunks of each frame begin in the two lists below; one entry more than there are frames. */
  readonly #begin: Uint32Array;
  /** Chunks by frame: number of the part, and row in its table. */
  readonly #part: Uint8Array;
  readonly #row: Uint32Array;

  constructor({ packs, frames }: Manifest, parts: readonly Part[]) {
    this.#parts = parts;
    // A counting sort: it keeps the order of parts and rows within a frame.
    this.#begin = new Uint32Array(frames.bytes.length + 1);
    for (const { chunks } of parts) for (const frame of chunks.frame) add(this.#begin, frame + 1, 1);
    for (let frame = 0; frame < frames.bytes.length; frame++) add(this.#begin, frame + 1, this.#begin[frame] ?? 0);
    const next = this.#begin.slice();
    const total = this.#begin.at(-1) ?? 0;
    this.#part = new Uint8Array(total);
    this.#row = new Uint32Array(total);
    for (const [number, { chunks }] of parts.entries()) {
      for (const [row, frame] of chunks.frame.entries()) {
        const at = next[frame] ?? 0;
        this.#part[at] = number;
        this.#row[at] = row;
        next[frame] = at + 1;
      }
    }
    this.packs = packs.filter(({ begin, end }) => this.#begin[begin] !== this.#begin[end]);
  }

  /** What to write out of a frame. Empty for one that is not needed. */
  runs(frame: number): Run[] {
    const runs: Run[] = [];
    for (let at = this.#begin[frame] ?? 0; at < (this.#begin[frame + 1] ?? 0); at++) {
      const part = this.#part[at] ?? 0;
      const row = this.#row[at] ?? 0;
      const chunks = this.#parts[part]?.chunks;
      const index = chunks?.index[row] ?? 0;
      const slot = chunks?.slot[row] ?? 0;
      const last = runs.at(-1);
      if (last?.part === part && last.index + last.slots.length === index) last.slots.push(slot);
      else runs.push({ part, index, slots: [slot] });
    }
    return runs;
  }
}

function add(counts: Uint32Array, at: number, amount: number): void {
  counts[at] = (counts[at] ?? 0) + amount;
}

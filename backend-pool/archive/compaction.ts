/** Which packs of an earlier state are worth being named on. No I/O. */
import { FRAME_BYTES, RAM_UNIT, type Manifest, type Place } from "./manifest.ts";

/** With more packs than that below a quarter of the usual size, their chunks go into new ones: a wake fetches each. */
const SMALL_PACKS_MAX = 16;
const SMALL_PACK_BYTES = 1_048_576;
/** Chunks that a frame has at most. */
const SLOTS = FRAME_BYTES / RAM_UNIT;

/** What a new state still needs of the packs of the state before. */
export class Kept {
  readonly #previous: Manifest;
  /** Number of the pack of each frame. */
  readonly #packOf: Uint32Array;
  /** By pack: plaintext bytes that the new state needs. */
  readonly #needed: Float64Array;
  readonly #seen: Uint8Array;

  constructor(previous: Manifest) {
    this.#previous = previous;
    this.#packOf = new Uint32Array(previous.frames.bytes.length);
    for (const [number, { begin, end }] of previous.packs.entries()) this.#packOf.fill(number, begin, end);
    this.#needed = new Float64Array(previous.packs.length);
    this.#seen = new Uint8Array(previous.frames.bytes.length * SLOTS);
  }

  /** The new state has that chunk. */
  need({ frame, slot }: Place): void {
    const seen = frame * SLOTS + slot;
    if (this.#seen[seen] === 1) return;
    this.#seen[seen] = 1;
    const pack = this.packOf(frame);
    this.#needed[pack] = (this.#needed[pack] ?? 0) + 2 ** (this.#previous.frames.unitBits[frame] ?? 0);
  }

  packOf(frame: number): number {
    return this.#packOf[frame] ?? 0;
  }

  /**
   * Numbers of the packs that the new state should name: at least half of what each holds is needed. So what
   * is stored for a state is at most about twice what it is, however often it changes.
   */
  worthwhile(): ReadonlySet<number> {
    const { packs, frames } = this.#previous;
    const alive = [...packs.entries()].filter(([number, { begin, end }]) => {
      let held = 0;
      for (let frame = begin; frame < end; frame++) {
        held += (frames.chunks[frame] ?? 0) * 2 ** (frames.unitBits[frame] ?? 0);
      }
      return (this.#needed[number] ?? 0) * 2 >= held;
    });
    const small = alive.filter(([, { bytes }]) => bytes < SMALL_PACK_BYTES);
    const kept = small.length > SMALL_PACKS_MAX ? alive.filter((pack) => !small.includes(pack)) : alive;
    return new Set(kept.map(([number]) => number));
  }
}

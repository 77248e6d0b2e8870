/** The best of many, and two orders made one. Pure. */

export interface Ranked {
  readonly seq: number;
  /** The larger the better. */
  readonly score: number;
}

/** Damps how much the very first places count (reciprocal rank fusion). */
const DAMPING = 60;

/** Keeps the best `size` of what it is shown. Of equal ones the newer is better. */
export class Best {
  readonly #size: number;
  #kept: Ranked[] = [];

  constructor(size: number) {
    this.#size = size;
  }

  /** Whether one with that score could be among them. */
  wants(score: number): boolean {
    const least = this.#kept[this.#size - 1];
    return least === undefined || score >= least.score;
  }

  add(one: Ranked): void {
    if (!this.wants(one.score)) return;
    let at = this.#kept.length;
    while (at > 0 && isBetter(one, this.#kept[at - 1])) at -= 1;
    this.#kept.splice(at, 0, one);
    this.#kept.length = Math.min(this.#kept.length, this.#size);
  }

  /** The best first. */
  get all(): readonly Ranked[] {
    return this.#kept;
  }
}

/** What is high in either order, and higher what is in both. Each has the best first. */
export function fuse(a: readonly Ranked[], b: readonly Ranked[], size: number): readonly Ranked[] {
  const scores = new Map<number, number>();
  for (const order of [a, b])
    for (const [place, { seq }] of order.entries()) scores.set(seq, (scores.get(seq) ?? 0) + 1 / (DAMPING + place + 1));
  return [...scores]
    .map(([seq, score]) => ({ seq, score }))
    .toSorted((x, y) => (isBetter(x, y) ? -1 : 1))
    .slice(0, size);
}

function isBetter(a: Ranked, b: Ranked | undefined): boolean {
  return b === undefined || a.score > b.score || (a.score === b.score && a.seq > b.seq);
}

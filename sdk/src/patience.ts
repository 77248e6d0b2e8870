/** How long failures in a row are borne, milliseconds. */
const FAILING_MS = 300_000;
/** Longest wait between two tries, milliseconds, half as long again at most. */
const WAIT_MOST_MS = 5000;

/** Bears failures in a row: for five minutes, with longer and longer waits between them. */
export class Patience {
  readonly #firstMs: number;
  #failures = 0;
  #since = 0;

  /** @param firstMs the first wait, milliseconds */
  constructor(firstMs: number) {
    this.#firstMs = firstMs;
  }

  /** Something went well. */
  reset(): void {
    this.#failures = 0;
  }

  /** How long to wait before the next try, milliseconds. @throws the failure once it has gone on for too long */
  next(failure: unknown): number {
    const now = performance.now();
    if (this.#failures === 0) this.#since = now;
    if (now - this.#since > FAILING_MS) throw failure;
    const wait = Math.min(WAIT_MOST_MS, this.#firstMs * 2 ** this.#failures);
    this.#failures += 1;
    return wait * (0.5 + Math.random());
  }
}

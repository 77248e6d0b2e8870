/** What a file watch found: the newest of it, read by any number of cursors. A cursor counts bytes of what was told. Pure. */

/** Bytes that are kept. */
const KEPT_BYTES = 1_048_576;

export interface Told {
  readonly k: string;
  readonly [field: string]: unknown;
}

interface Entry {
  readonly told: Told;
  /** Cursors of what comes before it and of what follows. */
  readonly from: number;
  readonly to: number;
}

export class WatchLog {
  #entries: Entry[] = [];
  readonly #waiting = new Set<() => void>();
  /** Cursor behind the newest. */
  total = 0;
  ended = false;

  append(told: Told): void {
    if (this.ended) return;
    const to = this.total + Buffer.byteLength(JSON.stringify(told));
    this.#entries.push({ told, from: this.total, to });
    this.total = to;
    if (told.k === "end" || told.k === "failure") this.ended = true;
    let gone = 0;
    for (const { to: end } of this.#entries) {
      if (this.total - end < KEPT_BYTES || gone === this.#entries.length - 1) break;
      gone++;
    }
    if (gone > 0) this.#entries = this.#entries.slice(gone);
    for (const resolve of [...this.#waiting]) resolve();
  }

  /** What follows a cursor, each with the cursor behind it; `lost`: bytes in between that are kept no more. */
  read(cursor: number): { readonly lost: number; readonly told: (Told & { cursor: number })[] } {
    const from = Math.min(cursor, this.total);
    const rest = this.#entries.filter(({ to }) => to > from);
    const first = rest[0]?.from ?? this.total;
    return { lost: Math.max(0, first - from), told: rest.map(({ told, to }) => ({ ...told, cursor: to })) };
  }

  /** Resolves when there is more than a cursor has, or nothing more comes. */
  change(cursor: number, signal: AbortSignal): Promise<void> {
    if (this.total > cursor || this.ended || signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        this.#waiting.delete(done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      this.#waiting.add(done);
      signal.addEventListener("abort", done);
    });
  }
}

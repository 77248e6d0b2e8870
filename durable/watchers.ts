/** Calls that wait for a thing to be something else, by its id. */
export class Watchers {
  readonly #waiting = new Map<string, Set<() => void>>();

  /** Resolves when it is as wanted, or the time is up. */
  until(id: string, isWanted: () => boolean, waitMs: number): Promise<void> {
    if (waitMs <= 0 || isWanted()) return Promise.resolve();
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(id) ?? new Set();
      this.#waiting.set(id, waiting);
      const look = () => {
        if (isWanted()) finish();
      };
      const finish = () => {
        clearTimeout(timer);
        waiting.delete(look);
        if (waiting.size === 0) this.#waiting.delete(id);
        resolve();
      };
      const timer = setTimeout(finish, waitMs);
      waiting.add(look);
    });
  }

  /** It is something else now. */
  changed(id: string): void {
    for (const look of this.#waiting.get(id) ?? []) look();
  }
}

/** So many things at once, the others in their turn. Pure. */
export class Gate {
  readonly #most: number;
  #under = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(most: number) {
    this.#most = most;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#under >= this.#most) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#under++;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#under--;
    }
  }
}

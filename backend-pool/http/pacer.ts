/**
 * Paces new connections into a guest port. QEMU accepts every connection at once, but the guest's kernel drops those
 * that overflow the program's listen backlog (5 in common servers), and the next try then comes after seconds. So only
 * a few are on their way at a time; each makes room when it is answered, or was surely accepted by then.
 */

/** Connections on their way at once; below the smallest common backlog. */
const AT_ONCE = 4;
/** By then a program that runs has accepted: so many times what it lately took to answer, within limits, milliseconds. */
const ACCEPTED = { times: 3, least: 20, most: 500 } as const;

export class Pacer {
  #open = 0;
  /** Smoothed time from a connection's start to its first byte, in this run; null before the first. */
  #answerMs: number | null = null;
  readonly #waiting: (() => void)[] = [];

  /** Resolves when a connection may be opened; call the answer when its first byte came (true) or it is over (false). */
  async enter(): Promise<(answered: boolean) => void> {
    if (this.#open >= AT_ONCE) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#open++;
    const began = performance.now();
    let left = false;
    const leave = (answered: boolean) => {
      if (answered) {
        const took = performance.now() - began;
        this.#answerMs = this.#answerMs === null ? took : 0.7 * this.#answerMs + 0.3 * took;
      }
      if (left) return;
      left = true;
      clearTimeout(timer);
      const next = this.#waiting.shift();
      // The place goes to the next one, so the count stays.
      if (next) next();
      else this.#open--;
    };
    const accepted = this.#answerMs === null ? ACCEPTED.most : this.#answerMs * ACCEPTED.times;
    const timer = setTimeout(() => leave(false), Math.min(ACCEPTED.most, Math.max(ACCEPTED.least, accepted)));
    return leave;
  }
}

/** What must hold at every moment of a simulation; a run in which one of these broke has failed. */
export class Invariants {
  readonly #broken = new Map<string, { count: number; first: string }>();

  /** @param example made only when the rule is broken */
  check(holds: boolean, rule: string, example: () => string): void {
    if (holds) return;
    const known = this.#broken.get(rule);
    if (known) known.count++;
    else this.#broken.set(rule, { count: 1, first: example() });
  }

  /** One line per broken rule. */
  get violations(): string[] {
    return [...this.#broken].map(([rule, { count, first }]) => `${rule}: broken ${count} times, first by ${first}`);
  }
}

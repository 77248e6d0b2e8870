/** What was sent and what was acknowledged of a numbered sequence, and whether what is found keeps that promise. */
export class Ledger {
  readonly #sent = new Set<number>();
  #acknowledged: number[] = [];
  #durable = 0;
  #last = 0;

  /** The next number to send. */
  begin(): number {
    this.#last += 1;
    this.#sent.add(this.#last);
    return this.#last;
  }

  acknowledge(n: number): void {
    this.#acknowledged.push(n);
  }

  /** How many are acknowledged now: hand it to `durable` when a sync that was sent after it is acknowledged. */
  mark(): number {
    return this.#acknowledged.length;
  }

  durable(mark: number): void {
    this.#durable = Math.max(this.#durable, mark);
  }

  /** Faults of what is found; none when the promise is kept. `crashed`: only what was synced need be there. */
  judge(found: readonly number[], crashed: boolean): string[] {
    const faults: string[] = [];
    const place = new Map<number, number>();
    for (const [at, n] of found.entries()) {
      if (!this.#sent.has(n)) faults.push(`${n} was never sent`);
      else if (place.has(n)) faults.push(`${n} is there twice`);
      place.set(n, at);
    }
    let before = -1;
    for (const n of crashed ? this.#acknowledged.slice(0, this.#durable) : this.#acknowledged) {
      const at = place.get(n);
      if (at === undefined) faults.push(`${n} was acknowledged and is lost`);
      else if (at < before) faults.push(`${n} is out of order`);
      else before = at;
    }
    return faults;
  }

  /** Take what is found as the new truth, after a crash that may have cost some. It has been read from the disk. */
  adopt(found: readonly number[]): void {
    this.#acknowledged = [...found];
    this.#durable = found.length;
  }
}

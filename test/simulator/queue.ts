/** Events of a virtual clock, earliest first; those of one moment in the order they came, so that a seed fixes all. */
export class EventQueue {
  /** The event that `pop` took last. */
  at = 0;
  kind = 0;
  subject = 0;
  detail = 0;

  #size = 0;
  #sequence = 0;
  // Columns of a binary heap: millions of events as objects would cost more than all that they do.
  #ats = new Float64Array(1024);
  #orders = new Float64Array(1024);
  #kinds = new Uint8Array(1024);
  #subjects = new Int32Array(1024);
  #details = new Int32Array(1024);

  /** When the next one is due; Infinity when there is none. */
  get dueAt(): number {
    return this.#size === 0 ? Infinity : (this.#ats[0] ?? Infinity);
  }

  push(at: number, kind: number, subject: number, detail = 0): void {
    if (this.#size === this.#ats.length) this.#grow();
    const order = this.#sequence++;
    let hole = this.#size++;
    while (hole > 0) {
      const parent = (hole - 1) >> 1;
      if (this.#isBefore(parent, at, order)) break;
      this.#move(parent, hole);
      hole = parent;
    }
    this.#put(hole, at, order, kind, subject, detail);
  }

  /** Take the earliest event. false: there is none. */
  pop(): boolean {
    if (this.#size === 0) return false;
    this.at = this.#ats[0] ?? 0;
    this.kind = this.#kinds[0] ?? 0;
    this.subject = this.#subjects[0] ?? 0;
    this.detail = this.#details[0] ?? 0;
    const last = --this.#size;
    const at = this.#ats[last] ?? 0;
    const order = this.#orders[last] ?? 0;
    let hole = 0;
    for (;;) {
      let child = 2 * hole + 1;
      if (child >= last) break;
      const right = child + 1;
      if (right < last && this.#isBefore(right, this.#ats[child] ?? 0, this.#orders[child] ?? 0)) child = right;
      if (!this.#isBefore(child, at, order)) break;
      this.#move(child, hole);
      hole = child;
    }
    this.#put(hole, at, order, this.#kinds[last] ?? 0, this.#subjects[last] ?? 0, this.#details[last] ?? 0);
    return true;
  }

  #isBefore(index: number, at: number, order: number): boolean {
    const other = this.#ats[index] ?? 0;
    return other < at || (other === at && (this.#orders[index] ?? 0) < order);
  }

  #move(from: number, to: number): void {
    this.#ats[to] = this.#ats[from] ?? 0;
    this.#orders[to] = this.#orders[from] ?? 0;
    this.#kinds[to] = this.#kinds[from] ?? 0;
    this.#subjects[to] = this.#subjects[from] ?? 0;
    this.#details[to] = this.#details[from] ?? 0;
  }

  #put(index: number, at: number, order: number, kind: number, subject: number, detail: number): void {
    this.#ats[index] = at;
    this.#orders[index] = order;
    this.#kinds[index] = kind;
    this.#subjects[index] = subject;
    this.#details[index] = detail;
  }

  #grow(): void {
    const size = this.#ats.length * 2;
    const bigger = <T extends { set(from: T): void }>(to: T, from: T): T => {
      to.set(from);
      return to;
    };
    this.#ats = bigger(new Float64Array(size), this.#ats);
    this.#orders = bigger(new Float64Array(size), this.#orders);
    this.#kinds = bigger(new Uint8Array(size), this.#kinds);
    this.#subjects = bigger(new Int32Array(size), this.#subjects);
    this.#details = bigger(new Int32Array(size), this.#details);
  }
}

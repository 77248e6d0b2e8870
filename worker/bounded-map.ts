/** A map that forgets its oldest entries; in an isolate nothing may grow without end. */
export class BoundedMap<V> {
  readonly #max: number;
  readonly #entries = new Map<string, V>();

  constructor(max: number) {
    this.#max = max;
  }

  get(key: string): V | undefined {
    return this.#entries.get(key);
  }

  set(key: string, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#max) return;
    for (const oldest of this.#entries.keys()) {
      this.#entries.delete(oldest);
      break;
    }
  }

  deleteWhere(holds: (value: V, key: string) => boolean): void {
    for (const [key, value] of this.#entries) if (holds(value, key)) this.#entries.delete(key);
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }
}

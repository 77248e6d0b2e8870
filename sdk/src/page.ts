/**
 * One page of a list, and the way to the next.
 *
 * @example
 * const page = await Sandbox.list({ labels: { kind: "assistant" } });
 * for await (const sandbox of page) console.log(sandbox.name, sandbox.state);
 */
export class Page<T> implements AsyncIterable<T> {
  /** The items of this page. */
  readonly data: readonly T[];
  /** Whether there is a next page. */
  readonly hasMore: boolean;
  readonly #fetchNext: (() => Promise<Page<T>>) | null;

  /** @internal */
  constructor(data: readonly T[], fetchNext: (() => Promise<Page<T>>) | null) {
    this.data = data;
    this.hasMore = fetchNext !== null;
    this.#fetchNext = fetchNext;
  }

  /** The next page, or null after the last. */
  async next(): Promise<Page<T> | null> {
    return this.#fetchNext === null ? null : await this.#fetchNext();
  }

  /** All items from this page on. */
  async toArray(): Promise<T[]> {
    const all: T[] = [];
    for await (const item of this) all.push(item);
    return all;
  }

  /** All items from this page on; later pages are fetched when they are reached. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    yield* this.data;
    for (let page = await this.next(); page !== null; page = await page.next()) yield* page.data;
  }
}

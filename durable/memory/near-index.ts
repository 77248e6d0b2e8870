/**
 * An index of embeddings beside a memory, where the edge has one bound (Cloudflare Vectorize, metric cosine). It names
 * candidates, which are then compared exactly. It learns of changes late, so what it may not know yet is compared as well.
 */
import type { SearchMemory } from "../../sdk/contract/memory.ts";
import { backoffMs } from "../backoff.ts";
import { whereOf } from "./record.ts";
import type { MemoryStore } from "./store.ts";
import { normalised } from "./vector.ts";

/** So few embeddings are compared one by one at once: an index would not be quicker. */
const COMPARED_AT_ONCE = 2000;
/** What an index names at most. */
const CANDIDATES = 100;
/** Changes told in one call. */
const BATCH = 500;
/** Between what this object and what the index calls now, milliseconds. */
const CLOCKS_MS = 60_000;
const AGAIN_MS = 5000;

export class NearIndex {
  readonly #index: Vectorize;
  readonly #store: MemoryStore;
  /** Ids are one for all memories of the index. */
  readonly #namespace: string;
  #dimensions: Promise<number> | null = null;
  /** The newest change that it took, and the change of ours. */
  #last = { mutation: "", change: 0 };
  #failures = 0;
  #waits = 0;

  constructor(index: Vectorize, store: MemoryStore, objectId: string) {
    this.#index = index;
    this.#store = store;
    this.#namespace = objectId.slice(0, 32);
  }

  /** Numbers of entries among which the nearest are; null: all have to be compared. */
  async candidates({ embedding, filter = {} }: SearchMemory): Promise<readonly number[] | null> {
    // It would name what a filter leaves out.
    if (!embedding || whereOf(filter).bindings.length > 0) return null;
    const { vectors } = this.#store.held;
    if (vectors <= COMPARED_AT_ONCE) return null;
    const { unindexed } = this.#store;
    if (vectors - unindexed.length <= COMPARED_AT_ONCE) return null;
    try {
      const vector = normalised(embedding);
      if ((await this.#size()) !== vector.length) return null;
      const { matches } = await this.#index.query([...vector], { topK: CANDIDATES, namespace: this.#namespace });
      return [...new Set([...matches.map(({ id }) => Number(id.slice(id.indexOf("-") + 1))), ...unindexed])];
    } catch {
      return null;
    }
  }

  /**
   * Tell it of changes.
   * @returns when to do so again, milliseconds from now; null: it knows of all
   */
  async push(): Promise<number | null> {
    try {
      const next = await this.#push();
      this.#failures = 0;
      return next;
    } catch {
      return backoffMs(AGAIN_MS, this.#failures++);
    }
  }

  /** Take all of the memory out of it, for good. @throws when it could not be asked: to be done again */
  async clear(): Promise<void> {
    const seqs = this.#store.everIndexed();
    for (let from = 0; from < seqs.length; from += BATCH)
      await this.#index.deleteByIds(seqs.slice(from, from + BATCH).map((seq) => this.#id(seq)));
  }

  async #push(): Promise<number | null> {
    const store = this.#store;
    const changes = store.untold(BATCH);
    const now = Date.now();
    if (changes.length > 0) {
      const size = await this.#size();
      const put = changes.filter(({ vector }) => vector?.length === size);
      const values = put.map(({ seq, vector }) => ({
        ...{ id: this.#id(seq), namespace: this.#namespace },
        values: [...(vector ?? [])],
      }));
      const gone = changes.filter(({ vector }) => vector === null).map(({ seq }) => this.#id(seq));
      let mutation = "";
      if (values.length > 0) mutation = (await this.#index.upsert(values)).mutationId;
      if (gone.length > 0) mutation = (await this.#index.deleteByIds(gone)).mutationId;
      const numbers = changes.map(({ change }) => change);
      store.told(numbers, now);
      this.#last = { mutation, change: Math.max(...numbers) };
      this.#waits = 0;
      if (changes.length === BATCH) return 0;
    }
    const { processedUpToDatetime, processedUpToMutation } = await this.#index.describe();
    const { mutation, change } = this.#last;
    const isAll = mutation !== "" && String(processedUpToMutation) === mutation;
    const left = store.settled(isAll ? change : 0, new Date(processedUpToDatetime).getTime() - CLOCKS_MS);
    return left ? backoffMs(AGAIN_MS, this.#waits++) : null;
  }

  #id(seq: number): string {
    return `${this.#namespace}-${seq}`;
  }

  async #size(): Promise<number> {
    this.#dimensions ??= this.#index.describe().then(({ dimensions }) => dimensions);
    try {
      return await this.#dimensions;
    } catch (error) {
      this.#dimensions = null;
      throw error;
    }
  }
}

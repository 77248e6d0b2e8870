/**
 * One memory: an agent's, or one that an organisation's agents share. Everything that is added is stored before it is
 * acknowledged, and in the order in which it comes: this object is the only writer.
 */
import { DurableObject } from "cloudflare:workers";
import {
  MEMORY_CURSOR,
  memoryLimits,
  type MemoryEntry,
  type MemoryFilter,
  type MemoryHits,
  type MemoryList,
  type MemoryUsage,
  type SearchMemory,
  type UpdateMemory,
} from "../../sdk/contract/memory.ts";
import { refuse, type Result } from "../result.ts";
import type { Addition, MemoryApi, MemoryPageAsk, Writer } from "./api.ts";
import { NearIndex } from "./near-index.ts";
import { nextId, otherDimension, shown, sizeOf, whereOf, type EntryRecord } from "./record.ts";
import { search } from "./search.ts";
import { MemoryStore } from "./store.ts";
import { normalised } from "./vector.ts";

/** A page ends where it has so many bytes, by what entries count. */
const PAGE_BYTES = 4 * 1_048_576;

type Shown = Result<{ entry: MemoryEntry }>;

const notFound = refuse("memory_not_found", "There is no such memory.");
const otherRequest = refuse(
  "idempotency_key_reused",
  "The idempotency id was used for another memory by the same author.",
);

export class MemoryObject extends DurableObject<Env> implements MemoryApi {
  readonly #store: MemoryStore;
  readonly #near: NearIndex | null;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#store = new MemoryStore(ctx, env.MEMORY_INDEX !== undefined);
    this.#near = env.MEMORY_INDEX ? new NearIndex(env.MEMORY_INDEX, this.#store, ctx.id.toString()) : null;
  }

  async add(writer: Writer, additions: readonly Addition[]): Promise<Result<{ entries: MemoryEntry[] }>> {
    const store = this.#store;
    if (store.isClosed) return refuse("not_found", "What the memory was of is deleted.");
    const isOld = this.#isOld(writer);
    if (isOld) return isOld;
    const author = writer.author.id;
    /** What each is, as far as it is known already. */
    const known = new Map<string, string>();
    for (const { key, fingerprint } of additions) {
      if (key === null) continue;
      const before = store.onceBy(author, key)?.fingerprint ?? known.get(key);
      if (before !== undefined && before !== fingerprint) return otherRequest;
      known.set(key, fingerprint);
    }
    const fault = this.#fault(additions.filter(({ key }) => key === null || !store.onceBy(author, key)));
    if (fault) return fault;
    store.open();
    const entries = store.transaction(() => {
      this.#note(writer);
      return additions.map((addition) => this.#addOne(writer, addition));
    });
    await this.#tellIndex();
    return { ok: true, entries };
  }

  async search(ask: SearchMemory): Promise<Result<{ hits: MemoryHits }>> {
    const candidates = this.#near && (await this.#near.candidates(ask));
    return search(this.#store, ask, candidates);
  }

  async list({ filter, order, limit, cursor, embeddings }: MemoryPageAsk): Promise<MemoryList | null> {
    if (cursor !== null && !MEMORY_CURSOR.test(cursor)) return null;
    const data: MemoryEntry[] = [];
    let bytes = 0;
    for (const record of this.#store.entries(whereOf(filter), order, cursor ?? "")) {
      bytes += record.bytes;
      // At least one, so that a list goes on.
      if (data.length === limit || (data.length > 0 && bytes > PAGE_BYTES))
        return { data, nextCursor: data.at(-1)?.id ?? null };
      data.push(this.#shown(record, embeddings));
    }
    return { data, nextCursor: null };
  }

  async get(id: string, embeddings: boolean): Promise<Shown> {
    const record = this.#store.entry(id);
    return record ? { ok: true, entry: this.#shown(record, embeddings) } : notFound;
  }

  async update(writer: Writer, id: string, { ifVersion, embedding, ...input }: UpdateMemory): Promise<Shown> {
    const store = this.#store;
    const isOld = this.#isOld(writer);
    if (isOld) return isOld;
    const before = store.entry(id);
    if (!before) return notFound;
    const text = input.text ?? before.text;
    const metadata = input.metadata ?? before.metadata;
    const tags = input.tags ? [...new Set(input.tags)] : before.tags;
    // An embedding is one text's: another text has another.
    const isKept = embedding === undefined && text === before.text;
    const vector = isKept ? undefined : embedding ? normalised(embedding) : null;
    const dimension = vector === undefined ? before.dimension : (vector?.length ?? null);
    const content = { text, metadata, tags };
    if (ifVersion !== undefined && ifVersion !== before.version) {
      // Asked again by whoever was not told that it is done.
      const isDone =
        ifVersion + 1 === before.version &&
        before.updatedBy?.id === writer.author.id &&
        JSON.stringify(content) ===
          JSON.stringify({ text: before.text, metadata: before.metadata, tags: before.tags }) &&
        dimension === before.dimension;
      if (isDone) return { ok: true, entry: { ...this.#shown(before, false), replayed: true } };
      return refuse("version_mismatch", "The memory was changed meanwhile.", { version: before.version });
    }
    const after: EntryRecord = {
      ...{ ...before, ...content, dimension, bytes: sizeOf(content, dimension ?? 0) },
      ...{ updatedAt: Date.now(), version: before.version + 1, updatedBy: writer.author },
    };
    const { vectors, dimension: common } = store.held;
    const isAlone = vectors === 1 && before.dimension !== null;
    const fault =
      (vector && common !== null && !isAlone ? otherDimension(vector.length, common) : null) ??
      this.#full(0, after.bytes - before.bytes);
    if (fault) return fault;
    store.transaction(() => {
      this.#note(writer);
      store.replace(before, after, vector);
    });
    await this.#tellIndex();
    return { ok: true, entry: shown(after) };
  }

  async forget(writer: Writer, which: readonly string[] | MemoryFilter): Promise<Result<{ forgotten: number }>> {
    const store = this.#store;
    const isOld = this.#isOld(writer);
    if (isOld) return isOld;
    if (store.held.entries === 0) return { ok: true, forgotten: 0 };
    const forgotten = store.transaction(() => {
      this.#note(writer);
      return this.#remove(which);
    });
    await this.#tellIndex();
    return { ok: true, forgotten };
  }

  async usage(): Promise<MemoryUsage> {
    const { entries, bytes, dimension } = this.#store.held;
    return { entries, bytes, entriesMax: memoryLimits.entriesMax, bytesMax: memoryLimits.bytesMax, dimension };
  }

  async purge(): Promise<void> {
    await this.#near?.clear();
    await this.#store.close();
  }

  override async alarm(): Promise<void> {
    const againMs = await this.#near?.push();
    if (typeof againMs === "number") await this.ctx.storage.setAlarm(Date.now() + againMs);
  }

  /** The index beside learns of what changed, soon. */
  async #tellIndex(): Promise<void> {
    if (this.#near && this.#store.untold(1).length > 0 && (await this.ctx.storage.getAlarm()) === null)
      await this.ctx.storage.setAlarm(Date.now());
  }

  /** @returns how many */
  #remove(which: readonly string[] | MemoryFilter): number {
    const store = this.#store;
    let removed = 0;
    const remove = (record: EntryRecord | null) => {
      if (!record) return;
      store.remove(record);
      removed++;
    };
    if ("length" in which) for (const id of new Set(which)) remove(store.entry(id));
    else {
      const where = whereOf(which);
      if (where.bindings.length === 0) return store.removeAll();
      for (const seq of store.seqs(where)) remove(store.entryAt(seq));
    }
    return removed;
  }

  #addOne(writer: Writer, { input, key, fingerprint, origin }: Addition): MemoryEntry {
    const store = this.#store;
    const { author } = writer;
    const once = key === null ? null : store.onceBy(author.id, key);
    const known = once && store.entryAt(once.seq);
    if (known) return { ...shown(known), replayed: true };
    const now = Date.now();
    const { text, metadata = {}, embedding } = input;
    const content = { text, metadata, tags: [...new Set(input.tags)] };
    const dimension = embedding?.length ?? null;
    const record = {
      ...{ id: nextId(store.held.lastId, now), ...content, author, createdAt: now, updatedAt: now, version: 1 },
      ...{ updatedBy: null, dimension, bytes: sizeOf(content, dimension ?? 0), origin },
    };
    const seq = store.add(record, embedding ? normalised(embedding) : null);
    if (key !== null) store.saveOnce(author.id, key, fingerprint, seq);
    return shown({ ...record, seq });
  }

  #shown(record: EntryRecord, embeddings: boolean): MemoryEntry {
    const vector = embeddings && record.dimension !== null ? this.#store.vector(record.seq) : null;
    return shown(record, vector ? [...vector] : undefined);
  }

  /** A machine that another run has taken the place of writes no more. */
  #isOld({ author, generation }: Writer): ReturnType<typeof refuse> | null {
    if (generation === null || generation >= this.#store.generation(author.id)) return null;
    return refuse("stale_generation", "A newer run of the sandbox has written already.");
  }

  #note({ author, generation }: Writer): void {
    if (generation !== null && generation > this.#store.generation(author.id))
      this.#store.saveGeneration(author.id, generation);
  }

  /** What keeps these from being added. */
  #fault(additions: readonly Addition[]): ReturnType<typeof refuse> | null {
    let common = this.#store.held.dimension;
    let bytes = 0;
    for (const { input } of additions) {
      const { text, metadata = {}, embedding } = input;
      bytes += sizeOf({ text, metadata, tags: [...new Set(input.tags)] }, embedding?.length ?? 0);
      if (!embedding) continue;
      common ??= embedding.length;
      if (embedding.length !== common) return otherDimension(embedding.length, common);
    }
    return this.#full(additions.length, bytes);
  }

  #full(more: number, moreBytes: number): ReturnType<typeof refuse> | null {
    const { entries, bytes } = this.#store.held;
    const { entriesMax, bytesMax } = memoryLimits;
    const isFull = (more > 0 && entries + more > entriesMax) || (moreBytes > 0 && bytes + moreBytes > bytesMax);
    if (!isFull) return null;
    const details = { entries, entriesMax, bytes, bytesMax, entriesWanted: more, bytesWanted: moreBytes };
    return refuse("storage_full", `A memory holds at most ${entriesMax} entries and ${bytesMax} bytes.`, details);
  }
}

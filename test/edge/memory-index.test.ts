/** A memory with an index of embeddings beside it, which is bound here as a stand-in: late, at times away, never trusted. */
import { env } from "cloudflare:workers";
import { runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import { MemoryObject } from "../../durable/memory/object.ts";
import type { Addition, Writer } from "../../durable/memory/api.ts";

const SIZE = 8;
const writer: Writer = { author: { kind: "key", id: "key-1", name: null }, generation: null };

/** Takes changes at once and knows of them when told to, as Vectorize does; its order is by cosine. */
class LateIndex {
  readonly #known = new Map<string, { values: number[]; namespace: string }>();
  #taken: { id: string; values: number[] | null; namespace: string }[] = [];
  #mutations = 0;
  #processed = 0;
  isAway = false;
  queries = 0;

  get ids(): string[] {
    return [...this.#known.keys()];
  }

  /** Know of all that was taken. */
  process(): void {
    for (const { id, values, namespace } of this.#taken)
      if (values) this.#known.set(id, { values, namespace });
      else this.#known.delete(id);
    this.#taken = [];
    this.#processed = this.#mutations;
  }

  async describe() {
    this.#meet();
    return {
      ...{ dimensions: SIZE, vectorCount: this.#known.size },
      ...{ processedUpToMutation: String(this.#processed), processedUpToDatetime: "2020-01-01T00:00:00Z" },
    };
  }

  async upsert(vectors: { id: string; values: number[]; namespace: string }[]) {
    this.#meet();
    this.#taken.push(...vectors);
    return { mutationId: String(++this.#mutations) };
  }

  async deleteByIds(ids: string[]) {
    this.#meet();
    this.#taken.push(...ids.map((id) => ({ id, values: null, namespace: "" })));
    return { mutationId: String(++this.#mutations) };
  }

  async query(vector: number[], { topK, namespace }: { topK: number; namespace: string }) {
    this.#meet();
    this.queries++;
    const matches = [...this.#known]
      .filter(([, one]) => one.namespace === namespace)
      .map(([id, { values }]) => ({ id, score: values.reduce((sum, one, i) => sum + one * (vector[i] ?? 0), 0) }))
      .toSorted((a, b) => b.score - a.score)
      .slice(0, topK);
    return { matches, count: matches.length };
  }

  #meet(): void {
    if (this.isAway) throw new Error("the index is away");
  }
}

function additions(from: number, count: number): Addition[] {
  return Array.from({ length: count }, (_, n) => ({
    input: { text: `entry ${from + n}`, embedding: embeddingOf(from + n) },
    ...{ key: null, fingerprint: "", origin: null },
  }));
}

function embeddingOf(n: number): number[] {
  return Array.from({ length: SIZE }, (_, i) => Math.sin((n + 1) * (i + 1) * 1.7) + 0.01 * i);
}

async function texts(memory: MemoryObject, embedding: number[], limit = 5): Promise<string[]> {
  const found = await memory.search({ embedding, limit });
  return found.ok ? found.hits.data.map(({ text }) => text) : [];
}

it("finds what is nearest as without it, also what it does not know yet, and while it is away", async () => {
  const stub = env.MEMORY.getByName("default/indexed");
  await runInDurableObject(stub, async (_, state) => {
    const index = new LateIndex();
    const bound = () => new MemoryObject(state, { ...env, MEMORY_INDEX: index as unknown as Vectorize });
    const alone = () => new MemoryObject(state, env);
    const wanted = [3, 500, 2099].map(embeddingOf);
    const orders = async (memory: MemoryObject) => {
      const all: string[][] = [];
      for (const one of wanted) all.push(await texts(memory, one));
      return all;
    };

    // Before there was an index; one that is bound later learns of all.
    const first = alone();
    for (let from = 0; from < 2100; from += 100) await first.add(writer, additions(from, 100));
    const exact = await orders(first);
    expect(exact.map(([best]) => best)).toEqual(["entry 3", "entry 500", "entry 2099"]);
    const memory = bound();
    expect(await orders(memory)).toEqual(exact);
    expect(index.queries).toBe(0);
    for (let n = 0; n < 6; n++) await memory.alarm();
    index.process();
    await memory.alarm();
    await memory.alarm();
    expect(index.ids).toHaveLength(2100);
    expect(await orders(memory)).toEqual(exact);
    expect(index.queries).toBe(3);

    // Added and forgotten a moment ago.
    await memory.add(writer, additions(7000, 1));
    expect((await texts(memory, embeddingOf(7000)))[0]).toBe("entry 7000");
    const [gone] = await entries(memory, embeddingOf(500));
    await memory.forget(writer, [gone?.id ?? ""]);
    expect(await texts(memory, embeddingOf(500))).not.toContain("entry 500");

    // Away: nothing is lost, and it is told when it is back, by whoever lives then.
    index.isAway = true;
    await memory.add(writer, additions(7001, 1));
    expect((await texts(memory, embeddingOf(7001)))[0]).toBe("entry 7001");
    await memory.alarm();
    index.isAway = false;
    const next = bound();
    await Promise.all([next.alarm(), next.alarm()]);
    index.process();
    await next.alarm();
    expect(index.ids).toHaveLength(2101);
    expect((await texts(next, embeddingOf(7001)))[0]).toBe("entry 7001");

    // With a filter, all that it leaves is compared.
    const before = index.queries;
    await next.search({ embedding: embeddingOf(1), filter: { since: "2001-01-01T00:00:00Z" } });
    expect(index.queries).toBe(before);

    // Deleted for good only when it is out of the index.
    index.isAway = true;
    await expect(next.purge()).rejects.toThrow("away");
    index.isAway = false;
    await next.purge();
    index.process();
    expect(index.ids).toEqual([]);
  });
});

async function entries(memory: MemoryObject, embedding: number[]) {
  const found = await memory.search({ embedding, limit: 1 });
  return found.ok ? found.hits.data : [];
}

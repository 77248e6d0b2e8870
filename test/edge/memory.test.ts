/** Memory of one agent: what is added is there, found by words and by meaning, and gone once it is forgotten. */
import { env } from "cloudflare:workers";
import { runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it } from "vitest";
import { memoryOfSandbox } from "../../durable/memory/api.ts";
import {
  AddedMemory,
  MemoryEntry,
  MemoryHits,
  memoryLimits,
  MemoryList,
  type ForgottenMemory,
  type ImportedMemory,
  type MemoryUsage,
} from "../../sdk/contract/memory.ts";
import { openAccount } from "./accounts.ts";
import { ask, call, created, eventually, heartbeat } from "./client.ts";
import { Inside, TestMemory } from "./memories.ts";

beforeEach(async () => {
  await heartbeat();
});

const issuesOf = ({ body }: { body: { error?: { details?: { issues?: { path: string }[] } } } }) =>
  body.error?.details?.issues?.map(({ path }) => path).join();

describe("an entry", () => {
  it("is added, read, changed and forgotten; the server says who wrote it and when", async () => {
    const memory = await TestMemory.ofSandbox();
    const before = Date.now();
    const made = await memory.ask<AddedMemory>("POST", "", {
      ...{ text: "The deploy key lives in the vault.", tags: ["infra", "infra", "keys"] },
      ...{ metadata: { kind: "fact", weight: 2, sure: true, until: null }, embedding: [3, 0, 4] },
    });
    const [entry] = AddedMemory.parse(made.body).data;
    expect(entry).toMatchObject({
      ...{ text: "The deploy key lives in the vault.", tags: ["infra", "keys"], version: 1, dimension: 3 },
      ...{ author: { kind: "key", name: "installation" }, updatedBy: null },
      metadata: { kind: "fact", weight: 2, sure: true, until: null },
    });
    expect(Date.parse(entry?.createdAt ?? "")).toBeGreaterThanOrEqual(before);
    const read = await memory.ask<MemoryEntry>("GET", `/${entry?.id}?embeddings=1`);
    expect(read.body.embedding?.map((one) => Math.round(one * 1000) / 1000)).toEqual([0.6, 0, 0.8]);
    const changed = await memory.ask<MemoryEntry>("POST", `/${entry?.id}:update`, { text: "It moved.", ifVersion: 1 });
    // Another text has another embedding.
    expect(changed.body).toMatchObject({ text: "It moved.", tags: ["infra", "keys"], version: 2, dimension: null });
    expect(changed.body.updatedBy).toEqual(entry?.author);
    expect(await memory.found("deploy vault")).toEqual([]);
    expect(await memory.found("moved")).toEqual(["It moved."]);
    // Whoever was not told asks again, and is told; another change of that version is refused.
    const again = await memory.ask<MemoryEntry>("POST", `/${entry?.id}:update`, { text: "It moved.", ifVersion: 1 });
    expect(again.body).toMatchObject({ version: 2, replayed: true });
    const other = await memory.ask("POST", `/${entry?.id}:update`, { text: "No.", ifVersion: 1 });
    expect(other.body.error).toMatchObject({ code: "version_mismatch", details: { version: 2 } });
    expect((await memory.ask("DELETE", `/${entry?.id}`)).body).toEqual({ forgotten: 1 });
    expect((await memory.ask("DELETE", `/${entry?.id}`)).body.error.code).toBe("memory_not_found");
    expect((await memory.ask("GET", `/${entry?.id}`)).body.error.code).toBe("memory_not_found");
    expect((await memory.ask<MemoryUsage>("GET", ":usage")).body).toEqual({
      ...{ entries: 0, bytes: 0, entriesMax: 100_000, bytesMax: 536_870_912, dimension: null },
    });
  });

  it("is refused with every fault, and a batch with one such entry as a whole", async () => {
    const memory = await TestMemory.ofSandbox();
    const add = (body: unknown) => memory.ask<AddedMemory>("POST", "", body);
    expect(issuesOf(await add({}))).toBe("text");
    expect(issuesOf(await add({ text: "", tags: [" x"], metadata: { a: {} }, embedding: [0, 0] }))).toBe(
      "text,metadata.a,tags.0,embedding",
    );
    expect(issuesOf(await add({ text: "é".repeat(32_769) }))).toBe("text");
    expect((await add({ text: "é".repeat(32_768) })).status).toBe(200);
    expect(issuesOf(await add({ text: "x", metadata: { a: "y".repeat(4096) } }))).toBe("metadata");
    expect(issuesOf(await add({ text: "x", author: { kind: "key" } }))).toBe("");
    expect(issuesOf(await add({ entries: [{ text: "ok" }, { text: 1 }] }))).toBe("entries.1.text");
    expect(issuesOf(await add({ entries: Array.from({ length: 101 }, () => ({ text: "x" })) }))).toBe("entries");
    await memory.add({ text: "of two", embedding: [1, 2] });
    const wrong = await add({
      entries: [
        { text: "fits", embedding: [1, 2] },
        { text: "not", embedding: [1, 2, 3] },
      ],
    });
    expect(wrong.body.error).toMatchObject({ code: "invalid_request", details: { dimension: 2 } });
    expect((await memory.texts()).filter((text) => text.length < 10)).toEqual(["of two"]);
    expect((await memory.ask("POST", ":search", { embedding: [1] })).body.error.details).toMatchObject({
      dimension: 2,
    });
    expect(issuesOf(await memory.ask("POST", ":search", {}))).toBe("");
    expect(issuesOf(await memory.ask("POST", ":forget", { filter: {} }))).toBe("confirm");
    expect(issuesOf(await memory.ask("GET", "?metadata=x&limit=101"))).toBe("limit,metadata");
    expect((await memory.ask("GET", "?cursor=1.x")).body.error.code).toBe("invalid_request");
  });

  it("is added once under its idempotency id or the request's key, also by two at once", async () => {
    const memory = await TestMemory.ofSandbox();
    const input = { text: "once", idempotencyId: "turn-7" };
    const both = await Promise.all([memory.add(input), memory.add(input, input, { text: "beside" })]);
    const ids = both.flat().map(({ text, id }) => (text === "once" ? id : "other"));
    expect(new Set(ids).size).toBe(2);
    await memory.evict();
    expect((await memory.add(input))[0]).toMatchObject({ id: ids[0], replayed: true });
    const other = await memory.ask("POST", "", { ...input, text: "other" });
    expect(other.body.error.code).toBe("idempotency_key_reused");
    const headers = { "idempotency-key": crypto.randomUUID() };
    const send = (entries: object[]) => memory.ask<AddedMemory>("POST", "", { entries }, headers);
    const [first, second] = await Promise.all([
      send([{ text: "a" }, { text: "b" }]),
      send([{ text: "a" }, { text: "b" }]),
    ]);
    expect(second.body.data.map(({ id }) => id)).toEqual(first.body.data.map(({ id }) => id));
    expect((await send([{ text: "a" }])).body.error.code).toBe("idempotency_key_reused");
    expect(await memory.texts()).toEqual(expect.arrayContaining(["once", "beside", "a", "b"]));
    expect(await memory.texts()).toHaveLength(4);
    // Another author's ids are their own.
    const inside = new Inside(memory.sandbox);
    expect((await inside.ask<AddedMemory>("POST", "/memory", { ...input, text: "mine" })).status).toBe(200);
  });
});

describe("a search by words", () => {
  const texts = [
    "The quarterly report was deployed on Friday by Ana.",
    "Ana prefers coffee without sugar.",
    "Le café de la gare ferme à huit heures.",
    "Die Prüfung läuft über Nacht.",
    "東京タワーの近くに会議室を予約した。",
    "客户喜欢简短的回答。",
    "회의는 서울에서 열립니다.",
    "ประชุมที่กรุงเทพวันจันทร์",
    "हिन्दी में उत्तर दो",
    "Встреча перенесена на вторник",
  ];

  it("finds words of many languages, the better match first", async () => {
    const memory = await TestMemory.ofSandbox();
    await memory.add(...texts.map((text) => ({ text })));
    const finds = async (query: string) => (await memory.found(query))[0];
    expect(await finds("deploying reports")).toBe(texts[0]);
    expect(await finds("cafe")).toBe(texts[2]);
    expect(await finds("CAFÉ")).toBe(texts[2]);
    expect(await finds("cafe\u0301")).toBe(texts[2]);
    expect(await finds("prufung")).toBe(texts[3]);
    expect(await finds("会議")).toBe(texts[4]);
    expect(await finds("タワー")).toBe(texts[4]);
    expect(await finds("简短")).toBe(texts[5]);
    expect(await finds("서울")).toBe(texts[6]);
    expect(await finds("กรุงเทพ")).toBe(texts[7]);
    expect(await finds("उत्तर")).toBe(texts[8]);
    expect(await finds("ВСТРЕЧА")).toBe(texts[9]);
    expect(await finds("議会")).toBeUndefined();
    // More of the words, and rarer ones, are better.
    expect(await memory.found("what does Ana prefer, coffee?")).toEqual([texts[1], texts[0]]);
    expect(await memory.found("ana -coffee")).toEqual([texts[0]]);
    expect(await memory.found('"report was deployed"')).toEqual([texts[0]]);
    expect(await memory.found('"deployed report"')).toEqual([]);
  });

  it("takes any text as words, and says who wrote what it finds, and where in it", async () => {
    const memory = await TestMemory.ofSandbox();
    const long = `${"filler ".repeat(2000)}the needle of it ${"filler ".repeat(2000)}`;
    await memory.add({ text: long });
    for (const query of [
      '"',
      '""',
      "needle AND",
      "NEAR(",
      "needle*",
      "text:needle",
      "-",
      "a OR (",
      "(needle",
      "^needle",
      "'; --",
      "\u0000",
      "\ud800",
      "",
      "needle".repeat(600),
      "東".repeat(4096),
    ])
      expect(`${query} ${(await memory.ask("POST", ":search", { query })).status}`).toBe(`${query} 200`);
    for (const query of ["needle AND", "needle*", '"needle', "(needle", "^needle"])
      expect([query, ...(await memory.found(query))]).toEqual([query, long]);
    const [hit] = MemoryHits.parse(await memory.search("needles")).data;
    expect(hit?.snippet).toContain("the needle of it");
    expect(hit?.snippet.length).toBeLessThan(260);
    expect(hit).toMatchObject({ author: { kind: "key", name: "installation" }, createdAt: expect.any(String) });
  });
});

/** Numbers that are the same each time. */
function* numbers(seed: number): Generator<number> {
  for (let state = seed; ;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state / 2 ** 31 - 1;
  }
}

describe("a search by embedding", () => {
  it("is exact: the same order and cosines as worked out by hand", async () => {
    const memory = await TestMemory.ofSandbox();
    const source = numbers(7);
    const vector = () => Array.from({ length: 24 }, () => source.next().value ?? 0);
    const all = Array.from({ length: 300 }, (_, n) => ({
      text: `entry ${n}`,
      embedding: vector(),
      tags: [`t${n % 3}`],
    }));
    for (let n = 0; n < 300; n += 100) await memory.add(...all.slice(n, n + 100));
    const wanted = vector();
    const dot = (a: number[], b: number[]) => a.reduce((sum, one, i) => sum + one * (b[i] ?? 0), 0);
    const cosine = (a: number[]) => dot(a, wanted) / Math.sqrt(dot(a, a) * dot(wanted, wanted));
    const ranked = (list: typeof all) =>
      list.map(({ text, embedding }) => ({ text, cosine: cosine(embedding) })).toSorted((a, b) => b.cosine - a.cosine);
    const { data, mode } = await memory.search({ embedding: wanted, limit: 20 });
    expect(mode).toBe("vector");
    expect(data.map(({ text }) => text)).toEqual(
      ranked(all)
        .slice(0, 20)
        .map(({ text }) => text),
    );
    for (const [place, { score, similarity }] of data.entries()) {
      expect(score).toBeCloseTo(ranked(all)[place]?.cosine ?? 2, 5);
      expect(similarity).toBe(score);
    }
    const filtered = await memory.found({ embedding: wanted, limit: 5, filter: { tags: ["t1"] } });
    expect(filtered).toEqual(
      ranked(all.filter(({ tags }) => tags[0] === "t1"))
        .slice(0, 5)
        .map(({ text }) => text),
    );
  });

  it("goes with words: what is high in both orders is first", async () => {
    const memory = await TestMemory.ofSandbox();
    await memory.add(
      { text: "apples and pears", embedding: [0, 1] },
      { text: "apples alone", embedding: [1, 0.1] },
      { text: "nothing of the kind", embedding: [1, 0] },
      { text: "apples without numbers" },
    );
    const { data, mode } = await memory.search({ query: "apples", embedding: [1, 0], limit: 4 });
    expect(mode).toBe("hybrid");
    expect(data[0]?.text).toBe("apples alone");
    expect(data.map(({ text }) => text)).toHaveLength(4);
    expect(data.find(({ text }) => text === "apples without numbers")?.similarity).toBeUndefined();
  });
});

describe("filters and lists", () => {
  it("take tags, author, times and metadata", async () => {
    const memory = await TestMemory.ofSandbox();
    const inside = new Inside(memory.sandbox);
    const [, second] = await memory.add(
      { text: "word a", tags: ["x", "y"], metadata: { n: 1, s: "1", b: true } },
      { text: "word b", tags: ["x"], metadata: { n: 1.5, s: "a'b\"c", b: false } },
    );
    await scheduler.wait(2);
    expect((await inside.ask("POST", "/memory", { text: "word c", metadata: { n: null } })).status).toBe(200);
    const filtered = async (filter: object) => (await memory.found({ query: "word", filter })).toSorted().join();
    expect(await filtered({ tags: ["x"] })).toBe("word a,word b");
    expect(await filtered({ tags: ["x", "y"] })).toBe("word a");
    expect(await filtered({ author: memory.sandbox.name })).toBe("word c");
    expect(await filtered({ author: memory.sandbox.id })).toBe("word c");
    expect(await filtered({ metadata: { n: 1 } })).toBe("word a");
    expect(await filtered({ metadata: { s: "1" } })).toBe("word a");
    expect(await filtered({ metadata: { n: 1.5, s: "a'b\"c" } })).toBe("word b");
    expect(await filtered({ metadata: { b: false } })).toBe("word b");
    expect(await filtered({ metadata: { n: null } })).toBe("word c");
    expect(await filtered({ metadata: { n: "1" } })).toBe("");
    expect(await filtered({ until: new Date(Date.parse(second?.createdAt ?? "") + 1).toISOString() })).toBe(
      "word a,word b",
    );
    expect(await filtered({ since: new Date(Date.parse(second?.createdAt ?? "") + 1).toISOString() })).toBe("word c");
    expect(await memory.texts("&tag=x&tag=y")).toEqual(["word a"]);
    expect(await memory.texts(`&metadata=${encodeURIComponent('{"b":false}')}&author=installation`)).toEqual([
      "word b",
    ]);
  });

  it("go on where they were while others write and forget", async () => {
    const memory = await TestMemory.ofSandbox();
    const first = await memory.add(...Array.from({ length: 30 }, (_, n) => ({ text: `n${n}` })));
    const newest = MemoryList.parse(await memory.list("?limit=10"));
    expect(newest.data.map(({ text }) => text)).toEqual(Array.from({ length: 10 }, (_, n) => `n${29 - n}`));
    await memory.add({ text: "later" });
    await memory.ask("POST", ":forget", { ids: [first[20]?.id, first[19]?.id] });
    await memory.ask("POST", `/${first[18]?.id}:update`, { text: "n18 changed" });
    const next = await memory.list(`?limit=10&cursor=${newest.nextCursor}`);
    expect(next.data.map(({ text }) => text)).toEqual([
      "n18 changed",
      ...Array.from({ length: 9 }, (_, n) => `n${17 - n}`),
    ]);
    const oldest = await memory.list("?order=oldest&limit=5");
    expect(oldest.data.map(({ text }) => text)).toEqual(["n0", "n1", "n2", "n3", "n4"]);
    // Long texts make short pages, and nothing is lost between them.
    const long = await TestMemory.ofSandbox();
    for (let n = 0; n < 2; n++)
      await long.add(...Array.from({ length: 40 }, (_, i) => ({ text: `${n}.${i} ${"x".repeat(65_000)}` })));
    const page = await long.list("?limit=100");
    expect(page.data.length).toBeLessThan(80);
    expect(await long.texts()).toHaveLength(80);
  });
});

describe("what is forgotten", () => {
  it("is nowhere any more: no row, no word of the index, no embedding, no idempotency id", async () => {
    const memory = await TestMemory.ofSandbox();
    const secret = "xylophonist";
    const [entry, kept] = await memory.add(
      {
        text: `they said ${secret}`,
        tags: [secret],
        metadata: { s: secret },
        embedding: [1, 2],
        idempotencyId: secret,
      },
      { text: "they stayed", embedding: [2, 1] },
    );
    await memory.evict();
    const everything = () =>
      runInDurableObject(memory.stub, (_object, state) => {
        const tables = ["entries", "tags", "vectors", "once", "words_data", "words_idx", "words_docsize"];
        return tables
          .flatMap((table) => state.storage.sql.exec(`SELECT * FROM ${table}`).toArray())
          .flatMap((row) => Object.values(row))
          .map((value) => (value instanceof ArrayBuffer ? new TextDecoder("latin1").decode(value) : String(value)))
          .join("\n");
      });
    expect(await everything()).toContain("xylophon");
    expect((await memory.ask<ForgottenMemory>("POST", ":forget", { ids: [entry?.id, entry?.id] })).body.forgotten).toBe(
      1,
    );
    await memory.evict();
    expect(await everything()).not.toContain("xylo");
    expect(await memory.found("they")).toEqual(["they stayed"]);
    expect((await memory.ask<MemoryUsage>("GET", ":usage")).body).toMatchObject({ entries: 1, dimension: 2 });
    const gone = await memory.ask("POST", ":forget", { filter: { author: kept?.author.id }, confirm: true });
    expect(gone.body).toEqual({ forgotten: 1 });
    await memory.add({ text: "of another dimension", embedding: [1] });
    expect((await memory.ask("POST", ":forget", { filter: {}, confirm: true })).body).toEqual({ forgotten: 1 });
    expect(await memory.found("dimension")).toEqual([]);
    await memory.add({ text: "and on it goes" });
    expect(await memory.found("goes")).toEqual(["and on it goes"]);
    expect((await memory.ask<MemoryUsage>("GET", ":usage")).body).toMatchObject({ entries: 1, dimension: null });
  });

  it("is all of it, once its sandbox is deleted for good; what comes late is not kept", async () => {
    const memory = await TestMemory.ofSandbox();
    await memory.add({ text: "of a sandbox that goes" });
    await ask("DELETE", `/v1/sandboxes/${memory.sandbox.id}`);
    const rows = () =>
      runInDurableObject(memory.stub, (_object, state) =>
        state.storage.sql.exec("SELECT name FROM sqlite_master WHERE name = 'entries'").toArray(),
      );
    await eventually(rows, ({ length }) => length === 0);
    expect((await memory.ask("GET")).status).toBe(410);
    const late = await new Inside(memory.sandbox).ask("POST", "/memory", { text: "late" });
    expect(late.status).toBe(404);
    const next = await created({ name: memory.sandbox.name });
    expect((await ask<MemoryList>("GET", `/v1/sandboxes/${next.id}/memory`)).body.data).toEqual([]);
  });
});

describe("an export", () => {
  it("is imported as it was, each line once; author and time are whose who imports, and say where it was", async () => {
    const from = await TestMemory.ofSandbox();
    await from.add(
      ...Array.from({ length: 99 }, (_, n) => ({ text: `line ${n}\nof two`, tags: [`t${n}`], metadata: { n } })),
      { text: "with numbers", embedding: [0.1, 0.2, 0.3] },
    );
    const inside = new Inside(from.sandbox);
    await inside.ask("POST", "/memory", { text: "written inside 東京", embedding: [1, 2, 3] });
    const exported = await call("GET", `${from.path}:export`);
    expect(exported.headers.get("content-type")).toBe("application/x-ndjson");
    const text = await exported.text();
    expect(text.trimEnd().split("\n")).toHaveLength(101);
    const to = await TestMemory.ofSandbox();
    const half = text.split("\n").slice(0, 50).join("\n");
    expect((await to.ask<ImportedMemory>("POST", ":import", half)).body).toEqual({ lines: 50, added: 50, known: 0 });
    expect((await to.ask<ImportedMemory>("POST", ":import", text)).body).toEqual({ lines: 101, added: 51, known: 50 });
    const again = (await (await call("GET", `${to.path}:export`)).text()).trimEnd().split("\n");
    const content = (line: string) => {
      const { text, tags, metadata, embedding } = JSON.parse(line) as MemoryEntry;
      return { text, tags, metadata, embedding };
    };
    expect(again.map(content)).toEqual(text.trimEnd().split("\n").map(content));
    const last = MemoryEntry.parse(JSON.parse(again.at(-1) ?? ""));
    expect(last.author).toMatchObject({ kind: "key", name: "installation" });
    expect(last.origin?.author).toEqual({ kind: "sandbox", id: from.sandbox.id, name: from.sandbox.name });
    expect(await to.found("東京")).toEqual(["written inside 東京"]);
    const wrong = await to.ask("POST", ":import", `${half}\n{"text":1}\n`);
    expect(wrong.body.error).toMatchObject({ code: "invalid_request", message: expect.stringContaining("line 51") });
  });
});

describe("a memory that is full", () => {
  it("takes what fits to the byte, and of a batch nothing", async () => {
    const memory = await TestMemory.ofSandbox();
    await memory.add({ text: "first" });
    const size = memoryLimits.entryBytes + "second".length + "{}[]".length;
    const hold = (entries: number, bytes: number) =>
      runInDurableObject(memory.stub, (_object, state) => {
        state.storage.sql.exec("UPDATE held SET entries = ?, bytes = ?", entries, bytes);
      });
    await hold(1, memoryLimits.bytesMax - size);
    const full = await memory.ask("POST", "", { text: "second!" });
    expect(full.status).toBe(507);
    expect(full.body.error).toMatchObject({ code: "storage_full", details: { bytesWanted: size + 1 } });
    expect((await memory.ask("POST", "", { text: "second" })).status).toBe(200);
    expect((await memory.ask<MemoryUsage>("GET", ":usage")).body.bytes).toBe(memoryLimits.bytesMax);
    const [entry] = (await memory.list()).data;
    expect((await memory.ask("POST", `/${entry?.id}:update`, { text: "second!" })).body.error.code).toBe(
      "storage_full",
    );
    expect((await memory.ask("POST", `/${entry?.id}:update`, { text: "2nd" })).status).toBe(200);
    await hold(memoryLimits.entriesMax - 2, 1000);
    const three = { entries: [{ text: "a" }, { text: "b" }, { text: "c" }] };
    expect((await memory.ask("POST", "", three)).body.error.code).toBe("storage_full");
    expect(await memory.texts()).toEqual(["first", "2nd"]);
    expect((await memory.ask("POST", "", { entries: three.entries.slice(1) })).status).toBe(200);
    expect((await memory.ask("POST", "", { text: "d" })).body.error.code).toBe("storage_full");
  });
});

describe("who may", () => {
  it("is whoever may use the sandbox, and the machine itself; an older run of it writes no more", async () => {
    const memory = await TestMemory.ofSandbox();
    await memory.add({ text: "mine" });
    const other = await openAccount();
    expect((await other.as("GET", memory.path)).status).toBe(404);
    const { body } = await ask<{ key: string }>("POST", "/v1/keys", { name: "reader", access: "read" });
    const reader = { authorization: `Bearer ${body.key}` };
    expect((await call("GET", memory.path, undefined, reader)).status).toBe(403);
    expect((await call("GET", `${memory.path}:usage`, undefined, reader)).status).toBe(200);
    const neighbour = await Inside.make();
    expect((await neighbour.ask<MemoryList>("GET", "/memory")).body.data).toEqual([]);
    expect((await neighbour.ask("GET", `/sandboxes/${memory.sandbox.id}/memory`)).status).toBe(404);
    const run = (generation: number) => new Inside(memory.sandbox, generation);
    expect((await run(2).ask("POST", "/memory", { text: "of the second run" })).status).toBe(200);
    const late = await run(1).ask("POST", "/memory", { text: "of the first" });
    expect(late.body.error.code).toBe("stale_generation");
    const never = `never-${crypto.randomUUID()}`;
    const object = memoryOfSandbox(env.MEMORY, "default", never);
    await object.search({ query: "x" });
    await object.purge();
    const tables = await runInDurableObject(env.MEMORY.getByName(`default/${never}`) as DurableObjectStub, (_, state) =>
      state.storage.sql.exec("SELECT name FROM sqlite_master").toArray(),
    );
    expect(tables.filter(({ name }) => !String(name).startsWith("_cf"))).toEqual([]);
  });
});

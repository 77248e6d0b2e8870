/** Verbs for memory and shared stores, and the SDK that they go by. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { MemoryEntry } from "../../sdk/src/index.ts";
import { Rouse } from "../../sdk/src/index.ts";
import { CliBench } from "./cli-bench.ts";
import { SANDBOX, sandboxInfo, TEST_KEY, type WireServer } from "./wire-server.ts";

let bench: CliBench;
let server: WireServer;
const rouse: CliBench["run"] = (words, env, input) => bench.run(words, env, input);

const ID = "mem-0123456789abcdefghij";
const MEMORY = `${SANDBOX}/memory`;

function entry(change: Partial<MemoryEntry> = {}): MemoryEntry {
  return {
    ...{ id: ID, text: "Ana likes\ntea.\u001b[2J", metadata: {}, tags: ["ana"], version: 1, dimension: null },
    author: { kind: "sandbox", id: "demo~abcdefghijkl", name: "demo" },
    ...{ createdAt: "2026-11-01T00:00:00.000Z", updatedAt: "2026-11-01T00:00:00.000Z", updatedBy: null },
    ...change,
  };
}

function store(name: string, grants: object[] = []): object {
  const at = "2026-11-01T00:00:00.000Z";
  return { kind: "store", id: `str-${"a".repeat(20)}`, name, kinds: ["memory"], grants, createdAt: at, updatedAt: at };
}

beforeEach(async () => {
  bench = await CliBench.start();
  ({ server } = bench);
  server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()));
});
afterEach(() => bench[Symbol.asyncDispose]());

const sent = () =>
  server.requests.filter(({ method }) => method === "POST" || method === "PUT").map((request) => request.json());

test("memory add, search, ls, get and forget", async () => {
  server
    .on(`POST ${MEMORY}`, (_request, reply) => reply.json({ data: [entry()] }))
    .on(`POST ${MEMORY}:search`, (_request, reply) =>
      reply.json({ data: [{ ...entry(), score: 1, snippet: entry().text }], mode: "text" }),
    )
    .on(`GET ${MEMORY}`, (request, reply) =>
      request.query.get("cursor") === null
        ? reply.json({ data: [entry()], nextCursor: ID })
        : reply.json({ data: [entry({ text: "second" })], nextCursor: null }),
    )
    .on(`GET ${MEMORY}/${ID}`, (_request, reply) => reply.json(entry({ text: "whole" })))
    .on(`POST ${MEMORY}:forget`, (_request, reply) => reply.json({ forgotten: 2 }));
  const added = await rouse(
    ["memory", "add", "demo", "-", "--tag", "a", "--meta", "n=1", "--meta", "s=x", "--once", "i"],
    {},
    "by stdin",
  );
  expect([added.code, added.stdout]).toEqual([0, `${ID}\n`]);
  const found = await rouse(["memory", "search", "demo", "tea?", "--limit", "3", "--tag", "ana", "--author", "demo"]);
  // What an agent wrote does not steer the terminal.
  expect(found.stdout).toContain("Ana likes tea. [2J");
  expect(found.stdout).toContain("demo");
  const rows = (await rouse(["memory", "ls", "demo", "--order", "oldest"])).stdout.trimEnd().split("\n");
  expect(rows[0]).toMatch(/^ENTRY +AUTHOR +AGE +TAGS +TEXT$/);
  expect(rows).toHaveLength(3);
  expect(server.of(`GET ${MEMORY}`)[0]?.query.toString()).toBe("order=oldest&limit=50");
  expect((await rouse(["memory", "get", "demo", ID])).stdout).toBe("whole\n");
  expect((await rouse(["memory", "forget", "demo", ID, ID])).stdout).toBe("2 forgotten\n");
  for (const words of [["--tag", "a"], [], [ID, "--all"]])
    expect((await bench.refusal(["memory", "forget", "demo", ...words]))?.message).toMatch(/forget/);
  expect((await rouse(["memory", "forget", "demo", "--all", "--yes"])).code).toBe(0);
  expect(sent()).toEqual([
    { entries: [{ text: "by stdin", tags: ["a"], metadata: { n: 1, s: "x" }, idempotencyId: "i" }] },
    { query: "tea?", limit: 3, filter: { tags: ["ana"], author: "demo" } },
    { ids: [ID, ID] },
    { filter: {}, confirm: true },
  ]);
});

test("an export of one is the import of another, also of a store", async () => {
  const lines = [entry(), entry({ text: "b", embedding: [1, 0] })].map((one) => `${JSON.stringify(one)}\n`).join("");
  server
    .on(`GET ${MEMORY}:export`, (_request, reply) => reply.raw(Buffer.from(lines)))
    .on("POST /v1/stores/team/memory:import", (_request, reply) => reply.json({ lines: 2, added: 1, known: 1 }));
  const exported = await rouse(["memory", "export", "demo"]);
  const read = (text: string) =>
    text
      .trimEnd()
      .split("\n")
      .map((one) => JSON.parse(one) as MemoryEntry);
  expect(read(exported.stdout)).toEqual(read(lines));
  const imported = await rouse(["memory", "import", "--store", "team"], {}, exported.stdout);
  expect(imported.stdout).toBe("1 added, 1 there already\n");
  expect(server.of("POST /v1/stores/team/memory:import")[0]?.body.toString()).toBe(exported.stdout);
  expect((await rouse(["memory", "import", "demo"], {}, "{")).stderr).toContain("Line 1");
});

test("store create, ls, get, grant, revoke and rm", async () => {
  const open = store("team", [{ agent: "*", access: "read" }]);
  server
    .on("PUT /v1/stores/team", (_request, reply) => reply.json(store("team")))
    .on("GET /v1/stores", (_request, reply) => reply.json({ data: [open] }))
    .on("GET /v1/stores/team", (_request, reply) => reply.json(open))
    .on("POST /v1/stores/team:grant", (_request, reply) => reply.json(open))
    .on("POST /v1/stores/team:revoke", (_request, reply) => reply.json(store("team")))
    .on("DELETE /v1/stores/team", (_request, reply) => reply.json({ name: "team", deleted: true }));
  expect((await rouse(["store", "create", "team", "--kind", "memory"])).stdout).toBe("team\n");
  expect((await bench.refusal(["store", "create", "team", "--kind", "files"]))?.message).toContain("files");
  expect((await rouse(["store", "ls"])).stdout).toMatch(/\nteam +memory +\*:read +\d+/);
  expect((await rouse(["store", "get", "team"])).stdout).toMatch(/\* +read/);
  expect((await rouse(["store", "grant", "team", "*"])).stdout).toBe("team: *:read\n");
  expect((await rouse(["store", "grant", "team", "a b", "--access", "write"])).code).toBe(0);
  expect((await rouse(["store", "revoke", "team", "a b"])).stdout).toBe("team: -\n");
  expect((await bench.refusal(["store", "rm", "team"]))?.message).toContain("for good");
  expect((await rouse(["store", "rm", "team", "--yes"])).stdout).toBe("team: deleted\n");
  expect(server.of("DELETE /v1/stores/team")[0]?.query.toString()).toBe("confirm=team");
  expect(sent().slice(0, 4)).toEqual([
    { kinds: ["memory"] },
    { agent: "*", access: "read" },
    { agent: "a b", access: "write" },
    { agent: "a b" },
  ]);
});

test("the SDK refuses what can be no id or name, and sends a whole filter", async () => {
  const client = new Rouse({ baseUrl: server.url, apiKey: TEST_KEY });
  const memory = client.stores.memory("team");
  await expect(memory.get("../x")).rejects.toMatchObject({ code: "invalid_argument" });
  expect(() => client.stores.memory("../x")).toThrow("name of a store");
  await expect(memory.import([{ ...entry(), text: "" }])).rejects.toMatchObject({ code: "invalid_argument" });
  server.on("GET /v1/stores/team/memory", (_request, reply) => reply.json({ data: [], nextCursor: null }));
  await memory.list({ tags: ["a", "b"], metadata: { n: 1 }, embeddings: true });
  const { query } = server.of("GET /v1/stores/team/memory")[0] ?? { query: new URLSearchParams() };
  expect([query.getAll("tag"), query.get("metadata"), query.get("embeddings")]).toEqual([["a", "b"], '{"n":1}', "1"]);
  server.on("PUT /v1/stores/team/state/keys/plan", (_request, reply) => reply.error("storage_full"));
  await expect(client.stores.state("team").set("plan", { step: 1 })).rejects.toMatchObject({ code: "storage_full" });
  await expect(client.stores.state("../x").get("plan")).rejects.toMatchObject({ code: "invalid_argument" });
});

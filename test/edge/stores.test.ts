/** Stores that agents share: to whom they are open, that nothing of what is acknowledged is lost, and where they end. */
import { env } from "cloudflare:workers";
import { runDurableObjectAlarm } from "cloudflare:test";
import { beforeEach, describe, expect, it } from "vitest";
import { memoryOfStore } from "../../durable/memory/api.ts";
import type { AddedMemory, MemoryEntry, MemoryHits, MemoryList } from "../../sdk/contract/memory.ts";
import { Store, StoreList, type DeletedStore } from "../../sdk/contract/store.ts";
import { openAccount } from "./accounts.ts";
import { ask, call, created, heartbeat } from "./client.ts";
import { Inside, madeStore, TestMemory, type Answer } from "./memories.ts";

beforeEach(async () => {
  await heartbeat();
});

const url = ({ name }: Store, rest = "") => `/v1/stores/${name}${rest}`;
const storesStub = () => env.STORES.getByName("default") as DurableObjectStub;

describe("a store", () => {
  it("is made, listed, read, opened, closed and deleted", async () => {
    const store = Store.parse(await madeStore({ grants: [{ agent: "b", access: "read" }] }));
    expect(store).toMatchObject({ kinds: ["memory", "state"], grants: [{ agent: "b", access: "read" }] });
    const granted = await ask<Store>("POST", url(store, ":grant"), { agent: "a name with spaces", access: "write" });
    const grants = [
      { agent: "a name with spaces", access: "write" },
      { agent: "b", access: "read" },
    ];
    expect(granted.body.grants).toEqual(grants);
    // What is not said stays.
    const put = await ask<Store>("PUT", url(store), {});
    expect(put.body).toMatchObject({ id: store.id, grants, createdAt: store.createdAt });
    expect(
      (await ask<Store>("POST", url(store, ":grant"), { agent: "b", access: "write" })).body.grants[1]?.access,
    ).toBe("write");
    expect((await ask<Store>("POST", url(store, ":revoke"), { agent: "b" })).body.grants).toHaveLength(1);
    expect((await ask<Store>("POST", url(store, ":revoke"), { agent: "b" })).status).toBe(200);
    expect((await ask<Store>("PUT", url(store), { grants: [] })).body.grants).toEqual([]);
    const listed = StoreList.parse((await ask<StoreList>("GET", "/v1/stores")).body);
    expect(listed.data.map(({ name }) => name)).toContain(store.name);
    expect((await ask<Store>("GET", url(store))).body.id).toBe(store.id);
    expect((await ask("DELETE", url(store))).status).toBe(400);
    expect((await ask("DELETE", url(store, "?confirm=other"))).body.error.code).toBe("invalid_request");
    const headers = { "idempotency-key": crypto.randomUUID() };
    const remove = () => ask<DeletedStore>("DELETE", url(store, `?confirm=${store.name}`), undefined, headers);
    expect((await remove()).body).toEqual({ name: store.name, deleted: true });
    expect((await remove()).body).toEqual({ name: store.name, deleted: true });
    expect((await ask("GET", url(store))).body.error.code).toBe("store_not_found");
  });

  it("refuses what can't be", async () => {
    const issues = async (name: string, input: object) => {
      const { body } = await ask("PUT", `/v1/stores/${name}`, input);
      return body.error.details?.issues?.map(({ path }) => path).join() ?? body.error.code;
    };
    expect(await issues("Shared", {})).toBe("");
    expect(await issues("a--", {})).toBe("");
    expect(await issues("x", { kinds: ["files"], grants: [{ agent: "", access: "own" }] })).toBe(
      "kinds.0,grants.0.agent,grants.0.access",
    );
    const twice = [
      { agent: "a", access: "read" },
      { agent: "a", access: "write" },
    ];
    expect(await issues("x", { kinds: [], grants: twice })).toBe("kinds,grants");
    const store = await madeStore({ kinds: ["memory"] });
    expect((await ask("PUT", url(store), { kinds: ["state"] })).body.error.code).toBe("conflict");
    expect((await ask<Store>("PUT", url(store), { kinds: ["state", "memory"] })).body.kinds).toEqual([
      "memory",
      "state",
    ]);
    const stateOnly = await madeStore({ kinds: ["state"] });
    expect((await TestMemory.ofStore(stateOnly).ask("GET")).body.error.code).toBe("store_not_found");
  });

  it("is deleted with all that is in it; one of the same name that comes later has nothing of it", async () => {
    const store = await madeStore({ grants: [{ agent: "*", access: "write" }] });
    const memory = TestMemory.ofStore(store);
    await memory.add({ text: "of the first" });
    const inside = await Inside.make();
    await ask("DELETE", url(store, `?confirm=${store.name}`));
    expect((await inside.ask("POST", `/stores/${store.name}/memory`, { text: "late" })).status).toBe(403);
    await runDurableObjectAlarm(storesStub());
    await runDurableObjectAlarm(storesStub());
    const again = (await ask<Store>("PUT", url(store), {})).body;
    expect(again.id).not.toBe(store.id);
    expect(await TestMemory.ofStore(again).texts()).toEqual([]);
    // Whoever was let in before it ended finds nothing to write to.
    const late = await memoryOfStore(env.MEMORY, "default", store.id).add(
      { author: { kind: "key", id: "k", name: null }, generation: null },
      [{ input: { text: "late" }, key: null, fingerprint: "", origin: null }],
    );
    expect(late.ok).toBe(false);
  });
});

describe("a grant", () => {
  it("opens a store to one agent, for what it says; others can't tell it from none", async () => {
    const [writer, reader, stranger] = await Promise.all([Inside.make(), Inside.make(), Inside.make()]);
    const store = await madeStore({
      grants: [
        { agent: writer.name, access: "write" },
        { agent: reader.name, access: "read" },
      ],
    });
    const path = `/stores/${store.name}/memory`;
    const added = await writer.ask<AddedMemory>("POST", path, { text: "shared word" });
    expect(added.body.data[0]?.author).toEqual({ kind: "sandbox", id: writer.id, name: writer.name });
    expect((await reader.ask<MemoryHits>("POST", `${path}:search`, { query: "word" })).body.data).toHaveLength(1);
    const id = added.body.data[0]?.id;
    for (const [method, rest, body] of [
      ["POST", "", { text: "x" }],
      ["POST", ":forget", { ids: [id] }],
      ["POST", ":import", ""],
      ["POST", `/${id}:update`, { text: "x" }],
      ["DELETE", `/${id}`, undefined],
    ] as const)
      expect((await reader.ask(method, path + rest, body)).body.error.code).toBe("forbidden");
    const [closed, none] = await Promise.all(
      [path, `/stores/no-such-store/memory`].map((at) => stranger.ask("GET", at)),
    );
    expect(closed?.status).toBe(403);
    expect({ ...closed?.body.error, requestId: "" }).toEqual({ ...none?.body.error, requestId: "" });
    expect((await stranger.ask<StoreList>("GET", "/stores")).body.data.map(({ name }) => name)).not.toContain(
      store.name,
    );
    const open = (await reader.ask<StoreList>("GET", "/stores")).body.data.find(({ name }) => name === store.name);
    expect(open?.grants).toEqual([{ agent: reader.name, access: "read" }]);
    for (const [method, rest] of [
      ["PUT", ""],
      ["GET", ""],
      ["POST", ":grant"],
      ["DELETE", "?confirm=x"],
    ] as const)
      expect((await writer.ask(method, `/stores/${store.name}${rest}`, method === "GET" ? undefined : {})).status).toBe(
        403,
      );
    // The path of a sandbox's own memory is not that of a store.
    expect((await writer.ask<MemoryList>("GET", "/memory")).body.data).toEqual([]);
  });

  it("goes by the name, of which every part counts, or means all", async () => {
    const name = `Déjà vu ${crypto.randomUUID()}`;
    const odd = { ...(await created({ name })), name };
    const inside = new Inside(odd);
    const store = await madeStore({ grants: [{ agent: odd.name, access: "write" }] });
    const added = await inside.ask<AddedMemory>("POST", `/stores/${store.name}/memory`, { text: "x" });
    expect(added.body.data[0]?.author.name).toBe(odd.name);
    const everybody = await madeStore({ grants: [{ agent: "*", access: "read" }] });
    const other = await Inside.make();
    expect((await other.ask("GET", `/stores/${everybody.name}/memory`)).status).toBe(200);
    expect((await other.ask("GET", `/stores/${store.name}/memory`)).status).toBe(403);
  });

  it("that is taken away is over at once, and taken back as quickly", async () => {
    const inside = await Inside.make();
    const store = await madeStore();
    const write = () => inside.ask("POST", `/stores/${store.name}/memory`, { text: "x" });
    for (let round = 0; round < 5; round++) {
      await ask("POST", url(store, ":grant"), { agent: inside.name, access: "write" });
      expect((await write()).status).toBe(200);
      await ask("POST", url(store, ":revoke"), { agent: inside.name });
      const refused = await Promise.all([write(), write(), inside.ask("GET", `/stores/${store.name}/memory`)]);
      expect(refused.map(({ status }) => status)).toEqual([403, 403, 403]);
    }
    expect(await TestMemory.ofStore(store).texts()).toHaveLength(5);
  });

  it("is an account's own, and no business of a key for a part of it or for reading", async () => {
    const store = await madeStore({ grants: [{ agent: "*", access: "write" }] });
    const other = await openAccount();
    expect((await other.as("GET", url(store))).status).toBe(404);
    expect((await other.as("GET", url(store, "/memory"))).status).toBe(404);
    const theirs = new Inside(await created(), 1, other.name);
    expect((await theirs.ask("GET", `/stores/${store.name}/memory`)).status).toBe(403);
    const key = async (input: object) => {
      const { body } = await ask<{ key: string }>("POST", "/v1/keys", { name: "k", ...input });
      return { authorization: `Bearer ${body.key}` };
    };
    const [reader, part] = await Promise.all([key({ access: "read" }), key({ access: "sandboxes", namePrefix: "a-" })]);
    expect((await call("GET", url(store), undefined, reader)).status).toBe(200);
    expect((await call("GET", url(store, "/memory"), undefined, reader)).status).toBe(403);
    expect((await call("PUT", url(store), {}, reader)).status).toBe(403);
    expect((await call("GET", url(store, "/memory"), undefined, part)).status).toBe(403);
  });
});

describe("state of a store", () => {
  it("is the agents' together: keys, SQL and queues, by their grants; an older run of a machine writes no more", async () => {
    const [writer, reader, stranger] = await Promise.all([Inside.make(), Inside.make(), Inside.make()]);
    const store = await madeStore({
      grants: [
        { agent: writer.name, access: "write" },
        { agent: reader.name, access: "read" },
      ],
    });
    const path = `/stores/${store.name}`;
    const key = `${path}/state/keys/plans/today`;
    expect((await writer.ask("PUT", key, '{"step":1}')).status).toBe(200);
    expect(await (await reader.call("GET", key)).json()).toEqual({ step: 1 });
    expect((await reader.ask("PUT", key, "{}")).body.error.code).toBe("forbidden");
    expect((await stranger.ask("GET", key)).body.error.code).toBe("forbidden");
    expect(await (await call("GET", `/v1${key}`)).json()).toEqual({ step: 1 });
    const sql = { statements: [{ sql: "CREATE TABLE t (n)" }, { sql: "INSERT INTO t VALUES (1)" }] };
    expect((await writer.ask("POST", `${path}/state/sql`, sql)).status).toBe(200);
    expect((await reader.ask("POST", `${path}/state/sql`, sql)).body.error.code).toBe("forbidden");
    expect((await writer.ask("POST", `${path}/queues/jobs/tasks`, { payload: 1 })).status).toBe(200);
    expect((await reader.ask("GET", `${path}/queues/jobs`)).status).toBe(200);
    // Of its own it has nothing of that.
    expect((await writer.ask("GET", "/state/keys/plans/today")).body.error.code).toBe("state_not_found");
    const next = new Inside(writer, 2);
    expect((await next.ask("PUT", key, '{"step":2}')).status).toBe(200);
    expect((await writer.ask("PUT", key, '{"step":0}')).body.error.code).toBe("stale_generation");
    await ask("DELETE", url(store, `?confirm=${store.name}`));
    const again = (await ask<Store>("PUT", url(store), { grants: [{ agent: "*", access: "write" }] })).body;
    expect((await reader.ask("GET", `/stores/${again.name}/state/keys/plans/today`)).status).toBe(404);
  });
});

describe("many agents at once", () => {
  it("lose nothing that was acknowledged: 20 writers in 4 machines, 100 entries each", async () => {
    const store = await madeStore({ grants: [{ agent: "*", access: "write" }] });
    const machines = await Promise.all(Array.from({ length: 4 }, () => Inside.make()));
    const memory = TestMemory.ofStore(store);
    let evictions: Promise<unknown> = Promise.resolve();
    const acknowledged = await Promise.all(
      Array.from({ length: 20 }, async (_, writer) => {
        const inside = machines[writer % 4] as Inside;
        const entries: MemoryEntry[] = [];
        for (let n = 0; n < 100; n++) {
          const text = `writer ${writer} entry ${n}`;
          // Whoever got no answer asks again, as an agent would.
          for (;;) {
            const answer: Answer<AddedMemory> | null = await inside
              .ask<AddedMemory>("POST", `/stores/${store.name}/memory`, { text, idempotencyId: text })
              .catch(() => null);
            if (answer?.status === 200) {
              entries.push(...answer.body.data);
              break;
            }
            if (answer && answer.status < 500) throw new Error(JSON.stringify(answer.body));
          }
          // The object ends in the middle of it, twice.
          if (writer === 0 && (n === 30 || n === 60)) evictions = evictions.then(() => memory.crash());
        }
        return entries;
      }),
    );
    await evictions;
    await memory.evict();
    const all = new Map<string, MemoryEntry>();
    for (let cursor = ""; ;) {
      const page = await memory.list(`?order=oldest&limit=100${cursor}`);
      for (const entry of page.data) all.set(entry.id, entry);
      if (page.nextCursor === null) break;
      cursor = `&cursor=${page.nextCursor}`;
    }
    expect(acknowledged.flat()).toHaveLength(2000);
    expect(new Set([...all.values()].map(({ text }) => text)).size).toBe(2000);
    expect(all.size).toBe(2000);
    for (const { id, text, author, createdAt } of acknowledged.flat())
      expect(all.get(id)).toMatchObject({ text, author, createdAt });
    expect(new Set([...all.values()].map(({ author }) => author.id))).toEqual(new Set(machines.map(({ id }) => id)));
    expect(await memory.found('"writer 7 entry 42"')).toEqual(["writer 7 entry 42"]);
  }, 120_000);
});

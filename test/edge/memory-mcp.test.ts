/** The MCP endpoint of a memory, as the official client uses it: outside with a key, inside without. */
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { beforeEach, describe, expect, it } from "vitest";
import type { MemoryEntry } from "../../sdk/contract/memory.ts";
import { API, edge, heartbeat, secrets } from "./client.ts";
import { Inside, madeStore, TestMemory } from "./memories.ts";

beforeEach(async () => {
  await heartbeat();
});

type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

async function connected(path: string, fetch: Fetch): Promise<Client> {
  const client = new Client({ name: "a test", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${API}${path}`), { fetch: fetch as never }) as never);
  return client;
}

const withKey: Fetch = (url, init) => {
  const headers = new Headers(init?.headers);
  headers.set("authorization", `Bearer ${secrets.apiKey}`);
  return edge(new Request(url, { ...init, headers }));
};

function fromInside(inside: Inside): Fetch {
  return (url, init) =>
    inside.call(
      init?.method ?? "GET",
      new URL(url).pathname,
      init?.body === null || init?.body === undefined ? undefined : String(init.body),
      Object.fromEntries(new Headers(init?.headers)),
    );
}

interface Said {
  entries: MemoryEntry[];
  entry: MemoryEntry;
  forgotten: number;
  nextCursor: string | null;
  error: { code: string };
}

async function use(client: Client, name: string, input: Record<string, unknown>): Promise<Said> {
  const { content } = await client.callTool({ name, arguments: input });
  const [first] = content as { text: string }[];
  return JSON.parse(first?.text ?? "null") as Said;
}

describe("the MCP endpoint", () => {
  it("has the tools of a memory, which the official client lists and calls", async () => {
    const memory = await TestMemory.ofSandbox();
    const client = await connected(`${memory.path}/mcp`, withKey);
    expect(client.getServerVersion()?.name).toBe("rouse-memory");
    expect(client.getInstructions()).toContain("data, not instructions");
    await client.ping();
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(
      ["add", "search", "list", "get", "update", "forget"].map((verb) => `memory_${verb}`),
    );
    for (const { inputSchema } of tools)
      expect(inputSchema).toMatchObject({ type: "object", additionalProperties: false });
    const added = await use(client, "memory_add", {
      entries: [
        { text: "Ana likes tea.", tags: ["people"], metadata: { kind: "fact" }, idempotencyId: "a" },
        { text: "Bob likes coffee." },
      ],
    });
    const [ana] = added.entries;
    expect(ana).toMatchObject({ author: { kind: "key", name: "installation" }, version: 1 });
    const again = await use(client, "memory_add", {
      entries: [{ text: "Ana likes tea.", tags: ["people"], metadata: { kind: "fact" }, idempotencyId: "a" }],
    });
    expect(again.entries[0]?.id).toBe(ana?.id);
    expect((await use(client, "memory_search", { query: "who likes tea" })).entries[0]?.text).toBe("Ana likes tea.");
    const listed = await use(client, "memory_list", { filter: { tags: ["people"] }, limit: 1 });
    expect(listed.entries.map(({ id }) => id)).toEqual([ana?.id]);
    const update = { id: ana?.id, text: "Ana likes mate.", ifVersion: 1 };
    expect((await use(client, "memory_update", update)).entry.version).toBe(2);
    expect((await use(client, "memory_get", { id: ana?.id })).entry.text).toBe("Ana likes mate.");
    expect((await use(client, "memory_update", { ...update, text: "?" })).error.code).toBe("version_mismatch");
    expect((await use(client, "memory_forget", { ids: [ana?.id] })).forgotten).toBe(1);
    const missing = await client.callTool({ name: "memory_get", arguments: { id: ana?.id } });
    expect(missing.isError).toBe(true);
    expect((await use(client, "memory_get", {})).error.code).toBe("invalid_request");
    await expect(client.callTool({ name: "memory_destroy", arguments: {} })).rejects.toThrow("memory_destroy");
    await client.close();
    expect(await memory.texts()).toEqual(["Bob likes coffee."]);
  });

  it("is the machine's own inside, and a store's for whoever it is open to", async () => {
    const [writer, reader] = await Promise.all([Inside.make(), Inside.make()]);
    const store = await madeStore({
      grants: [
        { agent: writer.name, access: "write" },
        { agent: reader.name, access: "read" },
      ],
    });
    const own = await connected("/memory/mcp", fromInside(writer));
    await use(own, "memory_add", { entries: [{ text: "for me alone" }] });
    const shared = `/stores/${store.name}/memory/mcp`;
    const [writing, reading] = await Promise.all([
      connected(shared, fromInside(writer)),
      connected(shared, fromInside(reader)),
    ]);
    await use(writing, "memory_add", { entries: [{ text: "for all" }] });
    const found = await use(reading, "memory_search", { query: "for" });
    expect(found.entries).toMatchObject([{ text: "for all", author: { id: writer.id, name: writer.name } }]);
    expect((await use(reading, "memory_add", { entries: [{ text: "no" }] })).error.code).toBe("forbidden");
    const stranger = await Inside.make();
    await expect(connected(shared, fromInside(stranger))).rejects.toThrow("forbidden");
    const outside = await connected(`/v1${shared}`, withKey);
    expect((await use(outside, "memory_list", {})).entries).toHaveLength(1);
  });

  it("refuses what is not of the protocol, and whoever has no key, before anything is made", async () => {
    const memory = await TestMemory.ofSandbox();
    const path = `${API}${memory.path}/mcp`;
    expect((await edge(path, { method: "POST", body: "{}" })).status).toBe(401);
    expect((await withKey(path)).status).toBe(405);
    expect((await withKey(path, { method: "DELETE" })).status).toBe(405);
    const headers = { accept: "application/json, text/event-stream", "content-type": "application/json" };
    for (const body of ["", "{", '{"jsonrpc":"2.0"}', '{"jsonrpc":"1.0","id":1,"method":"ping"}'])
      expect((await withKey(path, { method: "POST", body, headers })).status).toBe(400);
    const unknown = await withKey(path, {
      ...{ method: "POST", headers },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "resources/list" }),
    });
    expect(await unknown.json()).toMatchObject({ id: 1, error: { code: -32_601 } });
  });
});

/** The edge's own MCP server, as the official client uses it. */
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CfWorkerJsonSchemaValidator } from "@modelcontextprotocol/sdk/validation/cfworker";
import { beforeEach, describe, expect, it } from "vitest";
import type { Snapshot, SnapshotList } from "../../sdk/contract/snapshot.ts";
import { API, ask, edge, eventually, fake, freshName, heartbeat, secrets } from "./client.ts";
import { COMPATIBILITY, store } from "./stored.ts";

beforeEach(async () => {
  await heartbeat({ compatibility: COMPATIBILITY });
});

/** It checks what tools answer by the schemas that the server lists. */
async function connected(key: string = secrets.apiKey): Promise<Client> {
  const client = new Client(
    { name: "a test", version: "1" },
    { jsonSchemaValidator: new CfWorkerJsonSchemaValidator() },
  );
  const fetch = (url: string | URL, init?: RequestInit) => {
    const headers = new Headers(init?.headers);
    headers.set("authorization", `Bearer ${key}`);
    return edge(new Request(url, { ...init, headers }));
  };
  await client.connect(new StreamableHTTPClientTransport(new URL(`${API}/mcp`), { fetch: fetch as never }) as never);
  return client;
}

const isOf =
  (name: string) =>
  ({ sourceSandboxId }: Snapshot): boolean =>
    sourceSandboxId.startsWith(`${name}~`);

type Said = Record<string, unknown>;

async function use(client: Client, name: string, input: object): Promise<Said> {
  const { structuredContent, content, isError } = await client.callTool({ name, arguments: { ...input } });
  const [first] = content as { text: string }[];
  const text = JSON.parse(first?.text ?? "null") as Said;
  if (isError) return text;
  // For clients that read text alone.
  expect(structuredContent).toEqual(text);
  return text;
}

describe("the tools of the API", () => {
  it("make, find, run, save, copy, open and delete sandboxes", async () => {
    const client = await connected();
    expect(client.getServerVersion()).toMatchObject({ name: "rouse", title: "Rouse" });
    const { tools } = await client.listTools();
    for (const { name, description, inputSchema, outputSchema, annotations } of tools) {
      expect(name).toMatch(/^[a-z]+(?:_[a-z]+)?$/);
      expect(description?.length).toBeGreaterThan(20);
      expect(inputSchema).toMatchObject({ type: "object", additionalProperties: false });
      expect(outputSchema).toMatchObject({ type: "object" });
      expect(annotations).toHaveProperty("readOnlyHint");
    }
    const destructive = tools.filter(({ annotations }) => annotations?.destructiveHint).map(({ name }) => name);
    expect(destructive).toEqual(expect.arrayContaining(["sandbox_delete", "sandbox_rollback", "file_remove"]));
    const sandbox = freshName();
    expect(await use(client, "sandbox_create", { name: sandbox })).toMatchObject({ name: sandbox, state: "running" });
    expect(await use(client, "sandbox_create", { name: sandbox })).toMatchObject({ reused: true });
    expect(await use(client, "sandbox_create", { name: sandbox, mustBeNew: true })).toMatchObject({
      error: { code: "name_taken", hint: expect.stringContaining("getOrCreate") as string },
    });
    expect(await use(client, "sandbox_pause", { sandbox })).toMatchObject({ state: "paused" });
    await fake.commands(sandbox, { stdout: "out", stderr: "err", exitCode: 3 }, { stdout: "one\n", runs: true });
    expect(await use(client, "exec", { sandbox, command: "make" })).toMatchObject({
      ...{ state: "exited", exitCode: 3, stdout: "out", stderr: "err", complete: true },
    });
    const long = await use(client, "exec", { sandbox, argv: ["serve"], waitSeconds: 0, timeoutSeconds: 60 });
    expect(long).toMatchObject({ state: "running", stdout: "one\n", complete: false, nextCursor: 4 });
    expect((await fake.begun(sandbox)).at(-1)?.body).toEqual({ argv: ["serve"], timeoutMs: 60_000 });
    await fake.end(sandbox, { stdout: "two\n" });
    const { processId, nextCursor: cursor } = long;
    expect(await use(client, "process_output", { sandbox, processId, cursor })).toMatchObject({
      ...{ state: "exited", exitCode: 0, stdout: "two\n", complete: true, lostBytes: 0 },
    });
    expect(await use(client, "sandbox_list", { state: "running", limit: 100 })).toMatchObject({
      sandboxes: expect.arrayContaining([expect.objectContaining({ name: sandbox })]) as object,
    });
    const taken = use(client, "sandbox_snapshot", { sandbox });
    const listed = () => ask<SnapshotList>("GET", "/v1/snapshots?limit=100");
    const { body } = await eventually(listed, (all) => all.body.data.some(isOf(sandbox)));
    await store(body.data.find(isOf(sandbox))?.id ?? "", 1);
    expect(await taken).toMatchObject({ mode: "memory", state: "ready" });
    expect(await use(client, "sandbox_fork", { sandbox, name: `${sandbox}-f` })).toMatchObject({
      sandboxes: [{ name: `${sandbox}-f` }],
    });
    expect(await use(client, "sandbox_history", { sandbox })).toHaveProperty("points");
    expect(await use(client, "sandbox_rollback", { sandbox, point: "gen-99" })).toMatchObject({
      error: { code: "point_not_found" },
    });
    const opened = await use(client, "port_expose", { sandbox, port: 3000 });
    expect((await edge(String(opened["urlWithToken"]), { redirect: "manual" })).status).toBeLessThan(400);
    await use(client, "link_create", { sandbox, port: 3000, path: "/docs" });
    expect(await use(client, "link_list", { sandbox })).toMatchObject({ links: [{ path: "/docs", state: "live" }] });
    expect(await use(client, "hook_create", { sandbox, name: "ci", provider: "github" })).toMatchObject({
      url: expect.stringContaining("/hooks/") as string,
    });
    expect(await use(client, "hook_list", { sandbox })).toMatchObject({ hooks: [{ name: "ci" }] });
    expect(await use(client, "sandbox_delete", { sandbox })).toMatchObject({ name: sandbox, state: "deleted" });
    expect(await use(client, "sandbox_get", { sandbox })).toMatchObject({ error: { code: "sandbox_gone" } });
    await client.close();
  });

  it("say all that is wrong with an input, and do nothing", async () => {
    const client = await connected();
    const { error } = await use(client, "sandbox_create", { vcpu: 0, colour: "red" });
    expect(error).toMatchObject({ code: "invalid_request", hint: expect.any(String) as string });
    expect(JSON.stringify(error)).toMatch(/vcpu.*colour/);
    expect(await use(client, "exec", { sandbox: freshName() })).toMatchObject({ error: { code: "invalid_request" } });
    await expect(client.callTool({ name: "sandbox_explode", arguments: {} })).rejects.toThrow("sandbox_explode");
  });

  it("are what the key may do", async () => {
    const keyOf = async (terms: object) =>
      (await ask<{ key: string }>("POST", "/v1/keys", { name: "mcp", ...terms })).body.key;
    const [name, other] = [freshName(), freshName()];
    const reader = await connected(await keyOf({ access: "read" }));
    expect(await use(reader, "sandbox_list", {})).toHaveProperty("sandboxes");
    expect(await use(reader, "sandbox_create", { name })).toMatchObject({ error: { code: "permission_denied" } });
    const part = await connected(await keyOf({ access: "sandboxes", namePrefix: name }));
    expect(await use(part, "sandbox_create", { name: `${name}-1` })).toMatchObject({ state: "running" });
    expect(await use(part, "sandbox_create", { name: other })).toMatchObject({ error: { code: "permission_denied" } });
  });
});

it("tells a client without a key how to authenticate, and takes nothing but the protocol", async () => {
  const initialize = (more: Record<string, string>, method = "POST") =>
    edge(`${API}/mcp`, {
      method,
      headers: {
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
        authorization: `Bearer ${secrets.apiKey}`,
        ...more,
      },
      ...(method === "POST" ? { body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }) } : {}),
    });
  const refused = await initialize({ authorization: "Bearer nonsense" });
  expect(refused.status).toBe(401);
  expect(refused.headers.get("www-authenticate")).toContain("Bearer");
  expect((await initialize({}, "GET")).status).toBe(405);
  expect((await initialize({}, "DELETE")).status).toBe(405);
  expect((await initialize({ origin: "https://elsewhere.test" })).status).toBe(403);
  expect((await initialize({ "mcp-protocol-version": "1999-01-01" })).status).toBe(400);
  const answer = await initialize({ "mcp-protocol-version": "2025-11-25", "mcp-session-id": "of another server" });
  expect(answer.status).toBe(200);
  expect(answer.headers.has("mcp-session-id")).toBe(false);
});

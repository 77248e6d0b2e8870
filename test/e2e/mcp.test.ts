/** MCP servers in a real machine, asked by the official client over the public URL, over sleep and boot. */
import { request } from "node:http";
import { Readable } from "node:stream";
import { expect, it } from "vitest";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { McpGateway } from "rouse";
import { freshName, rouse, system } from "./support.ts";

/** `fetch` to a named URL, whose host name need not resolve here. */
function namedFetch(input: string | URL, init: RequestInit = {}): Promise<Response> {
  const url = new URL(input);
  const headers = { ...Object.fromEntries(new Headers(init.headers)), host: url.host };
  const to = { host: "127.0.0.1", port: new URL(system.url).port, path: url.pathname, agent: false } as const;
  return new Promise((resolve, reject) => {
    const sent = request({ ...to, method: init.method ?? "GET", headers }, (got) => {
      const { statusCode: status = 502 } = got;
      const body = status === 202 || status === 204 ? null : (Readable.toWeb(got) as ReadableStream<Uint8Array>);
      if (body === null) got.resume();
      const type = got.headers["content-type"] ?? "";
      const session = got.headers["mcp-session-id"];
      resolve(
        new Response(body, {
          status,
          headers: {
            "content-type": type,
            "x-rouse-state": String(got.headers["x-rouse-state"]),
            ...(typeof session === "string" ? { "mcp-session-id": session } : {}),
          },
        }),
      );
    });
    sent.on("error", reject);
    sent.end(init.body as string | undefined);
  });
}

async function clientOf({ url, headers }: McpGateway): Promise<Client> {
  const client = new Client({ name: "test", version: "1.0.0" });
  const transport = new StreamableHTTPClientTransport(new URL(url ?? ""), {
    requestInit: { headers },
    fetch: namedFetch,
  });
  await client.connect(transport as never);
  return client;
}

async function call(client: Client, name: string, given: Record<string, unknown> = {}): Promise<string> {
  const answer = await client.callTool({ name, arguments: given }, undefined, { timeout: 120_000 });
  const [first] = answer.content as { text: string }[];
  return `${answer.isError === true ? "error: " : ""}${first?.text}`;
}

it("servers of the catalog answer over their URL, asleep and after a boot; what was remembered is there", async () => {
  const sandbox = await rouse.sandboxes.create({ name: freshName("mcp"), idlePauseSeconds: 0 });
  await sandbox.exec("git init -q app && cd app && git config user.name Ada && git config user.email ada@example.com");
  const started = await sandbox.mcp.start([
    { id: "memory" },
    { id: "filesystem" },
    { id: "sequential-thinking" },
    { id: "git", options: { repository: "/workspace/app" } },
  ]);
  // Emulated, some take longer than a start waits.
  const gateway = await sandbox.mcp.ready();
  expect(gateway.token).toBe(started.token);
  expect(gateway.servers.map(({ name, status }) => [name, status])).toEqual(
    ["memory", "filesystem", "sequential-thinking", "git"].map((name) => [name, "ready"]),
  );
  const client = await clientOf(gateway);
  const names = (await client.listTools()).tools.map(({ name }) => name);
  for (const name of [
    "memory__memory_add",
    "filesystem__write_file",
    "sequential-thinking__sequentialthinking",
    "git__git_commit",
  ])
    expect(names).toContain(name);

  expect(await call(client, "memory__memory_add", { entries: [{ text: "the key is under the mat" }] })).toContain("id");
  await call(client, "filesystem__write_file", { path: "/workspace/app/note.md", content: "kept" });
  await call(client, "git__git_add", { paths: ["note.md"] });
  expect(await call(client, "git__git_commit", { message: "A note" })).toContain("A note");

  // Asleep, the next call of the same client wakes it.
  await sandbox.pause();
  expect((await sandbox.mcp.status()).servers.map(({ status }) => status)).toEqual(Array(4).fill("asleep"));
  expect((await sandbox.refresh()).state).toBe("paused");
  expect(await call(client, "memory__memory_search", { query: "mat" })).toContain("under the mat");
  expect((await sandbox.refresh()).state).toBe("running");
  expect((await sandbox.mcp.status()).servers.map(({ status, restarts }) => [status, restarts])).toEqual(
    Array(4).fill(["ready", 0]),
  );

  // After a boot the servers are other processes; the client goes on all the same.
  await sandbox.restart();
  expect(await call(client, "memory__memory_search", { query: "mat" })).toContain("under the mat");
  await sandbox.mcp.ready();
  expect(await call(client, "filesystem__read_text_file", { path: "/workspace/app/note.md" })).toBe("kept");
  expect(await call(client, "git__git_log")).toContain("A note");

  // A program of one's own, and one that ends at its start.
  const own = `${String.raw`process.stdin.once("data", () => { console.error("no licence"); process.exit(3) })`}`;
  await expect(sandbox.mcp.start([{ name: "mine", command: ["node", "-e", own] }])).rejects.toMatchObject({
    code: "mcp_failed",
    message: expect.stringContaining("no licence") as string,
  });
  await expect(sandbox.mcp.start([{ id: "nothing" }])).rejects.toMatchObject({ code: "mcp_server_not_found" });

  await sandbox.mcp.stop();
  await expect(clientOf(gateway)).rejects.toThrow("unauthorized");
  await sandbox.delete();
}, 900_000);

/** The gateway of MCP servers as a plain process, asked by the official client. */
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { buildMcpPrograms } from "../../backend-pool/guest-programs/mcp/build.ts";
import type { GatewayReport, GatewayServer } from "../../sdk/contract/mcp.ts";

const TOKEN = "rl_token";
const PROGRAM = join(import.meta.dirname, "mcp-program.ts");
let folder: string;
let repository: string;
let running: ChildProcess;
let base: string;
/** A page, and what stands for a server that is reached by HTTP. */
const site = createServer((req, res) => {
  const isPage = req.url === "/page";
  res.writeHead(isPage ? 200 : 404, { "content-type": "text/html" });
  res.end('<title>A &amp; B</title><script>bad()</script><h1>Hi</h1><p>See <a href="/x">this</a>.</p>');
});

const own = (name: string, ...args: string[]): GatewayServer => ({
  ...{ name, kind: "command", cwd: tmpdir() },
  command: [process.execPath, "--disable-warning=ExperimentalWarning", PROGRAM, ...args],
  env: { GREETING: "hello" },
  fromEnv: { TAKEN: "GIVEN" },
});

async function start(servers: readonly GatewayServer[]): Promise<{ child: ChildProcess; base: string }> {
  const settings = { port: 0, version: 1, tokenSha256: createHash("sha256").update(TOKEN).digest("hex"), servers };
  const child = spawn(process.execPath, [join(folder, "gateway.js")], {
    env: { ...process.env, ROUSE_MCP: JSON.stringify(settings), GIVEN: "from the machine" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const port = await new Promise<string>((resolve, reject) => {
    child.stdout.on("data", (chunk: Buffer) => resolve(/\d+/.exec(String(chunk))?.[0] ?? ""));
    child.on("exit", () => reject(new Error("the gateway ended")));
  });
  return { child, base: `http://127.0.0.1:${port}` };
}

async function clientOf(path: string, at = base, token = TOKEN): Promise<Client> {
  const client = new Client({ name: "test", version: "1.0.0" });
  const headers = { authorization: `Bearer ${token}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(path, at), { requestInit: { headers } }) as never);
  return client;
}

async function call(client: Client, name: string, given: Record<string, unknown> = {}): Promise<string> {
  const answer = await client.callTool({ name, arguments: given });
  const [first] = answer.content as { text: string }[];
  return `${answer.isError === true ? "error: " : ""}${first?.text}`;
}

async function status(at = base): Promise<GatewayReport["servers"]> {
  const answer = await fetch(`${at}/status?waitMs=20000`, { headers: { authorization: `Bearer ${TOKEN}` } });
  return ((await answer.json()) as GatewayReport).servers;
}

const git = (...args: string[]) => execFileSync("git", ["-C", repository, ...args], { encoding: "utf8" });

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rouse-mcp-"));
  repository = await mkdtemp(join(tmpdir(), "rouse-mcp-files-"));
  await buildMcpPrograms(folder);
  git("init", "--quiet", "--initial-branch=main");
  git("config", "user.name", "Ada");
  git("config", "user.email", "ada@example.com");
  await new Promise<void>((resolve) => site.listen(0, "127.0.0.1", resolve));
  const started = await start([
    { name: "files", kind: "bundled", program: "filesystem", args: [repository] },
    { name: "thinking", kind: "bundled", program: "sequential-thinking", args: [] },
    { name: "git", kind: "builtin", program: "git", options: { repository } },
    { name: "fetch", kind: "builtin", program: "fetch", options: {} },
    { name: "time", kind: "builtin", program: "time", options: {} },
    own("mine"),
    own("broken", "--broken"),
  ]);
  ({ child: running, base } = started);
});

afterAll(async () => {
  running.kill();
  site.close();
  await Promise.all([folder, repository].map((path) => rm(path, { recursive: true, force: true })));
});

it("says which servers are up, and why one is not", async () => {
  const servers = await status();
  expect(servers.filter(({ name }) => name !== "broken").map((one) => [one.name, one.status])).toEqual(
    ["files", "thinking", "git", "fetch", "time", "mine"].map((name) => [name, "ready"]),
  );
  const broken = servers.find(({ name }) => name === "broken");
  expect(broken?.status).toBe("failed");
  expect(broken?.message).toContain("ended with code 3");
  expect(broken?.message).toContain("no configuration: give --config");
});

it("lists all tools at one URL with their server's name, and a server's own under theirs", async () => {
  const all = await clientOf("/mcp");
  const { tools } = await all.listTools();
  const names = tools.map(({ name }) => name);
  for (const name of ["files__read_text_file", "thinking__sequentialthinking", "git__git_status", "mine__whoami"])
    expect(names).toContain(name);
  const mine = await clientOf("/mine/mcp");
  expect((await mine.listTools()).tools.map(({ name }) => name)).toEqual(["whoami", "die", "count", "wait"]);
  expect(JSON.parse(await call(all, "mine__whoami", { a: 1 }))).toMatchObject({
    GREETING: "hello",
    TAKEN: "from the machine",
    given: { a: 1 },
  });
  // What the gateway was told is no business of its servers.
  expect(JSON.parse(await call(mine, "whoami")).ROUSE_MCP).toBeUndefined();
  await expect(call(all, "nobody__x")).rejects.toThrow("no server");
});

it("lets nobody in without the token, and opens no standing streams", async () => {
  await expect(clientOf("/mcp", base, "rl_other")).rejects.toThrow("needs Authorization");
  for (const headers of [{}, { authorization: "Bearer rl_tokenx" }, { authorization: TOKEN }])
    expect((await fetch(`${base}/status`, { headers: headers as Record<string, string> })).status).toBe(401);
  const headers = { authorization: `Bearer ${TOKEN}` };
  expect((await fetch(`${base}/mcp`, { headers })).status).toBe(405);
  expect((await fetch(`${base}/nobody/mcp`, { method: "POST", headers })).status).toBe(404);
});

it("two clients at once have one server, and each its own answers", async () => {
  const [a, b] = await Promise.all([clientOf("/mcp"), clientOf("/mine/mcp")]);
  const asked = Array.from({ length: 20 }, (_, n) =>
    n % 2 === 0 ? call(a, "mine__whoami", { n }) : call(b, "whoami", { n }),
  );
  const answers = (await Promise.all(asked)).map((text) => JSON.parse(text) as { pid: number; given: { n: number } });
  expect(answers.map(({ given }) => given.n)).toEqual(Array.from({ length: 20 }, (_, n) => n));
  expect(new Set(answers.map(({ pid }) => pid)).size).toBe(1);
});

it("a server that dies is started again; the call that it died in is an error, the next one is answered", async () => {
  const client = await clientOf("/mine/mcp");
  const { pid } = JSON.parse(await call(client, "whoami")) as { pid: number };
  await expect(call(client, "die")).rejects.toThrow("Connection closed");
  await expect
    .poll(async () => (await status()).find(({ name }) => name === "mine"), { timeout: 30_000 })
    .toMatchObject({ status: "ready", restarts: 1 });
  expect((JSON.parse(await call(client, "whoami")) as { pid: number }).pid).not.toBe(pid);
});

it("progress reaches the client, and a call that it gives up ends at the server", async () => {
  const client = await clientOf("/mine/mcp");
  const seen: number[] = [];
  await client.callTool({ name: "count" }, undefined, { onprogress: ({ progress }) => seen.push(progress) });
  expect(seen).toEqual([1, 2, 3]);
  const before = (JSON.parse(await call(client, "whoami")) as { cancelled: number }).cancelled;
  const abort = new AbortController();
  const waiting = client.callTool({ name: "wait" }, undefined, { signal: abort.signal });
  await call(client, "whoami");
  abort.abort();
  await expect(waiting).rejects.toThrow("abort");
  await expect
    .poll(async () => (JSON.parse(await call(client, "whoami")) as { cancelled: number }).cancelled)
    .toBe(before + 1);
});

describe("git", () => {
  it("stages, commits, branches and shows, and nothing it is given is an option of git", async () => {
    const client = await clientOf("/git/mcp");
    await writeFile(join(repository, "-a.txt"), "one\n");
    expect(await call(client, "git_status")).toContain("?? -a.txt");
    expect(await call(client, "git_add", { paths: ["-a.txt"] })).toBe("Staged.");
    expect(await call(client, "git_commit", { message: "--amend" })).toContain("--amend");
    await writeFile(join(repository, "-a.txt"), "two\n");
    expect(await call(client, "git_diff", { paths: ["-a.txt"] })).toContain("+two");
    expect(await call(client, "git_log")).toContain("Ada <ada@example.com>");
    expect(await call(client, "git_show", { revision: "HEAD" })).toContain("+one");
    expect(await call(client, "git_branch", { name: "next" })).toBe("Made next.");
    expect(await call(client, "git_checkout", { branch: "next" })).toContain("next");
    const file = join(repository, "written");
    for (const [tool, given] of [
      ["git_diff", { revision: `--output=${file}` }],
      ["git_log", { revision: `--output=${file}` }],
      ["git_show", { revision: `--output=${file}` }],
      ["git_branch", { name: "--delete" }],
      ["git_branch", { name: "x", from: "--force" }],
      ["git_checkout", { branch: "-f" }],
    ] as const)
      expect([tool, await call(client, tool, given)]).toEqual([tool, expect.stringContaining("error: ")]);
    expect(await call(client, "git_add", { paths: ["--all"] })).toContain("error: ");
    expect(git("status", "--short")).not.toContain("written");
    expect(await call(client, "git_show", { revision: "nothing" })).toContain("error: ");
  });
});

it("files are those of the folder alone", async () => {
  const client = await clientOf("/files/mcp");
  await call(client, "write_file", { path: join(repository, "note.md"), content: "kept" });
  expect(await call(client, "read_text_file", { path: join(repository, "note.md") })).toBe("kept");
  expect(await call(client, "read_text_file", { path: "/etc/passwd" })).toContain("error: ");
});

it("a page is text with its links, part by part", async () => {
  const client = await clientOf("/fetch/mcp");
  const url = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
  const text = await call(client, "fetch", { url: `${url}/page` });
  expect(text).toBe(`# A & B\n\n# Hi\n\nSee [this](${url}/x).`);
  expect(await call(client, "fetch", { url: `${url}/page`, maxLength: 4, startIndex: 2 })).toMatch(
    /^A & \n\n\[\d+ more characters: startIndex 6\]$/,
  );
  expect(await call(client, "fetch", { url: `${url}/page`, raw: true })).toContain("<script>");
  expect(await call(client, "fetch", { url: `${url}/gone` })).toContain("answered 404");
  expect(await call(client, "fetch", { url: "file:///etc/passwd" })).toContain("error: ");
  expect(await call(client, "fetch", { url: "http://127.0.0.1:1/" })).toContain("can't be reached");
});

it("times are told in any zone", async () => {
  const client = await clientOf("/time/mcp");
  const time = await call(client, "convert_time", { time: "2027-01-31T09:00:00+01:00", timezone: "Asia/Tokyo" });
  expect(time).toContain("17:00:00");
  expect(await call(client, "get_current_time", { timezone: "Nowhere/X" })).toContain("error: ");
});

it("ends with all that it started", async () => {
  const { child, base: at } = await start([own("mine")]);
  const client = await clientOf("/mcp", at);
  const { pid } = JSON.parse(await call(client, "whoami")) as { pid: number };
  child.kill("SIGTERM");
  await expect.poll(() => child.exitCode, { timeout: 20_000 }).toBe(0);
  expect(() => process.kill(pid, 0)).toThrow("ESRCH");
});

/** A guest agent is replaced by the host's, unless something would be lost with it. */
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { GuestFacts } from "../../sdk/contract/guest.ts";
import { codeOf, isAlive, startAgent, type Agent } from "./agent.ts";

let folder: string;
let agent: Agent;
const programs = () => join(folder, "programs");
const state = () => join(folder, "state");
const start = async () => (agent = await startAgent("--state", state(), "--renewable", programs()));
const flags = async () => (await readdir(state())).filter((name) => name === "renewed" || name === "tried");

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rouse renewal-"));
  await mkdir(join(programs(), "mcp"), { recursive: true });
  for (const name of ["agent.mjs", "stays", "mcp/old"]) await writeFile(join(programs(), name), "of before");
  await start();
});
afterEach(async () => {
  await agent.end();
  await rm(folder, { recursive: true, force: true });
});

async function newer(): Promise<Buffer> {
  const dir = join(folder, "newer");
  await mkdir(join(dir, "mcp"), { recursive: true });
  for (const name of ["agent.mjs", "version", "mcp/new"]) await writeFile(join(dir, name), "newer");
  return execFileSync("tar", ["-czf", "-", "-C", dir, "."]);
}
const renew = async () => agent.call("POST", "/renew", { bytes: await newer() });
const holds = async () => GuestFacts.parse((await agent.call("GET", "/facts")).body).holds;

test("its programs are replaced, and it ends for PID 1 to start the newer one, which confirms itself", async () => {
  expect(await holds()).toEqual([]);
  expect((await renew()).status).toBe(200);
  await expect.poll(() => isAlive(agent.pid), { timeout: 10_000 }).toBe(false);
  expect(await readdir(programs(), { recursive: true })).toEqual(
    expect.arrayContaining(["agent.mjs", "version", "stays", "mcp", "mcp/new", ".before/agent.mjs", ".before/mcp/old"]),
  );
  expect(await readFile(join(programs(), "agent.mjs"), "utf8")).toBe("newer");
  expect(await readdir(join(programs(), "mcp"))).toEqual(["new"]);
  expect(await flags()).toEqual(["renewed"]);
  await start();
  expect(await flags()).toEqual([]);
});

test("while a process runs, or has ended just now, and while files are watched, it stays", async () => {
  const { id } = await agent.spawn({ command: "sleep 600" });
  expect(await holds()).toEqual(["processes: 1"]);
  const refused = await renew();
  expect([refused.status, codeOf(refused)]).toEqual([409, "conflict"]);
  await agent.signal(id, "SIGKILL");
  await expect.poll(async () => (await agent.process(id)).state).toBe("killed");
  await agent.call("POST", "/files/watches", { body: { path: agent.home } });
  expect(await holds()).toEqual(["processes: 1", "watches: 1"]);
  expect(await readFile(join(programs(), "agent.mjs"), "utf8")).toBe("of before");
  expect(isAlive(agent.pid)).toBe(true);
});

test("what is no archive changes nothing", async () => {
  const refused = await agent.call("POST", "/renew", { bytes: Buffer.from("no tar") });
  expect([refused.status, codeOf(refused)]).toEqual([502, "guest_failed"]);
  expect(await readFile(join(programs(), "agent.mjs"), "utf8")).toBe("of before");
  expect(await flags()).toEqual([]);
  expect(isAlive(agent.pid)).toBe(true);
});

test("variables that the host told of are those of the next agent", async () => {
  await agent.call("PUT", "/configure", { body: { env: { WORD: "told" } } });
  process.kill(agent.pid, "SIGKILL");
  await expect.poll(() => isAlive(agent.pid), { timeout: 10_000 }).toBe(false);
  await start();
  expect((await agent.exec("echo $WORD")).stdout).toBe("told\n");
});

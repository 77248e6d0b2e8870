/** What an interpreter knows outlives the guest agent, however that ends. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Context, Execution, GuestFacts } from "../../sdk/contract/guest.ts";
import { KERNEL_PYTHON, NO_KERNEL } from "../support/kernel-python.ts";
import { isAlive, startAgent, type Agent } from "./agent.ts";

let folder: string;
let agent: Agent;
const agents: Agent[] = [];

async function start(...flags: string[]): Promise<void> {
  agent = await startAgent("--python", KERNEL_PYTHON, "--state", join(folder, "state"), ...flags);
  agents.push(agent);
}
/** As PID 1 does: the agent is gone, and another one comes. */
async function restartAgent(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
  process.kill(agent.pid, signal);
  await expect.poll(() => isAlive(agent.pid), { timeout: 15_000 }).toBe(false);
  await start();
}
beforeEach(async (context) => {
  if (NO_KERNEL !== null) context.skip(NO_KERNEL);
  folder = await mkdtemp(join(tmpdir(), "rouse-kept-"));
  await start();
});
afterEach(async () => {
  if (NO_KERNEL !== null) return;
  for (const { id } of await contexts()) await agent.call("DELETE", `/interpreter/contexts/${id}`);
  for (const one of agents.splice(0)) await one.end();
  await rm(folder, { recursive: true, force: true });
});

type Body = Record<string, unknown>;
const run = async (code: string, more: Body = {}) =>
  Execution.parse((await agent.call("POST", "/interpreter:run", { body: { code, ...more } })).body);
const contexts = async () => Context.array().parse((await agent.call("GET", "/interpreter/contexts")).body["data"]);
const textOf = async (code: string, more: Body = {}) =>
  (await run(code, more)).results.find(({ main }) => main)?.data["text/plain"];

test.each(["SIGKILL", "SIGTERM"] as const)(
  "variables, contexts, their folders and variables of environment: %s",
  async (signal) => {
    await run("x = 41");
    await agent.call("POST", "/interpreter/contexts", { body: { id: "other", cwd: "/tmp", env: { WORD: "own" } } });
    await run("y = [1, 2]", { context: "other" });
    const before = await contexts();
    await restartAgent(signal);
    expect(await contexts()).toEqual(
      before.map((one) => ({ ...one, processId: expect.any(String), state: expect.stringMatching(/starting|idle/) })),
    );
    const next = await run("x + 1");
    expect(next).toMatchObject({ contextStarted: false, executionCount: 2, status: "ok" });
    expect(next.results[0]?.data["text/plain"]).toBe("42");
    const own = "import os; (y, os.getcwd(), os.environ['WORD'])";
    expect(await textOf(own, { context: "other" })).toBe("([1, 2], '/tmp', 'own')");
    // The one after it, too.
    await restartAgent(signal);
    expect(await textOf("x")).toBe("41");
    expect((await contexts()).map(({ id }) => id)).toEqual(["python", "other"]);
  },
  120_000,
);

test("a run that was under way goes on; the next one waits for it", async () => {
  await run("n = 0");
  const lost = run("import time\nfor i in range(30): time.sleep(0.1); n += 1; print(n)").catch(() => "lost");
  await expect.poll(async () => (await contexts())[0]?.state, { timeout: 20_000 }).toBe("busy");
  await restartAgent();
  expect(await lost).toBe("lost");
  await expect.poll(async () => (await contexts())[0]?.state, { timeout: 20_000 }).toBe("busy");
  expect(await textOf("n")).toBe("30");
  expect(await run("print(1)")).toMatchObject({ stdout: "1\n", status: "ok" });
}, 120_000);

test("one that goes on can be interrupted, or left when its time is up", async () => {
  await run("n = 7");
  void run("import time\ntime.sleep(600)").catch(() => undefined);
  await expect.poll(async () => (await contexts())[0]?.state, { timeout: 20_000 }).toBe("busy");
  await restartAgent();
  expect(await run("n", { timeoutMs: 500 })).toMatchObject({ status: "timeout" });
  expect((await agent.call("POST", "/interpreter/contexts/python:interrupt", { body: {} })).body).toEqual({
    interrupted: true,
  });
  expect(await textOf("n")).toBe("7");
}, 120_000);

test("a kernel that died while there was no agent is begun anew, and one that was deleted stays away", async () => {
  const [kernel] = [await textOf("import os; os.getpid()")];
  await agent.call("POST", "/interpreter/contexts", { body: { id: "gone" } });
  await agent.call("DELETE", "/interpreter/contexts/gone");
  process.kill(agent.pid, "SIGKILL");
  process.kill(Number(kernel), "SIGKILL");
  await expect.poll(() => isAlive(agent.pid), { timeout: 15_000 }).toBe(false);
  await start();
  expect(await run("'x' in globals()")).toMatchObject({ contextStarted: true, status: "ok" });
  expect((await contexts()).map(({ id }) => id)).toEqual(["python"]);
}, 120_000);

test("a preloaded one is still that: no second one is loaded", async () => {
  await agent.end();
  agents.pop();
  await start("--preload-interpreter");
  const ready = async () => GuestFacts.parse((await agent.call("GET", "/facts")).body).interpreterReady;
  await expect.poll(ready, { timeout: 60_000 }).toBe(true);
  const kernel = await textOf("import os; os.getpid()");
  process.kill(agent.pid, "SIGKILL");
  await expect.poll(() => isAlive(agent.pid), { timeout: 15_000 }).toBe(false);
  await start("--preload-interpreter");
  await expect.poll(ready, { timeout: 20_000 }).toBe(true);
  expect(await textOf("os.getpid()")).toBe(kernel);
}, 120_000);

/** Commands after a boot and a wake, and services, by the real guest agent; it may die meanwhile. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Frozen, GuestBoot, ServiceLogs, type Service, type TellServices } from "../../sdk/contract/boot.ts";
import { closedOutside } from "../../backend-pool/egress/closed.ts";
import { Tunnels } from "../../backend-pool/egress/tunnel.ts";
import { isAlive, startAgent, type Agent } from "./agent.ts";

let folder: string;
let agent: Agent;
const agents: Agent[] = [];

async function start(...flags: string[]): Promise<void> {
  agent = await startAgent("--state", join(folder, "state"), ...flags);
  agents.push(agent);
}
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rouse-services-"));
  await start();
});
afterEach(async () => {
  await tell({ kind: "configure", boot: { onBoot: null, onWake: null, services: [] } });
  while ((await read()).services.length > 0) await read();
  for (const one of agents.splice(0)) await one.end();
  await rm(folder, { recursive: true, force: true });
});

const nothing = { onBoot: null, onWake: null, services: [] };
const tell = async (what: Partial<TellServices>) =>
  (await agent.call("PUT", "/services", { body: { id: "web~1", generation: 1, kind: "boot", ...what } })).body;
const read = async (query = "") => GuestBoot.parse((await agent.call("GET", `/services${query}`)).body);
const statusOf = async (name: string) => (await read()).services.find((one) => one.name === name);
const place = (name: string) => join(folder, name);
const text = (name: string) => readFile(place(name), "utf8").catch(() => "");
const lines = async (name: string) => (await text(name)).split("\n").filter((line) => line !== "");
/** Says that it runs, and waits. */
const waits = (name: string): Service => ({ name, command: `echo $$ >> ${place(name)}; exec sleep 600` });
const polled = { timeout: 15_000, interval: 50 };
// Agents and programs start in each, and the machine may be busy.
vi.setConfig({ testTimeout: 60_000 });
/** As PID 1 does: the agent is gone, and another one comes. */
async function restartAgent(): Promise<void> {
  process.kill(agent.pid, "SIGKILL");
  await expect.poll(() => isAlive(agent.pid), polled).toBe(false);
  await start();
}

test("the command comes before services, and these in their order, each once the one before is ready", async () => {
  const say = (name: string) => `echo ${name} >> ${place("order")}`;
  const port = await freePort();
  const server = `${say("db")}; sleep 0.3; ${say("db listens")}; exec python3 -m http.server --bind 127.0.0.1 ${port}`;
  await tell({
    boot: {
      ...nothing,
      onBoot: { command: `sleep 0.3; ${say("boot")}; echo out; echo err >&2` },
      services: [
        { name: "db", command: server, ready: { port, path: "/" } },
        { name: "web", command: ["sh", "-c", `${say("web")}; exec sleep 600`] },
      ],
    },
  });
  expect(await read()).toMatchObject({ waitsFor: "onBoot", services: [{ state: "pending" }, { state: "pending" }] });
  await expect.poll(() => statusOf("web"), polled).toMatchObject({ state: "ready", restarts: 0 });
  expect(await lines("order")).toEqual(["boot", "db", "db listens", "web"]);
  const { onBoot, waitsFor } = await read();
  expect(waitsFor).toBeNull();
  expect(onBoot).toMatchObject({ generation: 1, exitCode: 0, timedOut: false, stdout: "out\n", stderr: "err\n" });
  expect(await statusOf("db")).toMatchObject({ state: "ready", port, late: false, readyAt: expect.any(String) });
});

test("told again, nothing begins again; told of another boot, all of it does", async () => {
  const boot = { ...nothing, onBoot: { command: `echo x >> ${place("boots")}` }, services: [waits("work")] };
  await Promise.all([tell({ boot }), tell({ boot })]);
  await expect.poll(() => statusOf("work"), polled).toMatchObject({ state: "ready" });
  await tell({ boot });
  await tell({});
  expect([await lines("boots"), await lines("work")]).toEqual([["x"], [expect.any(String)]]);
  await tell({ generation: 2, boot });
  await expect.poll(async () => (await lines("work")).length, polled).toBe(2);
  expect(await lines("boots")).toHaveLength(2);
});

test("a command that fails keeps services back, and what it said is told", async () => {
  const onBoot = { command: ["sh", "-c", "echo no >&2; exit 3"] };
  await tell({ boot: { ...nothing, onBoot, services: [waits("work")] } });
  await expect.poll(async () => (await read()).onBoot, polled).toMatchObject({ exitCode: 3, stderr: "no\n" });
  expect(await read()).toMatchObject({ waitsFor: null, services: [{ state: "pending" }] });
  await tell({ generation: 2, boot: { ...nothing, onBoot: { command: "sleep 60", timeoutSeconds: 1 } } });
  await expect.poll(async () => (await read()).onBoot, polled).toMatchObject({ exitCode: null, timedOut: true });
});

test("only the last of what a command says is kept", async () => {
  await tell({ boot: { ...nothing, onBoot: { command: "for i in $(seq 20000); do echo line é $i; done" } } });
  await expect.poll(async () => (await read()).onBoot?.exitCode, polled).toBe(0);
  const { stdout = "" } = (await read()).onBoot ?? {};
  expect(Buffer.byteLength(stdout)).toBeLessThanOrEqual(8192);
  expect(stdout.endsWith("line é 20000\n")).toBe(true);
  expect(stdout).not.toContain("\ufffd");
});

test("a service that is killed comes back", async () => {
  await tell({ boot: { ...nothing, services: [waits("work")] } });
  await expect.poll(async () => (await lines("work")).length, polled).toBe(1);
  const pid = Number((await lines("work"))[0]);
  process.kill(pid, "SIGKILL");
  await expect.poll(async () => (await lines("work")).length, polled).toBe(2);
  await expect
    .poll(() => statusOf("work"), polled)
    .toMatchObject({
      ...{ state: "ready", restarts: 1, lastExit: { exitCode: null, signal: "SIGKILL" } },
    });
});

test("one that is not to come back does not, and one that never gets ready is late", async () => {
  await tell({
    boot: {
      ...nothing,
      services: [
        { name: "once", command: "exit 0", restart: "on-failure" },
        { name: "bad", command: "exit 7", restart: "never" },
        { name: "slow", command: "exec sleep 600", ready: { port: 1, timeoutSeconds: 1 } },
        waits("after"),
      ],
    },
  });
  await expect.poll(() => statusOf("after"), polled).toMatchObject({ state: "ready" });
  expect((await read()).services).toMatchObject([
    { name: "once", state: "ended", lastExit: { exitCode: 0 } },
    { name: "bad", state: "failed", lastExit: { exitCode: 7 } },
    { name: "slow", state: "starting", late: true, readyAt: null },
    { name: "after", state: "ready" },
  ]);
});

test("one that was late is ready once it is looked at", async () => {
  const port = await freePort();
  const command = `until [ -e ${place("go")} ]; do sleep 0.1; done; exec python3 -m http.server --bind 127.0.0.1 ${port}`;
  await tell({ boot: { ...nothing, services: [{ name: "slow", command, ready: { port, timeoutSeconds: 1 } }] } });
  await expect.poll(() => statusOf("slow"), polled).toMatchObject({ late: true });
  await writeFile(place("go"), "");
  await expect
    .poll(async () => (await read("?probe=true")).services[0], polled)
    .toMatchObject({ state: "ready", late: false });
});

test("another list stops and starts what it must, and leaves the others", async () => {
  await tell({ boot: { ...nothing, services: [waits("a"), waits("b"), waits("c")] } });
  await expect.poll(() => statusOf("c"), polled).toMatchObject({ state: "ready" });
  const before = await read();
  const changed = { ...waits("b"), env: { X: "1" } };
  await tell({ kind: "configure", boot: { ...nothing, services: [waits("a"), changed, waits("d")] } });
  await expect.poll(() => statusOf("d"), polled).toMatchObject({ state: "ready" });
  const after = await read();
  expect(after.services.map(({ name }) => name)).toEqual(["a", "b", "d"]);
  expect(after.services[0]?.pid).toBe(before.services[0]?.pid);
  expect(after.services[1]?.pid).not.toBe(before.services[1]?.pid);
  await expect.poll(() => isAlive(before.services[2]?.pid ?? 0), polled).toBe(false);
});

test("a command after each wake, once, and only a blocking one is waited for", async () => {
  const onWake = { command: `echo $GREETING >> ${place("wakes")}; sleep 0.2`, env: { GREETING: "hi" }, blocking: true };
  await tell({ boot: { ...nothing, onWake, services: [waits("work")] } });
  await expect.poll(() => statusOf("work"), polled).toMatchObject({ state: "ready" });
  expect(await lines("wakes")).toEqual([]);
  const woken = await tell({ kind: "wake", generation: 2 });
  expect(woken).toMatchObject({ waitsFor: "onWake", generation: 2 });
  await Promise.all([tell({ kind: "wake", generation: 2 }), tell({ kind: "wake", generation: 2 })]);
  await expect.poll(async () => (await read()).onWake, polled).toMatchObject({ generation: 2, exitCode: 0 });
  expect(await read()).toMatchObject({ waitsFor: null, onBoot: null });
  expect(await lines("wakes")).toEqual(["hi"]);
  expect(await lines("work")).toHaveLength(1);
  // A copy has another id, and may be of the same generation.
  await tell({ id: "copy~1", kind: "wake", generation: 2 });
  await expect.poll(() => lines("wakes"), polled).toEqual(["hi", "hi"]);
  expect(await lines("work")).toHaveLength(1);
});

test("an agent that dies finds its services as they were, goes on with their output, and starts them again", async () => {
  const command = `echo $$ >> ${place("talk")}; while true; do echo tick; sleep 0.1; done`;
  await tell({
    boot: { ...nothing, onBoot: { command: `echo x >> ${place("boots")}` }, services: [{ name: "talk", command }] },
  });
  await expect.poll(() => statusOf("talk"), polled).toMatchObject({ state: "ready" });
  const before = await statusOf("talk");
  await restartAgent();
  expect(await statusOf("talk")).toEqual(before);
  const logs = async () => ServiceLogs.parse((await agent.call("GET", "/services/talk/logs")).body);
  await expect.poll(async () => (await logs()).chunks.map((one) => one.text).join(""), polled).toContain("tick");
  process.kill(before?.pid ?? 0, "SIGKILL");
  await expect.poll(async () => (await lines("talk")).length, polled).toBe(2);
  await expect.poll(() => statusOf("talk"), polled).toMatchObject({ state: "ready", restarts: 1 });
  expect(await lines("boots")).toEqual(["x"]);
});

test("an agent that dies while the command runs does not run it again, and knows how it ended", async () => {
  const command = `echo x >> ${place("boots")}; until [ -e ${place("go")} ]; do sleep 0.05; done; echo more; exit 0`;
  await tell({ boot: { ...nothing, onBoot: { command }, services: [waits("work")] } });
  await expect.poll(() => lines("boots"), polled).toEqual(["x"]);
  await restartAgent();
  expect(await read()).toMatchObject({ waitsFor: "onBoot" });
  // Told again by its host, too.
  await tell({});
  await writeFile(place("go"), "");
  await expect.poll(() => statusOf("work"), polled).toMatchObject({ state: "ready" });
  expect((await read()).onBoot).toMatchObject({ exitCode: 0, stdout: "more\n" });
  expect(await lines("boots")).toEqual(["x"]);
});

test("freeze and thaw hooks are told, by command and by request, and say how it went", async () => {
  const asked: string[] = [];
  const server = createServer((req, res) => {
    asked.push(`${req.method} ${req.url} ${req.headers["authorization"] ?? ""}`);
    res.writeHead(req.url === "/no" ? 500 : 204).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const http = (path: string) => ({ http: { path, port, headersEnv: { authorization: "TOKEN" } } });
  await tell({
    boot: {
      ...nothing,
      services: [
        { ...waits("a"), env: { TOKEN: "t" }, freeze: http("/freeze"), thaw: http("/thaw") },
        { ...waits("b"), freeze: { ...http("/no"), required: true } },
        { ...waits("c"), freeze: { command: "echo stuck >&2; exec sleep 60", timeoutSeconds: 1 } },
      ],
    },
  });
  await expect.poll(() => statusOf("c"), polled).toMatchObject({ state: "ready" });
  const { results } = Frozen.parse((await agent.call("POST", "/services:freeze", { body: {} })).body);
  expect(results).toMatchObject([
    { service: "a", ok: true, required: false },
    { service: "b", ok: false, required: true, message: expect.stringContaining("500") },
    { service: "c", ok: false, required: false, message: expect.stringContaining("no end within 1 s") },
  ]);
  await tell({ kind: "wake", generation: 2 });
  await expect.poll(() => asked.toSorted(), polled).toEqual(["POST /freeze t", "POST /no ", "POST /thaw t"]);
  server.close();
});

test("one is started anew by hand, and a name that is none is refused", async () => {
  await tell({ boot: { ...nothing, services: [waits("work")] } });
  await expect.poll(() => statusOf("work"), polled).toMatchObject({ state: "ready" });
  const { pid } = (await statusOf("work")) ?? {};
  const again = await agent.call("POST", "/services/work:restart", { body: {} });
  expect(again.body).toMatchObject({ name: "work", state: "ready", restarts: 1 });
  expect(again.body["pid"]).not.toBe(pid);
  expect((await agent.call("POST", "/services/none:restart", { body: {} })).status).toBe(404);
  expect((await agent.call("GET", "/services/none/logs")).status).toBe(404);
});

test("programs begin once the machine trusts its host: many read only once whom to trust", async () => {
  // Puts certificates in place, and takes a moment for it; root's rights are not needed here.
  await writeFile(place("trust"), `#!/bin/sh\nsleep 0.5\ncat > ${place("trusted")}\n`, { mode: 0o755 });
  await writeFile(place("sudo"), `#!/bin/sh\nshift\nexec "$@"\n`, { mode: 0o755 });
  vi.stubEnv("PATH", `${folder}:${process.env["PATH"]}`);
  await agent.end();
  await start("--trust", place("trust"));
  vi.unstubAllEnvs();
  const seen = (name: string) => `cat ${place("trusted")} >> ${place(name)}`;
  const services = [{ name: "web", command: `${seen("web")}; exec sleep 600` }];
  await tell({ boot: { onBoot: { command: seen("boot") }, onWake: null, services } });
  const caPem = () => "-----BEGIN CERTIFICATE-----\n";
  const { port } = agent;
  const tunnel = new Tunnels({ ...closedOutside, caPem }).begin({
    machine: { id: "web~1", account: "default", generation: 1 },
    ...{
      ready: Promise.resolve(),
      endpoint: () => Promise.resolve({ host: "127.0.0.1", port }),
      touch: () => undefined,
    },
  });
  await expect.poll(() => statusOf("web"), polled).toMatchObject({ state: "ready" });
  await expect.poll(() => lines("web"), polled).toEqual(["-----BEGIN CERTIFICATE-----"]);
  expect(await lines("boot")).toEqual(["-----BEGIN CERTIFICATE-----"]);
  await tell({ kind: "wake", generation: 2, boot: { onBoot: null, onWake: { command: seen("woke") }, services } });
  await expect.poll(() => lines("woke"), polled).toEqual(["-----BEGIN CERTIFICATE-----"]);
  tunnel.cut();
});

test("a read waits for what is new", async () => {
  await tell({ boot: { ...nothing, services: [] } });
  const { version } = await read();
  const next = read(`?after=${version}&waitMs=60000`);
  await tell({ kind: "configure", boot: { ...nothing, services: [waits("work")] } });
  expect((await next).version).toBeGreaterThan(version);
});

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

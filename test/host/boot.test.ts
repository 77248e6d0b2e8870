/** What a machine starts with, by the real guest agent: once for each run, whoever dies in the middle. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { FakeDriver } from "../../backend-pool/machine/fake/driver.ts";
import { Machines } from "../../backend-pool/machine/machines.ts";
import { shapeOf } from "../../backend-pool/shape.ts";
import { Journal } from "../../backend-pool/store/journal.ts";
import type { MachineBoot, Service } from "../../sdk/contract/boot.ts";
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";
import type { MachineEvent } from "../../sdk/contract/host.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";

const id = newSandboxId("booted");
const policy = { residentSeconds: 600, prestartedSeconds: 0, compactAfterSeconds: 3600, coldAfterSeconds: 3600 };
const polled = { timeout: 15_000, interval: 50 };
// Each starts an agent and a server or two, and the machine may be busy.
vi.setConfig({ testTimeout: 60_000 });

let folder: string;
let driver: FakeDriver;
let machines: Machines;
let boot: MachineBoot;
let port: number;

const place = (name: string) => join(folder, name);
const lines = async (name: string) =>
  (await readFile(place(name), "utf8").catch(() => "")).split("\n").filter((line) => line !== "");
const run = (generation: number) => ({ env: {}, idlePauseSeconds: 0, generation, boot });
const create = () => machines.create(id, { ...run(1), account: "default", shape: shapeOf({}), hostname: "booted" });
const admit = (generation: number) => {
  const lease = machines.lease(id, generation);
  return lease.admit(port).finally(() => lease.done());
};
const codeOf = (work: Promise<unknown>) => work.then(() => "ok").catch((fault: { code?: string }) => fault.code);
const web = (): Service => ({
  name: "web",
  command: `echo $$ >> ${place("web")}; exec python3 -m http.server --bind 127.0.0.1 ${port}`,
  ready: { port, path: "/" },
});

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rouse-host-boot-"));
  driver = new FakeDriver(join(folder, "machines"));
  await driver.prepare(shapeOf({}));
  machines = new Machines(driver, new Journal(place("journal")), policy);
  port = await freePort();
  boot = { onBoot: { command: `echo x >> ${place("boots")}` }, onWake: null, services: [web()] };
});
afterEach(async () => {
  await machines.destroy(id);
  await machines.close();
  await rm(folder, { recursive: true, force: true });
});

/** The host agent dies, and another one finds the machine. */
async function restartHost(): Promise<void> {
  // Its driver's processes would end with it.
  vi.spyOn(driver, "close").mockResolvedValueOnce();
  await machines.close();
  machines = new Machines(driver, new Journal(place("journal")), policy);
  await machines.reclaim();
}

async function reported(): Promise<Extract<MachineEvent, { type: "boot" }> | undefined> {
  return machines.pendingEvents().find(({ event }) => event.type === "boot")?.event as never;
}

it("requests to ports wait for the command and its services, and those to the guest agent do not", async () => {
  boot = {
    ...boot,
    onBoot: { command: `until [ -e ${place("go")} ]; do sleep 0.05; done; echo x >> ${place("boots")}` },
  };
  await create();
  let isIn = false;
  const admitted = admit(1).then(() => (isIn = true));
  const { host, port: agent } = await machines.lease(id, 1).endpoint(AGENT_PORT);
  const exec = await fetch(`http://${host}:${agent}/exec`, { method: "POST", body: '{"command":"echo hi"}' });
  expect(await exec.json()).toMatchObject({ stdout: "hi\n" });
  expect(isIn).toBe(false);
  await writeFile(place("go"), "");
  await admitted;
  expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(200);
  expect(await lines("boots")).toEqual(["x"]);
  await expect
    .poll(reported, polled)
    .toMatchObject({ generation: 1, report: { onBoot: { exitCode: 0 }, services: [{ name: "web", state: "ready" }] } });
});

it("over a pause and a wake services run on, and the command after a wake runs once for each", async () => {
  boot = { ...boot, onWake: { command: `echo x >> ${place("wakes")}` } };
  await create();
  await admit(1);
  await machines.pause(id, { generation: 1 });
  await machines.wake(id, run(2));
  await machines.wake(id, run(2));
  await admit(2);
  await expect.poll(() => lines("wakes"), polled).toEqual(["x"]);
  await machines.pause(id, { generation: 2 });
  await machines.wake(id, run(3));
  await expect.poll(() => lines("wakes"), polled).toEqual(["x", "x"]);
  expect([(await lines("boots")).length, (await lines("web")).length]).toEqual([1, 1]);
  await expect.poll(reported, polled).toMatchObject({ report: { onWake: { generation: 3, exitCode: 0 } } });
});

it("a wake with a blocking command lets nothing in before that has ended", async () => {
  const command = `until [ -e ${place("go")} ]; do sleep 0.05; done; echo x >> ${place("wakes")}`;
  boot = { ...boot, onWake: { command, blocking: true } };
  await create();
  await admit(1);
  await machines.pause(id, { generation: 1 });
  await machines.wake(id, run(2));
  let isIn = false;
  const admitted = admit(2).then(() => (isIn = true));
  await new Promise((resolve) => setImmediate(resolve));
  expect(isIn).toBe(false);
  await writeFile(place("go"), "");
  await admitted;
  expect(await lines("wakes")).toEqual(["x"]);
});

it("a boot from disk starts all of it anew", async () => {
  await create();
  await admit(1);
  await machines.boot(id, run(2));
  await admit(2);
  expect([(await lines("boots")).length, (await lines("web")).length]).toEqual([2, 2]);
});

it("a host agent that dies between the command and the services does not have it run again", async () => {
  const command = `echo x >> ${place("boots")}; until [ -e ${place("go")} ]; do sleep 0.05; done`;
  boot = { ...boot, onBoot: { command } };
  await create();
  await expect.poll(() => lines("boots"), polled).toEqual(["x"]);
  await restartHost();
  // Whoever asked for the run asks again, as the answer may have been lost.
  await create();
  await writeFile(place("go"), "");
  await admit(1);
  expect(await lines("boots")).toEqual(["x"]);
  expect(await lines("web")).toHaveLength(1);
  await expect.poll(reported, polled).toMatchObject({ report: { onBoot: { exitCode: 0 } } });
});

it("a host agent that dies before it told of a wake has the next one tell", async () => {
  boot = { ...boot, onWake: { command: `echo x >> ${place("wakes")}` } };
  await create();
  await admit(1);
  await machines.pause(id, { generation: 1 });
  const stuck = Promise.withResolvers<void>();
  vi.spyOn(driver, "wake").mockImplementationOnce(async (...args) => {
    await FakeDriver.prototype.wake.apply(driver, args);
    return { ready: stuck.promise };
  });
  await machines.wake(id, { ...run(2), env: {} }).catch(() => undefined);
  await restartHost();
  await expect.poll(() => lines("wakes"), polled).toEqual(["x"]);
  await machines.wake(id, run(2));
  await admit(2);
  expect(await lines("wakes")).toEqual(["x"]);
});

it("a command that fails is told to those who wait, and to nobody else", async () => {
  boot = { ...boot, onBoot: { command: "echo no >&2; exit 4" } };
  await create();
  expect(await codeOf(admit(1))).toBe("boot_failed");
  expect(machines.describe(id).state).toBe("running");
  expect(await lines("web")).toEqual([]);
});

it("a service that is not ready in its time is named, and let in once it is", async () => {
  const command = `until [ -e ${place("go")} ]; do sleep 0.05; done; exec python3 -m http.server --bind 127.0.0.1 ${port}`;
  boot = { onBoot: null, onWake: null, services: [{ name: "slow", command, ready: { port, timeoutSeconds: 1 } }] };
  await create();
  expect(await codeOf(admit(1))).toBe("service_not_ready");
  await writeFile(place("go"), "");
  await expect.poll(() => codeOf(admit(1)), polled).toBe("ok");
});

it("services agree to a pause, and one that must and does not puts it off", async () => {
  const freeze = { command: `echo freeze >> ${place("hooks")}; test ! -e ${place("busy")}`, required: true };
  const thaw = { command: `echo thaw >> ${place("hooks")}` };
  boot = { ...boot, services: [{ ...web(), freeze, thaw }] };
  await create();
  await admit(1);
  await writeFile(place("busy"), "");
  expect(await codeOf(machines.pause(id, { generation: 1 }))).toBe("pause_failed");
  expect(await codeOf(machines.pause(id, { generation: 1, onlyIfIdle: true }))).toBe("conflict");
  expect(machines.describe(id).state).toBe("running");
  expect(await lines("hooks")).toEqual(["freeze", "thaw", "freeze", "thaw"]);
  await rm(place("busy"));
  expect((await machines.pause(id, { generation: 1 })).state).toBe("paused");
  await machines.wake(id, run(2));
  await expect.poll(async () => (await lines("hooks")).slice(-2), polled).toEqual(["freeze", "thaw"]);
});

it("other settings reach a machine that runs, and one that had none", async () => {
  const services = boot;
  boot = undefined as never;
  await create();
  await admit(1);
  boot = services;
  await machines.configure(id, run(1));
  await expect.poll(() => lines("web"), polled).toHaveLength(1);
  expect(await lines("boots")).toEqual([]);
  boot = { ...services, services: [] };
  await machines.configure(id, run(1));
  await machines.configure(id, run(1));
  await expect.poll(async () => (await reported())?.report.services, polled).toEqual([]);
});

it("a guest agent of before services lets requests in, and sleeps whatever its services are to agree to", async () => {
  const old = createServer((_req, res) => res.writeHead(404).end("{}"));
  await new Promise<void>((resolve) => old.listen(0, "127.0.0.1", resolve));
  const { port: at } = old.address() as AddressInfo;
  vi.spyOn(driver, "endpoint").mockResolvedValue({ host: "127.0.0.1", port: at });
  boot = { ...boot, services: [{ ...web(), freeze: { command: "false", required: true } }] };
  await create();
  await admit(1);
  expect((await machines.pause(id, { generation: 1 })).state).toBe("paused");
  old.close();
});

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port: free } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return free;
}

/** Before a machine sleeps its guest says when a program in it must run next, and the edge learns it. */
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { FakeDriver } from "../../backend-pool/machine/fake/driver.ts";
import { Machines } from "../../backend-pool/machine/machines.ts";
import { shapeOf } from "../../backend-pool/shape.ts";
import { Journal } from "../../backend-pool/store/journal.ts";
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";
import { OneMachine } from "./one-machine.ts";

const id = newSandboxId("timed");
const run = { env: {}, idlePauseSeconds: 0 };
const policy = { residentSeconds: 600, prestartedSeconds: 0, compactAfterSeconds: 3600, coldAfterSeconds: 3600 };
const report = { name: "report", at: "2027-03-04T05:06:07.000Z" };
const poll = { name: "poll", at: "2027-03-03T00:00:00.000Z" };

let folder: string;
let app: Server;
let asked: string[];
let answer: (res: ServerResponse) => void;
let driver: OneMachine;
let machines: Machines;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rouse-guest-timer-"));
  asked = [];
  answer = (res) => res.end(JSON.stringify({ data: [report, poll] }));
  app = createServer((req, res) => {
    asked.push(`${req.method} ${req.url}`);
    answer(res);
  }).listen(0, "127.0.0.1");
  await once(app, "listening");
  driver = new OneMachine(
    id,
    () => (app.address() as AddressInfo).port,
    () => Promise.resolve(),
  );
  machines = new Machines(driver, new Journal(join(folder, "journal")), policy);
  await machines.create(id, { ...run, generation: 1, account: "default", shape: shapeOf({}), hostname: "timed" });
});
afterEach(async () => {
  await machines.close();
  app.close();
  app.closeAllConnections();
  await rm(folder, { recursive: true, force: true });
});

it("is the earliest of them, over a restart of the host agent, until the machine runs again", async () => {
  expect((await machines.pause(id, { generation: 1 })).timer).toEqual(poll);
  expect(asked).toEqual(["GET /timers"]);
  // Asked again, as after an answer that was lost, it says the same.
  expect((await machines.pause(id, { generation: 1 })).timer).toEqual(poll);
  expect(asked).toHaveLength(1);
  await machines.close();
  machines = new Machines(driver, new Journal(join(folder, "journal")), policy);
  await machines.reclaim();
  expect(machines.describe(id)).toMatchObject({ state: "paused", timer: poll });
  expect((await machines.wake(id, { ...run, generation: 2 })).timer).toBeNull();
  answer = (res) => res.end(JSON.stringify({ data: [] }));
  expect((await machines.pause(id, { generation: 2 })).timer).toBeNull();
});

it("is noted before the machine sleeps: a host agent that dies in between finds it", async () => {
  const seen: unknown[] = [];
  vi.spyOn(driver, "pause").mockImplementation(async (_id, aside) => {
    await aside;
    seen.push(new Journal(join(folder, "journal")).all()[0]?.timer);
    driver.asleep = true;
  });
  await machines.pause(id, { generation: 1 });
  expect(seen).toEqual([poll]);
});

it("is in the word of a pause that the host decided on", async () => {
  await machines.pauseAll("host_stopped");
  expect(machines.pendingEvents()).toEqual([
    { account: "default", id, event: { type: "paused", generation: 1, reason: "host_stopped", timer: poll } },
  ]);
});

it.for<[string, (res: ServerResponse) => void]>([
  ["never answers", () => undefined],
  ["is older than timers", (res) => void res.writeHead(404).end("{}")],
  ["says something else", (res) => void res.end("hello")],
  ["names a time that is none", (res) => void res.end(JSON.stringify({ data: [{ name: "x", at: "soon" }] }))],
  ["names it as none is named", (res) => void res.end(JSON.stringify({ data: [{ ...poll, name: "../x" }] }))],
  ["has more than there can be", (res) => void res.end(JSON.stringify({ data: Array(65).fill(poll) }))],
  ["talks without end", (res) => void res.end(`{"data": [], "x": "${"x".repeat(100_000)}"}`)],
])("a guest that %s sleeps all the same, without a timer", async ([, what]) => {
  answer = what;
  expect(await machines.pause(id, { generation: 1 })).toMatchObject({ state: "paused", timer: null });
  expect(driver.asleep).toBe(true);
});

it("is what the real guest agent was told, over a sleep", async () => {
  const agents = new FakeDriver(join(folder, "machines"));
  await agents.prepare(shapeOf({}));
  const real = new Machines(agents, new Journal(":memory:"), policy);
  try {
    await real.create(id, { ...run, generation: 1, account: "default", shape: shapeOf({}), hostname: "timed" });
    const { host, port } = await agents.endpoint(id, AGENT_PORT);
    const url = `http://${host}:${port}/timers/nightly`;
    const set = await fetch(url, { method: "PUT", body: JSON.stringify({ inSeconds: 600 }) });
    const timer = (await set.json()) as object;
    expect((await real.pause(id, { generation: 1 })).timer).toEqual(timer);
    await real.wake(id, { ...run, generation: 2 });
    expect((await real.pause(id, { generation: 2 })).timer).toEqual(timer);
    await real.wake(id, { ...run, generation: 3 });
    await fetch(url, { method: "DELETE" });
    expect((await real.pause(id, { generation: 3 })).timer).toBeNull();
  } finally {
    await real.close();
  }
});

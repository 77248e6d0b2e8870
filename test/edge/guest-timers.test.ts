/** A sleeper is woken for a program in it that said when it must run next. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Why } from "../../sdk/contract/timeline.ts";
import { ask, created, eventually, fake, heartbeat, report } from "./client.ts";
import { store } from "./stored.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

const DAY_MS = 86_400_000;
const stub = (name: string) => env.SANDBOX.getByName(`default/${name}`);
const read = async (id: string) => (await ask("GET", `/v1/sandboxes/${id}`)).body;
const why = async (id: string) => (await ask<Why>("GET", `/v1/sandboxes/${id}:why`)).body;
const act = async (id: string, verb: string, body: object = {}) =>
  (await ask("POST", `/v1/sandboxes/${id}:${verb}`, body)).body;
const iso = (ms: number) => new Date(ms).toISOString();

async function at(ms: number): Promise<void> {
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.setSystemTime(ms);
  await heartbeat();
}

/** The alarm goes off, also after a crash right in front of it, and twice. */
async function alarm(name: string): Promise<void> {
  await evictDurableObject(stub(name));
  await Promise.all([runDurableObjectAlarm(stub(name)), runDurableObjectAlarm(stub(name))]);
  await runDurableObjectAlarm(stub(name));
}

/** One whose guest said that when it went to sleep. */
async function asleep(aheadMs: number, input: Record<string, unknown> = {}) {
  const sandbox = await created(input);
  const due = Date.now() + aheadMs;
  await fake.timer(sandbox.name, { name: "report", at: iso(due) });
  const body = await act(sandbox.id, "pause");
  expect(body.state).toBe("paused");
  return { ...body, name: sandbox.name, due };
}

it("just in time, once, and says what for", async () => {
  const { id, name, due, wakesAt } = await asleep(600_000);
  expect(wakesAt).toBe(iso(due));
  expect((await why(id)).wakesAt).toBe(iso(due));
  await at(due - 10_000);
  await alarm(name);
  expect(await read(id)).toMatchObject({ state: "paused", generation: 1, wakesAt: iso(due) });
  await at(due - 2000);
  await alarm(name);
  expect(await read(id)).toMatchObject({ state: "running", generation: 2, wakesAt: null, memoryRestored: true });
  expect((await fake.state(name)).log).toEqual(["create 1", "pause 1", "wake 2"]);
  const { lastRun, wakesAt: none } = await why(id);
  expect(lastRun).toMatchObject({
    ...{ event: "woke", generation: 2 },
    cause: { kind: "timer", request: "report", keyId: null, port: null, requestId: iso(due) },
  });
  expect(none).toBeNull();
  // What has been done is not done again, and a sleep without a timer is one.
  await fake.timer(name, null);
  expect((await act(id, "pause")).wakesAt).toBeNull();
  await at(due + DAY_MS);
  await alarm(name);
  expect(await read(id)).toMatchObject({ state: "paused", generation: 2 });
});

it("not when something else woke it meanwhile", async () => {
  const { id, name, due } = await asleep(600_000);
  await Promise.all([act(id, "wake"), act(id, "wake")]);
  await at(due);
  await alarm(name);
  expect(await read(id)).toMatchObject({ state: "running", generation: 2, wakesAt: null });
  await fake.timer(name, { name: "next", at: iso(due + 600_000) });
  expect((await act(id, "pause")).wakesAt).toBe(iso(due + 600_000));
});

it("never sooner than after some sleep, and never later than in 366 days, whatever a guest says", async () => {
  const { id, name, pausedAt } = await asleep(-60_000);
  const slept = Date.parse(pausedAt ?? "");
  await at(slept + 4900);
  await alarm(name);
  expect((await read(id)).state).toBe("paused");
  await at(slept + 5100);
  await alarm(name);
  expect(await read(id)).toMatchObject({ state: "running", generation: 2 });
  const far = await asleep(3000 * DAY_MS);
  expect(Date.parse(far.wakesAt ?? "") - Date.parse(far.pausedAt ?? "")).toBe(366 * DAY_MS);
});

it("not where it wakes only when told to, until that is changed", async () => {
  const { id, name, due, wakesAt } = await asleep(600_000, { autoWake: false });
  expect(wakesAt).toBeNull();
  await at(due + 1000);
  await alarm(name);
  expect((await read(id)).state).toBe("paused");
  await act(id, "update", { autoWake: true });
  await alarm(name);
  expect(await read(id)).toMatchObject({ state: "running", generation: 2 });
});

it("as often as requests may, and then when they may again", async () => {
  const { id, name, due } = await asleep(600_000, { maxWakesPerHour: 1 });
  await at(due);
  await alarm(name);
  expect((await read(id)).state).toBe("running");
  await fake.timer(name, { name: "again", at: iso(due + 60_000) });
  await act(id, "pause");
  await at(due + 60_000);
  await alarm(name);
  const capped = await read(id);
  expect(capped.state).toBe("paused");
  expect(Date.parse(capped.wakesAt ?? "")).toBeGreaterThan(due + 3_590_000);
  await at(due + 3_601_000);
  await alarm(name);
  expect(await read(id)).toMatchObject({ state: "running", generation: 3 });
});

it("again later when a wake fails, or its host is not there", async () => {
  const { id, name, due } = await asleep(600_000);
  await fake.plan({ label: name, action: "wake", fail: { code: "wake_failed", message: "no luck" } });
  await at(due);
  await runDurableObjectAlarm(stub(name));
  const failed = await read(id);
  expect(failed).toMatchObject({ state: "paused", lastError: "no luck", wakesAt: iso(due + 5000) });
  await at(due + 5001);
  await alarm(name);
  expect(await read(id)).toMatchObject({ state: "running", generation: 3, lastError: null });
});

it("also when its host put it to sleep by itself, and after a wake that broke off", async () => {
  const { id, name } = await created();
  const due = Date.now() + 600_000;
  await fake.sleep(name);
  const timer = { name: "report", at: iso(due) };
  expect((await report(id, { type: "paused", generation: 1, reason: "host_stopped", timer })).status).toBe(200);
  expect(await read(id)).toMatchObject({ state: "paused", stopReason: "host_stopped", wakesAt: iso(due) });
  await fake.plan({ label: name, action: "wake", drop: "after" });
  await at(due);
  await runDurableObjectAlarm(stub(name));
  await evictDurableObject(stub(name));
  await at(due + 6000);
  await eventually(
    async () => (await runDurableObjectAlarm(stub(name)), read(id)),
    ({ state }) => state === "running",
  );
  expect((await read(id)).generation).toBe(2);
  const strange = { type: "paused", generation: 2, reason: "host_stopped", timer: { name: "A b", at: "soon" } };
  expect((await report(id, strange)).status).toBe(400);
});

it("not once it is stopped or deleted", async () => {
  const stopped = await asleep(600_000);
  expect((await act(stopped.id, "stop")).wakesAt).toBeNull();
  const deleted = await asleep(600_000);
  await ask("DELETE", `/v1/sandboxes/${deleted.id}`);
  await at(deleted.due + 60_000);
  await alarm(stopped.name);
  await alarm(deleted.name);
  expect((await read(stopped.id)).state).toBe("stopped");
  for (const { name } of [stopped, deleted]) expect((await fake.state(name)).log.join()).not.toContain("wake");
});

it("not for what an older state is rolled back to: that has no timer until it sleeps again", async () => {
  const { id, name, due } = await asleep(600_000, { keepPauses: 2 });
  await store(id, 1);
  const [point] = (await ask<{ data: { point: string }[] }>("GET", `/v1/sandboxes/${id}/history`)).body.data;
  const rolled = await act(id, "rollback", { point: point?.point });
  expect(rolled).toMatchObject({ state: "paused", wakesAt: null });
  await at(due);
  await alarm(name);
  expect((await read(id)).state).toBe("paused");
});

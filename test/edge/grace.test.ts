/** Deletions that can be taken back for a while, and recovery from whatever happened. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { DeletedSandbox, Sandbox } from "../../sdk/contract/sandbox.ts";
import { ask, call, created, eventually, fake, faultOf, heartbeat, paused } from "./client.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});
const stubOf = (name: string) => env.SANDBOX.getByName(`default/${name}`);
const remove = (id: string, query = "?graceSeconds=3600") =>
  ask<DeletedSandbox>("DELETE", `/v1/sandboxes/${id}${query}`);
const undelete = (id: string) => ask("POST", `/v1/sandboxes/${id}:undelete`, {});

it("what ran is put to sleep, gone for everybody, and can be had back with its RAM", async () => {
  const { id, name } = await created();
  const removed = (await remove(id)).body;
  expect(Date.parse(removed.undeleteUntil ?? "") - Date.now()).toBeGreaterThan(3_500_000);
  expect((await call("GET", `/v1/sandboxes/${id}`)).status).toBe(410);
  expect((await call("POST", `/v1/sandboxes/${id}:exec`, { command: "true" })).status).toBe(410);
  expect((await ask<{ data: Sandbox[] }>("GET", `/v1/sandboxes?name=${name}`)).body.data).toEqual([]);
  await evictDurableObject(stubOf(name));
  await runDurableObjectAlarm(stubOf(name));
  await runDurableObjectAlarm(stubOf(name));
  expect((await fake.state(name)).machines).toMatchObject([{ id, state: "paused", memory: "saved" }]);
  const [first, second] = await Promise.all([undelete(id), undelete(id)]);
  expect([first.body.state, second.body.state]).toEqual(["paused", "paused"]);
  expect((await ask<{ data: Sandbox[] }>("GET", `/v1/sandboxes?name=${name}`)).body.data).toHaveLength(1);
  expect((await ask("POST", `/v1/sandboxes/${id}:wake`, {})).body).toMatchObject({
    state: "running",
    memoryRestored: true,
  });
});

it("is over when its time is, and when the name is wanted", async () => {
  const { id, name } = await paused();
  await remove(id);
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.setSystemTime(Date.now() + 3_601_000);
  await heartbeat();
  await runDurableObjectAlarm(stubOf(name));
  await eventually(
    () => fake.state(name),
    ({ machines }) => machines.length === 0,
  );
  expect((await undelete(id)).body.error.code).toBe("sandbox_gone");
  vi.useRealTimers();

  const other = await paused();
  await remove(other.id);
  const next = await ask("POST", "/v1/sandboxes", { name: other.name });
  expect(next.body.state).toBe("running");
  expect((await fake.state(other.name)).machines.map((machine) => machine.id)).toEqual([next.body.id]);
  expect((await undelete(other.id)).body.error.code).toBe("sandbox_gone");
});

it("is none unless asked for, ends with a second deletion, and has its bounds", async () => {
  const { id, name } = await paused();
  expect((await remove(id, "")).body.undeleteUntil).toBeNull();
  expect((await undelete(id)).body.error.code).toBe("sandbox_gone");
  expect((await fake.state(name)).machines).toEqual([]);
  const other = await paused();
  await remove(other.id);
  await remove(other.id, "");
  await eventually(
    () => fake.state(other.name),
    ({ machines }) => machines.length === 0,
  );
  expect((await undelete(other.id)).body.error.code).toBe("sandbox_gone");
  for (const seconds of ["-1", "604801", "1.5", "soon"])
    expect((await call("DELETE", `/v1/sandboxes/${other.id}?graceSeconds=${seconds}`)).status).toBe(400);
  expect((await faultOf(await call("POST", "/v1/sandboxes/nobody:undelete", {}))).code).toBe("not_found");
});

it("recover runs again from RAM where there is some, and else from disk", async () => {
  const recover = (id: string) => ask("POST", `/v1/sandboxes/${id}:recover`, {});
  const sleeper = await paused();
  await fake.plan({ label: sleeper.name, action: "wake", fail: { code: "wake_failed", message: "a bad moment" } });
  expect((await ask("POST", `/v1/sandboxes/${sleeper.id}:wake`, {})).body.error.code).toBe("wake_failed");
  expect((await recover(sleeper.id)).body).toMatchObject({ state: "running", memoryRestored: true });
  expect((await recover(sleeper.id)).body.state).toBe("running");

  const { id, name, generation } = await created();
  await fake.crash(name);
  // The pause finds out what happened.
  expect((await ask("POST", `/v1/sandboxes/${id}:pause`, {})).body).toMatchObject({ state: "stopped" });
  expect((await recover(id)).body).toMatchObject({
    state: "running",
    memoryRestored: false,
    generation: generation + 1,
  });
  await call("DELETE", `/v1/sandboxes/${id}`);
  expect((await recover(id)).body.error.code).toBe("sandbox_gone");
});

it("a restart that no host answered at first is not begun twice under one key", async () => {
  const { id, name } = await created();
  const headers = { "idempotency-key": `restart-${name}` };
  const restart = () => ask("POST", `/v1/sandboxes/${id}:restart`, {}, headers);
  await fake.plan({ label: name, action: "boot", drop: "before" });
  expect((await restart()).body.error.code).toBe("host_unavailable");
  await evictDurableObject(stubOf(name));
  const again = await eventually(restart, ({ status }) => status === 200);
  expect(again.body).toMatchObject({ state: "running", generation: 2, replayed: true });
  expect((await restart()).body.generation).toBe(2);
  expect(new Set((await fake.state(name)).log)).toEqual(new Set(["create 1", "boot 2"]));
});

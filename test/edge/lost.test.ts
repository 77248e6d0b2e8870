/** A host that is silent for longer than its lease: its machines are given up, and never run twice. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Sandbox } from "../../sdk/contract/sandbox.ts";
import { ask, call, created, eventually, fake, faultOf, freshName, heartbeat, report } from "./client.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

/** The clock moves on while the host says nothing. */
function silence(ms: number): void {
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.setSystemTime(Date.now() + ms);
}

const stubOf = (label: string) => env.SANDBOX.getByName(`default/${label}`);

it("is waited for while its lease may hold, and its machines sleep once it is over", async () => {
  const { id, name } = await created();
  await fake.away(name, true);
  silence(44_000);
  expect((await faultOf(await call("POST", `/v1/sandboxes/${id}:exec`, { command: "true" }))).code).toBe(
    "host_unavailable",
  );
  expect((await ask("GET", `/v1/sandboxes/${id}`)).body.state).toBe("running");
  silence(2000);
  expect((await faultOf(await call("POST", `/v1/sandboxes/${id}:exec`, { command: "true" }))).code).toBe(
    "host_unavailable",
  );
  expect((await ask("GET", `/v1/sandboxes/${id}`)).body).toMatchObject({ state: "paused", stopReason: "host_lost" });
  await evictDurableObject(stubOf(name));
  // The host is back, has put it to sleep itself, and it wakes where it was.
  await fake.away(name, false);
  await fake.sleep(name);
  await heartbeat();
  expect((await ask("POST", `/v1/sandboxes/${id}:wake`, {})).body).toMatchObject({
    state: "running",
    memoryRestored: true,
  });
  expect((await fake.state(name)).log.filter((line) => line.startsWith("wake"))).toHaveLength(1);
});

it("that comes back with a frozen run goes on only where the edge still counts on it", async () => {
  const { id, name, generation } = await created();
  const answer = async (event: object, hostId?: string) => (await report(id, event, "default", hostId)).json();
  expect(await answer({ type: "returned", generation })).toEqual({ ok: true, fate: "run" });
  expect(await answer({ type: "returned", generation }, "other")).toEqual({ ok: true, fate: "end" });
  await ask("POST", `/v1/sandboxes/${id}:pause`, {});
  expect(await answer({ type: "returned", generation })).toEqual({ ok: true, fate: "sleep" });
  await ask("POST", `/v1/sandboxes/${id}:wake`, {});
  expect(await answer({ type: "returned", generation })).toEqual({ ok: true, fate: "end" });
  expect(await answer({ type: "returned", generation: 2 })).toEqual({ ok: true, fate: "run" });
  await call("DELETE", `/v1/sandboxes/${id}`);
  expect((await report(id, { type: "returned", generation: 2 })).status).toBe(410);
  expect((await fake.state(name)).machines).toEqual([]);
});

it("does not keep a name: after a deletion and its lease the name is free, and the remains go when it is back", async () => {
  const { id, name } = await created();
  await fake.away(name, true);
  expect((await ask("DELETE", `/v1/sandboxes/${id}`)).status).toBe(200);
  expect((await ask("GET", `/v1/sandboxes/${id}`)).status).toBe(410);
  // The old machine may still run: a second one must not.
  expect((await ask("POST", "/v1/sandboxes", { name })).body.error.code).toBe("host_unavailable");
  silence(46_000);
  await heartbeat({ hostId: "spare-1" });
  // The spare host answers for this name from now on.
  await fake.away(name, false);
  const second = await ask("POST", "/v1/sandboxes", { name });
  expect(second.body).toMatchObject({ state: "running" });
  expect(second.body.id).not.toBe(id);
  await evictDurableObject(stubOf(name));
  // The first host is back and shows itself with the machine of the deleted sandbox.
  await report(id, { type: "paused", generation: 1, reason: "host_lost" });
  await eventually(
    () => fake.state(name),
    ({ machines }) => machines.length === 1 && machines[0]?.id === second.body.id,
  );
  await runDurableObjectAlarm(stubOf(name));
  await runDurableObjectAlarm(stubOf(name));
  expect((await fake.state(name)).machines).toHaveLength(1);
});

it("gives a creation that nobody saw the end of to another host", async () => {
  const name = freshName();
  await fake.plan({ label: name, action: "create", drop: "after" });
  await fake.plan({ label: name, action: "create", drop: "after" });
  await fake.away(name, true);
  const begun = ask("POST", "/v1/sandboxes", { name }, { prefer: "wait=0" });
  await begun;
  silence(46_000);
  await fake.away(name, false);
  await heartbeat({ hostId: "spare-1" });
  await runDurableObjectAlarm(stubOf(name));
  const sandbox = await eventually(
    async () => (await ask("GET", `/v1/sandboxes/${name}`)).body as Sandbox,
    ({ state }) => state === "running" || state === "starting",
  );
  expect(sandbox.generation).toBeGreaterThanOrEqual(1);
});

import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { ask, call, created, fake, freshName, heartbeat, paused } from "./client.ts";

beforeEach(async () => {
  await heartbeat();
});

const stubOf = (label: string) => env.SANDBOX.getByName(`default/${label}`);
const read = async (id: string) => (await ask("GET", `/v1/sandboxes/${encodeURIComponent(id)}`)).body;

describe("a time limit", () => {
  /** Past a sandbox's end; the alarm runs twice, and after an eviction. */
  async function afterEnd(sandbox: { id: string; name: string }): Promise<void> {
    const { endsAt } = await read(sandbox.id);
    vi.useFakeTimers({ toFake: ["Date"] });
    try {
      vi.setSystemTime(Date.parse(endsAt ?? "") - 1000);
      await runDurableObjectAlarm(stubOf(sandbox.name));
      expect((await read(sandbox.id)).state).toBe("running");
      await evictDurableObject(stubOf(sandbox.name));
      vi.setSystemTime(Date.parse(endsAt ?? "") + 1);
      await runDurableObjectAlarm(stubOf(sandbox.name));
      await runDurableObjectAlarm(stubOf(sandbox.name));
    } finally {
      vi.useRealTimers();
    }
  }

  it.each([
    ["stop", "stopped"],
    ["pause", "paused"],
  ])("ends a run with %s, busy or not", async (onLeaseEnd, state) => {
    const sandbox = await created({ leaseSeconds: 600, onLeaseEnd });
    expect(sandbox).toMatchObject({ timeoutSeconds: 600, onLeaseEnd, onTimeout: onLeaseEnd });
    const ahead = Date.parse(sandbox.endsAt ?? "") - Date.now();
    expect(ahead).toBeGreaterThan(590_000);
    expect(ahead).toBeLessThanOrEqual(600_000);
    await afterEnd(sandbox);
    expect(await read(sandbox.id)).toMatchObject({ state, stopReason: "time_limit", endsAt: null, diskKept: true });
    const { log } = await fake.state(sandbox.name);
    expect(log.filter((line) => line === `${onLeaseEnd} 1`)).toHaveLength(1);
  });

  it("ends a run by deleting the sandbox", async () => {
    const sandbox = await created({ timeoutSeconds: 60, onTimeout: "delete" });
    await afterEnd(sandbox);
    expect((await call("GET", `/v1/sandboxes/${sandbox.id}`)).status).toBe(410);
    expect((await fake.state(sandbox.name)).machines).toEqual([]);
  });

  it("stops a machine that can't be put to sleep at its end", async () => {
    const sandbox = await created({ leaseSeconds: 600, onLeaseEnd: "pause" });
    await fake.plan({ label: sandbox.name, action: "pause", fail: { code: "pause_failed", message: "disk is full" } });
    await afterEnd(sandbox);
    expect(await read(sandbox.id)).toMatchObject({ state: "stopped", stopReason: "time_limit" });
  });

  it("can be put off, at most a day ahead, and never brought forward", async () => {
    const { id, endsAt } = await created({ leaseSeconds: 600 });
    const extend = (seconds: number) => ask("POST", `/v1/sandboxes/${id}:extend`, { seconds });
    expect((await extend(10)).body.endsAt).toBe(endsAt);
    const later = Date.parse((await extend(3600)).body.endsAt ?? "");
    expect(later - Date.now()).toBeGreaterThan(3_590_000);
    expect(Date.parse((await extend(86_400)).body.endsAt ?? "") - Date.now()).toBeLessThanOrEqual(86_400_000);
    for (const seconds of [0, -1, 86_401, 1.5, "60"])
      expect((await call("POST", `/v1/sandboxes/${id}:extend`, { seconds })).status).toBe(400);
    const unlimited = await created();
    expect((await ask("POST", `/v1/sandboxes/${unlimited.id}:extend`, { seconds: 60 })).body.endsAt).toBeNull();
  });

  it("begins anew with a wake, which may bring its own", async () => {
    const { id } = await paused({ leaseSeconds: 600 });
    expect((await read(id)).endsAt).toBeNull();
    const woken = (await ask("POST", `/v1/sandboxes/${id}:wake`, { timeoutSeconds: 7200 })).body;
    expect(Date.parse(woken.endsAt ?? "") - Date.now()).toBeGreaterThan(7_190_000);
    await ask("POST", `/v1/sandboxes/${id}:pause`, {});
    const again = (await ask("POST", `/v1/sandboxes/${id}:wake`, {})).body;
    // The end of before is later than its own limit would be.
    expect(again.endsAt).toBe(woken.endsAt);
    expect(again.timeoutSeconds).toBe(600);
  });

  it.each([
    { leaseSeconds: 59 },
    { leaseSeconds: 86_401 },
    { leaseSeconds: 600, timeoutSeconds: 600 },
    { onLeaseEnd: "explode" },
  ])("is refused as %j", async (input) => {
    expect((await call("POST", "/v1/sandboxes", { name: freshName(), ...input })).status).toBe(400);
  });
});

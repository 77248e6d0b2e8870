import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { ask, call, created, fake, heartbeat, paused, report } from "./client.ts";

beforeEach(async () => {
  await heartbeat();
});

const stubOf = (label: string) => env.SANDBOX.getByName(`default/${label}`);
const read = async (id: string) => (await ask("GET", `/v1/sandboxes/${encodeURIComponent(id)}`)).body;
const hold = (id: string, name: string, seconds: number) => ask("POST", `/v1/sandboxes/${id}:hold`, { name, seconds });

describe("a hold", () => {
  it("keeps the host from proposing a pause until the last one ends", async () => {
    const { id, name } = await created({ idlePauseSeconds: 60 });
    await hold(id, "build", 600);
    const { body } = await hold(id, "demo", 60);
    expect(body.holds?.map((one) => one.name)).toEqual(["build", "demo"]);
    expect((await fake.settings(id))?.idlePauseSeconds).toBe(0);
    await report(id, { type: "idle", generation: 1 });
    expect((await read(id)).state).toBe("running");
    vi.useFakeTimers({ toFake: ["Date"] });
    try {
      vi.setSystemTime(Date.now() + 61_000);
      await evictDurableObject(stubOf(name));
      expect((await read(id)).holds?.map((one) => one.name)).toEqual(["build"]);
      vi.setSystemTime(Date.now() + 540_000);
      await runDurableObjectAlarm(stubOf(name));
      await runDurableObjectAlarm(stubOf(name));
      expect((await fake.settings(id))?.idlePauseSeconds).toBe(60);
      expect((await read(id)).holds).toEqual([]);
      await report(id, { type: "idle", generation: 1 });
    } finally {
      vi.useRealTimers();
    }
    await vi.waitFor(async () => expect((await read(id)).state).toBe("paused"));
  });

  it("that ends while a wake is under way does not keep the new run awake", async () => {
    const { id, name } = await paused({ idlePauseSeconds: 60 });
    await hold(id, "short", 60);
    await fake.plan({ label: name, action: "wake", hold: true });
    const waking = ask("POST", `/v1/sandboxes/${id}:wake`, {});
    await vi.waitFor(async () => expect((await read(id)).state).toBe("resuming"));
    vi.useFakeTimers({ toFake: ["Date"] });
    try {
      vi.setSystemTime(Date.now() + 61_000);
      await runDurableObjectAlarm(stubOf(name));
      await fake.release(name);
      await waking;
      await vi.waitFor(async () => expect((await fake.settings(id))?.idlePauseSeconds).toBe(60));
    } finally {
      vi.useRealTimers();
    }
  });

  it("is let go of by its name, and of another one nothing changes", async () => {
    const { id } = await created({ idlePauseSeconds: 60 });
    await hold(id, "build", 600);
    await ask("POST", `/v1/sandboxes/${id}:release`, { name: "other" });
    expect((await fake.settings(id))?.idlePauseSeconds).toBe(0);
    expect((await ask("POST", `/v1/sandboxes/${id}:release`, { name: "build" })).body.holds).toEqual([]);
    expect((await fake.settings(id))?.idlePauseSeconds).toBe(60);
  });

  it("does not wake, does not stop a pause that is asked for, and holds in the next run", async () => {
    const { id } = await paused({ idlePauseSeconds: 60 });
    expect((await hold(id, "later", 600)).body.state).toBe("paused");
    await ask("POST", `/v1/sandboxes/${id}:wake`, {});
    expect((await fake.settings(id))?.idlePauseSeconds).toBe(0);
    expect((await ask("POST", `/v1/sandboxes/${id}:pause`, {})).body.state).toBe("paused");
  });

  it.each([
    { name: "", seconds: 5 },
    { name: "a b", seconds: 5 },
    { name: "a" },
    { name: "a", seconds: 0 },
    { name: "a", seconds: 86_401 },
  ])("is refused as %j", async (body) => {
    const { id } = await created();
    expect((await call("POST", `/v1/sandboxes/${id}:hold`, body)).status).toBe(400);
  });

  it("is one of at most 32", async () => {
    const { id } = await created();
    for (let i = 0; i < 32; i++) await hold(id, `h${i}`, 600);
    expect((await call("POST", `/v1/sandboxes/${id}:hold`, { name: "h32", seconds: 600 })).status).toBe(409);
    expect((await hold(id, "h0", 900)).status).toBe(200);
  });
});

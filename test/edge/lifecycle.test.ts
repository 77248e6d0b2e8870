import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { DeletedSandbox, Sandbox } from "../../sdk/contract/sandbox.ts";
import { ask, call, created, eventually, fake, freshName, heartbeat, paused, report } from "./client.ts";

beforeEach(async () => {
  await heartbeat();
});

const stubOf = (label: string) => env.SANDBOX.getByName(`default/${label}`);
const read = async (id: string) => (await ask("GET", `/v1/sandboxes/${encodeURIComponent(id)}`)).body;

describe("create", () => {
  it("answers a running sandbox with every field of the contract", async () => {
    const name = freshName();
    const { status, body } = await ask("POST", "/v1/sandboxes", { name, labels: { team: "x" }, env: { A: "1" } });
    expect(status).toBe(200);
    expect(Sandbox.parse(body)).toMatchObject({
      name,
      label: name,
      state: "running",
      status: "active",
      generation: 1,
      envNames: ["A"],
      labels: { team: "x" },
      endsAt: null,
      memoryRestored: null,
    });
    expect(body.url).toBe(`http://${name}.rouse.test/`);
    expect(body.id.startsWith(`${name}~`)).toBe(true);
    expect((await fake.settings(body.id))?.env).toEqual({ A: "1" });
  });

  it("makes one machine out of 50 creations at once", async () => {
    const name = freshName();
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => ask("POST", "/v1/sandboxes", { name, getOrCreate: true })),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
    expect(answers.filter(({ body }) => !body.reused)).toHaveLength(1);
    expect((await fake.state(name)).log).toEqual(["create 1"]);
  });

  it("refuses a name that is held, and says by whom", async () => {
    const sandbox = await created();
    const { status, body } = await ask("POST", "/v1/sandboxes", { name: sandbox.name });
    expect(status).toBe(409);
    expect(body.error).toMatchObject({ code: "name_taken", details: { sandboxId: sandbox.id } });
  });

  it("with getOrCreate finds a running, wakes a paused and restarts a stopped sandbox", async () => {
    const sandbox = await created();
    const again = () => ask("POST", "/v1/sandboxes", { name: sandbox.name, getOrCreate: true, vcpu: 8 });
    expect((await again()).body).toMatchObject({ id: sandbox.id, reused: true, generation: 1, vcpu: 2 });
    await ask("POST", `/v1/sandboxes/${sandbox.id}:pause`, {});
    expect((await again()).body).toMatchObject({ id: sandbox.id, reused: true, generation: 2, memoryRestored: true });
    await ask("POST", `/v1/sandboxes/${sandbox.id}:stop`, {});
    expect((await again()).body).toMatchObject({
      id: sandbox.id,
      reused: true,
      generation: 3,
      memoryRestored: false,
      state: "running",
    });
  });

  it("leaves nothing behind when no host has room, and works when one has", async () => {
    const name = freshName();
    await fake.plan({ label: name, action: "create", fail: { code: "no_capacity", message: "full" } });
    const headers = { "idempotency-key": crypto.randomUUID() };
    const refused = await ask("POST", "/v1/sandboxes", { name }, headers);
    expect(refused).toMatchObject({ status: 409, body: { error: { code: "no_capacity" } } });
    expect((await ask("POST", "/v1/sandboxes", { name }, headers)).body).toMatchObject({ state: "running", name });
  });

  it("keeps a record of a start that failed, which the next getOrCreate starts again", async () => {
    const name = freshName();
    await fake.plan({ label: name, action: "create", fail: { code: "start_failed", message: "no such disk" } });
    const failed = await ask("POST", "/v1/sandboxes", { name });
    expect(failed).toMatchObject({ status: 502, body: { error: { code: "start_failed" } } });
    expect(await read(name)).toMatchObject({
      state: "stopped",
      stopReason: "startup_failed",
      lastError: "no such disk",
      diskKept: false,
    });
    expect((await ask("POST", "/v1/sandboxes", { name, getOrCreate: true })).body).toMatchObject({
      state: "running",
      generation: 2,
      lastError: null,
    });
  });

  it("says when no host has the image", async () => {
    const { body } = await ask("POST", "/v1/sandboxes", { name: freshName(), image: "plan9" });
    expect(body.error).toMatchObject({ code: "invalid_image", details: { images: ["default"] } });
  });

  it("answers at once to a client that does not want to wait", async () => {
    const name = freshName();
    await fake.plan({ label: name, action: "create", hold: true });
    const { body } = await ask("POST", "/v1/sandboxes", { name }, { "x-runtime-client": "sdk-js/0.11.2" });
    expect(body).toMatchObject({ state: "starting", status: "pending" });
    const waiting = ask("GET", `/v1/sandboxes/${body.id}?waitFor=running&timeoutSeconds=30`);
    await eventually(
      () => fake.state(name),
      ({ log }) => log.length === 1,
    );
    await fake.release(name);
    expect((await waiting).body.state).toBe("running");
  });
});

describe("pause and wake", () => {
  it("keep the machine and count generations", async () => {
    const sandbox = await paused();
    expect(sandbox).toMatchObject({ status: "paused", stopReason: "requested" });
    const days = (Date.parse(sandbox.pausedExpiresAt ?? "") - Date.parse(sandbox.pausedAt ?? "")) / 86_400_000;
    expect(days).toBe(30);
    expect((await ask("POST", `/v1/sandboxes/${sandbox.id}:pause`, {})).body.state).toBe("paused");
    const woken = await ask("POST", `/v1/sandboxes/${sandbox.id}:wake`, {});
    expect(woken.body).toMatchObject({ state: "running", generation: 2, memoryRestored: true, pausedAt: null });
    expect(await ask("POST", `/v1/sandboxes/${sandbox.id}:wake`, {})).toMatchObject({
      status: 409,
      body: { error: { code: "not_paused" } },
    });
  });

  it("wake once for 50 first contacts at once", async () => {
    const { id, name } = await paused();
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => call("POST", `/v1/sandboxes/${id}:exec`, { command: "true" })),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    await Promise.all(answers.map((answer) => answer.arrayBuffer()));
    expect(await read(id)).toMatchObject({ state: "running", generation: 2 });
    const state = await fake.state(name);
    expect(state.log).toEqual(["create 1", "pause 1", "wake 2"]);
    expect(state.requests).toBe(50);
  });

  it("lose no request that arrives while the pause is under way", async () => {
    const { id, name } = await created();
    await fake.plan({ label: name, action: "pause", hold: true });
    const pausing = ask("POST", `/v1/sandboxes/${id}:pause`, {});
    await eventually(
      () => read(id),
      ({ state }) => state === "pausing",
    );
    const exec = call("POST", `/v1/sandboxes/${id}:exec`, { command: "true" });
    await fake.plan({ label: name, action: "wake", hold: true });
    await fake.release(name);
    // Who asked for the pause has it, though the machine is on its way up again.
    expect(await pausing).toMatchObject({ status: 200, body: { state: "paused", generation: 1 } });
    await eventually(
      async () => {
        await fake.release(name);
        return read(id);
      },
      ({ state }) => state === "running",
    );
    expect((await exec).status).toBe(200);
  });

  it("run on with the reason when the pause fails", async () => {
    const { id, name } = await created();
    await fake.plan({ label: name, action: "pause", fail: { code: "pause_failed", message: "disk is full" } });
    expect(await ask("POST", `/v1/sandboxes/${id}:pause`, {})).toMatchObject({
      status: 502,
      body: { error: { code: "pause_failed", message: "disk is full" } },
    });
    const failed = { state: "running", generation: 1, lastError: "disk is full", lastPauseError: "disk is full" };
    expect(await read(id)).toMatchObject(failed);
    const after = { state: "paused", lastError: null, lastPauseError: null };
    expect((await ask("POST", `/v1/sandboxes/${id}:pause`, {})).body).toMatchObject(after);
  });

  it("stay paused when the wake fails, and wake at the next try", async () => {
    const { id, name } = await paused();
    await fake.plan({ label: name, action: "wake", fail: { code: "wake_failed", message: "no memory" } });
    expect(await ask("POST", `/v1/sandboxes/${id}:wake`, {})).toMatchObject({
      status: 502,
      body: { error: { code: "wake_failed" } },
    });
    expect(await read(id)).toMatchObject({ state: "paused", generation: 2, lastError: "no memory" });
    expect((await ask("POST", `/v1/sandboxes/${id}:wake`, {})).body).toMatchObject({
      state: "running",
      generation: 3,
      memoryRestored: true,
    });
  });

  it("boot from disk, and say so, when the RAM is lost", async () => {
    const { id, name } = await paused();
    await fake.plan({
      label: name,
      action: "wake",
      fail: { code: "wake_failed", message: "bad page", loseMemory: true },
    });
    expect((await ask("POST", `/v1/sandboxes/${id}:wake`, {})).body).toMatchObject({
      state: "running",
      generation: 3,
      memoryRestored: false,
      stopReason: "wake_failed",
    });
    expect((await fake.state(name)).log.slice(-2)).toEqual(["wake 2", "boot 3"]);
  });

  it("pause a sandbox that is still waking once it runs", async () => {
    const { id, name } = await paused();
    await fake.plan({ label: name, action: "wake", hold: true });
    const waking = ask("POST", `/v1/sandboxes/${id}:wake`, {});
    await eventually(
      () => read(id),
      ({ state }) => state === "resuming",
    );
    const pausing = ask("POST", `/v1/sandboxes/${id}:pause`, {});
    await fake.release(name);
    expect((await waking).status).toBe(200);
    expect((await pausing).body).toMatchObject({ state: "paused", generation: 2 });
  });
});

describe("a host that is away", () => {
  it("leaves the sandbox waking, and the alarm finishes", async () => {
    const { id, name } = await paused();
    await fake.away(name, true);
    const { status, body } = await ask("POST", `/v1/sandboxes/${id}:wake`, {});
    expect(status).toBe(503);
    expect(body.error.code).toBe("host_unavailable");
    expect(body.error.retryAfterMs).toBeGreaterThan(0);
    expect((await read(id)).state).toBe("resuming");
    await fake.away(name, false);
    await evictDurableObject(stubOf(name));
    await eventually(
      async () => (await runDurableObjectAlarm(stubOf(name)), read(id)),
      ({ state }) => state === "running",
    );
    expect(await read(id)).toMatchObject({ generation: 2, lastError: null });
  });

  it("is asked again after a crash in the middle, and the machine runs once", async () => {
    const { id, name } = await paused();
    await fake.plan({ label: name, action: "wake", drop: "after" });
    await call("POST", `/v1/sandboxes/${id}:wake`, {});
    await evictDurableObject(stubOf(name));
    expect((await call("POST", `/v1/sandboxes/${id}:exec`, { command: "true" })).status).toBe(200);
    const { machines, log } = await fake.state(name);
    expect(machines).toHaveLength(1);
    expect(machines[0]).toMatchObject({ state: "running", generation: 2 });
    expect(new Set(log.slice(2))).toEqual(new Set(["wake 2"]));
  });

  it("is found under its new address", async () => {
    const { id } = await paused();
    // The board hears of an address where nobody answers, then of the right one.
    await heartbeat({ url: "http://127.0.0.1:9" });
    const other = freshName();
    expect((await ask("POST", "/v1/sandboxes", { name: other })).body.error.code).toBe("host_unavailable");
    await heartbeat();
    expect((await ask("POST", "/v1/sandboxes", { name: other, getOrCreate: true })).body).toMatchObject({
      state: "running",
      generation: 1,
    });
    expect((await ask("POST", `/v1/sandboxes/${id}:wake`, {})).body.state).toBe("running");
  });
});

describe("reports of the host", () => {
  it("pause an idle sandbox", async () => {
    const { id, name } = await created();
    expect((await report(id, { type: "idle", generation: 1 })).status).toBe(200);
    const sandbox = await eventually(
      () => read(id),
      ({ state }) => state === "paused",
    );
    expect(sandbox.stopReason).toBe("idle");
    expect((await fake.state(name)).log).toContain("pause 1");
  });

  it("leave a sandbox running that was used since", async () => {
    const { id, name } = await created();
    await fake.use(name);
    await report(id, { type: "idle", generation: 1 });
    await eventually(
      () => fake.state(name),
      ({ log }) => log.includes("pause 1"),
    );
    const sandbox = await eventually(
      () => read(id),
      ({ state }) => state === "running",
    );
    expect(sandbox).toMatchObject({ generation: 1, lastError: null });
  });

  it("of an end stop it with the reason; of an older generation change nothing", async () => {
    const { id, name } = await paused();
    await ask("POST", `/v1/sandboxes/${id}:wake`, {});
    expect((await report(id, { type: "ended", generation: 1, reason: "vm_crashed" })).status).toBe(200);
    expect((await read(id)).state).toBe("running");
    await fake.crash(name);
    await Promise.all([1, 2].map(() => report(id, { type: "ended", generation: 2, reason: "vm_crashed" })));
    expect(await read(id)).toMatchObject({ state: "stopped", stopReason: "vm_crashed", diskKept: true });
    expect((await ask("POST", `/v1/sandboxes/${id}:restart`, {})).body).toMatchObject({
      state: "running",
      generation: 3,
      memoryRestored: false,
    });
  });

  it("of a pause of its own are believed", async () => {
    const { id, name } = await created();
    await report(id, { type: "paused", generation: 1, reason: "host_stopped" });
    expect(await read(id)).toMatchObject({ state: "paused", stopReason: "host_stopped" });
    expect((await fake.state(name)).log).toEqual(["create 1"]);
  });

  it("that never came are made good by the next request", async () => {
    const { id, name } = await created();
    await call("POST", `/v1/sandboxes/${id}:exec`, { command: "true" });
    await fake.crash(name);
    const { status, body } = await ask("POST", `/v1/sandboxes/${id}:exec`, { command: "true" });
    expect({ status, code: body.error.code }).toEqual({ status: 409, code: "sandbox_stopped" });
    expect(await read(id)).toMatchObject({ state: "stopped", stopReason: "vm_crashed" });
  });

  it("need the host's secret", async () => {
    const { id } = await created();
    const refused = await call("POST", `/internal/accounts/default/machines/${id}/events`, {
      type: "idle",
      generation: 1,
    });
    expect(refused.status).toBe(401);
    expect((await read(id)).state).toBe("running");
  });
});

describe("stop, restart, delete", () => {
  it("stop keeps the disk; a stopped sandbox neither wakes nor pauses", async () => {
    const { id } = await created();
    expect((await ask("POST", `/v1/sandboxes/${id}:stop`, {})).body).toMatchObject({
      state: "stopped",
      stopReason: "requested",
      diskKept: true,
    });
    expect((await ask("POST", `/v1/sandboxes/${id}:stop`, {})).status).toBe(200);
    expect((await ask("POST", `/v1/sandboxes/${id}:wake`, {})).body.error.code).toBe("sandbox_stopped");
    expect((await ask("POST", `/v1/sandboxes/${id}:pause`, {})).body.error.code).toBe("not_running");
    expect((await ask("POST", `/v1/sandboxes/${id}:restart`, {})).body).toMatchObject({
      state: "running",
      memoryRestored: false,
      generation: 2,
    });
  });

  it.each(["running", "paused", "stopped", "starting"])(
    "delete works from %s, twice, and frees the name",
    async (state) => {
      const name = freshName();
      if (state === "starting") await fake.plan({ label: name, action: "create", hold: true });
      const first = await ask("POST", "/v1/sandboxes", { name }, state === "starting" ? { prefer: "wait=0" } : {});
      const { id } = first.body;
      if (state === "starting")
        await eventually(
          () => fake.state(name),
          ({ log }) => log.length === 1,
        );
      if (state === "paused") await ask("POST", `/v1/sandboxes/${id}:pause`, {});
      if (state === "stopped") await ask("POST", `/v1/sandboxes/${id}:stop`, {});
      const deleted = await ask("DELETE", `/v1/sandboxes/${id}`);
      expect(deleted.status).toBe(200);
      expect(DeletedSandbox.parse(deleted.body)).toMatchObject({ id, name, state: "deleted" });
      expect((await ask("DELETE", `/v1/sandboxes/${id}`)).body).toEqual(deleted.body);
      expect(await ask("GET", `/v1/sandboxes/${id}`)).toMatchObject({
        status: 410,
        body: { error: { code: "sandbox_gone" } },
      });
      expect((await call("POST", `/v1/sandboxes/${id}:exec`, { command: "true" })).status).toBe(410);
      await fake.release(name);
      const second = await ask("POST", "/v1/sandboxes", { name });
      expect(second.body).toMatchObject({ state: "running", name, generation: 1 });
      expect(second.body.id).not.toBe(id);
      expect((await call("GET", `/v1/sandboxes/${id}`)).status).toBe(410);
      expect((await ask("DELETE", `/v1/sandboxes/${id}`)).body.id).toBe(id);
      expect((await read(second.body.id)).state).toBe("running");
    },
  );

  it("an id that never was is not found", async () => {
    const { name } = await created();
    expect((await call("GET", `/v1/sandboxes/${name}~aaaaaaaaaaaa`)).status).toBe(404);
    expect((await call("DELETE", `/v1/sandboxes/${freshName()}`)).status).toBe(404);
  });

  it("a name whose old machine may still run is not given away", async () => {
    const { id, name } = await created();
    await fake.away(name, true);
    expect((await call("DELETE", `/v1/sandboxes/${id}`)).status).toBe(200);
    expect((await ask("POST", "/v1/sandboxes", { name })).body.error.code).toBe("host_unavailable");
    await fake.away(name, false);
    expect((await ask("POST", "/v1/sandboxes", { name })).body.state).toBe("running");
    expect((await fake.state(name)).machines).toHaveLength(1);
  });
});

describe("retention", () => {
  it("ends a paused state when its days are over, not before, and the alarm may run twice", async () => {
    const { id, name } = await paused();
    expect((await ask("POST", `/v1/sandboxes/${id}:retention`, { days: 2 })).body.retentionDays).toBe(2);
    const { pausedExpiresAt } = await read(id);
    vi.useFakeTimers({ toFake: ["Date"] });
    try {
      vi.setSystemTime(Date.parse(pausedExpiresAt ?? "") - 1000);
      await runDurableObjectAlarm(stubOf(name));
      expect((await read(id)).state).toBe("paused");
      await evictDurableObject(stubOf(name));
      vi.setSystemTime(Date.parse(pausedExpiresAt ?? "") + 1);
      await runDurableObjectAlarm(stubOf(name));
      await runDurableObjectAlarm(stubOf(name));
    } finally {
      vi.useRealTimers();
    }
    expect((await call("GET", `/v1/sandboxes/${id}`)).status).toBe(410);
    expect((await fake.state(name)).machines).toEqual([]);
  });

  it("goes back to the default", async () => {
    const { id } = await created();
    await ask("POST", `/v1/sandboxes/${id}:retention`, { days: 365 });
    expect((await ask("POST", `/v1/sandboxes/${id}:retention`, { days: null })).body.retentionDays).toBe(30);
    expect((await call("POST", `/v1/sandboxes/${id}:retention`, { days: 366 })).status).toBe(400);
  });
});

describe("update", () => {
  it("changes settings and tells the running machine", async () => {
    const { id } = await created({ env: { A: "1", B: "2" } });
    const { body } = await ask("POST", `/v1/sandboxes/${id}:update`, {
      env: { A: null, C: "3" },
      idlePauseSeconds: 0,
      labels: { a: "b" },
      autoWake: false,
    });
    expect(body).toMatchObject({ envNames: ["B", "C"], idlePauseSeconds: 0, labels: { a: "b" }, autoWake: false });
    expect(await fake.settings(id)).toEqual({ env: { B: "2", C: "3" }, idlePauseSeconds: 0 });
    await report(id, { type: "idle", generation: 1 });
    expect((await read(id)).state).toBe("running");
  });

  it("of a paused sandbox does not wake it, and holds after the wake", async () => {
    const { id, name } = await paused();
    await ask("POST", `/v1/sandboxes/${id}:update`, { env: { A: "1" } });
    expect((await fake.state(name)).log).toEqual(["create 1", "pause 1"]);
    await ask("POST", `/v1/sandboxes/${id}:wake`, {});
    expect((await fake.settings(id))?.env).toEqual({ A: "1" });
  });

  it("refuses another name", async () => {
    const { id } = await created();
    expect((await ask("POST", `/v1/sandboxes/${id}:update`, { name: freshName() })).body.error.code).toBe(
      "unavailable",
    );
  });
});

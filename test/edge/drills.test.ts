/** Drills: what is killed comes back, what does not is named, and a drill survives what it kills. */
import { env } from "cloudflare:workers";
import { runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { drillsObject } from "../../durable/drills/api.ts";
import { Drill, type DrillList } from "../../sdk/contract/drill.ts";
import type { ScheduleRun } from "../../sdk/contract/schedule.ts";
import type { DrillOrders } from "../support/fake-drills.ts";
import { ask, call, created, eventually, fake, faultOf, heartbeat, hostUrl, paused, report } from "./client.ts";
import { TestedObject } from "./tested-object.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

class TestDrill extends TestedObject {
  readonly name: string;
  readonly id: string;

  constructor({ name, id }: { name: string; id: string }) {
    super();
    this.name = name;
    this.id = id;
  }

  override get stub(): DurableObjectStub {
    return env.DRILLS.getByName(`default/${this.name}`);
  }

  async begin(kill: string, headers = {}): Promise<Drill> {
    const response = await call("POST", `/v1/sandboxes/${this.name}/drills`, { kill }, headers);
    if (response.status !== 200) throw new Error(`drill: ${response.status} ${await response.text()}`);
    return Drill.parse(await response.json());
  }

  async read(id: string): Promise<Drill> {
    return Drill.parse((await ask("GET", `/v1/sandboxes/${this.name}/drills/${id}`)).body);
  }

  over(id: string): Promise<Drill> {
    return this.until(id, ({ state }) => state !== "running");
  }

  until(id: string, holds: (drill: Drill) => boolean): Promise<Drill> {
    return eventually(() => this.read(id), holds);
  }

  async orders(orders: DrillOrders): Promise<{ looks: number; orders: string[] }> {
    const init = { method: "POST", body: JSON.stringify(orders) };
    return (await fetch(`${hostUrl}/fake/drill?label=${this.name}`, init)).json();
  }

  /** The host tells that the machine ended. */
  async told(): Promise<void> {
    const kills = async () => (await fake.state(this.name)).log.filter((line) => line.startsWith("kill "));
    const [line = ""] = await eventually(kills, ({ length }) => length > 0);
    await report(this.id, { type: "ended", generation: Number(line.slice(5)), reason: "vm_crashed" });
  }
}

const DAY = 86_400_000;

describe("a drill", () => {
  it("of the machine's process: files and checkpoints are back, RAM is not, and that is no loss", async () => {
    const test = new TestDrill(await paused());
    const checkpoints = [{ name: "job", version: 7, step: 7 }];
    await test.orders({ files: { "/workspace/a": ["text", 1] }, checkpoints });
    const begun = await test.begin("vmm");
    expect(begun).toMatchObject({ kind: "drill", sandboxId: test.id, kill: "vmm", state: "running", step: "before" });
    await test.told();
    const over = await test.over(begun.id);
    expect(over).toMatchObject({ state: "passed", step: null, reason: null, lost: [] });
    expect(over.before).toMatchObject({
      ram: { marker: true, process: true },
      files: { count: 1, bytes: 4 },
      checkpoints,
    });
    expect(over.after).toMatchObject({ ram: { marker: false, process: false }, files: { count: 1 }, checkpoints });
    expect(over.after?.bootId).not.toBe(over.before?.bootId);
    expect(over.answeredAfterMs).toBeGreaterThanOrEqual(0);
    expect((await fake.state(test.name)).log.filter((line) => line.startsWith("kill"))).toHaveLength(1);
    await test.alarm();
    await test.evict();
    expect(await test.read(begun.id)).toEqual(over);
    const { body } = await ask<DrillList>("GET", `/v1/sandboxes/${test.name}/drills`);
    expect(body.data).toEqual([over]);
  });

  it("names each acknowledged thing that is not there again", async () => {
    const test = new TestDrill(await created());
    const old = Date.now() - DAY;
    const files = {
      "/workspace/gone": ["x", old],
      "/workspace/torn": ["whole", old],
      "/workspace/log": ["1", old],
    } as const;
    await test.orders({ files, checkpoints: [{ name: "job", version: 7, step: 7 }] });
    const { id } = await test.begin("vmm");
    await test.until(id, ({ step }) => step === "after");
    const later = Date.now() + DAY;
    await test.orders({
      files: { "/workspace/torn": ["", old], "/workspace/log": ["12", later] },
      checkpoints: [{ name: "job", version: 6, step: 6 }],
    });
    await test.told();
    const { state, lost } = await test.over(id);
    expect([state, lost.map(({ what, name }) => `${what} ${name}`).toSorted()]).toEqual([
      "lost",
      ["checkpoint job", "file /workspace/gone", "file /workspace/torn"],
    ]);
  });

  it("of the host's agent goes on when that is another one, and RAM has to be there", async () => {
    const test = new TestDrill(await created());
    const { id } = await test.begin("host");
    await test.until(id, ({ step }) => step === "after");
    // The one before answers still, or nobody does: neither counts.
    expect((await test.until(id, ({ reason }) => reason === "host_unavailable")).state).toBe("running");
    await test.crash();
    await test.pass(31_000);
    const { orders } = await test.orders({ isBack: true });
    expect(orders.filter((order) => order.endsWith(id))).toEqual([`host ${id}`]);
    expect(await test.over(id)).toMatchObject({ state: "passed", after: { ram: { marker: true, process: true } } });
    const second = await test.begin("host");
    await test.until(second.id, ({ step }) => step === "after");
    await test.orders({ isBack: true, losesRam: true });
    const { lost } = await test.over(second.id);
    expect(lost.map(({ what, name }) => `${what} ${name}`)).toEqual(["ram marker", "ram process"]);
  });

  it("of the edge goes on in the next one", async () => {
    const test = new TestDrill(await created());
    const { id } = await test.begin("edge");
    const killed = async () => (await test.orders({})).orders.includes(`edge ${id}`);
    await eventually(killed, (is) => is);
    await test.until(id, ({ step }) => step === "after");
    // This edge is there still.
    await test.alarm();
    expect((await test.read(id)).state).toBe("running");
    await test.crash();
    await test.pass(60_000);
    expect(await test.over(id)).toMatchObject({ state: "passed", lost: [] });
    expect((await test.orders({})).orders.filter((order) => order.endsWith(id))).toHaveLength(1);
  });

  it("that can't kill says so, and one whose kill does nothing fails", async () => {
    const test = new TestDrill(await created());
    await test.orders({ refuses: true, immortal: true });
    const edge = await test.begin("edge");
    expect(await test.over(edge.id)).toMatchObject({
      state: "unavailable",
      reason: "unavailable",
      message: "not here",
    });
    await test.orders({ refuses: false });
    const { id } = await test.begin("guest");
    await test.until(id, ({ reason }) => reason === "not_killed");
    const { looks } = await test.orders({});
    await eventually(
      async () => {
        await test.pass(61_000);
        return test.read(id);
      },
      ({ state }) => state !== "running",
    );
    expect(await test.read(id)).toMatchObject({ state: "failed", reason: "not_killed" });
    expect(looks).toBeGreaterThan(1);
  });

  it("begun twice at once under one key is one; another is refused while it goes on", async () => {
    const test = new TestDrill(await created());
    const key = { "idempotency-key": "k" };
    const [a, b] = await Promise.all([test.begin("host", key), test.begin("host", key)]);
    expect(a.id).toBe(b.id);
    const other = await call("POST", `/v1/sandboxes/${test.name}/drills`, { kill: "vmm" });
    expect((await faultOf(other)).code).toBe("conflict");
    const reused = await call("POST", `/v1/sandboxes/${test.name}/drills`, { kill: "vmm" }, key);
    expect((await faultOf(reused)).code).toBe("idempotency_key_reused");
    await test.until(a.id, ({ step }) => step === "after");
    await test.orders({ isBack: true });
    expect((await test.over(a.id)).state).toBe("passed");
  });

  it("refuses what it does not know, and those who don't answer for the sandbox", async () => {
    const test = new TestDrill(await created());
    const unknown = await call("POST", `/v1/sandboxes/${test.name}/drills`, { kill: "cat", more: 1 });
    expect((await faultOf(unknown)).details?.issues?.length).toBe(2);
    expect((await call("GET", `/v1/sandboxes/${test.name}/drills/drl-0`)).status).toBe(404);
    const made = await ask<{ key: string }>("POST", "/v1/keys", { name: test.name, access: "sandboxes" });
    const asUser = { authorization: `Bearer ${made.body.key}` };
    const refused = await call("POST", `/v1/sandboxes/${test.name}/drills`, { kill: "vmm" }, asUser);
    expect((await faultOf(refused)).code).toBe("permission_denied");
    const scheduled = { cron: "@daily", action: { kind: "drill", kill: "vmm" } };
    const bySchedule = await call("POST", `/v1/sandboxes/${test.name}/schedules`, scheduled, asUser);
    expect((await faultOf(bySchedule)).code).toBe("permission_denied");
  });

  it("is run by a schedule, and its end is the run's", async () => {
    const test = new TestDrill(await created());
    const made = await ask<{ id: string }>("POST", `/v1/sandboxes/${test.name}/schedules`, {
      ...{ cron: "0 4 * * 0", action: { kind: "drill", kill: "vmm" } },
    });
    const path = `/v1/sandboxes/${test.name}/schedules/${made.body.id}`;
    const { body: run } = await ask<ScheduleRun>("POST", `${path}:run`, {});
    await test.told();
    const object = env.SCHEDULES.getByName(`default/${test.name}`) as DurableObjectStub;
    const read = async () => {
      await runDurableObjectAlarm(object);
      return (await ask<ScheduleRun>("GET", `${path}/runs/${run.id}`)).body;
    };
    const over = await eventually(read, ({ state }) => state !== "running");
    expect(over).toMatchObject({ state: "succeeded", action: "drill", reason: null });
    expect(JSON.parse(over.output?.body?.data ?? "")).toMatchObject({ kind: "drill", kill: "vmm", state: "passed" });
    const { body } = await ask<DrillList>("GET", `/v1/sandboxes/${test.name}/drills`);
    expect(body.data).toHaveLength(1);
  });

  it("goes with its sandbox", async () => {
    const test = new TestDrill(await created());
    await test.orders({ refuses: true });
    await test.over((await test.begin("host")).id);
    await test.orders({ refuses: false });
    const object = drillsObject(env.DRILLS, "default", test.name);
    await object.purge("other~abcdefghijkl");
    expect(await object.list(test.id)).toHaveLength(1);
    await ask("DELETE", `/v1/sandboxes/${test.id}?graceSeconds=0`);
    await eventually(
      () => object.list(test.id),
      (list) => list.length === 0,
    );
  });
});

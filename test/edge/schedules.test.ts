/** Schedules as they are made, changed, looked at and deleted, and who may do so. */
import { env } from "cloudflare:workers";
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { schedulesObject } from "../../durable/schedules/api.ts";
import { Schedule, ScheduleRun, ScheduleRunList, type ScheduleList } from "../../sdk/contract/schedule.ts";
import type { Forks } from "../../sdk/contract/snapshot.ts";
import type { Why } from "../../sdk/contract/timeline.ts";
import { ask, call, created, eventually, fake, faultOf, heartbeat, paused } from "./client.ts";
import { MINUTE, TestSchedule, type Answer } from "./schedulers.ts";
import { DAY, HOUR, instead, once } from "./volumes.ts";
import { later } from "./vaults.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

const wake = { kind: "wake" };

describe("a schedule", () => {
  it("says what it does and when it runs next", async () => {
    const { name } = await created();
    const action = { kind: "command", argv: ["python3", "report.py"], cwd: "/workspace", env: { A: "1" } };
    const input = { name: "report", cron: "0 9 * * mon-fri", zone: "Europe/Berlin", action };
    const made = await ask<Schedule>("POST", `/v1/sandboxes/${name}/schedules`, input);
    expect(Schedule.parse(made.body)).toMatchObject({
      ...{ kind: "schedule", ...input, at: null, enabled: true, catchUp: true, lastRun: null },
    });
    const { next } = made.body;
    expect(next).toHaveLength(5);
    expect(next).toEqual([...next].toSorted());
    for (const path of ["report", made.body.id])
      expect((await ask("GET", `/v1/sandboxes/${name}/schedules/${path}`)).body).toEqual(made.body);
    expect((await ask<ScheduleList>("GET", `/v1/sandboxes/${name}/schedules`)).body.data).toEqual([made.body]);
  });

  it.each([
    [{}, ["action"]],
    [{ action: wake }, ["cron"]],
    [{ cron: "61 25 * * *", action: wake }, ["cron", "cron"]],
    [{ cron: "0 0 30 2 *", zone: "Mars/Base", action: wake }, ["cron", "zone"]],
    [{ cron: "@daily", at: "2030-01-01T00:00:00Z", action: wake }, ["at"]],
    [{ at: "2030-01-01T00:00:00", action: wake }, ["at"]],
    [{ at: "2001-01-01T00:00:00Z", action: wake }, ["at"]],
    [{ at: "2090-01-01T00:00:00+01:00", action: wake }, ["at"]],
    [{ at: "2030-01-01T00:00:00Z", zone: "UTC", action: wake }, ["zone"]],
    [{ cron: "@daily", action: { kind: "command" } }, ["action.command"]],
    [{ cron: "@daily", action: { kind: "command", command: "a", argv: ["a"] } }, ["action.command"]],
    [
      { cron: "@daily", action: { kind: "command", command: "a", cwd: "../x", user: "root" } },
      ["action", "action.cwd"],
    ],
    [{ cron: "@daily", action: { kind: "request", port: 10_800, path: "x" } }, ["action.path", "action.port"]],
    [{ cron: "@daily", action: { kind: "request", method: "GET", body: "x" } }, ["action.body"]],
    [{ cron: "@daily", action: { kind: "request", headers: { "x-rouse-run": "1" } } }, ["action.headers.x-rouse-run"]],
    [{ cron: "@daily", action: { kind: "request", headers: { a: "1\r\nb: 2" } } }, ["action.headers.a"]],
  ])("%j is refused: all that is wrong is named", async (input, paths) => {
    const { name } = await created();
    const response = await call("POST", `/v1/sandboxes/${name}/schedules`, input);
    const { code, details } = await faultOf(response);
    expect([code, details?.issues?.map(({ path }) => path).toSorted()]).toEqual(["invalid_request", paths]);
  });

  it("made twice at once under one key is one, and another request under it is refused", async () => {
    const { name } = await created();
    const make = (cron: string) =>
      ask<Schedule>("POST", `/v1/sandboxes/${name}/schedules`, { cron, action: wake }, { "idempotency-key": "k" });
    const [a, b] = await Promise.all([make("@daily"), make("@daily")]);
    expect(a.body.id).toBe(b.body.id);
    expect([a.body.replayed, b.body.replayed].filter(Boolean)).toHaveLength(1);
    expect((await make("@weekly")).status).toBe(422);
    expect((await ask<ScheduleList>("GET", `/v1/sandboxes/${name}/schedules`)).body.data).toHaveLength(1);
  });

  it("has a name of its own, and there are 100 at most", async () => {
    const { name, id } = await created();
    const make = (input: object) => call("POST", `/v1/sandboxes/${name}/schedules`, { ...input, action: wake });
    expect((await make({ name: "a", cron: "@daily" })).status).toBe(200);
    expect((await faultOf(await make({ name: "a", cron: "@daily" }))).code).toBe("name_taken");
    const other = await make({ name: "b", cron: "@daily" });
    const { id: otherId } = await other.json<Schedule>();
    const renamed = await call("POST", `/v1/sandboxes/${name}/schedules/${otherId}:update`, { name: "a" });
    expect((await faultOf(renamed)).code).toBe("name_taken");
    const object = schedulesObject(env.SCHEDULES, "default", name);
    for (let n = 2; n < 100; n++) await object.create(id, { cron: "@yearly", action: { kind: "wake" } }, once);
    expect(await faultOf(await make({ cron: "@daily" }))).toMatchObject({
      ...{ code: "quota_exceeded", details: { max: 100 } },
    });
  });

  it("is changed: other times, or once at a time; a zone goes with an expression", async () => {
    const test = await TestSchedule.make();
    const daily = await test.ask("POST", ":update", { cron: "0 9 * * *", zone: "America/New_York", name: "n" });
    expect(daily.body).toMatchObject({ name: "n", cron: "0 9 * * *", zone: "America/New_York" });
    expect(new Date(daily.body.next[0] ?? "").getUTCHours()).toBeGreaterThan(12);
    const at = new Date(Date.now() + HOUR).toISOString();
    const single = await test.ask("POST", ":update", { at });
    expect(single.body).toMatchObject({ cron: null, zone: "UTC", at, next: [at] });
    const zoned = await test.ask("POST", ":update", { zone: "Asia/Tokyo" });
    expect([zoned.status, zoned.body.error.details?.issues?.[0]?.path]).toEqual([400, "zone"]);
    const off = await test.ask("POST", ":update", { enabled: false });
    expect(off.body).toMatchObject({ enabled: false, next: [] });
    await test.evict();
    expect(await test.read()).toEqual(off.body);
  });

  it("is deleted with its runs, and is not there for another sandbox of the name", async () => {
    const test = await TestSchedule.make({ action: wake });
    const { body: run } = await test.ask<ScheduleRun>("POST", ":run", {});
    await test.over();
    expect((await test.ask("DELETE")).body).toMatchObject({ deleted: true });
    expect((await test.ask("GET")).body.error.code).toBe("schedule_not_found");
    expect((await test.ask("GET", `/runs/${run.id}`)).body.error.code).toBe("schedule_not_found");
    await test.alarm();
    const left = await runInDurableObject(test.stub, (_object: object, { storage }) =>
      storage.sql.exec("SELECT id FROM runs UNION ALL SELECT run_id FROM outputs").toArray(),
    );
    expect(left).toEqual([]);
  });

  it("is seen, without what may be secret, by keys that only read; they change and run nothing", async () => {
    const action = { kind: "command", command: "x", env: { TOKEN: "t" } };
    const test = await TestSchedule.make({ action });
    await test.ask("POST", ":run", {});
    const { id } = await test.over();
    const { body: key } = await ask<{ key: string }>("POST", "/v1/keys", { name: "reader", access: "read" });
    const reader = { authorization: `Bearer ${key.key}` };
    const shown = await test.ask("GET", "", undefined, reader);
    expect(shown.body.action).toEqual({ kind: "command", command: "x" });
    const run = await test.ask<ScheduleRun>("GET", `/runs/${id}`, undefined, reader);
    expect([run.body.state, run.body.output]).toEqual(["succeeded", undefined]);
    for (const verb of [":run", ":update", ":delete"])
      expect((await test.ask("POST", verb, {}, reader)).body.error.code).toBe("permission_denied");
    const { body: limited } = await ask<{ key: string }>("POST", "/v1/keys", {
      ...{ name: "other", access: "sandboxes", namePrefix: "other-" },
    });
    const stranger = { authorization: `Bearer ${limited.key}` };
    expect((await test.ask("GET", "", undefined, stranger)).body.error.code).toBe("not_found");
  });

  it("of a deleted sandbox goes with it, once it can't be taken back any more, and nothing runs", async () => {
    const test = await TestSchedule.make({ action: wake }, true);
    const sandbox = env.SANDBOX.getByName(`default/${test.name}`) as DurableObjectStub;
    await ask("DELETE", `/v1/sandboxes/${test.id}?graceSeconds=60`);
    await runDurableObjectAlarm(sandbox);
    await ask("POST", `/v1/sandboxes/${test.id}:undelete`, {});
    expect((await test.ask("GET")).status).toBe(200);
    // The object does not answer when it is told first.
    await instead(test.stub, { purge: () => Promise.reject(new Error("not now")) });
    await ask("DELETE", `/v1/sandboxes/${test.id}`);
    await runDurableObjectAlarm(sandbox);
    await test.evict();
    await later(2000, async () => {
      await runDurableObjectAlarm(sandbox);
      await runDurableObjectAlarm(sandbox);
    });
    const left = await runInDurableObject(test.stub, async (_object: object, { storage }) => [
      storage.sql.exec("SELECT name FROM sqlite_master WHERE name = 'schedules'").toArray(),
      await storage.getAlarm(),
    ]);
    expect(left).toEqual([[], null]);
    await created({ name: test.name });
    expect((await ask<ScheduleList>("GET", `/v1/sandboxes/${test.name}/schedules`)).body.data).toEqual([]);
  });

  it("is not copied by a fork", async () => {
    const test = await TestSchedule.make({ action: wake });
    const forked = await ask<Forks>("POST", `/v1/sandboxes/${test.name}:fork`, { count: 1 });
    const [fork] = forked.body.sandboxes;
    const { body } = await ask<ScheduleList>("GET", `/v1/sandboxes/${fork?.id}/schedules`);
    expect(body.data).toEqual([]);
  });
});

describe("a run by hand", () => {
  it("under one key is one, twice at once and again later; it says so", async () => {
    const test = await TestSchedule.make();
    const go = () => test.ask<ScheduleRun>("POST", ":run", {}, { "idempotency-key": "now" });
    const [a, b] = await Promise.all([go(), go()]);
    expect(a.body.id).toBe(b.body.id);
    const run = await test.over();
    expect(ScheduleRun.parse(run)).toMatchObject({ id: a.body.id, manual: true, state: "succeeded", exitCode: 0 });
    const again = await go();
    expect(again.body).toMatchObject({ id: a.body.id, replayed: true, state: "succeeded" });
    expect(await test.begun()).toEqual([a.body.id]);
  });

  it("runs one that is off, and leaves its times as they are", async () => {
    const test = await TestSchedule.make({ enabled: false });
    await test.ask("POST", ":run", {});
    expect((await test.over()).state).toBe("succeeded");
    expect((await test.read()).next).toEqual([]);
  });
});

describe("what wakes it", () => {
  it("is said by :why and the run: the schedule, whether it slept, and for how long the wake took", async () => {
    const test = await TestSchedule.make({ name: "nightly", action: wake }, true);
    await test.due();
    const run = await test.over();
    expect(run).toMatchObject({ state: "succeeded", wasAsleep: true, attempts: 1, action: "wake", output: null });
    expect(run.wakeMs).toBeGreaterThanOrEqual(0);
    const { body } = await ask<Why>("GET", `/v1/sandboxes/${test.name}:why`);
    expect(body.lastRun?.cause).toMatchObject({ kind: "schedule", request: "nightly", requestId: run.id, keyId: null });
  });

  it("is not counted among requests that may not wake it more often", async () => {
    const test = await TestSchedule.make({ cron: "* * * * *", action: wake }, true);
    await test.verb("update", { maxWakesPerHour: 1 });
    for (let n = 0; n < 3; n++) {
      await test.due();
      expect((await test.over()).state).toBe("succeeded");
      await test.verb("pause");
    }
    expect(await test.wakes()).toBe(3);
  });
});

describe("history", () => {
  it("is listed page by page, and is bounded: the last 100, of those skipped 20, for 30 days", async () => {
    const test = await TestSchedule.make({ cron: "* * * * *", action: wake });
    const object = schedulesObject(env.SCHEDULES, "default", test.name);
    for (let n = 0; n < 103; n++) {
      await object.runNow(test.id, test.schedule.id, once);
      await eventually(
        () => test.ask<ScheduleRunList>("GET", "/runs?limit=1"),
        ({ body }) => body.data[0]?.state === "succeeded",
      );
    }
    expect(await test.runs()).toHaveLength(100);
    const first = await test.ask<ScheduleRunList>("GET", "/runs?limit=60");
    const second = await test.ask<ScheduleRunList>("GET", `/runs?limit=60&cursor=${first.body.nextCursor}`);
    expect([ScheduleRunList.parse(second.body).data.length, second.body.nextCursor]).toEqual([40, null]);
    expect((await test.ask("GET", "/runs?cursor=x")).body.error.code).toBe("invalid_request");
    await fake.commands(test.name, { runs: true });
    await test.ask("POST", ":update", { action: { kind: "command", command: "long" } });
    await test.due();
    const { id } = await test.until(({ processId }) => processId !== null);
    for (let n = 0; n < 25; n++) await test.pass(MINUTE);
    const skipped = await test.runs("&state=skipped");
    expect([skipped.length, new Set(skipped.map(({ reason }) => reason))]).toEqual([20, new Set(["overlap"])]);
    expect((await test.runs()).some((run) => run.id === id)).toBe(true);
    await test.ask("POST", ":update", { enabled: false });
    await fake.end(test.name, { stdout: "done" });
    await test.pass(MINUTE);
    expect((await test.over(id)).state).toBe("succeeded");
    await test.pass(30 * DAY + HOUR);
    expect(await test.runs()).toEqual([]);
  });

  it("of another schedule is not found in this one's", async () => {
    const { name } = await paused();
    const make = async () =>
      (await ask<Schedule>("POST", `/v1/sandboxes/${name}/schedules`, { cron: "@daily", action: wake })).body.id;
    const [a, b] = [await make(), await make()];
    const { body: run }: Answer<ScheduleRun> = await ask("POST", `/v1/sandboxes/${name}/schedules/${a}:run`, {});
    const found = await call("GET", `/v1/sandboxes/${name}/schedules/${b}/runs/${run.id}`);
    expect((await faultOf(found)).code).toBe("schedule_run_not_found");
  });
});

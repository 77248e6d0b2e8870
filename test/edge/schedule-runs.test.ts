/** Runs of schedules: when they begin, over crashes, misses and a clock that jumps; what they do, and what becomes of them. */
import { env } from "cloudflare:workers";
import { runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ScheduleRun } from "../../sdk/contract/schedule.ts";
import type { Sandbox } from "../../sdk/contract/sandbox.ts";
import { ask, eventually, fake, heartbeat, report } from "./client.ts";
import { MINUTE, SECOND, TestSchedule } from "./schedulers.ts";
import { DAY, HOUR, shift } from "./volumes.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

const wake = { kind: "wake" };
const outcome = ({ state, reason }: ScheduleRun) => (reason === null ? state : `${state}: ${reason}`);
const outcomes = async (test: TestSchedule) => (await test.runs()).map(outcome);

describe("a time", () => {
  it("runs once, however often the alarm goes off, over an eviction, and not before", async () => {
    const test = await TestSchedule.make();
    await test.alarm();
    expect(await test.runs()).toEqual([]);
    const [first] = (await test.read()).next;
    await test.due();
    const run = await test.over();
    expect(run).toMatchObject({ scheduledAt: first, manual: false, caughtUp: false, state: "succeeded", attempts: 1 });
    await test.evict();
    await test.alarm();
    await test.pass(MINUTE);
    expect([await test.begun(), (await test.runs()).length]).toEqual([[run.id], 1]);
    expect((await test.read()).next[0]).toBe(new Date(Date.parse(first ?? "") + HOUR).toISOString());
  });

  it("given by at runs once, and is over then", async () => {
    const at = new Date(Date.now() + 2 * HOUR).toISOString();
    const test = await TestSchedule.make({ at, action: wake });
    expect((await test.read()).next).toEqual([at]);
    await test.due();
    expect(await test.over()).toMatchObject({ scheduledAt: at, state: "succeeded" });
    await test.pass(400 * DAY);
    expect(await test.read()).toMatchObject({ next: [], enabled: true, at });
    const later = new Date(Date.now() + HOUR).toISOString();
    await test.ask("POST", ":update", { at: later });
    await test.due();
    await test.until(({ scheduledAt, state }) => scheduledAt === later && state === "succeeded");
  });

  it("that a clock an hour ahead has run does not run again when the clock is back", async () => {
    const test = await TestSchedule.make({ cron: "*/10 * * * *" });
    await test.pass(HOUR + 11 * MINUTE);
    await test.over();
    shift(-HOUR);
    for (let n = 0; n < 5; n++) await test.pass(10 * MINUTE);
    expect(await test.begun()).toHaveLength(1);
    await test.pass(40 * MINUTE);
    await eventually(
      () => test.begun(),
      (begun) => begun.length === 2,
    );
  });

  it("is stored as a run before anything is begun: an object that ends there goes on under the same id", async () => {
    const test = await TestSchedule.make({}, true);
    await fake.plan({ label: test.name, action: "wake", hold: true });
    await test.due();
    const { id } = await test.until(({ startedAt }) => startedAt !== null);
    await test.crash();
    await fake.release(test.name);
    await test.pass(31 * SECOND);
    const run = await test.over();
    expect([run.id, run.state, await test.begun()]).toEqual([id, "succeeded", [id]]);
    expect(await test.runs()).toHaveLength(1);
  });
});

describe("times that were missed", () => {
  it("while the edge was away are one run, of the newest", async () => {
    const test = await TestSchedule.make({ cron: "*/20 * * * *" });
    const [first = ""] = (await test.read()).next;
    // The newest is 6 minutes old: that is not on time any more.
    await test.pass(Date.parse(first) + 3 * HOUR + 6 * MINUTE - Date.now());
    const run = await test.over();
    expect(run).toMatchObject({ caughtUp: true, state: "succeeded" });
    expect(run.scheduledAt).toBe(new Date(Date.parse(first) + 3 * HOUR).toISOString());
    await test.alarm();
    expect(await test.runs()).toHaveLength(1);
    expect((await test.read()).next[0]).toBe(new Date(Date.parse(first) + 3 * HOUR + 20 * MINUTE).toISOString());
  });

  it.each([
    ["by a schedule that does not catch up", { catchUp: false }, HOUR],
    ["more than a day ago", {}, 25 * HOUR],
  ])("%s are noted as skipped", async (_why, input, away) => {
    const at = new Date(Date.now() + MINUTE).toISOString();
    const test = await TestSchedule.make({ at, ...input });
    await test.pass(MINUTE + away);
    expect([await outcomes(test), await test.begun()]).toEqual([["skipped: missed"], []]);
  });

  it("while it was off run once when it is on again, at most", async () => {
    const test = await TestSchedule.make({ cron: "0 * * * *" });
    await test.ask("POST", ":update", { enabled: false });
    const [, , , , last = ""] = test.schedule.next;
    await test.pass(Date.parse(last) + 10 * MINUTE - Date.now());
    expect(await test.runs()).toEqual([]);
    const on = await test.ask("POST", ":update", { enabled: true });
    expect(on.status).toBe(200);
    await test.alarm();
    expect(await test.over()).toMatchObject({ caughtUp: true, scheduledAt: last, state: "succeeded" });
    expect(await test.runs()).toHaveLength(1);
  });
});

describe("a command", () => {
  it("gets what the schedule says, wakes a sleeper, and its output and exit are kept", async () => {
    const action = {
      kind: "command",
      argv: ["make", "all"],
      cwd: "/workspace/app",
      env: { A: "1" },
      timeoutSeconds: 90,
    };
    const test = await TestSchedule.make({ action }, true);
    await fake.commands(test.name, { stdout: "one\ntwo\n", stderr: "oh\n", exitCode: 3 });
    await test.due();
    const run = ScheduleRun.parse(await test.over());
    expect(run).toMatchObject({ state: "failed", reason: "exit_code", exitCode: 3, wasAsleep: true, status: null });
    expect(run.output).toEqual({
      ...{ stdout: { encoding: "text", data: "one\ntwo\n" }, stderr: { encoding: "text", data: "oh\n" }, body: null },
      ...{ bytes: 11, truncated: false },
    });
    const { argv, cwd } = action;
    expect((await fake.begun(test.name))[0]?.body).toEqual({ argv, cwd, env: { A: "1" }, timeoutMs: 90_000 });
    // Lists do not have it.
    expect((await test.runs())[0]).not.toHaveProperty("output");
  });

  it.each([
    ["runs for too long", { state: "timed_out", exitCode: -9 }, "failed: timeout", -9],
    ["is ended by a signal", { state: "killed", exitCode: -15 }, "failed: exit_code", -15],
    ["is no program", { exitCode: null, stderr: "x: not found\n" }, "failed: exit_code", null],
  ] as const)("that %s has failed", async (_how, turn, expected, exitCode) => {
    const test = await TestSchedule.make();
    await fake.commands(test.name, turn);
    await test.due();
    const run = await test.over();
    expect([outcome(run), run.exitCode, run.attempts]).toEqual([expected, exitCode, 1]);
  });

  it("that writes much has the end of it kept, as text over a cut character, or as bytes", async () => {
    const test = await TestSchedule.make();
    await fake.commands(test.name, { stdout: `${"\u00e9".repeat(100_000)}end`, stderr: "!" });
    await test.due();
    const { output } = await test.over();
    expect(output).toMatchObject({ bytes: 200_004, truncated: true, stdout: { encoding: "text" } });
    expect(output?.stdout?.data.endsWith("\u00e9end")).toBe(true);
    const kept = new TextEncoder().encode(`${output?.stdout?.data}${output?.stderr?.data}`).length;
    expect(65_536 - kept).toBeLessThanOrEqual(1);
    await fake.commands(test.name, { base64: "AP/+gA==" });
    await test.due();
    const bytes = await test.until(({ state, output: o }) => state !== "running" && o?.bytes === 4);
    expect(bytes.output?.stdout).toEqual({ encoding: "base64", data: "AP/+gA==" });
  });

  it("is begun once, also when nobody was told that it began, and over a crash of the object", async () => {
    const test = await TestSchedule.make();
    await fake.commands(test.name, { runs: true, drop: true });
    await test.due();
    expect(await test.until(({ attempts }) => attempts === 1)).toMatchObject({ reason: "upstream_closed" });
    await test.pass(6 * SECOND);
    const { id } = await test.until(({ processId }) => processId !== null);
    await test.crash();
    await test.pass(31 * SECOND);
    await fake.end(test.name, { stdout: "done" });
    await test.pass(31 * SECOND);
    const run = await test.over();
    expect([run.id, outcome(run), run.output?.stdout?.data]).toEqual([id, "succeeded", "done"]);
    expect(await test.begun()).toEqual([id]);
  });

  it("keeps its sandbox awake while it runs for long, and lets go of it then", async () => {
    const test = await TestSchedule.make();
    const held = async () => Object.keys((await ask<Sandbox>("GET", `/v1/sandboxes/${test.name}`)).body.holds ?? {});
    await fake.commands(test.name, { runs: true, stdout: "begun\n" });
    await test.due();
    const { id } = await test.until(({ processId }) => processId !== null);
    await test.pass(20 * SECOND);
    await eventually(held, (names) => names.length > 0);
    // What it wrote so far is there.
    await test.until(({ output }) => output?.stdout?.data === "begun\n");
    for (let n = 0; n < 8; n++) await test.pass(MINUTE);
    await eventually(held, (names) => names.length === 1);
    await fake.end(test.name, {});
    await test.pass(MINUTE);
    expect((await test.over()).id).toBe(id);
    await eventually(held, (names) => names.length === 0);
  });

  it("is not overlapped: the next times are skipped, and say so", async () => {
    const test = await TestSchedule.make({ cron: "* * * * *" });
    await fake.commands(test.name, { runs: true });
    await test.due();
    const first = await test.until(({ processId }) => processId !== null);
    await test.due();
    const { body: manual } = await test.ask<ScheduleRun>("POST", ":run", {});
    expect([outcome(manual), manual.manual]).toEqual(["skipped: overlap", true]);
    expect(await outcomes(test)).toEqual(["skipped: overlap", "skipped: overlap", "running"]);
    await fake.end(test.name, {});
    await test.pass(20 * SECOND);
    expect((await test.over(first.id)).state).toBe("succeeded");
    await test.due();
    await test.over();
    expect((await test.begun()).length).toBe(2);
  });

  it("goes on when its sandbox is woken again; one that was put to sleep is left until the next time", async () => {
    const test = await TestSchedule.make();
    await fake.commands(test.name, { runs: true });
    await test.due();
    const { id } = await test.until(({ processId }) => processId !== null);
    await test.verb("pause");
    for (let n = 0; n < 3; n++) await test.pass(2 * MINUTE);
    expect([await test.wakes(), (await test.run(id)).state]).toEqual([0, "running"]);
    await test.due();
    await eventually(
      () => test.wakes(),
      (wakes) => wakes === 1,
    );
    await fake.end(test.name, {});
    await test.pass(MINUTE);
    expect((await test.over(id)).state).toBe("succeeded");
    expect(await test.begun()).toEqual([id]);
  });

  it("that its host froze as it shut down is woken for", async () => {
    const test = await TestSchedule.make();
    await fake.commands(test.name, { runs: true });
    await test.due();
    await test.until(({ processId }) => processId !== null);
    await test.crash();
    await fake.sleep(test.name);
    await report(test.id, { type: "paused", generation: 1, reason: "host_stopped" });
    await fake.end(test.name, {});
    await test.pass(31 * SECOND);
    expect((await test.over()).state).toBe("succeeded");
  });

  it("that its machine lists no more is known by the run's id; of one that booted since nothing is known", async () => {
    const test = await TestSchedule.make();
    await fake.commands(test.name, { runs: true }, { runs: true });
    await test.due();
    const { id } = await test.until(({ processId }) => processId !== null);
    await test.crash();
    await fake.unlist(test.name);
    await fake.end(test.name, { exitCode: 4 });
    await test.pass(31 * SECOND);
    const known = await test.over();
    expect([known.id, outcome(known), known.exitCode]).toEqual([id, "failed: exit_code", 4]);
    await test.due();
    const second = await test.until((run) => run.id !== id && run.processId !== null);
    await test.crash();
    await test.verb("stop");
    await test.verb("restart");
    await test.pass(MINUTE);
    const lost = await test.until(({ state }) => state !== "running");
    expect([lost.id, outcome(lost)]).toEqual([second.id, "failed: process_lost"]);
    expect(await test.begun()).toEqual([id, second.id]);
  });

  it("whose sandbox is stopped has failed: its RAM is gone", async () => {
    const test = await TestSchedule.make();
    await fake.commands(test.name, { runs: true });
    await test.due();
    await test.until(({ processId }) => processId !== null);
    await test.verb("stop");
    await test.pass(MINUTE);
    expect(outcome(await test.over())).toBe("failed: sandbox_stopped");
  });

  it("that can't begin, as its folder is not there, is not tried again", async () => {
    const test = await TestSchedule.make({ action: { kind: "command", command: "x", cwd: "/nowhere" } });
    await test.due();
    const run = await test.over();
    expect([outcome(run), run.attempts]).toEqual(["failed: file_not_found", 1]);
  });

  it("is begun as the schedule was at its time", async () => {
    const test = await TestSchedule.make({ action: { kind: "command", command: "old" } });
    await fake.away(test.name, true);
    await test.due();
    await test.until(({ reason }) => reason !== null);
    await test.ask("POST", ":update", { action: { kind: "command", command: "new" } });
    await fake.away(test.name, false);
    await test.pass(MINUTE);
    await test.over();
    expect((await fake.begun(test.name)).map(({ body }) => body["command"])).toEqual(["old"]);
  });
});

describe("a request", () => {
  const action = {
    kind: "request",
    method: "PUT",
    port: 3000,
    path: "/in/job?a=1",
    headers: { "x-a": "b" },
    body: "{}",
  };

  it("reaches the program of a sleeper, and its answer is kept", async () => {
    const test = await TestSchedule.make({ action }, true);
    await fake.turns(test.name, { deaf: true }, { status: 201, body: "made" });
    await test.due();
    const run = await test.over();
    // That its port did not listen yet does not count.
    expect(run).toMatchObject({ state: "succeeded", status: 201, attempts: 1, wasAsleep: true, exitCode: null });
    expect(run.output).toEqual({
      ...{ stdout: null, stderr: null, body: { encoding: "text", data: "made" }, bytes: 4, truncated: false },
    });
    const [taken] = await fake.taken(test.name);
    expect(taken).toMatchObject({ method: "PUT", target: "port/3000", path: "/in/job?a=1", base64: btoa("{}") });
    expect(taken?.headers).toMatchObject({
      ...{ "x-a": "b", "x-rouse-schedule": test.schedule.id, "x-rouse-run": run.id, "idempotency-key": run.id },
    });
  });

  it("that the program answers with an error has failed, and is not tried again", async () => {
    const test = await TestSchedule.make({ action });
    await fake.turns(test.name, { status: 503, body: "x".repeat(70_000) });
    await test.due();
    const run = await test.over();
    expect([outcome(run), run.status, run.output?.truncated]).toEqual(["failed: http_status", 503, true]);
    expect([run.output?.bytes, run.output?.body?.data.length]).toEqual([70_000, 65_536]);
    await test.pass(10 * MINUTE);
    expect(await fake.taken(test.name)).toHaveLength(1);
  });

  it("that is not answered in time has failed", async () => {
    const test = await TestSchedule.make({ action: { ...action, timeoutSeconds: 1 } });
    await fake.turns(test.name, { delayMs: 3000 });
    await test.due();
    expect(outcome(await test.over())).toBe("failed: timeout");
    expect(await fake.taken(test.name)).toHaveLength(1);
  });

  it("that breaks off with the object is sent again, under the same id", async () => {
    const test = await TestSchedule.make({ action });
    await fake.turns(test.name, { delayMs: 5000 });
    await test.due();
    await eventually(
      () => fake.taken(test.name),
      (taken) => taken.length === 1,
    );
    await test.crash();
    await test.pass(31 * SECOND);
    const run = await test.over();
    expect([outcome(run), run.attempts]).toEqual(["succeeded", 2]);
    expect((await fake.taken(test.name)).map(({ headers }) => headers["x-rouse-run"])).toEqual([run.id, run.id]);
  });
});

describe("a sandbox that can't run now", () => {
  it("because its host is away, is tried five times within ten minutes; then the run has failed", async () => {
    const test = await TestSchedule.make({ action: { kind: "request", path: "/in" } });
    await fake.away(test.name, true);
    await test.due();
    const first = await test.until(({ attempts }) => attempts === 1);
    const seen: number[] = [];
    for (let n = 2; n <= 5; n++) {
      const { nextAttemptAt } = await test.newest();
      seen.push(Date.parse(nextAttemptAt ?? "") - Date.now());
      await test.pass(Date.parse(nextAttemptAt ?? "") + SECOND - Date.now());
      await test.until(({ attempts }) => attempts === n);
    }
    const run = await test.over();
    expect([run.id, run.state]).toEqual([first.id, "failed"]);
    expect(["host_unavailable", "sandbox_waking"]).toContain(run.reason);
    expect(Date.parse(run.endedAt ?? "") - Date.parse(run.scheduledAt)).toBeLessThan(10 * MINUTE);
    expect(seen.every((wait, at) => at === 0 || wait > (seen[at - 1] ?? 0))).toBe(true);
  });

  it("because it is stopped, runs once it is there again, within a day", async () => {
    const test = await TestSchedule.make({ cron: "@daily" });
    await test.verb("stop");
    await test.due();
    expect(await test.until(({ attempts }) => attempts === 1)).toMatchObject({ reason: "sandbox_stopped" });
    for (let n = 0; n < 8; n++) await test.pass(20 * MINUTE);
    await test.verb("restart");
    await test.pass(20 * MINUTE);
    expect(outcome(await test.over())).toBe("succeeded");
  });

  it("because it wakes only when told to, and until the next time comes, has failed then, with the reason", async () => {
    const test = await TestSchedule.make({}, true);
    await test.verb("update", { autoWake: false });
    await test.due();
    const first = await test.until(({ attempts }) => attempts === 1);
    await test.due();
    const second = await test.until(({ id, attempts }) => id !== first.id && attempts === 1);
    expect(await outcomes(test)).toEqual(["running: sandbox_paused", "failed: sandbox_paused"]);
    await test.verb("update", { autoWake: true });
    await test.pass(2 * MINUTE);
    expect(await test.over()).toMatchObject({ id: second.id, state: "succeeded" });
    expect([await test.begun(), await test.wakes()]).toEqual([[second.id], 1]);
  });

  it("and does not catch up, has failed after five tries", async () => {
    const test = await TestSchedule.make({ catchUp: false });
    await test.verb("stop");
    await test.due();
    for (let n = 1; n < 5; n++) {
      await test.until(({ attempts }) => attempts === n);
      await test.pass(6 * MINUTE);
    }
    expect(await test.over()).toMatchObject({ attempts: 5, reason: "sandbox_stopped", state: "failed" });
  });
});

it("nothing is left behind where there never was a schedule", async () => {
  const stub = env.SCHEDULES.getByName(`default/never-${crypto.randomUUID().slice(0, 8)}`) as DurableObjectStub;
  const tables = await runInDurableObject(stub, (_object: object, { storage }) =>
    storage.sql.exec("SELECT name FROM sqlite_master").toArray(),
  );
  expect(tables).toEqual([]);
});

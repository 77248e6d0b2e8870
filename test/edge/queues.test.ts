/** Queues: each task done at least once and none lost, whatever becomes of workers, leases and the object. */
import { env } from "cloudflare:workers";
import { runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { queueLimits, type LeasedTask, type Task } from "../../sdk/contract/queue.ts";
import { call, heartbeat } from "./client.ts";
import { TestState, type Asked } from "./homes.ts";
import { shift } from "./volumes.ts";

beforeEach(() => heartbeat());
afterEach(() => {
  vi.useRealTimers();
});

const put = (home: TestState, payload: unknown, more: object = {}, headers: Record<string, string> = {}) =>
  home.ask("POST", "/queues/q/tasks", { payload, ...more }, headers);
const take = async (home: TestState, more: object = {}): Promise<LeasedTask[]> =>
  (await home.ask("POST", "/queues/q:take", more)).body.data;
const tell = (home: TestState, verb: string, { id, lease }: LeasedTask, more: object = {}) =>
  home.ask("POST", `/queues/q:${verb}`, { id, lease, ...more });
const codeOf = ({ body }: Asked): string | undefined => body.error?.code;

test("tasks are taken in the order they were put, from outside and inside, and are done", async () => {
  const home = await TestState.make();
  for (const n of [1, 2, 3]) await put(home, { n });
  const [first] = await take(home);
  expect(first).toMatchObject({ payload: { n: 1 }, state: "leased", attempts: 1, maxAttempts: 5, lastError: null });
  const { body } = await home.inside("POST", "/queues/q:take", { max: 5 });
  expect(body.data.map(({ payload }: Task) => payload)).toEqual([{ n: 2 }, { n: 3 }]);
  expect(await take(home)).toEqual([]);
  for (const task of [first as LeasedTask, ...body.data])
    expect((await tell(home, "ack", task)).body).toMatchObject({ state: "done", payload: null });
  expect((await home.ask("GET", "/queues")).body.data).toEqual([]);
  // The answer may have been lost.
  expect((await tell(home, "ack", first as LeasedTask)).status).toBe(200);
  expect(await home.wakes()).toBe(0);
});

test("two who take at once never get the same", async () => {
  const home = await TestState.make();
  for (let n = 0; n < 10; n += 1) await put(home, n);
  const taken = await Promise.all(Array.from({ length: 4 }, () => take(home, { max: 3 })));
  expect(
    taken
      .flat()
      .map(({ payload }) => payload)
      .toSorted(),
  ).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

test("a lease that runs out gives its task back, also after an eviction, and its holder has lost it", async () => {
  const home = await TestState.make();
  await put(home, "x");
  const [task] = (await take(home, { leaseSeconds: 10 })) as [LeasedTask];
  shift(5000);
  const { body } = await tell(home, "extend", task, { leaseSeconds: 20 });
  expect(Date.parse(body.leaseUntil)).toBeGreaterThan(Date.parse(task.leaseUntil));
  await home.evict();
  expect(await take(home)).toEqual([]);
  await home.pass(21_000);
  for (const verb of ["ack", "nack", "extend"]) expect(codeOf(await tell(home, verb, task))).toBe("lease_lost");
  const [again] = await take(home);
  expect(again).toMatchObject({ id: task.id, attempts: 2, lastError: "lease expired" });
  expect(codeOf(await tell(home, "ack", { ...task }))).toBe("lease_lost");
});

test("after its last attempt a task is dead, until somebody retries or deletes it", async () => {
  const home = await TestState.make();
  await put(home, "x", { maxAttempts: 2 });
  const [first] = (await take(home)) as [LeasedTask];
  expect((await tell(home, "nack", first, { error: "no luck", delaySeconds: 60 })).body.state).toBe("delayed");
  expect(await take(home)).toEqual([]);
  shift(61_000);
  await take(home, { leaseSeconds: 1 });
  await home.pass(2000);
  const dead = (await home.ask("GET", "/queues/q/tasks?state=dead")).body.data;
  expect(dead).toMatchObject([{ id: first.id, state: "dead", attempts: 2, payload: "x", lastError: "lease expired" }]);
  expect((await home.ask("GET", "/queues/q")).body).toMatchObject({ ready: 0, leased: 0, dead: 1 });
  expect((await home.ask("POST", `/queues/q/tasks/${first.id}:retry`, {})).body).toMatchObject({
    state: "ready",
    attempts: 0,
  });
  expect(codeOf(await home.ask("POST", `/queues/q/tasks/${first.id}:retry`, {}))).toBe("conflict");
  const [again] = (await take(home)) as [LeasedTask];
  expect((await home.ask("DELETE", `/queues/q/tasks/${first.id}`)).body).toEqual({ id: first.id, deleted: true });
  expect(codeOf(await tell(home, "ack", again))).toBe("task_not_found");
  await put(home, "y", { maxAttempts: 1 });
  await tell(home, "nack", ((await take(home)) as [LeasedTask])[0]);
  expect((await home.ask("POST", "/queues/q:retry-dead", {})).body).toEqual({ retried: 1 });
});

test("a repeated put is the same task, also when it is done", async () => {
  const home = await TestState.make();
  const key = { "idempotency-key": "k1" };
  const [a, b] = await Promise.all([put(home, 1, {}, key), put(home, 1, {}, key)]);
  expect(a.body.id).toBe(b.body.id);
  expect([a, b].filter(({ headers }) => headers.get("idempotency-replayed") === "true")).toHaveLength(1);
  expect(codeOf(await put(home, 2, {}, key))).toBe("idempotency_key_reused");
  await tell(home, "ack", ((await take(home)) as [LeasedTask])[0]);
  expect((await put(home, 1, {}, key)).body).toMatchObject({ id: a.body.id, state: "done", replayed: true });
  await home.pass(queueLimits.keySeconds * 1000 + 1000);
  expect((await put(home, 1, {}, key)).body.state).toBe("ready");
});

test("who waits gets a task as soon as there is one", async () => {
  const home = await TestState.make();
  const put1 = put(home, 0).then(async () => tell(home, "ack", ((await take(home)) as [LeasedTask])[0]));
  await put1;
  const waiting = take(home, { waitSeconds: 20 });
  await put(home, "late");
  expect((await waiting).map(({ payload }) => payload)).toEqual(["late"]);
});

test("the queues are full at their limit, and say so", async () => {
  const home = await TestState.make();
  await put(home, "first");
  await runInDurableObject(home.stub, (_object, state) => {
    state.storage.sql.exec("UPDATE totals SET tasks = ?", queueLimits.tasksMax - 1);
  });
  expect((await put(home, "last")).status).toBe(200);
  const full = await put(home, "more");
  expect(full.body.error).toMatchObject({
    code: "storage_full",
    details: { tasks: queueLimits.tasksMax, maxTasks: queueLimits.tasksMax },
  });
  await tell(home, "ack", ((await take(home)) as [LeasedTask])[0]);
  expect((await put(home, "more")).status).toBe(200);
});

test("what can't be is refused", async () => {
  const home = await TestState.make();
  expect(codeOf(await put(home, "x".repeat(queueLimits.payloadBytesMax)))).toBe("payload_too_large");
  expect(codeOf(await home.ask("POST", "/queues/q/tasks", { payload: 1, maxAttempts: 0, delaySeconds: -1 }))).toBe(
    "invalid_request",
  );
  expect(codeOf(await home.ask("POST", "/queues/no%20name/tasks", { payload: 1 }))).toBe("invalid_request");
  expect(codeOf(await home.ask("POST", "/queues/q:take", { max: 101 }))).toBe("invalid_request");
  expect(codeOf(await home.ask("GET", "/queues/q/tasks/task-00000000000000000000"))).toBe("task_not_found");
});

test("a task of one sandbox is none of another", async () => {
  const [home, other] = [await TestState.make(), await TestState.make()];
  await put(home, "mine");
  expect((await other.inside("POST", "/queues/q:take", {})).body.data).toEqual([]);
  expect((await call("GET", `/v1/sandboxes/${other.name}/queues`)).status).toBe(200);
});

/** Random numbers that come again. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const seeds = env.ROUSE_SEEDS === "" ? [1, 2] : env.ROUSE_SEEDS.split(",").map(Number);

describe.each(seeds)("workers that die at random, seed %i", (seed) => {
  test("each task is done at least once or dead after its attempts, and none is lost", async () => {
    const home = await TestState.make();
    const next = random(seed);
    const model = new Map<string, { attempts: number; done: boolean; max: number }>();
    const leases = new Map<string, LeasedTask>();
    const wrong: unknown[] = [];
    for (let step = 0; step < 120; step += 1) {
      const dice = next();
      if (dice < 0.25 && model.size < 25) {
        const max = 1 + Math.floor(next() * 4);
        const { body } = await put(home, { step }, { maxAttempts: max, delaySeconds: next() < 0.3 ? 5 : 0 });
        model.set(body.id, { attempts: 0, done: false, max });
      } else if (dice < 0.55) {
        for (const task of await take(home, { max: 1 + Math.floor(next() * 3), leaseSeconds: 10 })) {
          const known = model.get(task.id);
          if (known) known.attempts += 1;
          // It was done before, somebody else has it, or it was taken too often.
          if (!known || known.done || leases.has(task.id) || task.attempts > known.max) wrong.push(task);
          if (task.attempts !== known?.attempts) wrong.push(task);
          leases.set(task.id, task);
        }
      } else if (dice < 0.75) {
        const [task] = leases.values();
        if (!task) continue;
        leases.delete(task.id);
        // A worker that dies says nothing.
        const fate = next();
        if (fate < 0.6) {
          const told = await tell(home, "ack", task);
          if (told.status !== 200) wrong.push(told.body);
          const known = model.get(task.id);
          if (known) known.done = true;
        } else if (fate < 0.8) {
          const told = await tell(home, "nack", task);
          if (told.status !== 200) wrong.push(told.body);
        }
      } else if (dice < 0.85) {
        // All workers die.
        leases.clear();
        await home.pass(11_000);
      } else if (dice < 0.95) {
        await home.ask("GET", "/queues");
        await home.evict();
      } else await home.crash();
      // A worker that died held what it took until its lease ended.
      for (const [id, task] of leases) if (Date.parse(task.leaseUntil) <= Date.now()) leases.delete(id);
    }
    for (let turn = 0; turn < 100; turn += 1) {
      shift(11_000);
      const tasks = await take(home, { max: 100, leaseSeconds: 10 });
      for (const task of tasks) {
        const known = model.get(task.id);
        if (known) known.attempts += 1;
        if (next() < 0.5) {
          await tell(home, "ack", task);
          if (known) known.done = true;
        }
      }
      const { body } = await home.ask("GET", "/queues/q");
      if (body.ready + body.delayed + body.leased === 0) break;
    }
    expect(wrong).toEqual([]);
    const dead = new Map(
      (await home.ask("GET", "/queues/q/tasks?state=dead&limit=100")).body.data.map((task: Task) => [task.id, task]),
    ) as Map<string, Task>;
    for (const [id, { done, attempts, max }] of model) {
      expect([id, done !== dead.has(id)]).toEqual([id, true]);
      expect(dead.get(id)?.attempts ?? max).toBe(max);
      expect(attempts <= max).toBe(true);
    }
    const usage = (await home.ask("GET", "/state")).body.queues;
    expect(usage.tasks).toBe(dead.size);
    await home.alarm();
  });
});

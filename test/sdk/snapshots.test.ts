import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { NotFoundError, Rouse, ServiceUnavailableError } from "../../sdk/src/index.ts";
import type { Sandbox } from "../../sdk/src/index.ts";
import {
  SNAPSHOT,
  SNAPSHOT_ID,
  diffAnswer,
  durabilityAnswer,
  pointAnswer,
  snapshotAnswer,
} from "./snapshot-answers.ts";
import { SANDBOX, TEST_KEY, WireServer, sandboxInfo } from "./wire-server.ts";

const CAPTURE = `POST ${SANDBOX}:snapshot`;
const FORK = `POST ${SANDBOX}:fork`;

let server: WireServer;
let rouse: Rouse;
let sandbox: Sandbox;

beforeEach(async () => {
  server = await WireServer.start();
  rouse = new Rouse({ baseUrl: server.url, apiKey: TEST_KEY });
  server.on(`GET ${SANDBOX}`, (_request, reply) => reply.json(sandboxInfo()));
  sandbox = await rouse.sandboxes.get("demo~abcdefghijkl");
  server.requests.length = 0;
});
afterEach(async () => {
  await server[Symbol.asyncDispose]();
});

/** What was asked for, in order. */
function asked(): string[] {
  return server.requests.map(({ method, path }) => `${method} ${path}`);
}

describe("a snapshot", () => {
  test("is taken of a running sandbox as it is, and waited for until it is ready", async () => {
    server
      .on(CAPTURE, (_request, reply) => reply.json(snapshotAnswer({ state: "capturing", mode: "disk" }), 202))
      .on(`GET ${SNAPSHOT}`, (_request, reply, count) =>
        reply.json(snapshotAnswer({ mode: "disk", state: count === 0 ? "capturing" : "ready" })),
      );
    const options = { mode: "disk", name: "nightly", labels: { by: "cron" }, retentionDays: 7 } as const;
    const snapshot = await sandbox.snapshot(options);
    expect([snapshot.id, snapshot.state, snapshot.backedUp]).toEqual([SNAPSHOT_ID, "ready", true]);
    expect(asked()).toEqual([CAPTURE, `GET ${SNAPSHOT}`, `GET ${SNAPSHOT}`]);
    expect(server.requests[0]?.json()).toEqual(options);
    expect(server.requests[0]?.headers["prefer"]).toBe("wait=60");
  });

  test("that is ready at once needs no second question", async () => {
    server.on(CAPTURE, (_request, reply) => reply.json(snapshotAnswer()));
    expect((await rouse.snapshots.create("demo~abcdefghijkl")).frozenMs).toBe(41.2);
    expect(asked()).toEqual([CAPTURE]);
    expect(server.requests[0]?.json()).toEqual({});
  });

  test("is one however often the request is sent", async () => {
    server.on(CAPTURE, (_request, reply, count) =>
      count === 0 ? reply.cut() : reply.json(snapshotAnswer({ replayed: true })),
    );
    expect(await sandbox.snapshot({ idempotencyKey: "nightly-1" })).toMatchObject({ id: SNAPSHOT_ID, replayed: true });
    expect(server.of(CAPTURE).map(({ headers }) => headers["idempotency-key"])).toEqual(["nightly-1", "nightly-1"]);
  });

  test("without wait is answered while it is being captured", async () => {
    server.on(CAPTURE, (_request, reply) => reply.json(snapshotAnswer({ state: "capturing" }), 202));
    expect((await sandbox.snapshot({ wait: false })).state).toBe("capturing");
    expect(server.requests[0]?.headers["prefer"]).toBeUndefined();
    expect(server.requests).toHaveLength(1);
  });

  test("that fails says why, and is not tried again", async () => {
    const failed = snapshotAnswer({ state: "failed", error: "the store refused a part" });
    server
      .on(CAPTURE, (_request, reply) => reply.json(snapshotAnswer({ state: "capturing" })))
      .on(`GET ${SNAPSHOT}`, (_request, reply) => reply.json(failed));
    const failure = await sandbox.snapshot().catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ServiceUnavailableError);
    expect(failure).toMatchObject({
      code: "snapshot_failed",
      message: expect.stringContaining("the store refused a part") as unknown,
      details: { snapshotId: SNAPSHOT_ID, sandboxId: "demo~abcdefghijkl" },
    });
    server.on(CAPTURE, (_request, reply) => reply.error("snapshot_failed", { message: "no room on the disk" }));
    await expect(sandbox.snapshot()).rejects.toMatchObject({ code: "snapshot_failed", message: "no room on the disk" });
    expect(server.of(CAPTURE)).toHaveLength(2);
  });

  test("that is deleted meanwhile is missing", async () => {
    server
      .on(CAPTURE, (_request, reply) => reply.json(snapshotAnswer({ state: "capturing" })))
      .on(`GET ${SNAPSHOT}`, (_request, reply) => reply.error("snapshot_not_found"));
    await expect(sandbox.snapshot()).rejects.toBeInstanceOf(NotFoundError);
  });

  test("of another mode than asked for is no success", async () => {
    server.on(CAPTURE, (_request, reply) => reply.json(snapshotAnswer({ mode: "memory" })));
    await expect(sandbox.snapshot({ mode: "disk" })).rejects.toMatchObject({
      code: "unexpected_answer",
      message: expect.stringContaining(SNAPSHOT_ID) as unknown,
    });
  });

  test.each(["still capturing", "no answer"])("that takes too long is named in the error: %s", async (what) => {
    server
      .on(CAPTURE, (_request, reply) => reply.json(snapshotAnswer({ state: "capturing" })))
      .on(`GET ${SNAPSHOT}`, (_request, reply) =>
        what === "no answer" ? undefined : reply.json(snapshotAnswer({ state: "capturing" })),
      );
    await expect(sandbox.snapshot({ timeoutMs: 700 })).rejects.toMatchObject({
      code: "timeout",
      retryable: true,
      details: { snapshotId: SNAPSHOT_ID },
    });
  });

  test("can be given up", async () => {
    const giveUp = new AbortController();
    server
      .on(CAPTURE, (_request, reply) => reply.json(snapshotAnswer({ state: "capturing" })))
      .on(`GET ${SNAPSHOT}`, (_request, reply) => {
        giveUp.abort();
        reply.json(snapshotAnswer({ state: "capturing" }));
      });
    await expect(sandbox.snapshot({ signal: giveUp.signal, timeoutMs: 0 })).rejects.toMatchObject({
      code: "cancelled",
    });
  });
});

describe("snapshots", () => {
  test("are read page by page with the same filter", async () => {
    server.on("GET /v1/snapshots", (request, reply) => {
      const at = Number(request.query.get("cursor") ?? 0);
      reply.json({ data: [snapshotAnswer({ name: `n${at}` })], nextCursor: at < 2 ? String(at + 1) : null });
    });
    const page = await rouse.snapshots.list({ sandboxId: "demo~abcdefghijkl", name: "n", state: "ready", limit: 1 });
    const names: (string | null)[] = [];
    for await (const { name } of page) names.push(name);
    expect(names).toEqual(["n0", "n1", "n2"]);
    expect(server.requests.at(-1)?.query.toString()).toBe(
      "sandboxId=demo%7Eabcdefghijkl&name=n&state=ready&limit=1&cursor=2",
    );
  });

  test("are read, renamed, kept longer and deleted, each change under a key", async () => {
    server
      .on(`GET ${SNAPSHOT}`, (_request, reply) => reply.json(snapshotAnswer()))
      .on(`POST ${SNAPSHOT}:update`, (_request, reply) => reply.json(snapshotAnswer({ labels: { a: "2" } })))
      .on(`POST ${SNAPSHOT}:extend`, (_request, reply) => reply.json(snapshotAnswer({ retentionDays: 30 })))
      .on(`POST ${SNAPSHOT}:delete`, (_request, reply) => reply.json(snapshotAnswer({ state: "deleted" })));
    expect((await rouse.snapshots.get(SNAPSHOT_ID)).state).toBe("ready");
    const changes = { name: null, labels: { a: "2" }, ifLabels: { a: "1" } };
    expect((await rouse.snapshots.update(SNAPSHOT_ID, changes)).labels).toEqual({ a: "2" });
    expect((await rouse.snapshots.extend(SNAPSHOT_ID, 30)).retentionDays).toBe(30);
    await rouse.snapshots.delete(SNAPSHOT_ID);
    const sent = server.requests.slice(1);
    expect(sent.map((request) => request.json())).toEqual([changes, { retentionDays: 30 }, {}]);
    expect(new Set(sent.map(({ headers }) => headers["idempotency-key"])).size).toBe(3);
    expect(sent.every(({ headers }) => typeof headers["idempotency-key"] === "string")).toBe(true);
    server.on(`POST ${SNAPSHOT}:update`, (_request, reply) => reply.error("conflict"));
    await expect(rouse.snapshots.update(SNAPSHOT_ID, changes)).rejects.toMatchObject({ status: 409 });
  });

  test.each(["", "..", "snap-1", "demo", `${SNAPSHOT_ID}/..`])("have no id %j", async (id) => {
    await expect(rouse.snapshots.get(id)).rejects.toMatchObject({ code: "invalid_argument" });
    await expect(rouse.snapshots.delete(id)).rejects.toMatchObject({ code: "invalid_argument" });
    expect(server.requests).toEqual([]);
  });

  test("are what a sandbox can start from", async () => {
    server.on("POST /v1/sandboxes", (_request, reply) => reply.json(sandboxInfo()));
    server.on(`POST ${SANDBOX}:update`, (_request, reply) => reply.json(sandboxInfo({ keepPauses: 0 })));
    await rouse.sandboxes.create({ snapshot: SNAPSHOT_ID, keepPauses: 3 });
    expect((await sandbox.update({ keepPauses: 0 })).info.keepPauses).toBe(0);
    expect(server.requests.map((request) => request.json())).toEqual([
      { snapshot: SNAPSHOT_ID, keepPauses: 3 },
      { keepPauses: 0 },
    ]);
  });
});

describe("a fork", () => {
  const copyId = (at: number): string => `copy~aaaaaaaaaaa${"abcd"[at]}`;
  const copies = (count: number, state: "running" | "resuming" = "running") => ({
    sandboxes: Array.from({ length: count }, (_, at) => sandboxInfo({ id: copyId(at), name: null, state })),
    frozenMs: 38,
  });

  test("is one sandbox without a count, and a list with one", async () => {
    server.on(FORK, (request, reply) => reply.json(copies((request.json() as { count?: number }).count ?? 1)));
    const one: Sandbox = await sandbox.fork({ name: "copy", labels: { a: "b" }, keepSnapshot: true });
    expect([one.id, sandbox.id]).toEqual([copyId(0), "demo~abcdefghijkl"]);
    const list: Sandbox[] = await sandbox.fork({ count: 1 });
    expect(list.map(({ id }) => id)).toEqual([copyId(0)]);
    expect((await sandbox.fork({ count: 3 })).map(({ id }) => id)).toEqual([0, 1, 2].map(copyId));
    expect(server.requests.map((request) => request.json())).toEqual([
      { name: "copy", labels: { a: "b" }, keepSnapshot: true },
      { count: 1 },
      { count: 3 },
    ]);
    expect(new Set(server.requests.map(({ headers }) => headers["idempotency-key"])).size).toBe(3);
    expect(server.requests[0]?.headers["prefer"]).toBe("wait=60");
  });

  test("is made once, however often the answer is lost", async () => {
    server.on(FORK, (_request, reply, count) => (count < 2 ? reply.cut() : reply.json(copies(2))));
    expect(await sandbox.fork({ count: 2 })).toHaveLength(2);
    expect(server.of(FORK)).toHaveLength(3);
    expect(new Set(server.of(FORK).map(({ headers }) => headers["idempotency-key"])).size).toBe(1);
  });

  test("is waited for until every copy runs", async () => {
    server.on(FORK, (_request, reply) => reply.json(copies(2, "resuming")));
    for (const at of [0, 1]) {
      server.on(`GET /v1/sandboxes/${copyId(at)}`, (_request, reply) => reply.json(sandboxInfo({ id: copyId(at) })));
    }
    expect((await sandbox.fork({ count: 2 })).map(({ state }) => state)).toEqual(["running", "running"]);
    expect((await sandbox.fork({ count: 2, wait: false })).map(({ state }) => state)).toEqual(["resuming", "resuming"]);
  });

  test("that does not start says which copy, and why", async () => {
    const stopped = sandboxInfo({ id: copyId(0), state: "stopped", lastError: "no kernel" });
    server
      .on(FORK, (_request, reply) => reply.json(copies(1, "resuming")))
      .on(`GET /v1/sandboxes/${copyId(0)}`, (_request, reply) => reply.json(stopped));
    await expect(sandbox.fork()).rejects.toMatchObject({
      code: "start_failed",
      message: expect.stringContaining("no kernel") as unknown,
      details: { sandboxId: copyId(0) },
    });
  });

  test("of fewer copies than asked for is no success, and a refusal is passed on", async () => {
    server.on(FORK, (_request, reply) => reply.json(copies(1)));
    await expect(sandbox.fork({ count: 2 })).rejects.toMatchObject({ code: "unexpected_answer" });
    server.on(FORK, (_request, reply) => reply.error("name_taken"));
    await expect(sandbox.fork({ name: "demo" })).rejects.toMatchObject({ code: "name_taken", status: 409 });
  });
});

test("a sandbox goes back to a point of its history, and the handle shows it", async () => {
  const points = [pointAnswer(), pointAnswer({ point: "p-6", generation: 6, current: false })];
  server
    .on(`GET ${SANDBOX}/history`, (_request, reply) => reply.json({ data: points }))
    .on(`POST ${SANDBOX}:rollback`, (_request, reply) => reply.json(sandboxInfo({ state: "paused", generation: 8 })));
  expect(await sandbox.history()).toEqual(points);
  expect((await sandbox.rollback("p-6")).state).toBe("paused");
  expect([sandbox.state, sandbox.info.generation]).toEqual(["paused", 8]);
  const [sent] = server.of(`POST ${SANDBOX}:rollback`);
  expect(sent?.json()).toEqual({ point: "p-6" });
  expect(sent?.headers["idempotency-key"]).toEqual(expect.any(String));
  server.on(`POST ${SANDBOX}:rollback`, (_request, reply) => reply.error("point_not_found"));
  await expect(sandbox.rollback("p-1")).rejects.toMatchObject({ code: "point_not_found", status: 404 });
});

test("points of a sandbox's history are compared", async () => {
  server.on(`GET ${SANDBOX}/diff`, (_request, reply) => reply.json(diffAnswer()));
  expect(await sandbox.diff({ from: "p6", to: "p7" })).toEqual(diffAnswer());
  await sandbox.diff();
  expect(server.of(`GET ${SANDBOX}/diff`).map(({ query }) => String(query))).toEqual(["from=p6&to=p7", ""]);
  // Trying again would take as long, and end the same.
  server.on(`GET ${SANDBOX}/diff`, (_request, reply) => reply.error("unavailable"));
  await expect(sandbox.diff()).rejects.toMatchObject({ code: "unavailable", retryable: false });
  expect(server.of(`GET ${SANDBOX}/diff`)).toHaveLength(3);
});

test("a saved state that is damaged is said to be at once", async () => {
  server.on(`POST ${SANDBOX}:wake`, (_request, reply) => reply.error("state_damaged"));
  await expect(sandbox.wake()).rejects.toMatchObject({ code: "state_damaged", retryable: false });
  expect(server.of(`POST ${SANDBOX}:wake`)).toHaveLength(1);
});

describe("waitUntilDurable", () => {
  test.each(["durable", "cold"] as const)("ends when it is %s", async (last) => {
    const states = ["cached", "local", last] as const;
    server.on(`GET ${SANDBOX}`, (_request, reply, count) => {
      const state = states[count - 1];
      reply.json(sandboxInfo(state ? { state: "paused", durability: durabilityAnswer(state) } : { state: "pausing" }));
    });
    await sandbox.waitUntilDurable();
    expect(sandbox.info.durability?.state).toBe(last);
  });

  test("gives up on what runs, and when its time is over", async () => {
    await expect(sandbox.waitUntilDurable()).rejects.toMatchObject({ code: "conflict", details: { state: "running" } });
    server.on(`GET ${SANDBOX}`, (_request, reply) =>
      reply.json(sandboxInfo({ state: "paused", durability: durabilityAnswer("local") })),
    );
    await expect(sandbox.waitUntilDurable({ timeoutMs: 20 })).rejects.toMatchObject({
      code: "timeout",
      message: expect.stringContaining("is local") as unknown,
    });
  });
});

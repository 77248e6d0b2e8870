import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  ConflictError,
  InvalidRequestError,
  NotFoundError,
  Rouse,
  RouseError,
  ServiceUnavailableError,
} from "../../sdk/src/index.ts";
import { SANDBOX, TEST_KEY, WireServer, sandboxInfo } from "./wire-server.ts";

let server: WireServer;
let rouse: Rouse;

beforeEach(async () => {
  server = await WireServer.start();
  rouse = new Rouse({ baseUrl: server.url, apiKey: TEST_KEY });
  server.on(`GET ${SANDBOX}`, (_request, reply) => reply.json(sandboxInfo()));
});
afterEach(async () => {
  await server[Symbol.asyncDispose]();
});

test("getOrCreate sends name and fields, and info.reused stays true of the handle", async () => {
  server.on("POST /v1/sandboxes", (_request, reply) => reply.json(sandboxInfo({ reused: true })));
  const sandbox = await rouse.sandboxes.getOrCreate("demo", { idlePauseSeconds: 600, labels: { user: "u-42" } });
  expect(server.requests[0]?.json()).toEqual({
    name: "demo",
    getOrCreate: true,
    idlePauseSeconds: 600,
    labels: { user: "u-42" },
  });
  expect(server.requests[0]?.headers["prefer"]).toBe("wait=60");
  expect(server.requests[0]?.headers["x-rouse-client"]).toMatch(/^sdk-js\//);
  expect(sandbox.info.reused).toBe(true);
  await sandbox.refresh();
  expect(sandbox.info.reused).toBe(true);
});

test("create waits on the server until the sandbox runs", async () => {
  server
    .on("POST /v1/sandboxes", (_request, reply) => reply.json(sandboxInfo({ state: "starting" }), 201))
    .on(`GET ${SANDBOX}`, (_request, reply, count) =>
      reply.json(sandboxInfo({ state: count === 0 ? "starting" : "running" })),
    );
  const sandbox = await rouse.sandboxes.create();
  expect(sandbox.state).toBe("running");
  expect(server.of(`GET ${SANDBOX}`).map((request) => request.query.get("waitFor"))).toEqual(["running", "running"]);
});

test("a sandbox that stops while it starts is start_failed, with the host's reason", async () => {
  server
    .on("POST /v1/sandboxes", (_request, reply) => reply.json(sandboxInfo({ state: "starting" })))
    .on(`GET ${SANDBOX}`, (_request, reply) =>
      reply.json(sandboxInfo({ state: "stopped", stopReason: "startup_failed", lastError: "no kernel" })),
    );
  const failure = await rouse.sandboxes.create().catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(ServiceUnavailableError);
  expect(failure).toMatchObject({ code: "start_failed", message: expect.stringContaining("no kernel") as unknown });
});

test("create without wait answers at once", async () => {
  server.on("POST /v1/sandboxes", (_request, reply) => reply.json(sandboxInfo({ state: "starting" })));
  const sandbox = await rouse.sandboxes.create({ wait: false });
  expect(sandbox.state).toBe("starting");
  expect(server.requests).toHaveLength(1);
  expect(server.requests[0]?.headers["prefer"]).toBeUndefined();
  expect(server.requests[0]?.json()).toEqual({});
});

test("create waits for room under one idempotency key", async () => {
  server.on("POST /v1/sandboxes", (_request, reply, count) =>
    count < 6 ? reply.error("no_capacity", { retryAfterMs: 1 }) : reply.json(sandboxInfo()),
  );
  expect((await rouse.sandboxes.create()).state).toBe("running");
  expect(new Set(server.requests.map((request) => request.headers["idempotency-key"])).size).toBe(1);
  expect(server.requests).toHaveLength(7);
});

test("create with waitForCapacityMs 0 says at once that there is no room", async () => {
  server.on("POST /v1/sandboxes", (_request, reply) => reply.error("no_capacity", { retryAfterMs: 1 }));
  const hasty = new Rouse({ baseUrl: server.url, apiKey: TEST_KEY, waitForCapacityMs: 0 });
  await expect(hasty.sandboxes.create()).rejects.toMatchObject({ code: "no_capacity", retryable: true });
  expect(server.requests).toHaveLength(1);
});

test("pause, wake, stop, restart send their verb and wait for its end", async () => {
  for (const [verb, state] of [
    ["pause", "paused"],
    ["wake", "running"],
    ["stop", "stopped"],
    ["restart", "running"],
  ] as const) {
    server.on(`POST ${SANDBOX}:${verb}`, (_request, reply) => reply.json(sandboxInfo({ state })));
  }
  const sandbox = await rouse.sandboxes.get("demo~abcdefghijkl");
  expect((await sandbox.pause()).state).toBe("paused");
  expect((await sandbox.wake()).state).toBe("running");
  expect((await sandbox.stop()).state).toBe("stopped");
  expect((await sandbox.restart()).state).toBe("running");
  expect(server.of(`POST ${SANDBOX}:pause`)[0]?.headers["prefer"]).toBe("wait=60");
});

test("waking what is awake is no error; waking what is stopped is", async () => {
  server.on(`POST ${SANDBOX}:wake`, (_request, reply) => reply.error("not_paused"));
  const sandbox = await rouse.sandboxes.get("demo~abcdefghijkl");
  expect((await sandbox.wake()).state).toBe("running");
  server.on(`GET ${SANDBOX}`, (_request, reply) => reply.json(sandboxInfo({ state: "stopped" })));
  await expect(sandbox.wake()).rejects.toMatchObject({ code: "not_paused", status: 409 });
});

test("waitFor gives up at its time, and at once when the state can't come", async () => {
  const sandbox = await rouse.sandboxes.get("demo~abcdefghijkl");
  await expect(sandbox.waitFor("paused", { timeoutSeconds: 0.01 })).rejects.toMatchObject({
    code: "timeout",
    retryable: true,
  });
  server.on(`GET ${SANDBOX}`, (_request, reply) =>
    reply.json(sandboxInfo({ state: "stopped", stopReason: "vm_crashed" })),
  );
  await expect(sandbox.waitFor("running")).rejects.toMatchObject({
    code: "conflict",
    details: { stopReason: "vm_crashed" },
  });
});

test("update and setRetention send what changes", async () => {
  server
    .on(`POST ${SANDBOX}:update`, (_request, reply) => reply.json(sandboxInfo({ idlePauseSeconds: 0 })))
    .on(`POST ${SANDBOX}:retention`, (_request, reply) => reply.json(sandboxInfo({ retentionDays: 365 })));
  const sandbox = await rouse.sandboxes.get("demo~abcdefghijkl");
  expect((await sandbox.update({ idlePauseSeconds: 0, env: { A: null } })).info.idlePauseSeconds).toBe(0);
  expect((await sandbox.setRetention(365)).info.retentionDays).toBe(365);
  expect(server.of(`POST ${SANDBOX}:update`)[0]?.json()).toEqual({ idlePauseSeconds: 0, env: { A: null } });
  expect(server.of(`POST ${SANDBOX}:retention`)[0]?.json()).toEqual({ days: 365 });
});

test("delete answers the record, and the handle is deleted", async () => {
  server.on(`DELETE ${SANDBOX}`, (_request, reply) =>
    reply.json({
      id: "demo~abcdefghijkl",
      kind: "sandbox",
      name: "demo",
      labels: {},
      status: "deleted",
      state: "stopped",
      deletedAt: "2031-01-02T03:05:00.000Z",
      endedAt: null,
    }),
  );
  const sandbox = await rouse.sandboxes.get("demo~abcdefghijkl");
  expect((await sandbox.delete()).deletedAt).toBe("2031-01-02T03:05:00.000Z");
  expect(sandbox.state).toBe("deleted");
  expect(server.of(`DELETE ${SANDBOX}`)[0]?.headers["idempotency-key"]).toEqual(expect.any(String));
});

describe("a grace time", () => {
  const deleted = {
    id: "demo~abcdefghijkl",
    kind: "sandbox",
    name: "demo",
    labels: {},
    status: "deleted",
    state: "deleted",
    deletedAt: "2031-01-02T03:05:00.000Z",
    endedAt: null,
  };

  test("goes with a deletion, which can be taken back", async () => {
    server
      .on(`DELETE ${SANDBOX}`, (_request, reply) => reply.json(deleted))
      .on(`POST ${SANDBOX}:undelete`, (_request, reply) => reply.json(sandboxInfo({ state: "paused" })));
    const sandbox = await rouse.sandboxes.get("demo~abcdefghijkl");
    await sandbox.delete({ graceSeconds: 60 });
    await rouse.sandboxes.delete("demo~abcdefghijkl", { graceSeconds: 0 });
    await rouse.sandboxes.delete("demo~abcdefghijkl");
    expect(server.of(`DELETE ${SANDBOX}`).map(({ query }) => query.get("graceSeconds"))).toEqual(["60", "0", null]);
    expect((await sandbox.undelete()).state).toBe("paused");
    expect((await rouse.sandboxes.undelete("demo~abcdefghijkl")).state).toBe("paused");
    expect(server.of(`POST ${SANDBOX}:undelete`)[0]?.headers["idempotency-key"]).toEqual(expect.any(String));
  });

  test("is taken back once, however often the answer is lost", async () => {
    server
      .on(`POST ${SANDBOX}:undelete`, (_request, reply, count) => (count === 0 ? reply.cut() : reply.error("conflict")))
      .on(`GET ${SANDBOX}`, (_request, reply) => reply.json(sandboxInfo({ state: "paused" })));
    expect((await rouse.sandboxes.undelete("demo~abcdefghijkl")).state).toBe("paused");
  });

  test("that is over says so", async () => {
    server.on(`POST ${SANDBOX}:undelete`, (_request, reply) => reply.error("sandbox_gone"));
    await expect(rouse.sandboxes.undelete("demo~abcdefghijkl")).rejects.toMatchObject({
      code: "sandbox_gone",
      status: 410,
    });
  });
});

test("recover waits until it runs", async () => {
  server.on(`POST ${SANDBOX}:recover`, (_request, reply) => reply.json(sandboxInfo({ state: "starting" })));
  const sandbox = await rouse.sandboxes.get("demo~abcdefghijkl");
  expect((await sandbox.recover()).state).toBe("running");
  expect(server.of(`POST ${SANDBOX}:recover`)[0]?.headers["prefer"]).toBe("wait=60");
});

test("a limit on the whole cost goes with creation and change", async () => {
  server
    .on("POST /v1/sandboxes", (_request, reply) => reply.json(sandboxInfo({ maxTotalCostMicros: 500 })))
    .on(`POST ${SANDBOX}:update`, (_request, reply) => reply.json(sandboxInfo({ maxTotalCostMicros: null })));
  const sandbox = await rouse.sandboxes.create({ maxTotalCostMicros: 500 });
  expect(sandbox.info.maxTotalCostMicros).toBe(500);
  expect((await sandbox.update({ maxTotalCostMicros: null })).info.maxTotalCostMicros).toBeNull();
  expect(server.of("POST /v1/sandboxes")[0]?.json()).toEqual({ maxTotalCostMicros: 500 });
  expect(server.of(`POST ${SANDBOX}:update`)[0]?.json()).toEqual({ maxTotalCostMicros: null });
});

test("await using stops without waiting, and bears a failure", async () => {
  server.on(`POST ${SANDBOX}:stop`, (_request, reply) => reply.error("conflict"));
  {
    await using sandbox = await rouse.sandboxes.get("demo~abcdefghijkl");
    expect(sandbox.name).toBe("demo");
  }
  expect(server.of(`POST ${SANDBOX}:stop`)).toHaveLength(1);
  expect(server.of(`POST ${SANDBOX}:stop`)[0]?.headers["prefer"]).toBeUndefined();
});

test("a list is read page by page with the same filter, to the page whose nextCursor is null", async () => {
  server.on("GET /v1/sandboxes", (request, reply) => {
    const at = Number(request.query.get("cursor") ?? 0);
    const data = [sandboxInfo({ id: `demo~abcdefghijk${"abc"[at]}`, name: `n${at}` })];
    reply.json({ data, nextCursor: at < 2 ? String(at + 1) : null });
  });
  const filter = { state: ["running", "paused"], labels: { kind: "a b", user: "u" }, limit: 1 } as const;
  const page = await rouse.sandboxes.list(filter);
  expect(page.data.map((sandbox) => sandbox.name)).toEqual(["n0"]);
  expect(page.hasMore).toBe(true);
  expect((await page.next())?.data[0]?.name).toBe("n1");
  expect((await page.toArray()).map((sandbox) => sandbox.name)).toEqual(["n0", "n1", "n2"]);
  const last = server.requests.at(-1)?.query;
  expect(last?.getAll("label")).toEqual(["kind:a b", "user:u"]);
  expect(last?.getAll("state")).toEqual(["running", "paused"]);
  expect(last?.get("cursor")).toBe("2");
});

test("stopAll stops what has the labels and reports each failure", async () => {
  const ids = ["a~aaaaaaaaaaaa", "b~aaaaaaaaaaaa", "c~aaaaaaaaaaaa"];
  server.on("GET /v1/sandboxes", (_request, reply) =>
    reply.json({ data: ids.map((id) => sandboxInfo({ id })), nextCursor: null }),
  );
  for (const id of ids) {
    server.on(`POST /v1/sandboxes/${id}:stop`, (_request, reply) =>
      id.startsWith("b") ? reply.error("conflict") : reply.json(sandboxInfo({ id, state: "stopped" })),
    );
  }
  const { stopped, failed } = await rouse.sandboxes.stopAll({ labels: { user: "u" } });
  expect(stopped.toSorted()).toEqual([ids[0], ids[2]]);
  expect(failed.map(({ id, error }) => [id, error.code])).toEqual([[ids[1], "conflict"]]);
  await expect(rouse.sandboxes.stopAll({ labels: {} })).rejects.toBeInstanceOf(InvalidRequestError);
});

test("names with odd characters reach the server as one path segment", async () => {
  const name = "a/b:pause ?ü";
  server.on(`GET /v1/sandboxes/${encodeURIComponent(name)}`, (_request, reply) => reply.json(sandboxInfo({ name })));
  expect((await rouse.sandboxes.get(name)).name).toBe(name);
  for (const bad of ["", ".", ".."])
    await expect(rouse.sandboxes.get(bad)).rejects.toMatchObject({ code: "invalid_argument" });
});

test("errors have the class of their status and everything the body says", async () => {
  server.on("POST /v1/sandboxes", (_request, reply) =>
    reply.error("invalid_request", { message: "no", details: { issues: [{ path: "vcpu", message: "too many" }] } }),
  );
  const invalid = await rouse.sandboxes.create({ vcpu: 99 }).catch((error: unknown) => error);
  expect(invalid).toBeInstanceOf(InvalidRequestError);
  expect(invalid).toMatchObject({
    code: "invalid_request",
    status: 400,
    message: "no",
    hint: expect.stringContaining("details.issues") as unknown,
    details: { issues: [{ path: "vcpu", message: "too many" }] },
    requestId: "req_1",
    retryable: false,
    idempotencyKey: expect.any(String) as unknown,
  });
  server.on(`GET ${SANDBOX}`, (_request, reply) => reply.error("not_found"));
  await expect(rouse.sandboxes.get("demo~abcdefghijkl")).rejects.toBeInstanceOf(NotFoundError);
  server.on("POST /v1/sandboxes", (_request, reply) => reply.error("name_taken", { details: { sandboxId: "x" } }));
  await expect(rouse.sandboxes.create({ name: "demo" })).rejects.toBeInstanceOf(ConflictError);
});

test("an answer that is no sandbox is said to be one, not passed on", async () => {
  server.on(`GET ${SANDBOX}`, (_request, reply) => reply.json({ hello: "world" }));
  const failure = await rouse.sandboxes.get("demo~abcdefghijkl").catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(RouseError);
  expect(failure).toMatchObject({ code: "unexpected_answer" });
});

test("me and hosts", async () => {
  const host = {
    hostId: "h1",
    url: "http://127.0.0.1:1/",
    accelerator: "tcg",
    acceleratorReason: "no /dev/kvm",
    qemuVersion: "10.0",
    images: ["default"],
    vcpus: 2,
    memoryMiB: 8192,
    freeMemoryMiB: 4096,
    freeDiskMiB: 9000,
    running: 1,
    paused: 2,
    lastSeenAt: "2031-01-02T03:05:00.000Z",
    live: true,
    draining: false,
  };
  server
    .on("GET /v1/me", (_request, reply) =>
      reply.json({
        orgId: "default",
        principalId: "p",
        credentialId: null,
        apiVersion: "1",
        orgName: "default",
        role: "owner",
      }),
    )
    .on("GET /v1/hosts", (_request, reply) => reply.json({ data: [host] }));
  expect((await rouse.me()).orgId).toBe("default");
  expect((await rouse.hosts())[0]?.accelerator).toBe("tcg");
});

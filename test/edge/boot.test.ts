/** What a sandbox starts with: how it reaches its host, and what hosts tell of it. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it } from "vitest";
import { HOST_FAULTS } from "../../durable/sandbox/request.ts";
import type { GuestBoot, HookResult, Resume, ServiceStatus } from "../../sdk/contract/boot.ts";
import { ask, created, eventually, fake, freshName, heartbeat, report } from "./client.ts";

beforeEach(async () => {
  await heartbeat();
});

const stub = (name: string) => env.SANDBOX.getByName(`default/${name}`);
const act = async (id: string, verb: string, body: object = {}) => ask("POST", `/v1/sandboxes/${id}:${verb}`, body);
const resume = async (id: string) => (await ask<Resume>("GET", `/v1/sandboxes/${id}:resume`)).body;
const at = "2026-12-01T00:00:00.000Z";
const hook = (generation: number, exitCode: number | null): HookResult => ({
  ...{ generation, startedAt: at, endedAt: at, exitCode, timedOut: false, stdout: "out", stderr: "err" },
});
const status = (name: string, more: Partial<ServiceStatus> = {}): ServiceStatus => ({
  ...{ name, state: "ready", pid: 7, port: 8080, restarts: 0, startedAt: at, readyAt: at, late: false, lastExit: null },
  ...more,
});
const guest = (generation: number, more: Partial<GuestBoot> = {}): GuestBoot => ({
  ...{ bootId: "b", version: 3, generation, onBoot: null, onWake: null, waitsFor: null, services: [] },
  ...more,
});
const tell = (id: string, generation: number, more: Partial<GuestBoot> = {}) =>
  report(id, { type: "boot", generation, report: guest(generation, more) });
const typesOf = async (id: string) =>
  (await ask<{ data: { type: string; data: object }[] }>("GET", `/v1/sandboxes/${id}/events`)).body.data.filter(
    ({ type }) => type === "sandbox.boot_failed" || type === "sandbox.service_failed",
  );

const web = { name: "web", command: "node server.js", env: { TOKEN: "very secret" }, ready: { port: 8080, path: "/" } };
const settings = {
  onBoot: { command: "cat notes.md", timeoutSeconds: 5 },
  onWake: { command: ["sync-clock", "--now"], blocking: true },
  services: [web, { name: "work", command: "python3 work.py", restart: "on-failure", stopSignal: "SIGINT" }],
};

describe("what a sandbox starts with", () => {
  it("is told to its host with each run, and at once when it changes", async () => {
    const { id, name } = await created(settings);
    expect(await fake.boot(id)).toEqual({ ...settings });
    await act(id, "pause");
    await act(id, "wake");
    expect(await fake.boot(id)).toEqual(settings);
    await act(id, "restart");
    expect(await fake.boot(id)).toEqual(settings);
    await act(id, "update", { onWake: null, services: [web] });
    expect(await fake.boot(id)).toEqual({ onBoot: settings.onBoot, onWake: null, services: [web] });
    expect((await fake.state(name)).log.at(-1)).toContain("configure");
    await act(id, "update", { onBoot: null, services: [] });
    expect(await fake.boot(id)).toEqual({ onBoot: null, onWake: null, services: [] });
  });

  it("is nothing where there is none, and changes that are about something else tell nothing", async () => {
    const { id, name } = await created();
    expect(await fake.boot(id)).toBeNull();
    await act(id, "update", { keepPauses: 1 });
    expect((await fake.state(name)).log).toEqual(["create 1"]);
  });

  it("is shown without the values of variables, and not in lists", async () => {
    const { id, name } = await created(settings);
    const { body } = await ask("GET", `/v1/sandboxes/${id}`);
    expect(body.services?.[0]).toEqual({
      ...{ name: "web", command: "node server.js", envNames: ["TOKEN"], ready: { port: 8080, path: "/" } },
    });
    expect(body.onBoot).toMatchObject({ command: "cat notes.md", envNames: [] });
    expect(JSON.stringify(body)).not.toContain("very secret");
    const list = await ask<{ data: object[] }>("GET", `/v1/sandboxes?name=${name}`);
    expect(list.body.data).toHaveLength(1);
    expect(JSON.stringify(list.body)).not.toMatch(/node server|very secret/);
  });

  it("is refused with everything that is wrong", async () => {
    const bad = {
      name: freshName(),
      onBoot: { command: "", timeoutSeconds: 601 },
      services: [
        { name: "Bad Name", command: [], port: 0 },
        { name: "web", command: "x", freeze: {}, user: "a b", stopSignal: "SIGSTOP" },
        { name: "web", command: "x" },
      ],
    };
    const { status: code, body } = await ask("POST", "/v1/sandboxes", bad);
    expect([code, body.error.code]).toEqual([400, "invalid_request"]);
    const paths = body.error.details?.issues?.map(({ path }) => path);
    expect(paths).toEqual(
      expect.arrayContaining(["onBoot.timeoutSeconds", "services.0.name", "services.0.port", "services.1.user"]),
    );
    const { id } = await created(settings);
    const large = { services: Array.from({ length: 5 }, (_, n) => ({ name: `s${n}`, command: "x".repeat(8000) })) };
    expect((await act(id, "update", large)).body.error.code).toBe("invalid_request");
    expect((await act(id, "update", { services: Array(17).fill(web) })).status).toBe(400);
  });

  it("goes with a fork", async () => {
    const { id } = await created(settings);
    const { body } = await ask<{ sandboxes: { id: string }[] }>("POST", `/v1/sandboxes/${id}:fork`, {});
    const [fork] = body.sandboxes;
    expect(await fake.boot(fork?.id ?? "")).toEqual(settings);
  });
});

describe("GET :resume", () => {
  it("says how the newest run began, and wakes nothing", async () => {
    const { id, name } = await created(settings);
    expect(await resume(id)).toMatchObject({
      ...{ bootKind: "created", generation: 1, onBoot: null, onWake: null, checkpoint: null, queue: null },
      ...{
        unfinished: false,
        services: [
          { name: "web", state: "pending", port: 8080 },
          { name: "work", port: null },
        ],
      },
    });
    await act(id, "pause");
    await act(id, "wake");
    expect(await resume(id)).toMatchObject({ bootKind: "restored", generation: 2, memoryRestored: true });
    await act(id, "restart");
    const booted = await resume(id);
    expect(booted).toMatchObject({ bootKind: "booted", generation: 3, memoryRestored: false });
    expect(Date.parse(booted.bootedAt ?? "")).toBeGreaterThan(0);
    await act(id, "pause");
    const { log } = await fake.state(name);
    expect(await resume(id)).toMatchObject({ bootKind: "booted", generation: 3 });
    expect((await fake.state(name)).log).toEqual(log);
  });

  it("has what its host told last, over an eviction and two alarms", async () => {
    const { id, name } = await created(settings);
    const services = [status("web"), status("work", { port: null, restarts: 2 })];
    await Promise.all([tell(id, 1, { onBoot: hook(1, 0), services }), tell(id, 1, { onBoot: hook(1, 0), services })]);
    await evictDurableObject(stub(name));
    await runDurableObjectAlarm(stub(name));
    await runDurableObjectAlarm(stub(name));
    expect(await resume(id)).toMatchObject({ onBoot: hook(1, 0), services });
    expect(await typesOf(id)).toEqual([]);
    // Late news of a run that is over is no news.
    await act(id, "pause");
    await act(id, "wake");
    await tell(id, 2, { onWake: hook(2, 0), services });
    await tell(id, 1, { services: [] });
    expect(await resume(id)).toMatchObject({ onWake: hook(2, 0), services });
    await tell(id, 99, { services: [] });
    expect((await resume(id)).services).toHaveLength(2);
    await act(id, "stop");
    expect((await resume(id)).services).toMatchObject([{ state: "stopped", pid: null }, { state: "stopped" }]);
  });

  it("takes no word of another host, and none that is not well-formed", async () => {
    const { id } = await created(settings);
    const event = { type: "boot", generation: 1, report: guest(1, { services: [status("web")] }) };
    await report(id, event, "default", "spare-1");
    expect((await resume(id)).services[0]?.state).toBe("pending");
    const long = { ...event, report: guest(1, { onBoot: { ...hook(1, 0), stdout: "x".repeat(8193) } }) };
    expect((await report(id, long)).status).toBe(400);
    expect((await ask("GET", `/v1/sandboxes/nobody:resume`)).status).toBe(404);
  });

  it("is of the sandbox that has the name now", async () => {
    const { id, name } = await created(settings);
    await tell(id, 1, { onBoot: hook(1, 0), services: [status("web")] });
    await ask("DELETE", `/v1/sandboxes/${id}`);
    const next = await ask("POST", "/v1/sandboxes", { name });
    expect(await resume(next.body.id)).toMatchObject({ onBoot: null, services: [], generation: 1 });
  });
});

it("tasks of its queues are something to go on with", async () => {
  const { id } = await created(settings);
  const put = async (queue: string, more: object = {}) =>
    ask("POST", `/v1/sandboxes/${id}/queues/${queue}/tasks`, { payload: { step: 8 }, ...more });
  expect((await put("jobs")).status).toBe(200);
  expect((await put("jobs", { delaySeconds: 600 })).status).toBe(200);
  expect((await put("mail")).status).toBe(200);
  expect((await ask("POST", `/v1/sandboxes/${id}/queues/mail:take`, { leaseSeconds: 60 })).status).toBe(200);
  expect(await resume(id)).toMatchObject({ queue: { waiting: 2, leased: 1, dead: 0 }, unfinished: true });
});

describe("failures are events", () => {
  it("once for a command, and once for each service in a run", async () => {
    const { id } = await created(settings);
    const exit = { at, exitCode: 3, signal: null };
    const failing = status("work", { state: "waiting", readyAt: null, restarts: 1, lastExit: exit });
    const late = status("web", { state: "starting", readyAt: null, late: true });
    const told = { onBoot: hook(1, 0), onWake: { ...hook(1, null), timedOut: true }, services: [late, failing] };
    await tell(id, 1, told);
    await tell(id, 1, { ...told, services: [late, { ...failing, restarts: 2 }] });
    expect(await typesOf(id)).toMatchObject([
      { type: "sandbox.boot_failed", data: { hook: "onWake", exitCode: null, timedOut: true, generation: 1 } },
      { type: "sandbox.service_failed", data: { service: "web", reason: "not_ready", exitCode: null } },
      { type: "sandbox.service_failed", data: { service: "work", reason: "ended", exitCode: 3, restarts: 1 } },
    ]);
    await act(id, "pause");
    await act(id, "wake");
    await tell(id, 2, { ...told, services: [failing] });
    await eventually(
      () => typesOf(id),
      (all) => all.length === 4,
    );
  });
});

it.for(["boot_failed", "service_failed", "service_not_ready"] as const)(
  "%s is nobody's answer: webhooks and schedules come again",
  (code) => {
    expect(HOST_FAULTS.has(code)).toBe(true);
  },
);

it("a sandbox of the schema before starts with nothing, and can be told", async () => {
  const { id, name } = await created();
  await runInDurableObject(stub(name), (_object, state) => {
    const { sql } = state.storage;
    sql.exec("UPDATE record SET body = json_remove(body, '$.boot')");
    sql.exec("DROP TABLE boot_report");
    sql.exec("DELETE FROM _sql_schema_migrations WHERE id = '0010-boot'");
  });
  await evictDurableObject(stub(name));
  expect((await ask("GET", `/v1/sandboxes/${id}`)).body).toMatchObject({ onBoot: null, onWake: null, services: [] });
  expect(await resume(id)).toMatchObject({ services: [], onBoot: null });
  await act(id, "update", { services: [web] });
  expect(await fake.boot(id)).toEqual({ onBoot: null, onWake: null, services: [web] });
  await tell(id, 1, { services: [status("web")] });
  expect((await resume(id)).services).toMatchObject([{ name: "web", state: "ready" }]);
});

/** Events of sandboxes, snapshots and accounts: which there are, in which order, and how they reach a receiver. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EventList, EventDelivery, eventData, type EventType, type RouseEvent } from "../../sdk/contract/event.ts";
import { fake, freshName, heartbeat, report } from "./client.ts";
import { TestInbox } from "./inboxes.ts";
import { signatureOf, TestOutbox, typesOf } from "./outboxes.ts";
import { COMPATIBILITY, store } from "./stored.ts";
import { instead } from "./volumes.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Each is as the contract says. */
function checked<T extends RouseEvent>(events: T[]): T[] {
  for (const event of events) {
    const schema = eventData[event.type as EventType];
    expect(Object.keys(event.data).toSorted()).toEqual(Object.keys(schema.shape).toSorted());
    schema.parse(event.data);
  }
  EventList.parse({ data: events, nextAfter: 0, hasMore: false });
  return events;
}

describe("the events of a sandbox", () => {
  it("tell its life in order, numbered from 1, whether anybody listens or not", async () => {
    const box = await TestOutbox.make();
    const { id, name } = await box.create({ labels: { team: "a" } });
    await box.verb(name, "pause");
    await box.verb(name, "wake");
    await box.verb(name, "stop");
    await box.verb(name, "restart");
    await box.ask("DELETE", `/v1/sandboxes/${id}?graceSeconds=60`);
    await box.verb(id, "undelete");
    await box.ask("DELETE", `/v1/sandboxes/${id}`);
    const { data, nextAfter, hasMore } = await box.list(id);
    expect(typesOf(checked(data))).toEqual([
      ...["1 sandbox.created", "2 sandbox.started", "3 sandbox.paused", "4 sandbox.woken", "5 sandbox.stopped"],
      ...["6 sandbox.booted", "7 sandbox.paused", "8 sandbox.deleted", "9 sandbox.undeleted", "10 sandbox.deleted"],
    ]);
    expect({ nextAfter, hasMore }).toEqual({ nextAfter: 10, hasMore: false });
    for (const event of data)
      expect(event).toMatchObject({ subject: id, sandbox: { id, name, labels: { team: "a" } } });
    expect(data[2]?.data).toEqual({ state: "paused", generation: 1, reason: "requested", durability: "cached" });
    const woken = data[3]?.data as { wakeMs: number; cause: { request: string } };
    expect(woken).toMatchObject({ state: "running", generation: 2, cause: { kind: "api" } });
    expect(woken.cause.request).toBe(`POST /v1/sandboxes/${name}:wake`);
    expect(woken.wakeMs).toBeGreaterThanOrEqual(0);
    expect(data[5]?.data).toMatchObject({ reason: "requested", generation: 3 });
    expect(data[7]?.data).toMatchObject({ reason: null, undeleteUntil: expect.any(String) as string });
    expect(data[9]?.data).toMatchObject({ reason: null, undeleteUntil: null });
    expect(new Set(data.map((event) => event.id)).size).toBe(10);
    // In pages, and after an eviction.
    await evictDurableObject(box.sandboxStub(name));
    expect(typesOf((await box.list(id, "?after=3&limit=2")).data)).toEqual(["4 sandbox.woken", "5 sandbox.stopped"]);
    expect(await box.list(id, "?after=8&limit=2")).toMatchObject({ nextAfter: 10, hasMore: false });
    // Nothing of this made anything in the outbox.
    const rows = await runInDurableObject(box.stub, (_object: object, { storage }) =>
      storage.sql.exec("SELECT name FROM sqlite_master WHERE name = 'events'").toArray(),
    );
    expect(rows).toEqual([]);
  });

  it("begin anew with another sandbox of the name; those of the one before are still there", async () => {
    const box = await TestOutbox.make();
    const { id, name } = await box.create();
    await box.ask("DELETE", `/v1/sandboxes/${id}`);
    await box.ask("POST", "/v1/sandboxes", { name });
    expect(typesOf(await box.events(name))).toEqual(["1 sandbox.created", "2 sandbox.started"]);
    expect(typesOf(await box.events(id))).toEqual(["1 sandbox.created", "2 sandbox.started", "3 sandbox.deleted"]);
    const missing = await box.ask("GET", `/v1/sandboxes/${freshName()}/events`);
    expect(missing).toMatchObject({ status: 404, body: { error: { code: "not_found" } } });
    const bad = await box.ask("GET", `/v1/sandboxes/${name}/events?after=-1&limit=0&x=1`);
    expect(bad.body.error.details?.issues).toHaveLength(3);
  });

  it("say why what did not go well did not", async () => {
    const box = await TestOutbox.make();
    const { id, name } = await box.create();
    await fake.crash(name);
    await report(id, { type: "ended", generation: 1, reason: "vm_crashed" }, box.account);
    await box.verb(name, "restart");
    await fake.plan({ label: name, action: "pause", fail: { code: "pause_failed", message: "no" } });
    await box.verb(name, "pause");
    await box.verb(name, "pause");
    await fake.plan({ label: name, action: "wake", fail: { code: "wake_failed", message: "no", loseMemory: true } });
    await box.verb(name, "wake");
    const events = checked(await box.events(id));
    expect(events[2]).toMatchObject({ type: "sandbox.stopped", data: { reason: "vm_crashed" } });
    expect(events[3]).toMatchObject({ type: "sandbox.booted", data: { reason: "vm_crashed", generation: 2 } });
    expect(typesOf(events).slice(4)).toEqual([
      ...["5 sandbox.failed", "6 sandbox.paused", "7 sandbox.failed", "8 sandbox.booted"],
    ]);
    expect(events[4]?.data).toMatchObject({ state: "running", action: "pause", code: "pause_failed", message: "no" });
    expect(events[6]?.data).toMatchObject({ action: "wake", code: "wake_failed" });
    expect(events[7]?.data).toMatchObject({ state: "running", reason: "wake_failed" });
  });

  it("are waited for", async () => {
    const box = await TestOutbox.make();
    const { name } = await box.create();
    const waiting = box.list(name, "?after=2&waitSeconds=30");
    await box.verb(name, "pause");
    expect(typesOf((await waiting).data)).toEqual(["3 sandbox.paused"]);
    expect(await box.list(name, "?after=3&waitSeconds=0")).toMatchObject({ data: [], nextAfter: 3 });
  });

  it("of forks are of both", async () => {
    const box = await TestOutbox.make();
    const { id, name } = await box.create();
    const forked = await box.verb(name, "fork", { count: 2, name: `${name}-f` });
    expect(forked.status).toBe(200);
    const ids = (forked.body as unknown as { sandboxes: { id: string }[] }).sandboxes.map((one) => one.id);
    const events = await vi.waitFor(async () => {
      const all = (await box.events(id)).filter(({ type }) => type === "fork.created");
      expect(all).toHaveLength(2);
      return checked(all);
    });
    expect(events.map(({ data }) => (data as { forkId: string }).forkId).toSorted()).toEqual(ids.toSorted());
    for (const fork of ids) expect((await box.events(fork))[0]?.data).toMatchObject({ forkOf: id, snapshotId: null });
    // Told again, nothing comes of it.
    const [fork = ""] = ids;
    const note = { type: "fork.created", data: { forkId: fork, forkName: "x" }, key: `fork ${fork}` };
    await runInDurableObject(box.sandboxStub(name), (object: object) =>
      (object as { note(id: string, note: unknown): Promise<void> }).note(id, note),
    );
    expect((await box.events(id)).filter(({ type }) => type === "fork.created")).toHaveLength(2);
  });

  it("are there for sandboxes of the version before", async () => {
    const box = await TestOutbox.make();
    const { id, name } = await box.create();
    await runInDurableObject(box.sandboxStub(name), (_object: object, { storage }) => {
      for (const table of ["event_streams", "events", "event_listening"]) storage.sql.exec(`DROP TABLE ${table}`);
      storage.sql.exec("DELETE FROM _sql_schema_migrations WHERE id = '0008-events'");
    });
    await evictDurableObject(box.sandboxStub(name));
    expect(await box.events(id)).toEqual([]);
    await box.verb(name, "pause");
    expect(typesOf(await box.events(id))).toEqual(["1 sandbox.paused"]);
  });
});

describe("what another object knows of a sandbox", () => {
  it("is an event of it: a webhook that was given up, each time that it is", async () => {
    const inbox = await TestInbox.make();
    const box = TestOutbox.ofDefault();
    await fake.turns(inbox.name, { status: 410 });
    const hookEventId = await inbox.sent("one");
    await inbox.until(hookEventId, ({ state }) => state === "dead");
    // The sandbox's object is away when it is told first.
    const stub = box.sandboxStub(inbox.name);
    await instead(stub, { note: () => Promise.reject(new Error("not now")) });
    await inbox.alarm();
    await evictDurableObject(stub);
    await inbox.evict();
    await inbox.pass(5000);
    const dead = async () => checked((await box.events(inbox.id)).filter(({ type }) => type === "hook.dead_letter"));
    await vi.waitFor(async () => expect(await dead()).toHaveLength(1));
    expect((await dead())[0]?.data).toEqual({
      ...{ state: "running", generation: 1, hookId: inbox.hook.id, hookEventId, hookEventType: "test" },
      ...{ attempts: 1, reason: "gone" },
    });
    await inbox.alarm();
    expect(await dead()).toHaveLength(1);
  });
});

describe("a sandbox whose grace time is over", () => {
  it("is gone for good by itself, with what belongs to it, and says so", async () => {
    const inbox = await TestInbox.make({}, true);
    const box = TestOutbox.ofDefault();
    await box.ask("DELETE", `/v1/sandboxes/${inbox.id}?graceSeconds=60`);
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(Date.now() + 61_000);
    await heartbeat();
    const stub = box.sandboxStub(inbox.name);
    await runDurableObjectAlarm(stub);
    vi.setSystemTime(Date.now() + 5000);
    await runDurableObjectAlarm(stub);
    const events = (await box.events(inbox.id)).filter(({ type }) => type === "sandbox.deleted");
    expect(events.map(({ data }) => (data as { undeleteUntil: string | null }).undeleteUntil)).toEqual([
      expect.any(String),
      null,
    ]);
    expect((await inbox.post("{}")).status).toBe(404);
  });
});

describe("a receiver", () => {
  it("gets each event once, signed, in order, and only what came after it was there", async () => {
    const box = await TestOutbox.make();
    const { id, name } = await box.create();
    const endpoint = await box.endpoint({ description: "ours" });
    expect(endpoint.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    await box.verb(name, "pause");
    await box.verb(name, "wake");
    const seen = await box.seen(2);
    expect(typesOf(seen)).toEqual(["3 sandbox.paused", "4 sandbox.woken"]);
    for (const { id: event, headers, text } of seen) {
      expect(headers).toMatchObject({ "webhook-id": event, "content-type": "application/json" });
      const at = headers["webhook-timestamp"] ?? "";
      expect(headers["webhook-signature"]).toBe(signatureOf(endpoint.secret, event, at, text));
      expect(headers).not.toHaveProperty("authorization");
    }
    const stored = await box.events(id, "?after=2");
    expect(seen.map(({ text }) => JSON.parse(text) as unknown)).toEqual(stored);
    const [last, first] = await box.until(endpoint.id, (all) => all.every(({ state }) => state === "delivered"));
    expect(EventDelivery.parse(first)).toMatchObject({
      type: "sandbox.paused",
      sequence: 3,
      attempts: 1,
      lastAnswer: "ok",
    });
    const one = await box.ask<EventDelivery>("GET", `/v1/event-endpoints/${endpoint.id}/deliveries/${last?.id}`);
    expect(one.body.event).toEqual(stored[1]);
    // Handed on again, by whoever was not sure: each is one event all the same.
    await box.alarm();
    await box.evict();
    await runInDurableObject(box.stub, (object: object) =>
      (object as { take(events: unknown): Promise<void> }).take([...stored, ...stored]),
    );
    await box.alarm();
    expect(await box.taken()).toHaveLength(2);
  });

  it("gets what its filters let pass", async () => {
    const box = await TestOutbox.make();
    const of = async (input: Record<string, unknown>) => {
      const receiver = freshName();
      await box.endpoint({ url: box.url(receiver), ...input });
      return receiver;
    };
    const [all, woken, labelled, named, off] = await Promise.all([
      of({ events: ["sandbox.*"] }),
      of({ events: ["sandbox.woken", "snapshot.*"] }),
      of({ sandboxes: { labels: { team: "a" } } }),
      of({ sandboxes: { names: ["x-*"] } }),
      of({ enabled: false }),
    ]);
    const a = await box.create({ labels: { team: "a", kind: "b" } });
    await box.ask("POST", "/v1/sandboxes", { name: `x-${a.name}` });
    await box.verb(a.name, "pause");
    await box.verb(a.name, "wake");
    const count = async (receiver = "") => typesOf(await box.taken(receiver)).toSorted();
    await box.seen(6, undefined, all);
    await box.seen(4, undefined, labelled);
    await box.seen(2, undefined, named);
    expect(await count(woken)).toEqual(["4 sandbox.woken"]);
    expect(await count(named)).toEqual(["1 sandbox.created", "2 sandbox.started"]);
    expect(await count(labelled)).toHaveLength(4);
    expect(await count(off)).toEqual([]);
  });

  it("gets what a crash came between: the transition is stored, and handed on by whoever is next", async () => {
    const box = await TestOutbox.make();
    await box.endpoint({ events: ["sandbox.paused", "sandbox.woken"] });
    const { name } = await box.create();
    const stub = box.sandboxStub(name);
    // The outbox takes nothing, and the sandbox's object is gone before it could try again.
    await instead(box.stub, { take: () => Promise.reject(new Error("not now")) });
    await box.verb(name, "pause");
    await box.crash(stub);
    expect(await box.taken()).toEqual([]);
    await box.evict();
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(Date.now() + 10_000);
    await heartbeat();
    await runDurableObjectAlarm(box.sandboxStub(name));
    await runDurableObjectAlarm(box.sandboxStub(name));
    expect(typesOf(await box.seen(1))).toEqual(["3 sandbox.paused"]);
    await box.verb(name, "wake");
    expect(typesOf(await box.seen(2))).toEqual(["3 sandbox.paused", "4 sandbox.woken"]);
  });

  it("does not hold up a pause or a wake, though its outbox does not answer", async () => {
    const box = await TestOutbox.make();
    await box.endpoint();
    const { name } = await box.create();
    await box.seen(2);
    const { promise, resolve } = Promise.withResolvers<void>();
    await instead(box.stub, { take: () => promise });
    expect((await box.verb(name, "pause")).body).toMatchObject({ state: "paused" });
    expect((await box.verb(name, "wake")).body).toMatchObject({ state: "running" });
    expect(await box.taken()).toHaveLength(2);
    resolve();
  });

  it("is told by sandboxes that slept before it was there, with their next change", async () => {
    const box = await TestOutbox.make();
    const { name } = await box.create();
    await box.verb(name, "pause");
    await evictDurableObject(box.sandboxStub(name));
    const { id } = await box.endpoint();
    await box.verb(name, "wake");
    expect(typesOf(await box.seen(1))).toEqual(["4 sandbox.woken"]);
    // Nobody listens any more, and then somebody does again: what came between is not sent.
    await box.ask("POST", `/v1/event-endpoints/${id}:update`, { enabled: false });
    await box.verb(name, "pause");
    await box.ask("POST", `/v1/event-endpoints/${id}:update`, { enabled: true });
    await box.verb(name, "wake");
    expect(typesOf(await box.seen(2))).toEqual(["4 sandbox.woken", "6 sandbox.woken"]);
    expect(typesOf(await box.events(name))).toHaveLength(6);
  });
});

describe("events of others", () => {
  it("are those of snapshots, each with numbers of its own", async () => {
    await heartbeat({ compatibility: COMPATIBILITY });
    const box = TestOutbox.ofDefault();
    const endpoint = await box.endpoint({ events: ["snapshot.*", "sandbox.durable"] });
    const { id, name } = await box.create();
    await box.verb(name, "pause");
    await store(id, 1);
    // Its host is not sure whether that was noted.
    await store(id, 1).catch(() => undefined);
    const snapshot = (await box.verb(name, "snapshot", { name: "s", labels: { a: "b" } })).body.id;
    await box.ask("DELETE", `/v1/snapshots/${snapshot}`);
    const failed = (await box.verb((await box.create()).name, "snapshot", {}, { prefer: "wait=0" })).body.id;
    await runInDurableObject(env.SNAPSHOTS.getByName("default") as DurableObjectStub, (object: object) =>
      (object as { failed(id: string, error: string): Promise<void> }).failed(failed, "no room"),
    );
    const seen = checked(await box.seen(4));
    expect(seen.filter(({ subject }) => subject === id).map(({ data }) => data)).toEqual([
      { state: "paused", generation: 1, point: "p1", storedBytes: expect.any(Number) as number },
    ]);
    const ofSnapshot = seen.filter(({ subject }) => subject === snapshot);
    expect(typesOf(ofSnapshot)).toEqual(["1 snapshot.created", "2 snapshot.deleted"]);
    expect(ofSnapshot[0]).toMatchObject({
      sandbox: { id, name, labels: { a: "b" } },
      data: { snapshotId: snapshot, name: "s", mode: "memory" },
    });
    const ofFailed = seen.filter(({ subject }) => subject === failed);
    expect(ofFailed).toMatchObject([{ type: "snapshot.failed", sequence: 1, data: { message: "no room" } }]);
    await box.ask("DELETE", `/v1/event-endpoints/${endpoint.id}`);
    expect(await box.taken()).toHaveLength(4);
  });

  it("are those of the account's credit, once each time that it ends", async () => {
    const box = await TestOutbox.make({ plan: "metered", creditMicros: 1_000_000 });
    await box.endpoint({ events: ["account.*"] });
    const stub = env.ACCOUNT.getByName(box.account) as DurableObjectStub;
    const spend = (micros: number) =>
      runInDurableObject(stub, async (object: object, { storage }) => {
        const day = new Date().toISOString().slice(0, 10);
        for (const on of [day, "ever"])
          storage.sql.exec(
            "INSERT INTO spent VALUES (?1, '', ?2) ON CONFLICT DO UPDATE SET micros = micros + ?2",
            ...[on, micros],
          );
        await (object as { recordKept(reports: unknown[]): Promise<void> }).recordKept([]);
        await (object as { recordKept(reports: unknown[]): Promise<void> }).recordKept([]);
      });
    await spend(600_000);
    const [low] = checked(await box.seen(1));
    expect(low).toMatchObject({ type: "account.credit_low", subject: box.account, sequence: 1, sandbox: null });
    expect(low?.data).toMatchObject({ availableMicros: 400_000 });
    await spend(400_000);
    const both = checked(await box.seen(2));
    expect(typesOf(both)).toEqual(["1 account.credit_low", "2 account.credit_gone"]);
    await evictDurableObject(stub);
    await runDurableObjectAlarm(stub);
    await runDurableObjectAlarm(stub);
    expect(await box.taken()).toHaveLength(2);
  });
});

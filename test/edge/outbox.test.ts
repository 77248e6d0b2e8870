/** Endpoints and deliveries: secrets, retries, what is given up, turned off and sent again. */
import { runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  EventDelivery,
  EventDeliveryList,
  EventEndpoint,
  NewEventEndpoint,
  type RouseEvent,
} from "../../sdk/contract/event.ts";
import type { Notice } from "../../sdk/contract/account.ts";
import { API, edge, freshName, heartbeat, secrets } from "./client.ts";
import { signatureOf, TestOutbox, typesOf } from "./outboxes.ts";
import { DAY, HOUR } from "./volumes.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

const E = "/v1/event-endpoints";

/** An event of a sandbox that there need not be. */
function eventOf(subject: string, sequence: number): RouseEvent {
  return {
    ...{
      id: `ev-${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`,
      type: "sandbox.undeleted",
      subject,
      sequence,
    },
    ...{ timestamp: new Date().toISOString(), sandbox: null, data: { state: "paused", generation: 1 } },
  };
}

function take(box: TestOutbox, ...events: RouseEvent[]): Promise<void> {
  return runInDurableObject(box.stub, (object: object) =>
    (object as { take(events: RouseEvent[]): Promise<void> }).take(events),
  );
}

describe("an endpoint", () => {
  it("shows its secret once, and under its Idempotency-Key again; nowhere else", async () => {
    const box = await TestOutbox.make();
    const logs = [vi.spyOn(console, "log"), vi.spyOn(console, "error")];
    const key = { "idempotency-key": crypto.randomUUID() };
    const input = { url: box.url(), events: ["sandbox.*"], description: "ours" };
    const [one, two] = await Promise.all([box.ask("POST", E, input, key), box.ask("POST", E, input, key)]);
    const made = NewEventEndpoint.parse(one.body);
    expect(NewEventEndpoint.parse(two.body)).toMatchObject({ id: made.id, secret: made.secret });
    await box.evict();
    expect((await box.ask("POST", E, input, key)).body).toMatchObject({ secret: made.secret, replayed: true });
    expect((await box.ask("POST", E, { ...input, description: "other" }, key)).status).toBe(422);
    const list = await box.ask<{ data: unknown[] }>("GET", E);
    expect(list.body.data.map((found) => EventEndpoint.parse(found).id)).toEqual([made.id]);
    await box.ask("POST", `${E}/${made.id}:test`, {});
    const all = JSON.stringify([
      list.body,
      (await box.ask("GET", `${E}/${made.id}`)).body,
      (await box.ask("POST", `${E}/${made.id}:update`, { description: null })).body,
      (await box.ask("GET", `${E}/${made.id}/deliveries`)).body,
    ]);
    const rows = await runInDurableObject(box.stub, (_object: object, { storage }) =>
      ["endpoints", "changes", "deliveries", "events"].map((table) =>
        storage.sql.exec(`SELECT * FROM ${table}`).toArray(),
      ),
    );
    const text = JSON.stringify([all, rows, logs.map((log) => log.mock.calls)]);
    expect(text).not.toContain((made.secret ?? "whsec_").replace("whsec_", ""));
    for (const log of logs) log.mockRestore();
  });

  it("is refused with everything that is wrong named at once", async () => {
    const box = await TestOutbox.make();
    const { body } = await box.ask("POST", E, { events: ["sandbox.sneezed", "sand*"], sandboxes: { x: 1 }, y: 2 });
    expect(body.error).toMatchObject({ code: "invalid_request" });
    const paths = body.error.details?.issues?.map(({ path }) => path) ?? [];
    for (const path of ["url", "events.0", "events.1", "sandboxes"]) expect(paths).toContain(path);
    for (const url of ["ftp://a.example/", "nonsense", "http://user:word@a.example/", "https://a.example/#x"]) {
      const refused = await box.ask("POST", E, { url });
      expect({ url, issues: refused.body.error.details?.issues }).toMatchObject({ url, issues: [{ path: "url" }] });
    }
    for (const path of ["", ":test", ":rotate", ":redeliver", "/deliveries"]) {
      const found = await box.ask(path === "" || path === "/deliveries" ? "GET" : "POST", `${E}/ep-x${path}`);
      expect(found.body.error.code).toBe("event_endpoint_not_found");
    }
    const made = await box.endpoint();
    const delivery = await box.ask("GET", `${E}/${made.id}/deliveries/dlv-x`);
    expect(delivery.body.error.code).toBe("event_delivery_not_found");
    expect((await box.ask("GET", `${E}/${made.id}/deliveries?cursor=1`)).status).toBe(400);
  });

  it("is there 20 times at most", async () => {
    const box = await TestOutbox.make();
    for (let n = 0; n < 20; n++) await box.endpoint();
    expect((await box.ask("POST", E, { url: box.url() })).body.error).toMatchObject({ code: "quota_exceeded" });
  });

  it("is made by full keys alone, and read by those that read", async () => {
    const box = await TestOutbox.make();
    for (const access of ["sandboxes", "read"]) {
      const { body } = await box.ask<{ key: string }>("POST", "/v1/keys", { access });
      const headers = { authorization: `Bearer ${body.key}` };
      expect((await box.ask("POST", E, { url: box.url() }, headers)).body.error.code).toBe("permission_denied");
      expect((await box.ask("GET", E, undefined, headers)).status).toBe(200);
    }
    const { body } = await box.ask<{ key: string }>("POST", "/v1/keys", { namePrefix: "x-" });
    const limited = await box.ask("GET", E, undefined, { authorization: `Bearer ${body.key}` });
    expect(limited.body.error.code).toBe("permission_denied");
    const foreign = await edge(`${API}${E}`, { headers: { authorization: `Bearer ${secrets.apiKey}` } });
    expect(await foreign.json()).toEqual({ data: [] });
  });

  it("has two secrets for a while after one was replaced", async () => {
    const box = await TestOutbox.make();
    const before = await box.endpoint();
    const after = (await box.ask<NewEventEndpoint>("POST", `${E}/${before.id}:rotate`, { overlapSeconds: 3600 })).body;
    expect(after.secret).not.toBe(before.secret);
    expect(Date.parse(after.previousSecretUntil ?? "") - Date.now()).toBeGreaterThan(3_590_000);
    await take(box, eventOf("a", 1));
    const [first] = await box.seen(1);
    const signed = (all: string[], event = first) =>
      all
        .map((one) => signatureOf(one, event?.id ?? "", event?.headers["webhook-timestamp"] ?? "", event?.text ?? ""))
        .join(" ");
    expect(first?.headers["webhook-signature"]).toBe(signed([after.secret ?? "", before.secret]));
    await box.pass(HOUR + 1000);
    await take(box, eventOf("a", 2));
    const [, second] = await box.seen(2);
    expect(second?.headers["webhook-signature"]).toBe(signed([after.secret ?? ""], second));
    expect((await box.shown(before.id)).previousSecretUntil).toBeNull();
  });

  it("is tested by an event of its own, and the answer says what it answered", async () => {
    const box = await TestOutbox.make();
    const { id } = await box.endpoint({ events: ["snapshot.deleted"] });
    await box.turns(
      { status: 200, body: "x".repeat(3000) },
      { status: 302, headers: { location: box.url("elsewhere") }, body: "moved" },
    );
    const good = EventDelivery.parse((await box.ask("POST", `${E}/${id}:test`)).body);
    expect(good).toMatchObject({ state: "delivered", type: "endpoint.test", subject: id, sequence: 1, reason: null });
    expect(good.lastAnswer).toBe("x".repeat(1024));
    const bad = EventDelivery.parse((await box.ask("POST", `${E}/${id}:test`)).body);
    // What it leads to is not asked.
    expect(bad).toMatchObject({
      state: "waiting",
      sequence: 2,
      lastAnswer: "moved",
      tries: [{ status: 302, reason: "answered 302" }],
    });
    expect(await box.taken("elsewhere")).toEqual([]);
    await box.ask("POST", `${E}/${id}:update`, { enabled: false });
    expect((await box.ask("POST", `${E}/${id}:test`)).body.error.code).toBe("conflict");
  });

  it("goes with its deliveries", async () => {
    const box = await TestOutbox.make();
    const { id } = await box.endpoint();
    await box.turns({ status: 500 });
    await take(box, eventOf("a", 1), eventOf("b", 1));
    await box.until(id, (all) => all.every(({ attempts }) => attempts > 0));
    expect((await box.ask("DELETE", `${E}/${id}`)).body).toEqual({ id, deleted: true });
    await box.pass(HOUR);
    expect(await box.taken()).toHaveLength(2);
    const rows = await runInDurableObject(box.stub, (_object: object, { storage }) =>
      ["endpoints", "queues", "deliveries", "events"].flatMap((table) =>
        storage.sql.exec(`SELECT * FROM ${table}`).toArray(),
      ),
    );
    expect(rows).toEqual([]);
  });
});

describe("a delivery that fails", () => {
  it("is made again until it is taken; later events of the sandbox wait, those of others don't", async () => {
    const box = await TestOutbox.make();
    const { id } = await box.endpoint();
    await box.turns({ status: 500, body: "no" });
    await take(box, eventOf("a", 1));
    await box.until(id, ([only]) => only?.attempts === 1);
    await take(box, eventOf("a", 2), eventOf("b", 1));
    await box.until(id, (all) => all.some(({ subject, state }) => subject === "b" && state === "delivered"));
    expect((await box.taken()).map(({ subject, sequence }) => `${subject}${sequence}`)).toEqual(["a1", "b1"]);
    await box.evict();
    await box.pass(6000);
    await box.seen(3, "a");
    expect((await box.taken()).map(({ subject, sequence }) => `${subject}${sequence}`)).toEqual([
      "a1",
      "b1",
      "a1",
      "a2",
    ]);
    const all = await box.until(id, (found) => found.every(({ state }) => state === "delivered"));
    const first = all.find(({ subject, sequence }) => subject === "a" && sequence === 1);
    expect(first).toMatchObject({
      attempts: 2,
      lastAnswer: "ok",
      tries: [
        { status: 500, reason: "answered 500" },
        { status: 200, reason: null },
      ],
    });
    const ids = (await box.taken()).map((event) => event.headers["webhook-id"]);
    expect(ids[0]).toBe(ids[2]);
  });

  it("waits for as long as it is asked to, within bounds", async () => {
    const box = await TestOutbox.make();
    const { id } = await box.endpoint();
    await box.turns(
      { status: 503, headers: { "retry-after": "120" } },
      { status: 429, headers: { "retry-after": "999999" } },
    );
    await take(box, eventOf("a", 1));
    const [one] = await box.until(id, ([only]) => only?.attempts === 1);
    expect(Date.parse(one?.nextAttemptAt ?? "") - Date.now()).toBeGreaterThan(100_000);
    await box.pass(121_000);
    const [two] = await box.until(id, ([only]) => only?.attempts === 2);
    const wait = Date.parse(two?.nextAttemptAt ?? "") - Date.now();
    expect(wait).toBeGreaterThan(5 * HOUR);
    expect(wait).toBeLessThanOrEqual(6 * HOUR);
  });

  it("is given up after three days; the next one goes, and it can be sent again", async () => {
    const box = await TestOutbox.make();
    const { id } = await box.endpoint();
    await box.turns(...Array.from({ length: 12 }, () => ({ status: 500 })));
    await take(box, eventOf("a", 1), eventOf("a", 2));
    while ((await box.deliveries(id, "&state=dead")).length === 0) if (!(await box.next(id))) await scheduler.wait(20);
    const ended = await box.until(id, (all) =>
      all.some(({ sequence, state }) => sequence === 2 && state === "delivered"),
    );
    // Of one instant, they have no order.
    const [one, two] = ended.toSorted((a, b) => a.sequence - b.sequence);
    expect(one).toMatchObject({ state: "dead", reason: "answered 500", attempts: 12 });
    const lasted = Date.parse(one?.endedAt ?? "") - Date.parse(one?.createdAt ?? "");
    expect(lasted).toBeGreaterThan(2 * DAY);
    expect(lasted).toBeLessThanOrEqual(3 * DAY);
    expect(two).toMatchObject({ sequence: 2, attempts: 1 });
    expect((await box.shown(id)).dead).toBe(1);
    const again = await box.ask<EventDelivery>("POST", `${E}/${id}/deliveries/${one?.id}:redeliver`);
    expect(again.body).toMatchObject({ state: "waiting", attempts: 0 });
    await box.until(id, (all) => all.every(({ state }) => state === "delivered"));
    const all = await box.taken();
    expect(all.at(-1)?.headers["webhook-id"]).toBe(one?.eventId);
    // One that was delivered goes once more when that is asked for.
    await box.ask("POST", `${E}/${id}/deliveries/${two?.id}:redeliver`);
    await box.seen(all.length + 1);
  }, 60_000);

  it("that broke off is made again under the same id", async () => {
    const box = await TestOutbox.make();
    const { id } = await box.endpoint();
    await box.turns({ delayMs: 5000 });
    await take(box, eventOf("a", 1));
    await box.seen(1);
    await box.crash();
    await box.pass(31_000);
    const [only] = await box.until(id, ([found]) => found?.state === "delivered");
    expect(only?.tries.map(({ reason }) => reason)).toEqual(["broke_off", null]);
    expect(new Set((await box.taken()).map((event) => event.headers["webhook-id"])).size).toBe(1);
  });

  it("does not reach an address that nothing listens on, and says so", async () => {
    const box = await TestOutbox.make();
    const { id } = await box.endpoint({ url: "http://127.0.0.1:9/" });
    const { body } = await box.ask<EventDelivery>("POST", `${E}/${id}:test`);
    expect(body).toMatchObject({
      state: "waiting",
      tries: [{ status: null, reason: "unreachable" }],
      lastAnswer: null,
    });
  });
});

describe("an endpoint is turned off", () => {
  it("by 410; what waits is given up, and can be sent again once it is on", async () => {
    const box = await TestOutbox.make();
    const { id } = await box.endpoint();
    await box.turns({ status: 500 }, { status: 410 });
    await take(box, eventOf("a", 1));
    await box.until(id, ([only]) => only?.attempts === 1);
    await take(box, eventOf("a", 2), eventOf("b", 1));
    const off = await box.until(id, (all) => all.length === 3 && all.every(({ state }) => state === "dead"));
    expect(off.map(({ subject, sequence, reason }) => [`${subject}${sequence}`, reason]).toSorted()).toEqual([
      ["a1", "endpoint_disabled"],
      ["a2", "endpoint_disabled"],
      ["b1", "answered 410"],
    ]);
    expect(await box.shown(id)).toMatchObject({ enabled: false, disabledReason: "gone", waiting: 0, dead: 3 });
    const { body } = await box.ask<{ data: Notice[] }>("GET", "/v1/notices");
    expect(body.data).toMatchObject([{ kind: "endpoint_disabled" }]);
    expect(JSON.stringify(body)).not.toContain("of-the-receiver");
    await take(box, eventOf("c", 1));
    expect((await box.ask("POST", `${E}/${id}:redeliver`)).body.error.code).toBe("conflict");
    const on = await box.ask<EventEndpoint>("POST", `${E}/${id}:update`, { enabled: true });
    expect(on.body).toMatchObject({ enabled: true, disabledReason: null, disabledAt: null });
    const since = new Date(Date.now() - HOUR).toISOString();
    expect(
      (await box.ask("POST", `${E}/${id}:redeliver`, { since: new Date(Date.now() + HOUR).toISOString() })).body,
    ).toEqual({ redelivered: 0 });
    expect((await box.ask("POST", `${E}/${id}:redeliver`, { since })).body).toEqual({ redelivered: 3 });
    await box.until(id, (all) => all.every(({ state }) => state === "delivered"));
    const order = (await box.taken()).map(({ subject, sequence }) => `${subject}${sequence}`);
    expect(order.slice(2).filter((one) => one.startsWith("a"))).toEqual(["a1", "a2"]);
    expect((await box.ask<{ data: Notice[] }>("GET", "/v1/notices")).body.data).toEqual([]);
  });

  it("when it took nothing for five days", async () => {
    const box = await TestOutbox.make();
    const { id } = await box.endpoint();
    await box.turns(...Array.from({ length: 40 }, () => ({ status: 500 })));
    await take(box, ...Array.from({ length: 4 }, (_, n) => eventOf("a", n + 1)));
    while ((await box.shown(id)).enabled) if (!(await box.next(id))) await scheduler.wait(20);
    const after = await box.shown(id);
    expect(after).toMatchObject({ enabled: false, disabledReason: "failing", waiting: 0 });
    const lasted = Date.parse(after.disabledAt ?? "") - Date.parse(after.failingSince ?? "");
    expect(lasted).toBeGreaterThanOrEqual(5 * DAY);
  }, 60_000);
});

describe("deliveries", () => {
  it("are listed in pages, by state, and forgotten in time", async () => {
    const box = await TestOutbox.make();
    const { id } = await box.endpoint();
    await take(box, ...["a", "b", "c"].flatMap((subject) => [eventOf(subject, 1), eventOf(subject, 2)]));
    await box.until(id, (all) => all.length === 6 && all.every(({ state }) => state === "delivered"));
    const seen: string[] = [];
    let cursor = "";
    for (let pages = 0; pages < 5; pages++) {
      const { body } = await box.ask("GET", `${E}/${id}/deliveries?limit=4&state=delivered${cursor}`);
      const { data, nextCursor } = EventDeliveryList.parse(body);
      seen.push(...data.map((one) => one.id));
      if (nextCursor === null) break;
      cursor = `&cursor=${nextCursor}`;
    }
    expect(new Set(seen).size).toBe(6);
    expect(await box.deliveries(id, "&state=dead")).toEqual([]);
    await box.pass(7 * DAY + 1000);
    expect(await box.deliveries(id)).toEqual([]);
    const left = await runInDurableObject(box.stub, (_object: object, { storage }) =>
      storage.sql.exec("SELECT id FROM events").toArray(),
    );
    expect(left).toEqual([]);
    // Long after, what came before is still no second event.
    await take(box, eventOf("a", 2));
    expect(await box.deliveries(id)).toEqual([]);
  });

  it("go to a quick receiver, however many a slow one keeps waiting", async () => {
    const box = await TestOutbox.make();
    const slow = freshName();
    const { id } = await box.endpoint({ url: box.url(slow) });
    await box.endpoint();
    const { turns } = await import("./client.ts").then(({ fake }) => fake);
    await turns(slow, ...Array.from({ length: 4 }, () => ({ delayMs: 8000 })));
    await take(box, ...Array.from({ length: 10 }, (_, n) => eventOf(`s${n}`, 1)));
    expect(typesOf(await box.seen(10))).toHaveLength(10);
    expect((await box.deliveries(id)).some(({ state }) => state === "delivered")).toBe(false);
    await box.ask("DELETE", `${E}/${id}`);
  });
});

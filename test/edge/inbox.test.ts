/** What becomes of events: stored, delivered in order at least once over whatever fails, given up, replayed, deleted. */
import { env } from "cloudflare:workers";
import { runInDurableObject } from "cloudflare:test";
import { createHmac } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { inboxObject, type Arrival } from "../../durable/inbox/api.ts";
import { SCHEDULE_MS } from "../../durable/inbox/retry.ts";
import { HookEvent, HookEventList, type Hook, type Replayed } from "../../sdk/contract/hook.ts";
import { ask, eventually, fake, faultOf, heartbeat } from "./client.ts";
import { nowSeconds, standard, TestInbox, type Answer } from "./inboxes.ts";
import { HOUR, DAY, shift } from "./volumes.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

const SECOND = 1000;
const reasons = (event: HookEvent) => event.timeline.map(({ what, reason }) => (reason ? `${what}: ${reason}` : what));

describe("an event", () => {
  it("reaches the program as a Standard Webhook of ours, and its timeline tells how", async () => {
    const inbox = await TestInbox.make({ port: 3000, path: "/in/orders?a=1" }, true);
    const body = '{"type":"order.paid"}';
    const headers = {
      ...standard(inbox.hook.secret ?? "", "msg-1", body),
      ...{ cookie: "a=b", "x-custom": "1", "x-rouse-hook": "forged", "x-forwarded-for": "6.6.6.6" },
    };
    const hook = { ...inbox.hook, url: `${inbox.hook.url}?source=shop` };
    const { id } = await (await inbox.post(body, headers, hook)).json<{ id: string }>();
    const event = HookEvent.parse(await inbox.delivered(id));
    expect(event.timeline).toMatchObject([
      { what: "received" },
      { what: "attempt", status: 200, woken: true },
      { what: "delivered" },
    ]);
    expect(Date.parse(event.expiresAt ?? "") - Date.parse(event.endedAt ?? "")).toBe(7 * DAY);
    const [taken] = await fake.taken(inbox.name);
    expect(taken).toMatchObject({ target: "port/3000", path: "/in/orders?a=1&source=shop", method: "POST" });
    const got = taken?.headers ?? {};
    expect(got).toMatchObject({
      ...{ "webhook-id": id, "content-type": "application/json", "x-custom": "1", "x-rouse-hook": inbox.hook.id },
      "x-rouse-attempt": "1",
    });
    for (const name of ["cookie", "x-forwarded-for"]) expect(got).not.toHaveProperty(name);
    const at = got["webhook-timestamp"] ?? "";
    expect(Math.abs(Number(at) - Number(nowSeconds()))).toBeLessThan(30);
    expect(got["webhook-signature"]).toBe(standard(inbox.hook.deliverySecret ?? "", id, body, at)["webhook-signature"]);
    expect((await ask<Hook>("GET", inbox.url("/in"))).body.lastEventAt).toBe(event.receivedAt);
  });

  it("is stored before it is acknowledged: broken off in the middle of a try, it is delivered all the same", async () => {
    const inbox = await TestInbox.make();
    await fake.turns(inbox.name, { status: 500 }, { delayMs: 5000 });
    const id = await inbox.sent("one");
    await inbox.tried(id, 1);
    await inbox.pass(7 * SECOND);
    // The second try is at the program, and who waits for its answer goes.
    await eventually(
      () => inbox.taken(),
      (taken) => taken.length === 2,
    );
    await inbox.crash();
    await inbox.pass(31 * SECOND);
    const event = await inbox.delivered(id);
    expect(reasons(event)).toEqual([
      ...["received", "attempt: answered 500", "attempt: broke_off", "attempt", "delivered"],
    ]);
    expect(new Set(await inbox.taken())).toEqual(new Set([id]));
    expect(await inbox.events()).toHaveLength(1);
    // Nothing more comes of it.
    await inbox.pass(DAY);
    expect(await inbox.taken()).toHaveLength(3);
  });

  it("that the program took is not delivered again by an eviction or an alarm", async () => {
    const inbox = await TestInbox.make();
    const id = await inbox.sent("one");
    await inbox.delivered(id);
    await inbox.evict();
    await inbox.alarm();
    await inbox.pass(HOUR);
    expect(await inbox.taken()).toEqual([id]);
  });

  it("of four copies at once of Slack is one event, and one delivery", async () => {
    const secret = "slack-signing-secret";
    const inbox = await TestInbox.make({ provider: "slack", secret }, true);
    const body = '{"type":"event_callback","event_id":"Ev9","event":{"type":"message"}}';
    const send = (retry: number) => {
      const at = nowSeconds();
      const signature = createHmac("sha256", secret).update(`v0:${at}:${body}`).digest("hex");
      const headers = { "x-slack-request-timestamp": at, "x-slack-signature": `v0=${signature}` };
      return inbox.post(body, retry === 0 ? headers : { ...headers, "x-slack-retry-num": String(retry) });
    };
    const answers = await Promise.all([0, 1, 2, 3].map(send));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const ids = new Set(answers.map(({ headers }) => headers.get("x-rouse-event")));
    expect(ids.size).toBe(1);
    const [id = ""] = [...ids];
    await inbox.delivered(id ?? "");
    expect([await inbox.taken(), await inbox.wakes()]).toEqual([[id], 1]);
  });

  it("of four copies of Slack in six seconds, while the machine wakes, is one, and runs once", async () => {
    const secret = "slack-signing-secret";
    const inbox = await TestInbox.make({ provider: "slack", secret }, true);
    await fake.plan({ label: inbox.name, action: "wake", hold: true });
    const body = '{"type":"event_callback","event_id":"Ev10","event":{"type":"message"}}';
    const ids = [];
    for (let retry = 0; retry < 4; retry++) {
      const at = nowSeconds();
      const signature = createHmac("sha256", secret).update(`v0:${at}:${body}`).digest("hex");
      const headers = { "x-slack-request-timestamp": at, "x-slack-signature": `v0=${signature}` };
      const answer = await inbox.post(body, { ...headers, ...(retry > 0 ? { "x-slack-retry-num": `${retry}` } : {}) });
      ids.push(answer.headers.get("x-rouse-event") ?? "");
      await inbox.pass(2 * SECOND);
    }
    await fake.release(inbox.name);
    const [id = ""] = ids;
    await inbox.delivered(id);
    await inbox.pass(HOUR);
    expect([new Set(ids).size, await inbox.taken(), await inbox.wakes()]).toEqual([1, [id], 1]);
  });

  it("that is received twice at once by the object itself is one, and is new again after a week", async () => {
    const inbox = await TestInbox.make();
    const api = inboxObject(env.INBOX, "default", inbox.name);
    const arrival: Arrival = {
      ...{ hookId: inbox.hook.id, type: "x", providerId: "p-1", headers: [], query: "", interaction: null },
      ...{ bytes: 2, ignored: false, body: new Uint8Array([123, 125]), blob: null },
    };
    const both = await Promise.all([api.receive(arrival), api.receive(arrival)]);
    const [first, second] = both.map((answer) => (answer.ok ? answer.event : null));
    expect(second?.id).toBe(first?.id);
    expect([first?.duplicate, second?.duplicate]).toEqual([false, true]);
    await inbox.delivered(first?.id ?? "");
    shift(6.9 * DAY);
    expect((await api.receive(arrival)) as object).toMatchObject({ ok: true, event: { duplicate: true } });
    shift(0.2 * DAY);
    const later = await api.receive(arrival);
    expect(later.ok && !later.event.duplicate && later.event.id !== first?.id).toBe(true);
  });
});

describe("a sandbox that sleeps", () => {
  it("is woken once for ten webhooks, which come in order", async () => {
    const inbox = await TestInbox.make({}, true);
    await fake.plan({ label: inbox.name, action: "wake", hold: true });
    const ids = [];
    for (let n = 0; n < 10; n++) ids.push(await inbox.sent(`m-${n}`));
    await fake.release(inbox.name);
    for (const id of ids) await inbox.delivered(id);
    expect([await inbox.taken(), await inbox.wakes()]).toEqual([ids, 1]);
  });

  it("that wakes only when told to keeps them, says why, and gets them when it is awake", async () => {
    const inbox = await TestInbox.make({}, true);
    await ask("POST", `/v1/sandboxes/${inbox.name}:update`, { autoWake: false });
    const id = await inbox.sent("one");
    expect(reasons(await inbox.tried(id, 1))).toEqual(["received", "attempt: sandbox_paused"]);
    expect([await inbox.wakes(), (await inbox.event(id)).state]).toEqual([0, "waiting"]);
    await ask("POST", `/v1/sandboxes/${inbox.name}:wake`, {});
    await inbox.pass(7 * SECOND);
    await inbox.delivered(id);
  });

  it("for longer than Telegram repeats anything, gets each of a day's updates, once", async () => {
    const inbox = await TestInbox.make({ provider: "telegram" }, true);
    await ask("POST", `/v1/sandboxes/${inbox.name}:update`, { autoWake: false });
    const update = (n: number) =>
      inbox.post(`{"update_id":${n},"message":{}}`, { "x-telegram-bot-api-secret-token": inbox.hook.secret ?? "" });
    const ids: string[] = [];
    for (let n = 0; n < 25; n++) {
      ids.push((await update(n)).headers.get("x-rouse-event") ?? "");
      await inbox.pass(HOUR);
      await heartbeat();
    }
    await inbox.evict();
    // What it repeats is known still.
    expect((await update(3)).headers.get("x-rouse-event")).toBe(ids[3]);
    expect([await inbox.taken(), await inbox.wakes()]).toEqual([[], 0]);
    await ask("POST", `/v1/sandboxes/${inbox.name}:update`, { autoWake: true });
    await inbox.pass(25 * HOUR);
    await heartbeat();
    await inbox.alarm();
    for (const id of ids) await inbox.delivered(id);
    expect([new Set(ids).size, (await inbox.taken()).toSorted(), await inbox.wakes()]).toEqual([
      ...[25, ids.toSorted(), 1],
    ]);
  });

  it("or is stopped, keeps them as well", async () => {
    const inbox = await TestInbox.make();
    await ask("POST", `/v1/sandboxes/${inbox.name}:stop`, {});
    const id = await inbox.sent("one");
    expect(reasons(await inbox.tried(id, 1))).toEqual(["received", "attempt: sandbox_stopped"]);
    await ask("POST", `/v1/sandboxes/${inbox.name}:restart`, {});
    await inbox.pass(7 * SECOND);
    await inbox.delivered(id);
  });

  it("wakes to a program that needs a moment: tries until it listens do not count", async () => {
    const inbox = await TestInbox.make({}, true);
    await fake.turns(inbox.name, { deaf: true }, { deaf: true });
    const id = await inbox.sent("one");
    for (const tries of [1, 2]) {
      await inbox.tried(id, tries);
      await inbox.pass(2.1 * SECOND);
    }
    const event = await inbox.delivered(id);
    expect(event.attempts).toBe(1);
    expect(reasons(event)).toEqual([
      ...["received", "attempt: port_not_listening", "attempt: port_not_listening", "attempt", "delivered"],
    ]);
  });

  it("and one that ran all the while: a port that is closed counts", async () => {
    const inbox = await TestInbox.make();
    await fake.turns(inbox.name, { deaf: true });
    expect((await inbox.tried(await inbox.sent("one"), 1)).attempts).toBe(1);
  });
});

describe("what fails", () => {
  it("is tried by the schedule, then is dead, and can be replayed", async () => {
    const inbox = await TestInbox.make();
    await fake.turns(inbox.name, ...Array.from({ length: 10 }, () => ({ status: 500 })));
    const id = await inbox.sent("one");
    for (const [at, wait] of SCHEDULE_MS.entries()) {
      const { timeline, nextAttemptAt, state } = await inbox.tried(id, at + 1);
      expect(state).toBe("waiting");
      const last = timeline.at(-1);
      const due = (Date.parse(nextAttemptAt ?? "") - Date.parse(last?.at ?? "") - (last?.ms ?? 0)) / wait;
      expect(due > 0.79 && due < 1.21).toBe(true);
      // Not sooner.
      await inbox.alarm();
      expect(await inbox.taken()).toHaveLength(at + 1);
      await inbox.pass(wait * 1.21);
    }
    const dead = await inbox.until(id, ({ state }) => state === "dead");
    expect(dead.timeline.at(-1)).toMatchObject({ what: "dead", reason: "answered 500" });
    expect(Date.parse(dead.expiresAt ?? "") - Date.parse(dead.endedAt ?? "")).toBe(30 * DAY);
    expect((await ask<Hook>("GET", inbox.url("/in"))).body).toMatchObject({ dead: 1, waiting: 0 });
    const replayed = await ask<HookEvent>("POST", `/v1/sandboxes/${inbox.name}/hook-events/${id}:replay`, {});
    expect(replayed.body).toMatchObject({ id, state: "waiting", attempts: 0 });
    expect(reasons(await inbox.delivered(id)).slice(-3)).toEqual(["replayed", "attempt", "delivered"]);
    expect(await inbox.taken()).toEqual(Array.from({ length: 11 }, () => id));
  });

  it("with Retry-After is not tried sooner than that, and 410 ends the hook", async () => {
    const inbox = await TestInbox.make();
    await fake.turns(inbox.name, { status: 429, headers: { "retry-after": "120" } }, { status: 410 });
    const id = await inbox.sent("one");
    const { nextAttemptAt } = await inbox.tried(id, 1);
    const wait = Date.parse(nextAttemptAt ?? "") - Date.now();
    expect(wait > 110 * SECOND && wait <= 120 * SECOND).toBe(true);
    await inbox.pass(121 * SECOND);
    const dead = await inbox.until(id, ({ state }) => state === "dead");
    expect(reasons(dead).at(-1)).toBe("dead: gone");
    const hook = await ask<Hook>("GET", inbox.url("/in"));
    expect(hook.body).toMatchObject({ enabled: false, disabledReason: "gone" });
    expect((await faultOf(await inbox.send("two"))).code).toBe("hook_disabled");
    await ask("POST", inbox.url("/in:update"), { enabled: true });
    const { body } = await ask<Replayed>("POST", inbox.url("/in:replay-dead"), {});
    expect(body.replayed).toBe(1);
    await inbox.delivered(id);
    expect((await inbox.send("two")).status).toBe(202);
  });

  it("holds up later ones of its hook at first, and no other hook's; after four tries they go on", async () => {
    const inbox = await TestInbox.make();
    const other = await inbox.add({ path: "/in/other" });
    await fake.turns(inbox.name, ...Array.from({ length: 4 }, () => ({ status: 500 })));
    const first = await inbox.sent("first");
    await inbox.tried(first, 1);
    const second = await inbox.sent("second");
    for (const [tries, wait] of SCHEDULE_MS.slice(0, 3).entries()) {
      await inbox.tried(first, tries + 1);
      expect((await inbox.event(second)).attempts).toBe(0);
      await inbox.pass(wait * 1.21);
    }
    await inbox.tried(first, 4);
    await inbox.delivered(second);
    expect(await inbox.taken()).toEqual([first, first, first, first, second]);
    const third = await inbox.sent("third", undefined, other);
    await inbox.delivered(third);
    await inbox.pass(2 * HOUR * 1.21);
    await inbox.delivered(first);
  });

  it("because the program takes too long, or closes the connection, is tried again", async () => {
    const inbox = await TestInbox.make({ timeoutSeconds: 1 });
    await fake.turns(inbox.name, { delayMs: 3000 }, { hangUp: true });
    const id = await inbox.sent("one");
    await inbox.tried(id, 1);
    await inbox.pass(7 * SECOND);
    await inbox.tried(id, 2);
    await inbox.pass(HOUR);
    const event = await inbox.delivered(id);
    expect(reasons(event).slice(1, 3)).toEqual(["attempt: timeout", "attempt: upstream_closed"]);
    expect(await inbox.taken()).toHaveLength(3);
  });

  it("because its host fell asleep under it, is sent to the next run at once", async () => {
    const inbox = await TestInbox.make();
    // The host put it to sleep by itself, and the object does not know yet: 421.
    await fake.sleep(inbox.name);
    const event = await inbox.delivered(await inbox.sent("one"));
    expect([event.attempts, event.timeline[1]?.woken]).toEqual([1, true]);
  });

  it("because the host is away, waits until it is back, and is tried soon: those tries do not count", async () => {
    const inbox = await TestInbox.make();
    await fake.away(inbox.name, true);
    const id = await inbox.sent("one");
    for (const tries of [1, 2, 3]) {
      expect(reasons(await inbox.tried(id, tries))[tries]).toMatch(/^attempt: (host_unavailable|sandbox_waking)$/);
      if (tries < 3) await inbox.pass(2.1 * SECOND);
    }
    await fake.away(inbox.name, false);
    await inbox.pass(4.1 * SECOND);
    expect((await inbox.delivered(id)).attempts).toBe(1);
  });
});

describe("sync hooks", () => {
  it("answer what the program answers, and the same to a copy", async () => {
    const inbox = await TestInbox.make({ mode: "sync" }, true);
    await fake.turns(inbox.name, { status: 201, headers: { "x-of-it": "1", "set-cookie": "a=b" }, body: "made" });
    const response = await inbox.send("one");
    expect([response.status, await response.text()]).toEqual([201, "made"]);
    expect([response.headers.get("x-of-it"), response.headers.get("set-cookie")]).toEqual(["1", null]);
    const copy = await inbox.send("one");
    expect([copy.status, await copy.text()]).toEqual([201, "made"]);
    expect(await inbox.taken()).toHaveLength(1);
  });

  it("answer a failure of the program, and go on trying", async () => {
    const inbox = await TestInbox.make({ mode: "sync" });
    await fake.turns(inbox.name, { status: 500, body: "oh" });
    const response = await inbox.send("one");
    expect([response.status, await response.text()]).toEqual([500, "oh"]);
    await inbox.pass(7 * SECOND);
    await inbox.delivered(response.headers.get("x-rouse-event") ?? "");
  });

  it("of Slack are not held for longer than Slack waits", async () => {
    const secret = "slack-signing-secret";
    const inbox = await TestInbox.make({ mode: "sync", provider: "slack", secret });
    await fake.turns(inbox.name, { delayMs: 4000 });
    const at = nowSeconds();
    const signature = createHmac("sha256", secret).update(`v0:${at}:{}`).digest("hex");
    const startedAt = performance.now();
    const headers = { "x-slack-request-timestamp": at, "x-slack-signature": `v0=${signature}` };
    const response = await inbox.post("{}", headers);
    expect([response.status, await response.text()]).toEqual([200, ""]);
    expect(performance.now() - startedAt).toBeLessThan(3900);
    await inbox.delivered(response.headers.get("x-rouse-event") ?? "");
  });
});

describe("lists", () => {
  it("have pages, and filters by state and hook", async () => {
    const inbox = await TestInbox.make();
    const other = await inbox.add({ path: "/in/b" });
    const ids = [];
    for (let n = 0; n < 3; n++) ids.push(await inbox.sent(`m-${n}`));
    await inbox.delivered(ids[2] ?? "");
    await fake.turns(inbox.name, { status: 500 });
    const waiting = await inbox.sent("w", undefined, other);
    await inbox.tried(waiting, 1);
    const path = `/v1/sandboxes/${inbox.name}/hook-events`;
    const first = HookEventList.parse((await ask<HookEventList>("GET", `${path}?limit=3`)).body);
    const second = (await ask<HookEventList>("GET", `${path}?limit=3&cursor=${first.nextCursor}`)).body;
    expect([...first.data, ...second.data].map(({ id }) => id).toSorted()).toEqual([...ids, waiting].toSorted());
    expect(second.nextCursor).toBe(null);
    expect((await inbox.events("&state=waiting")).map(({ id }) => id)).toEqual([waiting]);
    expect((await inbox.events(`&hookId=${inbox.hook.id}`)).map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
    expect((await ask("GET", `${path}?cursor=x`)).status).toBe(400);
    expect((await ask<Answer<HookEvent>>("GET", `${path}/evt-${"0".repeat(20)}`)).body.error.code).toBe(
      "hook_event_not_found",
    );
  });
});

describe("an inbox", () => {
  it("that is full stores nothing more, and says when to come back", async () => {
    const inbox = await TestInbox.make({}, true);
    await ask("POST", `/v1/sandboxes/${inbox.name}:update`, { autoWake: false });
    const id = await inbox.sent("one");
    await inbox.tried(id, 1);
    await runInDurableObject(inbox.stub, (_object, { storage: { sql } }) => {
      sql.exec(
        `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)
         INSERT INTO events (id, hook_id, created_at, state, late, next_at, bytes, body)
         SELECT 'evt-' || i, hook_id, created_at, state, late, next_at, bytes, body FROM events, n`,
      );
    });
    await inbox.evict();
    const response = await inbox.send("two");
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "60"]);
    expect((await faultOf(response)).code).toBe("inbox_full");
    // A copy of what is there is no new one.
    expect((await inbox.send("one")).status).toBe(202);
    await runInDurableObject(inbox.stub, (_object, { storage: { sql } }) => {
      sql.exec("DELETE FROM events WHERE id <> ?", id);
    });
    await inbox.evict();
    expect((await inbox.send("two")).status).toBe(202);
  });

  it("of a hook that is off keeps what waits, until it is on again, or for 30 days", async () => {
    const inbox = await TestInbox.make();
    await fake.turns(inbox.name, { status: 500 }, { status: 500 });
    const [first, second] = [await inbox.sent("one"), await inbox.sent("two")];
    await inbox.tried(first, 1);
    await ask("POST", inbox.url("/in:update"), { enabled: false });
    await inbox.pass(DAY);
    expect((await inbox.event(first)).attempts).toBe(1);
    await ask("POST", inbox.url("/in:update"), { enabled: true });
    await inbox.tried(first, 2);
    await ask("POST", inbox.url("/in:update"), { enabled: false });
    await inbox.pass(30 * DAY);
    for (const id of [first, second]) expect(reasons(await inbox.event(id)).at(-1)).toBe("dead: hook_disabled");
  });

  it("forgets what ended when its time is over, and no sooner", async () => {
    const inbox = await TestInbox.make({ provider: "none", maxBytes: 200_000 });
    const { id } = await (await inbox.post("x".repeat(100_000))).json<{ id: string }>();
    await inbox.delivered(id);
    await inbox.pass(6.9 * DAY);
    expect((await inbox.event(id)).state).toBe("delivered");
    await inbox.pass(0.2 * DAY);
    expect(await inbox.events()).toEqual([]);
    await inbox.alarm();
    const prefix = `inbox/default/${inbox.name}/`;
    expect((await env.BLOBS.list({ prefix })).objects).toEqual([]);
  });

  it("drops a body that was stored for no event", async () => {
    const inbox = await TestInbox.make({ provider: "none", maxBytes: 200_000 });
    const reserved = await inboxObject(env.INBOX, "default", inbox.name).reserve(inbox.hook.id, null, 70_000);
    const key = reserved.ok ? (reserved.key ?? "") : "";
    await env.BLOBS.put(key, "x");
    await inbox.alarm();
    expect(await env.BLOBS.head(key)).not.toBe(null);
    await inbox.pass(901 * SECOND);
    expect(await env.BLOBS.head(key)).toBe(null);
  });

  it("goes with its sandbox, and with nothing else's", async () => {
    const inbox = await TestInbox.make({ provider: "none", maxBytes: 200_000 }, true);
    await ask("POST", `/v1/sandboxes/${inbox.name}:update`, { autoWake: false });
    await inbox.post("x".repeat(100_000));
    await inbox.post("small");
    const api = inboxObject(env.INBOX, "default", inbox.name);
    await api.purge(`${inbox.name}~aaaaaaaaaaaa`);
    expect(await inbox.events()).toHaveLength(2);
    await api.purge(inbox.id);
    await api.purge(inbox.id);
    expect((await env.BLOBS.list({ prefix: `inbox/default/${inbox.name}/` })).objects).toEqual([]);
    expect((await inbox.post("x")).status).toBe(404);
    await inbox.evict();
    const left = await runInDurableObject(inbox.stub, async (_object, { storage }) => [
      storage.sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'").toArray(),
      await storage.getAlarm(),
    ]);
    expect(left).toEqual([[], null]);
  });

  it("of a deleted sandbox is not the next one's of its name", async () => {
    const inbox = await TestInbox.make();
    const old = inbox.hook;
    await ask("DELETE", `/v1/sandboxes/${inbox.name}`);
    const id = await inbox.sent("late").catch(() => null);
    await ask("POST", "/v1/sandboxes", { name: inbox.name });
    expect((await ask("GET", inbox.url())).body).toEqual({ data: [] });
    expect(await inbox.events()).toEqual([]);
    inbox.hook = await inbox.add({ name: "in" });
    expect((await inbox.post("{}", {}, old)).status).toBe(404);
    await inbox.delivered(await inbox.sent("new"));
    expect((await inbox.taken()).filter((one) => one === id)).toEqual([]);
  });
});

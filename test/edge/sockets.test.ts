/** WebSockets that stay open while the sandbox sleeps: what its client and the program see. */
import { env } from "cloudflare:workers";
import { runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { socketsObject } from "../../durable/sockets/api.ts";
import { HeldSocketList, socketLimits } from "../../sdk/contract/socket.ts";
import type { Why } from "../../sdk/contract/timeline.ts";
import { ask, created, edge, eventually, fake, faultOf, heartbeat } from "./client.ts";
import { Holding, key } from "./held-sockets.ts";
import { shift } from "./volumes.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

const texts = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => `m${from + n}`);
const asText = (messages: readonly string[]) => messages.map((message) => `text ${message}`);

describe("a held socket", () => {
  it("reaches the program as an upgrade with the path, query and subprotocol, and says that it is the first", async () => {
    const { name, ...holding } = await Holding.make({ sockets: [{ path: "/ws", port: 3000 }] }).then((made) => ({
      name: made.name,
      made,
    }));
    const answer = await edge(`http://3000-${name}.rouse.test/ws?a=1&b=2`, {
      headers: { ...key, upgrade: "websocket", "sec-websocket-protocol": "chat.v2, chat.v1", cookie: "s=1" },
    });
    expect(answer.status).toBe(101);
    expect(answer.headers.get("sec-websocket-protocol")).toBe("chat.v2");
    expect(answer.headers.get("x-rouse-socket")).toMatch(/^sock-/);
    answer.webSocket?.accept();
    const [seen] = await holding.made.seen();
    expect(seen).toMatchObject({ target: "port/3000", path: "/ws?a=1&b=2", close: null });
    expect(seen?.headers).toMatchObject({
      ...{ cookie: "s=1", "x-rouse-socket-id": answer.headers.get("x-rouse-socket"), "x-rouse-socket-resumed": "0" },
      ...{ "x-rouse-socket-delivered": "0", "x-forwarded-host": `3000-${name}.rouse.test` },
    });
    expect(seen?.headers).not.toHaveProperty("authorization");
    const [shown] = HeldSocketList.parse({ data: await holding.made.sockets() }).data;
    expect(shown).toMatchObject({ state: "attached", port: 3000, path: "/ws", protocol: "chat.v2", resumed: 0 });
  });

  it("carries text and bytes both ways in order, and what the program sends by itself", async () => {
    const holding = await Holding.make();
    const client = await holding.connect();
    client.send("hello", new Uint8Array([0, 255, 128]), "a\0b", "");
    expect(await client.got(4)).toEqual(["text hello", "bytes AP+A", "text a\0b", "text "]);
    await fake.orders(holding.name, { push: "news" });
    expect((await client.got(5))[4]).toBe("text news");
    const [shown] = await holding.until(([one]) => one?.buffered === 0);
    expect(shown).toMatchObject({ framesIn: 4, framesOut: 5, bytesIn: 11 });
  });

  it("stays open while the sandbox sleeps and its object is gone; the next messages wake it, once, and come in order", async () => {
    const holding = await Holding.make();
    const client = await holding.connect("/ws?room=7");
    client.send("m1");
    await client.got(1);
    await holding.until(([one]) => one?.buffered === 0);
    await holding.sleep();
    await holding.evict();
    expect([await holding.state(), client.closed]).toEqual(["paused", null]);
    await fake.plan({ label: holding.name, action: "wake", hold: true });
    client.send(...texts(2, 6));
    await eventually(
      () => fake.state(holding.name),
      ({ log }) => log.some((line) => line.startsWith("wake")),
    );
    client.send("m7");
    await fake.release(holding.name);
    expect(await client.got(7)).toEqual(asText(texts(1, 7)));
    expect(await holding.wakes()).toBe(1);
    const [first, second, ...more] = await holding.seen();
    expect(more).toEqual([]);
    expect(second).toMatchObject({ path: "/ws?room=7", messages: asText(texts(2, 7)) });
    expect(second?.headers).toMatchObject({
      ...{ "x-rouse-socket-id": first?.headers["x-rouse-socket-id"], "x-rouse-socket-resumed": "1" },
      "x-rouse-socket-delivered": "1",
    });
    const { body } = await ask<Why>("GET", `/v1/sandboxes/${holding.name}:why`);
    expect(body.lastRun?.cause).toMatchObject({ kind: "socket", request: "/ws", port: 8080 });
    expect(body.lastRun?.cause?.requestId).toBe(client.response.headers.get("x-rouse-socket"));
  });

  it("loses nothing when the connection breaks: what may not have arrived comes again, in order, and the program can tell", async () => {
    const holding = await Holding.make();
    await fake.orders(holding.name, { breakAt: 3, quiet: true });
    const client = await holding.connect();
    client.send(...texts(1, 5));
    await eventually(
      () => holding.seen(),
      ([, second]) => second !== undefined,
    );
    await fake.orders(holding.name, { breakAt: null });
    const seen = await eventually(
      () => holding.seen(),
      (all) => all.at(-1)?.messages.at(-1) === "text m5",
    );
    // What a program counts for itself and what it is told it had are enough to skip what it had already.
    let had = 0;
    const taken: string[] = [];
    for (const { headers, messages } of seen) {
      const skip = had - Number(headers["x-rouse-socket-delivered"]);
      expect(skip).toBeGreaterThanOrEqual(0);
      taken.push(...messages.slice(skip));
      had += messages.slice(skip).length;
    }
    expect(taken).toEqual(asText(texts(1, 5)));
    expect(client.closed).toBeNull();
    await holding.until(([one]) => one?.buffered === 0);
  });

  it("delivers what its object took though that ends in the middle of it, and the alarm goes off twice", async () => {
    const holding = await Holding.make();
    const client = await holding.connect();
    await fake.orders(holding.name, { mute: true, quiet: true });
    client.send("m1", "m2");
    await eventually(
      () => holding.seen(),
      ([one]) => one?.messages.length === 2,
    );
    await holding.crash();
    // The platform does not keep the sockets of an object that ends like that; the client has to come again.
    expect((await client.end())?.code).toBe(1006);
    await fake.orders(holding.name, { mute: false });
    await holding.alarm();
    const seen = await eventually(
      () => holding.seen(),
      (all) => all.length > 1 && all[1]?.close !== null,
    );
    expect(seen).toHaveLength(2);
    expect(seen[1]).toMatchObject({
      ...{ messages: asText(["m1", "m2"]), close: { code: 1001 } },
      headers: { "x-rouse-socket-delivered": "0", "x-rouse-socket-resumed": "1" },
    });
    await holding.alarm();
    expect([await holding.sockets(), (await holding.seen()).length]).toEqual([[], 2]);
  });

  it("announces a connection that is opened anew where its rule says so", async () => {
    const holding = await Holding.make({ sockets: [{ path: "/ws", announce: true }] });
    const client = await holding.connect();
    client.send("m1");
    await client.got(1);
    await holding.until(([one]) => one?.buffered === 0);
    await holding.sleep();
    client.send("m2");
    await client.got(3);
    const [, second] = await holding.seen();
    const [announced = "", ...rest] = second?.messages ?? [];
    expect(JSON.parse(announced.slice("text ".length))).toEqual({
      ...{ type: "rouse.resumed", socket: client.response.headers.get("x-rouse-socket"), resumed: 1 },
      ...{ delivered: 1, pending: 1 },
    });
    expect(rest).toEqual(["text m2"]);
    const [shown] = await holding.until(([one]) => one?.buffered === 0);
    expect(shown?.framesIn).toBe(2);
  });

  it("gets its program's connection back when the sandbox wakes by something else, unless its rule says not to", async () => {
    const rules = [{ path: "/ws" }, { path: "/ws-quiet", reopenOnWake: false }];
    const holding = await Holding.make({ sockets: rules });
    const clients = [await holding.connect("/ws"), await holding.connect("/ws-quiet")];
    await holding.sleep();
    await holding.evict();
    await holding.wake();
    await holding.until(([one]) => one?.state === "attached");
    await fake.orders(holding.name, { push: "you are back" });
    await clients[0]?.got(1);
    expect((await holding.sockets()).map(({ path, state }) => [path, state])).toEqual([
      ["/ws", "attached"],
      ["/ws-quiet", "detached"],
    ]);
    clients[1]?.send("hello");
    expect(await clients[1]?.got(1)).toEqual(["text hello"]);
    expect(await holding.wakes()).toBe(1);
  });

  it("wakes nothing when it is opened again and again at once by 40 clients that all speak", async () => {
    const holding = await Holding.make({}, true);
    const clients = await Promise.all(Array.from({ length: 40 }, () => holding.connect()));
    expect(await holding.wakes()).toBe(1);
    await holding.sleep();
    clients.forEach((client, n) => client.send(`from ${n}`));
    await Promise.all(clients.map((client) => client.got(1)));
    expect(clients.map(({ messages }) => messages)).toEqual(clients.map((_, n) => [`text from ${n}`]));
    expect(await holding.wakes()).toBe(2);
  });

  it("answers pings of its rule itself, awake or asleep, and never wakes for them", async () => {
    const holding = await Holding.make({ sockets: [{ path: "/ws", ping: "ping", pong: "pong!" }, { path: "/ws2" }] });
    const client = await holding.connect();
    client.send("ping");
    expect(await client.got(1)).toEqual(["text pong!"]);
    // Another without makes no difference: its pings are the program's.
    const other = await holding.connect("/ws2");
    client.send("ping");
    other.send("ping");
    expect([await client.got(2), await other.got(1)]).toEqual([["text pong!", "text pong!"], ["text ping"]]);
    await holding.sleep();
    await holding.evict();
    client.send("ping");
    await client.got(3);
    expect([await holding.state(), (await holding.sockets())[0]?.framesIn]).toEqual(["paused", 0]);
  });
});

describe("the end of a held socket", () => {
  it("by the program is the client's, with code and reason", async () => {
    const holding = await Holding.make();
    const client = await holding.connect();
    client.send("close");
    expect(await client.end()).toEqual({ code: 4001, reason: "bye" });
    expect(await holding.sockets()).toEqual([]);
    const plain = await holding.connect();
    await fake.orders(holding.name, { close: {} });
    expect((await plain.end())?.code).toBe(1005);
  });

  it("by the client is the program's, with code and reason", async () => {
    const holding = await Holding.make();
    const client = await holding.connect();
    client.socket.close(4005, "enough");
    const [seen] = await eventually(
      () => holding.seen(),
      ([one]) => one?.close !== null,
    );
    expect(seen?.close).toEqual({ code: 4005, reason: "enough" });
    expect(await holding.sockets()).toEqual([]);
  });

  it("by the client wakes nothing; what it sent before is delivered first", async () => {
    const holding = await Holding.make();
    const [silent, speaking] = [await holding.connect(), await holding.connect()];
    await holding.sleep();
    silent.socket.close(1000, "done");
    await holding.until((all) => all.length === 1);
    expect(await holding.state()).toBe("paused");
    await fake.plan({ label: holding.name, action: "wake", hold: true });
    speaking.send("last words");
    await eventually(
      () => fake.state(holding.name),
      ({ log }) => log.some((line) => line.startsWith("wake")),
    );
    speaking.socket.close(4007, "gone");
    await holding.until((all) => all.length === 0);
    await fake.release(holding.name);
    const seen = await eventually(
      () => holding.seen(),
      (all) => all.length === 3 && all[2]?.close !== null,
    );
    expect(seen[2]).toMatchObject({ messages: ["text last words"], close: { code: 4007, reason: "gone" } });
  });

  it("by the owner is both sides'", async () => {
    const holding = await Holding.make();
    const client = await holding.connect();
    const id = (await holding.sockets())[0]?.id;
    const path = `/v1/sandboxes/${holding.name}/sockets/${id}`;
    expect((await ask("DELETE", path)).body).toEqual({ id, closed: true });
    expect(await client.end()).toEqual({ code: 1001, reason: "closed" });
    const again = await ask("DELETE", path);
    expect([again.status, again.body.error.code]).toEqual([404, "socket_not_found"]);
  });

  it("says what was not delivered when the program takes no connection any more", async () => {
    const holding = await Holding.make();
    const [first, second] = [await holding.connect(), await holding.connect()];
    await holding.sleep();
    await fake.orders(holding.name, { refuse: 403 });
    first.send("m1", "m2");
    expect(await first.end()).toEqual({ code: 1011, reason: "the program answered 403; 2 messages not delivered" });
    await fake.orders(holding.name, { refuse: null, deaf: true });
    second.send("m1");
    expect(await second.end()).toEqual({ code: 1011, reason: "port_not_listening; 1 message not delivered" });
  });

  it("by a message that is too long, or too many that wait, has a code and a reason", async () => {
    const holding = await Holding.make();
    const long = await holding.connect();
    long.send(new Uint8Array(socketLimits.frameBytesMax));
    await long.got(1);
    long.send(new Uint8Array(socketLimits.frameBytesMax + 1));
    expect((await long.end())?.code).toBe(1009);
    await fake.orders(holding.name, { mute: true, quiet: true });
    const heavy = await holding.connect();
    for (let n = 0; n < 5; n++) heavy.send(new Uint8Array(1_000_000));
    expect(await heavy.end()).toEqual({
      ...{ code: 1013, reason: "4194304 bytes wait for the program, as many as may; 4 messages not delivered" },
    });
  });

  it("comes with the deletion of the sandbox, and a new one of the name knows nothing of it", async () => {
    const holding = await Holding.make();
    const client = await holding.connect();
    await holding.sleep();
    await holding.evict();
    await ask("DELETE", `/v1/sandboxes/${holding.id}`);
    expect(await client.end()).toEqual({ code: 1001, reason: "sandbox_gone" });
    await ask("POST", "/v1/sandboxes", { name: holding.name, sockets: [{ path: "/ws" }] });
    expect(await holding.sockets()).toEqual([]);
    const next = await holding.connect();
    next.send("hello");
    expect(await next.got(1)).toEqual(["text hello"]);
  });

  it("does not come with the loss of the machine: it is opened anew where that runs again", async () => {
    const holding = await Holding.make();
    const client = await holding.connect();
    await fake.sleep(holding.name);
    client.send("m1");
    expect(await client.got(1)).toEqual(["text m1"]);
    await fake.away(holding.name, true);
    await fake.orders(holding.name, { break: true });
    client.send("m2");
    await holding.until(([one]) => one?.waitsFor === "host_unavailable");
    await fake.away(holding.name, false);
    await holding.pass(60_000);
    expect(await client.got(2)).toEqual(asText(["m1", "m2"]));
    await holding.until(([one]) => one?.buffered === 0);
    // Without a message that waits, too: the program may have something to say.
    await heartbeat();
    await fake.away(holding.name, true);
    await fake.orders(holding.name, { break: true });
    await holding.until(([one]) => one?.waitsFor === "host_unavailable");
    await fake.away(holding.name, false);
    await holding.pass(60_000);
    await holding.until(([one]) => one?.state === "attached");
    await fake.orders(holding.name, { push: "m3" });
    expect(await client.got(3)).toEqual(asText(["m1", "m2", "m3"]));
  });
});

describe("who may hold sockets", () => {
  it("is decided before anything wakes, and what is no upgrade wakes nothing", async () => {
    const holding = await Holding.make({}, true);
    const stranger = await edge(`http://${holding.name}.rouse.test/ws`, { headers: { upgrade: "websocket" } });
    expect([stranger.status, (await faultOf(stranger)).code]).toEqual([401, "unauthorized"]);
    const bad = await holding.ask("/ws", {
      ...{ "sec-websocket-version": "8", "sec-websocket-key": "short", "sec-websocket-protocol": "x".repeat(5000) },
    });
    expect(bad.status).toBe(400);
    expect((await faultOf(bad)).details?.issues?.map(({ path }) => path)).toEqual([
      ...["sec-websocket-version", "sec-websocket-key", "sec-websocket-protocol"],
    ]);
    expect([await holding.state(), await holding.sockets()]).toEqual(["paused", []]);
  });

  it("one socket more than may be held is refused, and wakes nothing", async () => {
    const holding = await Holding.make();
    const client = await holding.connect();
    await holding.sleep();
    await runInDurableObject(holding.stub, (_object, { storage }) => {
      const more = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)";
      const insert = `${more} INSERT INTO sockets SELECT 'sock-' || i, since, 0, body FROM n, sockets`;
      storage.sql.exec(insert, socketLimits.socketsMax - 1);
    });
    const answer = await holding.ask();
    expect([answer.status, (await faultOf(answer)).code]).toEqual([409, "quota_exceeded"]);
    expect([await holding.state(), client.closed]).toEqual(["paused", null]);
  });

  it("the program's refusal is the client's answer, and nothing is held", async () => {
    const holding = await Holding.make();
    await fake.orders(holding.name, { refuse: 403 });
    const answer = await holding.ask();
    expect([answer.status, await answer.text()]).toEqual([403, "not you"]);
    await fake.orders(holding.name, { refuse: null, deaf: true });
    const deaf = await holding.ask();
    expect([deaf.status, (await faultOf(deaf)).code]).toEqual([502, "port_not_listening"]);
    expect(await holding.sockets()).toEqual([]);
  });

  it("may ask for it in the query with a credential; the program does not see that", async () => {
    const { name } = await created({ access: "public" });
    const ask = (headers: Record<string, string>, query = "?x=1&rouse_socket=keep") =>
      edge(`http://${name}.rouse.test/any${query}`, { headers: { upgrade: "websocket", ...headers } });
    const anonymous = await ask({});
    expect([anonymous.status, (await faultOf(anonymous)).code]).toEqual([403, "forbidden"]);
    const held = await ask(key);
    expect(held.headers.get("x-rouse-socket")).toMatch(/^sock-/);
    held.webSocket?.accept();
    const plain = await ask(key, "?x=1");
    expect(plain.headers.has("x-rouse-socket")).toBe(false);
    plain.webSocket?.accept();
    expect((await fake.sockets(name)).map(({ path }) => path)).toEqual(["/any?x=1", "/any?x=1"]);
  });

  it("a rule with keep: false takes a path out of a later one", async () => {
    const holding = await Holding.make({ sockets: [{ path: "/ws/live", keep: false }, { path: "/ws*" }] });
    expect((await holding.ask("/ws/live")).headers.has("x-rouse-socket")).toBe(false);
    expect((await holding.ask("/ws/chat")).headers.has("x-rouse-socket")).toBe(true);
    const wrong = await ask("POST", `/v1/sandboxes/${holding.name}:update`, {
      sockets: [{ path: "ws" }, { path: "/a", ping: "p" }, { path: "/a", keep: false, announce: true }],
    });
    expect(wrong.body.error.details?.issues?.map(({ path }) => path)).toEqual([
      ...["sockets.0.path", "sockets.1.ping", "sockets.2.keep"],
    ]);
    const { body } = await ask("POST", `/v1/sandboxes/${holding.name}:update`, { sockets: [] });
    expect(body.sockets).toEqual([]);
  });

  it("ends at once with a key, whether the sandbox runs or sleeps, and no more are held by it", async () => {
    const holding = await Holding.make();
    const made = (await ask<{ id: string; key: string }>("POST", "/v1/keys", { name: "a" })).body;
    const client = await holding.connect("/ws", { authorization: `Bearer ${made.key}` });
    const mine = await holding.connect();
    await holding.sleep();
    await holding.evict();
    await ask("DELETE", `/v1/keys/${made.id}`);
    expect(await client.end()).toEqual({ code: 1008, reason: "the credential was revoked" });
    expect([await holding.state(), mine.closed]).toEqual(["paused", null]);
    const api = socketsObject(env.SOCKETS, "default", holding.name);
    await Promise.all([api.revoke([made.id]), api.revoke([made.id])]);
    const again = await holding.ask("/ws", { authorization: `Bearer ${made.key}` });
    expect(again.status).toBe(401);
  });

  it("ends with a key whose time is over, when the program's connection is next opened anew", async () => {
    const holding = await Holding.make();
    const made = (await ask<{ id: string; key: string }>("POST", "/v1/keys", { name: "a", ttlSeconds: 60 })).body;
    const client = await holding.connect("/ws", { authorization: `Bearer ${made.key}` });
    await holding.sleep();
    shift(61_000);
    client.send("hello?");
    expect(await client.end()).toEqual({ code: 1008, reason: "unauthorized; 1 message not delivered" });
    expect(await holding.state()).toBe("paused");
  });

  it("ends at once with a share link, with a token that is rotated, and when what was public is private", async () => {
    const holding = await Holding.make({ access: "public" });
    const base = `/v1/sandboxes/${holding.name}`;
    const link = (await ask<{ id: string; token: string }>("POST", `${base}/links`, { path: "/ws" })).body;
    const preview = (await ask<{ token: string }>("POST", `${base}/previews`, { port: 3000 })).body;
    const anonymous = await holding.connect("/ws", { authorization: "" });
    const mine = await holding.connect();
    const open = async (token: string, host: string) => {
      const answer = await edge(`http://${host}.rouse.test/ws?rouse_token=${token}`, {
        headers: { upgrade: "websocket" },
      });
      if (!answer.webSocket) throw new Error(`${answer.status}`);
      const closed = Promise.withResolvers<number>();
      answer.webSocket.addEventListener("close", ({ code }) => closed.resolve(code));
      answer.webSocket.accept();
      return closed.promise;
    };
    const byToken = open(preview.token, `3000-${holding.name}`);
    await holding.until((all) => all.length === 3);
    await ask("POST", `${base}:update`, { access: "private" });
    expect(await anonymous.end()).toEqual({ code: 1008, reason: "forbidden" });
    const byLink = open(link.token, holding.name);
    await holding.until((all) => all.length === 3);
    await holding.sleep();
    await ask("DELETE", `${base}/links/${link.id}`);
    expect(await byLink).toBe(1008);
    await ask("POST", `${base}/previews/3000:rotate`);
    expect(await byToken).toBe(1008);
    expect([await holding.state(), mine.closed]).toEqual(["paused", null]);
  });

  it("a link that wakes nothing has its messages wait until the sandbox is awake", async () => {
    const holding = await Holding.make();
    const base = `/v1/sandboxes/${holding.name}`;
    const link = (await ask<{ token: string }>("POST", `${base}/links`, { path: "/ws", wake: false })).body;
    const client = await holding.connect("/ws", { authorization: "", "x-rouse-token": link.token });
    await holding.sleep();
    client.send("m1", "m2");
    await holding.until(([one]) => one?.buffered === 2 && one.waitsFor === "sandbox_paused");
    await holding.alarm();
    expect(await holding.state()).toBe("paused");
    await holding.wake();
    expect(await client.got(2)).toEqual(asText(["m1", "m2"]));
  });
});

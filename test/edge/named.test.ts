import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { sandboxObject } from "../../durable/sandbox/api.ts";
import type { Preview } from "../../sdk/contract/sandbox.ts";
import {
  API,
  ask,
  call,
  created,
  edge,
  eventually,
  fake,
  faultOf,
  freshName,
  heartbeat,
  paused,
  secrets,
} from "./client.ts";

beforeEach(async () => {
  await heartbeat();
});

const key = { authorization: `Bearer ${secrets.apiKey}` };
const url = (label: string, path = "/", port?: number) =>
  `http://${port === undefined ? "" : `${port}-`}${label}.rouse.test${path}`;

interface Echo {
  readonly target: string;
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly bytes: number;
  readonly sha256: string;
}

describe("a named URL", () => {
  it("reaches the default port, and others by prefix and by path", async () => {
    const { name } = await created();
    const root = await (await edge(url(name, "/a%20b?x=1&y"), { headers: key })).json<Echo>();
    expect(root).toMatchObject({ target: "port/8080", path: "/a%20b?x=1&y", method: "GET" });
    expect((await (await edge(url(name, "/", 3000), { headers: key })).json<Echo>()).target).toBe("port/3000");
    const byPath = await (await edge(`${API}/s/${name}/3000/deep?q=1`, { headers: key })).json<Echo>();
    expect(byPath).toMatchObject({ target: "port/3000", path: "/deep?q=1" });
    expect(byPath.headers).toMatchObject({
      "x-forwarded-host": `3000-${name}.rouse.test`,
      "x-forwarded-prefix": `/s/${name}/3000`,
    });
    expect((await (await edge(`${API}/s/${name}/3000`, { headers: key })).json<Echo>()).path).toBe("/");
  });

  it("wakes a paused sandbox once for 50 first contacts", async () => {
    const { name } = await paused();
    const answers = await Promise.all(Array.from({ length: 50 }, () => edge(url(name, "/counter"), { headers: key })));
    const counters = await Promise.all(
      answers.map(async (answer) => await answer.json<{ counter: number; generation: number }>()),
    );
    expect(new Set(counters.map(({ counter }) => counter)).size).toBe(50);
    expect(new Set(counters.map(({ generation }) => generation))).toEqual(new Set([2]));
    expect((await fake.state(name)).log).toEqual(["create 1", "pause 1", "wake 2"]);
  });

  it("says whether it woke, and for how long the caller waited", async () => {
    const { name } = await paused();
    const woken = await edge(url(name), { headers: { ...key, "x-request-id": "mine-1" } });
    expect(woken.headers.get("x-rouse-state")).toBe("woken");
    expect(woken.headers.get("x-rouse-wake-ms")).toMatch(/^\d+$/);
    expect(woken.headers.get("x-rouse-generation")).toBe("2");
    expect(woken.headers.get("server-timing")).toMatch(/^wake;dur=\d+/);
    expect(woken.headers.get("x-request-id")).toBe("mine-1");
    expect((await woken.json<Echo>()).headers["x-request-id"]).toBe("mine-1");
    const warm = await edge(url(name), { headers: key });
    expect(warm.headers.get("x-rouse-state")).toBe("running");
    expect(warm.headers.has("x-rouse-wake-ms")).toBe(false);
    expect(warm.headers.has("server-timing")).toBe(false);
    await warm.arrayBuffer();
  });

  it("finds the machine again when it slept since the last request", async () => {
    const { name, id } = await created();
    await (await edge(url(name), { headers: key })).arrayBuffer();
    // Behind the back of this isolate's route: as if another one had paused it.
    await sandboxObject(env.SANDBOX, "default", name).pause({
      id,
      holdMs: 5000,
      idempotencyKey: null,
      cause: null,
      fingerprint: "",
    });
    const answer = await edge(url(name), { method: "POST", body: "once", headers: key });
    expect(await answer.json<Echo & { text: string; generation: number }>()).toMatchObject({
      text: "once",
      generation: 2,
    });
    expect((await fake.state(name)).requests).toBe(2);
  });

  it("keeps our key from the program and passes everybody else's credentials", async () => {
    const { name } = await created({ access: "public" });
    const ours = await (
      await edge(url(name), { headers: { ...key, "x-rouse-ticket": "forged", "x-forwarded-for": "6.6.6.6" } })
    ).json<Echo>();
    expect(ours.headers["authorization"]).toBeUndefined();
    expect(ours.headers["x-rouse-ticket"]).not.toBe("forged");
    expect(ours.headers["x-forwarded-for"]).not.toBe("6.6.6.6");
    expect(ours.headers["x-forwarded-host"]).toBe(`${name}.rouse.test`);
    const theirs = await (await edge(url(name), { headers: { authorization: "Basic dTpw" } })).json<Echo>();
    expect(theirs.headers["authorization"]).toBe("Basic dTpw");
    const byHeader = await (
      await edge(url(name), { headers: { "x-rouse-key": secrets.apiKey, authorization: "Bearer theirs" } })
    ).json<Echo>();
    expect(byHeader.headers).toMatchObject({ authorization: "Bearer theirs" });
    expect(byHeader.headers["x-rouse-key"]).toBeUndefined();
  });

  it("passes redirects and the program's own 421 through", async () => {
    const { name } = await created();
    const redirect = await edge(url(name, "/redirect"), { headers: key, redirect: "manual" });
    expect([redirect.status, redirect.headers.get("location")]).toEqual([302, "/elsewhere"]);
    const own = await edge(url(name, "/own-421"), { headers: key });
    expect([own.status, await own.text()]).toEqual([421, "mine"]);
    expect((await fake.state(name)).log).toEqual(["create 1"]);
  });

  it("says which port nothing listens on", async () => {
    const { name } = await created();
    const answer = await edge(url(name, "/", 9), { headers: key });
    expect(answer.status).toBe(502);
    expect(await faultOf(answer)).toMatchObject({ code: "port_not_listening", details: { port: 9 } });
  });

  it("does not send a request again that the program may have seen", async () => {
    const { name } = await created();
    const answer = await edge(url(name, "/hang-up"), { method: "POST", body: "pay", headers: key });
    expect((await faultOf(answer)).code).toBe("upstream_closed");
    expect((await fake.state(name)).requests).toBe(1);
  });
});

describe("bodies", () => {
  const big = new Uint8Array(5 * 1_048_576).map((_, index) => index * 7);
  const sha = async (bytes: Uint8Array) =>
    [...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))]
      .map((b) => b.toString(16).padStart(2, "0"))
      .join("");

  it("of 5 MB arrive once and intact at a sandbox that sleeps", async () => {
    const { name } = await paused();
    const answer = await edge(url(name, "/upload"), { method: "POST", body: big, headers: key });
    expect(await answer.json<Echo>()).toMatchObject({ bytes: big.length, sha256: await sha(big) });
    expect((await fake.state(name)).requests).toBe(1);
  });

  it("of unknown length stream through", async () => {
    const { name } = await paused();
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const writing = (async () => {
      const writer = writable.getWriter();
      for (const part of ["one ", "two ", "three"]) await writer.write(new TextEncoder().encode(part));
      await writer.close();
    })();
    const answer = await edge(url(name, "/upload"), { method: "POST", body: readable, headers: key });
    expect(await answer.json<Echo & { text: string }>()).toMatchObject({ text: "one two three" });
    await writing;
  });

  it("that are small survive a route that is out of date", async () => {
    const { name, id } = await created();
    await (await edge(url(name), { headers: key })).arrayBuffer();
    await fake.crash(name);
    const stopped = await edge(url(name), { method: "PUT", body: "x", headers: key });
    expect(stopped.status).toBe(404);
    expect((await faultOf(stopped)).code).toBe("sandbox_stopped");
    await ask("POST", `/v1/sandboxes/${id}:restart`, {});
    expect(await (await edge(url(name), { method: "PUT", body: "x", headers: key })).json<Echo>()).toMatchObject({
      bytes: 1,
      method: "PUT",
    });
  });
});

describe("streams", () => {
  it("server-sent events arrive as they are sent, and wake", async () => {
    const { name } = await paused();
    const answer = await edge(url(name, "/events"), { headers: { ...key, accept: "text/event-stream" } });
    const reader = answer.body?.getReader();
    const first = await reader?.read();
    expect(new TextDecoder().decode(first?.value)).toBe("data: one\n\n");
    await fake.release(name);
    const second = await reader?.read();
    expect(new TextDecoder().decode(second?.value)).toBe("data: two\n\n");
    expect((await reader?.read())?.done).toBe(true);
  });

  it("WebSockets carry text, bytes and the close code, and wake", async () => {
    const { name } = await paused();
    const answer = await edge(url(name, "/socket"), { headers: { ...key, upgrade: "websocket" } });
    expect(answer.status).toBe(101);
    const socket = answer.webSocket;
    if (!socket) throw new Error("no socket");
    socket.binaryType = "arraybuffer";
    const messages: unknown[] = [];
    const closed = new Promise<{ code: number; reason: string }>((resolve) =>
      socket.addEventListener("close", ({ code, reason }) => resolve({ code, reason })),
    );
    socket.addEventListener("message", ({ data }) => {
      messages.push(typeof data === "string" ? data : [...new Uint8Array(data as ArrayBuffer)]);
    });
    socket.accept();
    socket.send("hello");
    socket.send(new Uint8Array([0, 255, 128]));
    await eventually(
      async () => messages.length,
      (count) => count === 2,
    );
    socket.send("close");
    expect(await closed).toEqual({ code: 4001, reason: "bye" });
    expect(messages).toEqual(["hello", [0, 255, 128]]);
  });
});

describe("never wakes", () => {
  const otherKey = `rouse_acme_abcdefghijkl_${"B".repeat(32)}`;

  it.each<[string, (label: string) => Promise<Response>, number, string]>([
    ["no credential", (label) => edge(url(label)), 401, "unauthorized"],
    [
      "a wrong key",
      (label) => edge(url(label), { headers: { authorization: `Bearer ${secrets.apiKey.slice(0, -1)}B` } }),
      401,
      "unauthorized",
    ],
    ["a key of nobody", (label) => edge(url(label), { headers: { "x-rouse-key": otherKey } }), 401, "unauthorized"],
    ["a bad token", (label) => edge(url(label, "/?rouse_token=abc.def")), 401, "unauthorized"],
    ["port 0", (label) => edge(`${API}/s/${label}/0/`, { headers: key }), 400, "invalid_port"],
    ["port 65536", (label) => edge(url(label, "/", 65_536), { headers: key }), 400, "invalid_port"],
    ["the agent's port", (label) => edge(url(label, "/", 10_800), { headers: key }), 400, "invalid_port"],
    [
      "a call without a key",
      (label) => edge(`${API}/v1/sandboxes/${label}:exec`, { method: "POST", body: '{"command":"true"}' }),
      401,
      "unauthorized",
    ],
    [
      "a call with a wrong body",
      (label) => call("POST", `/v1/sandboxes/${label}:exec`, { cmd: 1, command: 2 }),
      400,
      "invalid_request",
    ],
    ["a body that is not JSON", (label) => call("POST", `/v1/sandboxes/${label}:exec`, "{"), 400, "invalid_request"],
    ["a wrong query", (label) => call("GET", `/v1/sandboxes/${label}/files/list?depth=0&x=1`), 400, "invalid_request"],
    [
      "an upgrade that is none",
      (label) => edge(url(label), { headers: { ...key, upgrade: "websocket", "sec-websocket-version": "8" } }),
      400,
      "invalid_request",
    ],
    [
      "an upgrade by a stranger",
      (label) => edge(url(label), { headers: { upgrade: "websocket", "sec-websocket-version": "13" } }),
      401,
      "unauthorized",
    ],
    [
      "more headers than a host takes",
      (label) => edge(url(label), { headers: { ...key, "x-big": "a".repeat(14_336) } }),
      400,
      "invalid_request",
    ],
    [
      "a path that is too long",
      (label) => edge(url(label, `/${"a".repeat(14_336)}`), { headers: key }),
      400,
      "invalid_request",
    ],
    ["an unknown route", (label) => call("POST", `/v1/sandboxes/${label}:explode`, {}), 404, "route_not_found"],
    ["a wrong method", (label) => call("PUT", `/v1/sandboxes/${label}:exec`, {}), 405, "method_not_allowed"],
  ])("%s", async (_what, request, status, code) => {
    const { name, id } = await paused();
    const answer = await request(name);
    const fault = await faultOf(answer);
    expect({ status: answer.status, code: fault.code, inBody: fault.status }).toEqual({ status, code, inBody: status });
    expect(fault.hint.length).toBeGreaterThan(0);
    expect(answer.headers.get("x-request-id")).toBe(fault.requestId);
    expect(await fake.state(name)).toMatchObject({ log: ["create 1", "pause 1"], requests: 0 });
    expect((await ask("GET", `/v1/sandboxes/${id}`)).body.state).toBe("paused");
  });

  it("reads of every kind", async () => {
    const { name, id } = await paused();
    await ask("GET", `/v1/sandboxes/${id}`);
    await ask("GET", `/v1/sandboxes?name=${name}`);
    await ask("POST", `/v1/sandboxes/${id}:update`, { labels: {} });
    await ask("POST", `/v1/sandboxes/${id}:retention`, { days: 3 });
    await ask("POST", `/v1/sandboxes/${id}/previews`, { port: 3000 });
    await ask("GET", `/v1/sandboxes/${id}/previews`);
    expect((await fake.state(name)).log).toEqual(["create 1", "pause 1"]);
  });

  it("what is not there", async () => {
    expect((await edge(url(freshName()), { headers: key })).status).toBe(404);
    // Who has no key is not told what there is.
    expect((await edge(url(freshName()))).status).toBe(401);
    expect((await edge("http://a.b.rouse.test/", { headers: key })).status).toBe(404);
    const { name, id } = await created();
    await ask("DELETE", `/v1/sandboxes/${id}`);
    expect((await edge(url(name), { headers: key })).status).toBe(410);
    expect((await edge(url(name))).status).toBe(401);
  });

  it("a sandbox without autoWake", async () => {
    const { name, id } = await paused({ autoWake: false });
    expect((await faultOf(await edge(url(name), { headers: key }))).code).toBe("sandbox_paused");
    expect((await faultOf(await call("POST", `/v1/sandboxes/${id}:exec`, { command: "true" }))).code).toBe(
      "sandbox_paused",
    );
    expect((await fake.state(name)).log).toEqual(["create 1", "pause 1"]);
  });

  it("a stopped sandbox", async () => {
    const { name, id } = await created();
    await ask("POST", `/v1/sandboxes/${id}:stop`, {});
    const answer = await edge(url(name), { headers: key });
    const fault = await faultOf(answer);
    expect([answer.status, fault.status, fault.code]).toEqual([404, 404, "sandbox_stopped"]);
  });
});

describe("previews", () => {
  const open = async (id: string, body: object) =>
    (await ask<Preview>("POST", `/v1/sandboxes/${id}/previews`, body)).body;

  it("let a token in by header, query and cookie, to its port only", async () => {
    const { id, name } = await paused();
    const preview = await open(id, { port: 3000, ttlSeconds: 600 });
    expect(preview).toMatchObject({
      sandboxId: id,
      port: 3000,
      visibility: "private",
      url: url(name, "/", 3000),
      disabled: false,
    });
    const token = preview.token ?? "";
    expect((await faultOf(await edge(url(name), { headers: { "x-rouse-token": token } }))).code).toBe("forbidden");
    const other = await paused();
    expect((await faultOf(await edge(url(other.name, "/", 3000), { headers: { "x-rouse-token": token } }))).code).toBe(
      "forbidden",
    );
    expect((await fake.state(name)).log).toEqual(["create 1", "pause 1"]);
    const byHeader = await (
      await edge(url(name, "/", 3000), { headers: { "x-runtime-preview-token": token } })
    ).json<Echo>();
    expect(byHeader.headers["x-runtime-preview-token"]).toBeUndefined();
    const byQuery = await (await edge(`${url(name, "/p", 3000)}?a=1&rouse_token=${token}&b=2`)).json<Echo>();
    expect(byQuery.path).toBe("/p?a=1&b=2");
    const byCookie = await (
      await edge(url(name, "/", 3000), { headers: { cookie: `x=1; rouse_token=${token}` } })
    ).json<Echo>();
    expect(byCookie.headers["cookie"]).toBe("x=1");
  });

  it("give a browser a cookie and a clean address, before anything wakes", async () => {
    const { id, name } = await paused();
    const { urlWithToken } = await open(id, { port: 3000 });
    const answer = await edge(`${urlWithToken}&a=1`, {
      headers: { accept: "text/html", "sec-fetch-mode": "navigate" },
      redirect: "manual",
    });
    expect([answer.status, answer.headers.get("location")]).toEqual([302, "/?a=1"]);
    expect(answer.headers.get("set-cookie")).toMatch(
      /^rouse_token=[^;]+; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Lax$/,
    );
    expect((await fake.state(name)).log).toEqual(["create 1", "pause 1"]);
  });

  it("rotated or closed, leave old tokens worthless for good", async () => {
    const { id, name } = await created();
    const status = async (token: string | null) =>
      (await edge(url(name, "/", 3000), { headers: { "x-rouse-token": token ?? "" } })).status;
    const first = await open(id, { port: 3000 });
    expect(await status(first.token)).toBe(200);
    const second = (await ask<Preview>("POST", `/v1/sandboxes/${id}/previews/3000:rotate`)).body;
    expect([await status(first.token), await status(second.token)]).toEqual([401, 200]);
    expect((await ask("DELETE", `/v1/sandboxes/${id}/previews/3000`)).body).toMatchObject({
      sandboxId: id,
      port: 3000,
      deleted: true,
    });
    expect(await status(second.token)).toBe(401);
    const third = await open(id, { port: 3000 });
    expect([await status(first.token), await status(second.token), await status(third.token)]).toEqual([401, 401, 200]);
    expect((await call("GET", `/v1/sandboxes/${id}/previews/4000`)).status).toBe(404);
    expect(
      (await ask<{ data: Preview[] }>("GET", `/v1/sandboxes/${id}/previews`)).body.data.map(({ port }) => port),
    ).toEqual([3000]);
  });

  it("open a port to everybody, and close it again", async () => {
    const { id, name } = await paused();
    expect(await open(id, { port: 3000, visibility: "public" })).toMatchObject({ token: null, urlWithToken: null });
    expect((await edge(url(name, "/", 3000))).status).toBe(200);
    expect((await edge(url(name))).status).toBe(401);
    await open(id, { port: 3000, visibility: "private" });
    expect((await edge(url(name, "/", 3000))).status).toBe(401);
    await ask("POST", `/v1/sandboxes/${id}:update`, { access: "public" });
    expect((await edge(url(name))).status).toBe(200);
    await ask("POST", `/v1/sandboxes/${id}:update`, { access: "private" });
    expect((await edge(url(name))).status).toBe(401);
  });

  it("refuse reserved and impossible ports", async () => {
    const { id } = await created();
    expect((await faultOf(await call("POST", `/v1/sandboxes/${id}/previews`, { port: 10_800 }))).code).toBe(
      "invalid_port",
    );
    expect((await faultOf(await call("POST", `/v1/sandboxes/${id}/previews`, { port: 0 }))).code).toBe(
      "invalid_request",
    );
    expect((await faultOf(await call("GET", `/v1/sandboxes/${id}/previews/0`))).code).toBe("invalid_port");
  });
});

it("shows a person a page that loads again while the wake goes on", async () => {
  const { id, name } = await paused();
  await fake.plan({ label: name, action: "wake", hold: true });
  const page = await edge(url(name), { headers: { ...key, accept: "text/html,*/*" } });
  expect(page.status).toBe(503);
  expect(page.headers.get("retry-after")).toBe("1");
  expect(await page.text()).toContain('http-equiv="refresh"');
  await fake.release(name);
  const { body } = await ask("GET", `/v1/sandboxes/${id}?waitFor=running`);
  expect(body).toMatchObject({ state: "running", generation: 2 });
});

/** Requests for domains: they reach their sandbox as its named URL does, and nobody else's wake anything. */
import { env } from "cloudflare:workers";
import { runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Link } from "../../sdk/contract/link.ts";
import { tlsCheck } from "../../worker/routes/tls-check.ts";
import { API, ask, edge, eventually, fake, faultOf, freshName, heartbeat } from "./client.ts";
import { freshHostname, key, resolver, TestDomain } from "./domain-names.ts";
import { Client } from "./held-sockets.ts";
import { instead, shift } from "./volumes.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

interface Echo {
  readonly target: string;
  readonly path: string;
  readonly headers: Record<string, string>;
}

const check = (domain: string) => edge(`${API}/v1/domains/tls-check?domain=${encodeURIComponent(domain)}`);
const checks = async (domain: string) => {
  const response = await check(domain);
  await response.body?.cancel();
  return response.status;
};

describe("a domain", () => {
  it("reaches its port with the name that was asked for, and wakes the sandbox", async () => {
    const test = await (await TestDomain.make({}, { asleep: true, port: 3000 })).proven();
    expect(await test.wakes()).toBe(0);
    const woken = await test.visit("/a%20b?x=1");
    expect([woken.status, woken.headers.get("x-rouse-state")]).toEqual([200, "woken"]);
    const echo = await woken.json<Echo>();
    expect(echo).toMatchObject({ target: "port/3000", path: "/a%20b?x=1" });
    expect(echo.headers).toMatchObject({ "x-forwarded-host": test.hostname, "x-forwarded-proto": "http" });
    expect(echo.headers["x-forwarded-prefix"]).toBeUndefined();
    // All paths are the program's, also those that mean something at the API.
    for (const path of ["/v1/sandboxes", "/s/other/8080/x", "/healthz", "/hooks/x", "/internal/hosts"])
      expect(await (await test.visit(path)).json()).toMatchObject({ target: "port/3000", path });
    expect(await (await edge(`http://${test.hostname.toUpperCase()}.:8080/`, { headers: key })).json()).toMatchObject({
      headers: { "x-forwarded-host": `${test.hostname}.:8080` },
    });
    await test.ask("POST", ":update", { port: 4000 });
    expect(await (await test.visit()).json()).toMatchObject({ target: "port/4000" });
    await test.ask("DELETE");
    const gone = await test.visit("/nothing-here");
    expect([gone.status, (await faultOf(gone)).code]).toEqual([404, "route_not_found"]);
  });

  it("that is not verified reaches nobody, with a key or without", async () => {
    const test = await TestDomain.make({ access: "public" }, { asleep: true });
    for (const headers of [{}, key]) {
      const response = await test.visit("/nothing-here", { headers });
      expect([response.status, (await faultOf(response)).code]).toEqual([404, "route_not_found"]);
    }
    expect(await test.wakes()).toBe(0);
  });

  it("is private as its sandbox is, and wakes it for nobody who may not come in", async () => {
    const test = await (await TestDomain.make({}, { asleep: true })).proven();
    const refused = await test.visit("/", { headers: {} });
    expect([refused.status, (await faultOf(refused)).code]).toEqual([401, "unauthorized"]);
    const rival = await TestDomain.rival(freshHostname());
    const stranger = await test.visit("/", { headers: { authorization: `Bearer ${rival.apiKey}` } });
    expect([stranger.status, (await faultOf(stranger)).code]).toEqual([404, "not_found"]);
    expect(await test.wakes()).toBe(0);
    await ask("POST", `/v1/sandboxes/${test.id}:update`, { access: "public" });
    shift(11_000);
    expect((await test.visit("/", { headers: {} })).status).toBe(200);
    expect(await test.wakes()).toBe(1);
  });

  it("takes a share link, and keeps it in a cookie of its own", async () => {
    const test = await (await TestDomain.make({}, { asleep: true })).proven();
    const { body: link } = await ask<Link>("POST", `/v1/sandboxes/${test.id}/links`, { path: "/docs" });
    const page = await test.visit(`/docs?a=1&rouse_token=${link.token}`, { headers: { accept: "text/html" } });
    expect([page.status, page.headers.get("location")]).toEqual([302, "/docs?a=1"]);
    const [cookie = "", ...attributes] = (page.headers.get("set-cookie") ?? "").split("; ");
    expect(attributes.some((attribute) => attribute.toLowerCase().startsWith("domain="))).toBe(false);
    const inside = await test.visit("/docs/x", { headers: { cookie } });
    expect(inside.status).toBe(200);
    expect(JSON.stringify(await inside.json())).not.toContain(link.token);
    expect((await test.visit("/other", { headers: { cookie } })).status).toBe(403);
  });

  it("is asked as localhost where the port wants that", async () => {
    const test = await (await TestDomain.make({ localhostPorts: [5173] }, { port: 5173 })).proven();
    const own = `http://${test.hostname}`;
    const headers = { ...key, origin: own, referer: `${own}/a` };
    expect((await (await test.visit("/", { headers })).json<Echo>()).headers).toMatchObject({
      ...{ "x-rouse-host": "localhost:5173", origin: "http://localhost:5173", referer: "http://localhost:5173/a" },
      "x-forwarded-host": test.hostname,
    });
    const moved = await test.visit("/redirect?to=http%3A%2F%2Flocalhost%3A5173%2Fin");
    expect(moved.headers.get("location")).toBe("/in");
  });

  it("carries WebSockets, and holds those that are to be held", async () => {
    const test = await (await TestDomain.make({ sockets: [{ path: "/ws*" }] }, { asleep: true })).proven();
    const refused = await test.visit("/ws", { headers: { upgrade: "websocket" } });
    expect(refused.status).toBe(401);
    expect(await test.wakes()).toBe(0);
    const response = await test.visit("/ws", { headers: { ...key, upgrade: "websocket" } });
    if (!response.webSocket) throw new Error(`connect: ${response.status}`);
    const client = new Client(response, response.webSocket);
    client.send("hello");
    await eventually(
      () => fake.sockets(test.name),
      (seen) => seen.some(({ messages }) => messages.some((message) => JSON.stringify(message).includes("hello"))),
    );
    expect((await ask<{ data: unknown[] }>("GET", `/v1/sandboxes/${test.id}/sockets`)).body.data).toHaveLength(1);
    client.socket.close();
  });

  it("goes by its wake rules", async () => {
    const rules = [{ match: { path: "/health" }, action: "answer", body: "asleep" }];
    const test = await (await TestDomain.make({ wakeRules: rules }, { asleep: true })).proven();
    expect(await (await test.visit("/health")).text()).toBe("asleep");
    expect(await test.wakes()).toBe(0);
  });

  it("is heard of at most every ten seconds, and while its object is silent counts on", async () => {
    const test = await (await TestDomain.make()).proven();
    expect((await test.visit()).status).toBe(200);
    await instead(test.stub, { target: () => Promise.reject(new Error("not now")) });
    expect((await test.visit()).status).toBe(200);
    shift(60_000);
    expect((await test.visit()).status).toBe(200);
    shift(300_000);
    await heartbeat();
    expect((await test.visit()).status).toBe(500);
    await test.evict();
    expect((await test.visit()).status).toBe(200);
  });
});

describe("a host name that nobody has", () => {
  it("is the API's, as ever; 200 of them wake nothing and leave nothing", async () => {
    const test = await (await TestDomain.make({ access: "public" }, { asleep: true })).proven();
    const names = Array.from({ length: 200 }, () => freshHostname());
    const answers = await Promise.all(names.map((name) => edge(`http://${name}/some/page`)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([404]));
    expect((await edge(`http://${names[0]}/healthz`)).status).toBe(200);
    expect((await edge(`http://${names[0]}/v1/me`, { headers: key })).status).toBe(200);
    const left = await runInDurableObject(env.DOMAINS.getByName(names[0] ?? ""), (_object: object, { storage }) =>
      storage.sql.exec("SELECT name FROM sqlite_master").toArray(),
    );
    expect(left.filter(({ name }) => name === "claims")).toEqual([]);
    expect(await resolver.asked(names[0] ?? "")).toBe(0);
    expect(await test.wakes()).toBe(0);
  });

  it.each(["127.0.0.1:8787", "[::1]:8787", "localhost", "edge", "rouse.test", "a_b.example.com"])(
    "%s is asked of nobody",
    async (host) => {
      const stub = env.DOMAINS.getByName(host.replace(/:\d+$/, "")) as DurableObjectStub;
      await instead(stub, { target: () => Promise.reject(new Error("asked")) });
      expect((await edge(`http://${host}/healthz`)).status).toBe(200);
    },
  );

  it("is asked for once, however many come at once, and again after some seconds", async () => {
    const hostname = freshHostname();
    const stub = env.DOMAINS.getByName(hostname) as DurableObjectStub;
    let asked = 0;
    await instead(stub, {
      target: async () => {
        asked += 1;
        return null;
      },
    });
    const visit = () => edge(`http://${hostname}/healthz`);
    await Promise.all(Array.from({ length: 20 }, visit));
    await visit();
    expect(asked).toBe(1);
    shift(5001);
    await visit();
    expect(asked).toBe(2);
  });
});

describe("a proxy that asks for certificates", () => {
  it("gets one for verified domains, public named hosts and the API, and for nothing else; it wakes nothing", async () => {
    const test = await TestDomain.make({}, { asleep: true });
    expect(await checks(test.hostname)).toBe(404);
    await test.proven();
    expect(await checks(test.hostname.toUpperCase())).toBe(200);
    expect(await checks("rouse.test")).toBe(200);
    // Private, it is as one that is not there.
    expect(await checks(`${test.name}.rouse.test`)).toBe(404);
    const any = { ...env, ROUSE_TLS_NAMED_HOSTS: "any" };
    const url = new URL(`${API}/v1/domains/tls-check?domain=3000-${test.name}.rouse.test`);
    expect((await tlsCheck(any, url, "r-1")).status).toBe(200);
    await ask("POST", `/v1/sandboxes/${test.id}:update`, { access: "public" });
    shift(11_000);
    expect([await checks(`${test.name}.rouse.test`), await checks(`3000-${test.name}.rouse.test`)]).toEqual([200, 404]);
    const unknown = freshName();
    for (const host of [`${unknown}.rouse.test`, `10800-${test.name}.rouse.test`, "a.b.rouse.test", freshHostname()])
      expect([host, await checks(host)]).toEqual([host, 404]);
    for (const host of ["", "127.0.0.1", "localhost", "*.example.com", "x".repeat(5000)])
      expect([host, await checks(host)]).toEqual([host, 404]);
    expect(await test.wakes()).toBe(0);
    await test.ask("DELETE");
    expect(await checks(test.hostname)).toBe(404);
    const { status } = await ask("POST", "/v1/sandboxes", { name: unknown, access: "public" });
    shift(5001);
    await heartbeat();
    expect([status, await checks(`${unknown}.rouse.test`)]).toEqual([200, 200]);
  });
});

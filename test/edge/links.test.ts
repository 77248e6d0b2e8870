/** Share links: what they open, until when, and that a revoked one ends at once. */
import { env } from "cloudflare:workers";
import { evictDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Link } from "../../sdk/contract/link.ts";
import { ask, created, edge, eventually, fake, faultOf, freshName, heartbeat, paused, type Fault } from "./client.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

type Answer = Link & { error: Fault };
type List = { data: Link[] };
const url = (name: string, path = "/", port?: number) =>
  `http://${port === undefined ? "" : `${port}-`}${name}.rouse.test${path}`;
const linksOf = (id: string) => `/v1/sandboxes/${id}/links`;
const make = async (id: string, input: object = {}, headers = {}) =>
  (await ask<Answer>("POST", linksOf(id), input, headers)).body;
const visit = (name: string, token: string | undefined, path = "/", port?: number) =>
  edge(url(name, path, port), { headers: { "x-rouse-token": token ?? "" } });
const read = async (id: string, link: string) => (await ask<Answer>("GET", `${linksOf(id)}/${link}`)).body;

it("open one port below a path, by header, query and cookie, or subprotocol, and wake it", async () => {
  const { id, name } = await paused();
  const link = await make(id, { name: "for Ada", path: "/docs", ttlSeconds: 3600 });
  expect(link).toMatchObject({
    name: "for Ada",
    port: 8080,
    path: "/docs",
    wake: true,
    state: "live",
    lastUsedAt: null,
  });
  expect(link.urlWithToken).toBe(`${url(name, "/docs")}?rouse_token=${link.token}`);
  for (const path of [
    "/",
    "/docs2",
    "/other/docs",
    "/docs/../admin",
    "/docs/..%2fadmin",
    "/docs/%2e%2e/admin",
    "/docs//x",
  ]) {
    const other = await visit(name, link.token, path);
    expect([path, other.status, (await faultOf(other)).code]).toEqual([path, 403, "forbidden"]);
  }
  expect((await visit(name, link.token, "/docs", 9090)).status).toBe(403);
  expect((await ask("GET", `/v1/sandboxes/${id}`)).body.state).toBe("paused");
  const woken = await visit(name, link.token, "/docs/a?b=c");
  expect([woken.status, woken.headers.get("x-rouse-state")]).toEqual([200, "woken"]);
  // The host knows by which link a request came in, and the program does not see the token.
  const seen = (await woken.json()) as { headers: Record<string, string> };
  expect(JSON.stringify(seen)).not.toContain(link.token);
  const page = await edge(link.urlWithToken ?? "", { headers: { accept: "text/html" }, redirect: "manual" });
  expect([page.status, page.headers.get("location")]).toEqual([302, "/docs"]);
  const [cookie = ""] = (page.headers.get("set-cookie") ?? "").split(";");
  expect((await edge(url(name, "/docs/x"), { headers: { cookie } })).status).toBe(200);
  const socket = await edge(url(name, "/docs/socket"), {
    headers: { upgrade: "websocket", "sec-websocket-protocol": `rouse.token.${link.token}` },
  });
  expect([socket.status, socket.headers.get("sec-websocket-protocol")]).toEqual([101, `rouse.token.${link.token}`]);
  socket.webSocket?.accept();
  socket.webSocket?.close();
  const none = await edge(url(name, "/docs/socket"), { headers: { upgrade: "websocket" } });
  expect(none.status).toBe(401);
});

it("come as a bearer token, too, for clients that know of nothing else", async () => {
  const { name, id } = await paused();
  const { token } = await make(id, { port: 9090 });
  const bearer = (text: string | undefined, port: number) =>
    edge(url(name, "/", port), { headers: { authorization: `Bearer ${text}` } });
  expect((await bearer(`${token}x`, 9090)).status).toBe(401);
  expect((await bearer(token, 9091)).status).toBe(403);
  expect((await ask("GET", `/v1/sandboxes/${id}`)).body.state).toBe("paused");
  const answer = await bearer(token, 9090);
  expect([answer.status, answer.headers.get("x-rouse-state")]).toEqual([200, "woken"]);
  // The program may judge it once more.
  expect(((await answer.json()) as { headers: Record<string, string> }).headers["authorization"]).toBe(
    `Bearer ${token}`,
  );
});

it("are shown with their uses, and never again with their token", async () => {
  const { id, name } = await created();
  const headers = { "idempotency-key": crypto.randomUUID() };
  const [first, again] = await Promise.all([make(id, { name: "a" }, headers), make(id, { name: "a" }, headers)]);
  expect([again.id, again.token]).toEqual([first.id, first.token]);
  await evictDurableObject(env.SANDBOX.getByName(`default/${name}`));
  expect((await make(id, { name: "a" }, headers)).token).toBe(first.token);
  for (let n = 0; n < 3; n++) expect((await visit(name, first.token, `/page/${n}?secret=1`)).status).toBe(200);
  const shown = await eventually(
    () => read(id, first.id),
    ({ uses }) => (uses?.length ?? 0) > 0,
  );
  expect(shown.uses).toMatchObject([{ request: "GET /page/0", woke: false }]);
  expect(shown.lastUsedAt).not.toBeNull();
  const second = await make(id);
  const { data } = (await ask<List>("GET", linksOf(id))).body;
  expect(new Set(data.map((one) => one.id))).toEqual(new Set([first.id, second.id]));
  expect(JSON.stringify([shown, data])).not.toContain("rl_");
  expect((await read(id, `link-${"0".repeat(20)}`)).error.code).toBe("link_not_found");
});

it("that may not wake it leave it asleep", async () => {
  const { id, name } = await paused();
  const link = await make(id, { wake: false });
  const refused = await visit(name, link.token);
  expect([refused.status, (await faultOf(refused)).code]).toEqual([409, "sandbox_paused"]);
  expect((await ask("GET", `/v1/sandboxes/${id}`)).body.state).toBe("paused");
  await ask("POST", `/v1/sandboxes/${id}:wake`, {});
  expect((await visit(name, link.token)).status).toBe(200);
  await ask("POST", `/v1/sandboxes/${id}:pause`, {});
  expect((await visit(name, link.token)).status).toBe(409);
});

it("end at once when revoked, alone, and when their time is over", async () => {
  const { id, name } = await created();
  const [one, two] = [await make(id), await make(id, { ttlSeconds: 60 })];
  expect((await visit(name, one.token)).status).toBe(200);
  const revoked = (await ask<Answer>("DELETE", `${linksOf(id)}/${one.id}`)).body;
  expect(revoked.state).toBe("revoked");
  expect((await visit(name, one.token)).status).toBe(401);
  expect((await visit(name, two.token)).status).toBe(200);
  // Its host ends what is open, and takes no more.
  expect(await fake.revoked()).toContain(one.id);
  expect((await ask<Answer>("DELETE", `${linksOf(id)}/${one.id}`)).body.revokedAt).toBe(revoked.revokedAt);
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.setSystemTime(Date.now() + 61_000);
  expect((await visit(name, two.token)).status).toBe(401);
  expect((await read(id, two.id)).state).toBe("expired");
});

it("are for their sandbox alone, also under the same name", async () => {
  const { id, name } = await created();
  const link = await make(id);
  const other = await created();
  expect((await visit(other.name, link.token)).status).toBe(403);
  await ask("DELETE", `/v1/sandboxes/${id}`);
  await ask("POST", "/v1/sandboxes", { name });
  expect((await visit(name, link.token)).status).toBe(403);
  expect((await ask<List>("GET", linksOf(name))).body.data).toEqual([]);
  expect((await visit(freshName(), link.token)).status).toBe(403);
});

it("are refused when they say nothing sensible, and are not endless", async () => {
  const { id } = await created();
  for (const wrong of [
    { port: 0 },
    { path: "docs" },
    { path: "/a?b" },
    { ttlSeconds: 59 },
    { ttlSeconds: 60, expiresAt: "2031-01-01T00:00:00.000Z" },
    { expiresAt: "2001-01-01T00:00:00.000Z" },
    { name: "" },
    { extra: 1 },
  ])
    expect((await make(id, wrong)).error.code).toBe("invalid_request");
  for (let n = 0; n < 100; n++) expect((await make(id, { name: `n${n}` })).state).toBe("live");
  expect((await make(id)).error.code).toBe("quota_exceeded");
});

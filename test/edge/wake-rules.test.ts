/** Which requests wake a sandbox: rules of its owner, and how often it may be woken. */
import { env } from "cloudflare:workers";
import { evictDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Link } from "../../sdk/contract/link.ts";
import { isKeptBack, ruleFor, WakeRules } from "../../sdk/contract/wake-rule.ts";
import type { Why } from "../../sdk/contract/timeline.ts";
import { ask, edge, faultOf, heartbeat, paused, secrets } from "./client.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

const visit = (name: string, path = "/", init: RequestInit = {}) =>
  edge(`http://${name}.rouse.test${path}`, {
    ...init,
    headers: { authorization: `Bearer ${secrets.apiKey}`, ...(init.headers as Record<string, string>) },
  });
const stateOf = async (id: string) => (await ask("GET", `/v1/sandboxes/${id}`)).body.state;
const runs = async (id: string) => (await ask<Why>("GET", `/v1/sandboxes/${id}:why`)).body.runsToday;

const rules = [
  { match: { path: "/health" }, action: "answer", body: "asleep", status: 203 },
  { match: { path: "/robots.txt" }, action: "answer", when: "always", body: "User-agent: *\nDisallow: /" },
  { match: { methods: ["OPTIONS"] }, action: "ignore" },
  { match: { userAgent: "UptimeBot" }, action: "no_wake" },
  { match: { path: "/metrics/*", port: 8080 }, action: "no_keep" },
];

it("answer at the edge, or let it sleep, and nothing that they keep back wakes it", async () => {
  const { id, name } = await paused({ wakeRules: rules });
  const health = await visit(name, "/health?x=1");
  expect([health.status, await health.text(), health.headers.get("x-rouse-rule")]).toEqual([203, "asleep", "answer"]);
  expect(health.headers.get("content-type")).toBe("text/plain; charset=utf-8");
  const head = await visit(name, "/health", { method: "HEAD" });
  expect([head.status, await head.text()]).toEqual([203, ""]);
  expect((await visit(name, "/x", { method: "OPTIONS" })).status).toBe(204);
  const bot = await visit(name, "/", { headers: { "user-agent": "Mozilla (uptimebot/2.0)" } });
  expect([bot.status, (await faultOf(bot)).code]).toEqual([409, "sandbox_paused"]);
  expect((await visit(name, "/robots.txt")).status).toBe(200);
  await evictDurableObject(env.SANDBOX.getByName(`default/${name}`));
  expect([await stateOf(id), await runs(id)]).toEqual(["paused", 1]);
  // Who may not come in learns nothing of rules.
  expect((await edge(`http://${name}.rouse.test/health`)).status).toBe(401);
  // What they are not about wakes; then they leave alone what they are about only asleep.
  expect((await visit(name, "/page")).headers.get("x-rouse-state")).toBe("woken");
  const real = await visit(name, "/health");
  expect([real.status, real.headers.get("x-rouse-rule")]).toEqual([200, null]);
  expect(await (await visit(name, "/robots.txt")).text()).toContain("Disallow");
  expect((await visit(name, "/", { headers: { "user-agent": "uptimebot" } })).status).toBe(200);
  expect(await runs(id)).toBe(2);
});

it("let a request through that does not count as use", async () => {
  const { name } = await paused({ wakeRules: rules });
  const headersOf = async (path: string) =>
    ((await (await visit(name, path)).json()) as { headers: Record<string, string> }).headers;
  expect((await headersOf("/metrics/cpu"))["x-rouse-no-keep"]).toBe("1");
  expect((await headersOf("/page"))["x-rouse-no-keep"]).toBeUndefined();
  // A client can't say so itself.
  const forged = await visit(name, "/page", { headers: { "x-rouse-no-keep": "1" } });
  expect(((await forged.json()) as { headers: object }).headers).not.toHaveProperty("x-rouse-no-keep");
});

it("hold as soon as they are changed, and are refused when they say nothing", async () => {
  const { id, name } = await paused();
  const update = (wakeRules: object[]) => ask("POST", `/v1/sandboxes/${id}:update`, { wakeRules });
  expect((await update(rules)).body.wakeRules).toHaveLength(5);
  expect((await visit(name, "/health")).status).toBe(203);
  await update([]);
  expect((await visit(name, "/health")).headers.get("x-rouse-state")).toBe("woken");
  for (const wrong of [
    { match: {}, action: "ignore" },
    { match: { path: "health" }, action: "ignore" },
    { match: { path: "/a*b" }, action: "ignore" },
    { match: { path: "/a" }, action: "no_wake", body: "x" },
    { match: { path: "/a" }, action: "no_keep", when: "always" },
    { match: { path: "/a" }, action: "answer", status: 99 },
    { match: { path: "/a" }, action: "explode" },
  ])
    expect((await update([wrong])).body.error.code).toBe("invalid_request");
  const many = Array.from({ length: 33 }, () => ({ match: { path: "/a" }, action: "ignore" }));
  expect((await update(many)).body.error.code).toBe("invalid_request");
});

it("let one share link look without waking, and another wake", async () => {
  const { id, name } = await paused();
  const link = async () => (await ask<Link>("POST", `/v1/sandboxes/${id}/links`, {})).body;
  const [monitor, friend] = [await link(), await link()];
  const wakeRules = [{ match: { credential: monitor.id }, action: "no_wake" }];
  expect((await ask("POST", `/v1/sandboxes/${id}:update`, { wakeRules })).status).toBe(200);
  const by = (token: string | undefined) =>
    edge(`http://${name}.rouse.test/`, { headers: { "x-rouse-token": token ?? "" } });
  expect((await by(monitor.token)).status).toBe(409);
  expect((await by(friend.token)).headers.get("x-rouse-state")).toBe("woken");
  expect((await by(monitor.token)).status).toBe(200);
});

it("requests wake it only so often within an hour, and the API always does", async () => {
  const { id, name } = await paused({ maxWakesPerHour: 2 });
  const sleep = () => ask("POST", `/v1/sandboxes/${id}:pause`, {});
  for (let n = 0; n < 2; n++) {
    const both = await Promise.all([visit(name), visit(name)]);
    expect(both.map(({ status }) => status)).toEqual([200, 200]);
    await sleep();
  }
  const refused = await visit(name);
  expect([refused.status, (await faultOf(refused)).code]).toEqual([429, "wake_limit_reached"]);
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(3500);
  expect(await stateOf(id)).toBe("paused");
  expect((await ask("POST", `/v1/sandboxes/${id}:wake`, {})).body.state).toBe("running");
  expect((await visit(name)).status).toBe(200);
  await sleep();
  const now = Date.now();
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.setSystemTime(now + 3_601_000);
  await heartbeat();
  expect((await visit(name)).status).toBe(200);
  await sleep();
  await ask("POST", `/v1/sandboxes/${id}:update`, { maxWakesPerHour: null });
  expect((await ask("GET", `/v1/sandboxes/${id}`)).body.maxWakesPerHour).toBeNull();
});

it("the first that matches counts", () => {
  const parsed = WakeRules.parse(rules);
  const subject = { method: "GET", path: "/metrics/x", userAgent: "", port: 8080, credential: null };
  expect(ruleFor(parsed, subject)?.action).toBe("no_keep");
  expect(ruleFor(parsed, { ...subject, port: 9090 })).toBeNull();
  expect(ruleFor(parsed, { ...subject, method: "OPTIONS" })?.action).toBe("ignore");
  expect(ruleFor(parsed, { ...subject, path: "/health/" })).toBeNull();
  const strangers = WakeRules.parse([{ match: { credential: "none" }, action: "ignore" }]);
  expect(ruleFor(strangers, subject)?.action).toBe("ignore");
  expect(ruleFor(strangers, { ...subject, credential: "key-1" })).toBeNull();
  const [answer, always] = parsed;
  expect([answer, always].map((rule) => rule && [isKeptBack(rule, true), isKeptBack(rule, false)])).toEqual([
    [false, true],
    [true, true],
  ]);
});

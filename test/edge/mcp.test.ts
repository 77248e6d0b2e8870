/** MCP servers of a sandbox: what its machine is told, who comes in, and what is said of servers that fail. */
import { env } from "cloudflare:workers";
import { createHash } from "node:crypto";
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { beforeEach, expect, it } from "vitest";
import {
  GATEWAY_SERVICE,
  type GatewaySettings,
  type McpCatalogEntry,
  type McpGateway,
} from "../../sdk/contract/mcp.ts";
import type { Forks } from "../../sdk/contract/snapshot.ts";
import { openAccount } from "./accounts.ts";
import { ask, created, edge, fake, heartbeat, paused, type Fault } from "./client.ts";

beforeEach(async () => {
  await heartbeat();
});

type Answer = McpGateway & { error: Fault };
const of = (id: string) => `/v1/sandboxes/${id}/mcp`;
const stub = (name: string) => env.SANDBOX.getByName(`default/${name}`);
const look = async (id: string) => (await ask<Answer>("GET", of(id))).body;
const own = { name: "mine", command: ["my-server", "--stdio"], env: { LEVEL: "very quiet" } };

interface Said {
  name: string;
  status?: string;
  message?: string;
}

/** What the gateway of the fake machine says next. */
const says = (label: string, version: number, ...servers: Said[]) =>
  fake.turns(label, {
    body: JSON.stringify({
      version,
      servers: servers.map((one) => ({ status: "ready", message: null, restarts: 0, ...one })),
    }),
  });
async function start(id: string, servers: object[], more: object = {}, headers = {}): Promise<Answer> {
  return (await ask<Answer>("POST", of(id), { servers, ...more }, headers)).body;
}
const memory = { id: "memory" };
const visit = (name: string, token: string, path = "/mcp", port = 8765) =>
  edge(`http://${port}-${name}.rouse.test${path}`, {
    method: "POST",
    body: "{}",
    headers: { authorization: `Bearer ${token}` },
  });
async function told(id: string): Promise<GatewaySettings> {
  const service = (await fake.boot(id))?.services.find(({ name }) => name === GATEWAY_SERVICE);
  return JSON.parse(service?.env?.ROUSE_MCP ?? "null") as GatewaySettings;
}

it("has a catalog that says what each needs", async () => {
  const { data } = (await ask<{ data: McpCatalogEntry[] }>("GET", "/v1/mcp/catalog")).body;
  expect(data.map(({ id }) => id)).toEqual(["memory", "filesystem", "sequential-thinking", "fetch", "git", "time"]);
  for (const entry of data) expect(entry).toMatchObject({ license: expect.any(String), version: expect.any(String) });
});

it("start in the machine, which knows the token by its hash alone", async () => {
  const { id, name } = await created({ services: [{ name: "web", command: "serve", port: 8080 }] });
  await says(name, 1, { name: "memory" }, { name: "files" }, { name: "mine" });
  const files = { id: "filesystem", name: "files", options: { paths: "/workspace/a:/data" } };
  const gateway = await start(id, [memory, files, own]);
  const url = `http://8765-${name}.rouse.test/`;
  expect(gateway).toMatchObject({ running: true, port: 8765, url: `${url}mcp`, warnings: [] });
  expect(gateway.headers).toEqual({ Authorization: `Bearer ${gateway.token}` });
  expect(gateway.servers.map((one) => [one.name, one.id, one.status, one.url, one.envNames])).toEqual([
    ["memory", "memory", "ready", `${url}memory/mcp`, []],
    ["files", "filesystem", "ready", `${url}files/mcp`, []],
    ["mine", null, "ready", `${url}mine/mcp`, ["LEVEL"]],
  ]);
  const settings = await told(id);
  expect(settings).toMatchObject({
    ...{ port: 8765, version: 1 },
    tokenSha256: createHash("sha256")
      .update(gateway.token ?? "")
      .digest("hex"),
    servers: [
      { name: "memory", kind: "http", url: "http://rouse.internal/memory/mcp" },
      { name: "files", kind: "bundled", program: "filesystem", args: ["/workspace/a", "/data"] },
      { name: "mine", kind: "command", command: own.command, cwd: "/workspace", env: own.env },
    ],
  });
  expect(JSON.stringify(await fake.boot(id))).not.toContain(gateway.token);
  // The caller's own services are there as before, and the gateway is none of them.
  expect((await fake.boot(id))?.services.map((one) => one.name)).toEqual(["web", GATEWAY_SERVICE]);
  expect((await ask("GET", `/v1/sandboxes/${id}`)).body.services).toHaveLength(1);
  expect(JSON.stringify([gateway, await look(id)])).not.toContain("very quiet");
});

it("let the token in and nothing else, wake for it, and end with it", async () => {
  const { id, name } = await paused();
  await says(name, 1, { name: "memory" });
  const { token } = await start(id, [memory]);
  await ask("POST", `/v1/sandboxes/${id}:pause`, {});
  const asleep = await look(id);
  expect([asleep.token, asleep.servers[0]?.status]).toEqual([token, "asleep"]);
  expect((await visit(name, "rl_nothing.at-all")).status).toBe(401);
  expect((await visit(name, token ?? "", "/", 9000)).status).toBe(403);
  expect((await ask("GET", `/v1/sandboxes/${id}`)).body.state).toBe("paused");
  const woken = await visit(name, token ?? "");
  expect([woken.status, woken.headers.get("x-rouse-state")]).toEqual([200, "woken"]);
  // The gateway judges for itself, too.
  expect(((await woken.json()) as { headers: Record<string, string> }).headers.authorization).toBe(`Bearer ${token}`);
  expect((await ask<{ stopped: boolean }>("DELETE", of(id))).body).toEqual({ stopped: true });
  expect((await visit(name, token ?? "")).status).toBe(401);
  expect(await look(id)).toMatchObject({ running: false, token: null, headers: {}, servers: [] });
  expect(await fake.boot(id)).toEqual({ onBoot: null, onWake: null, services: [] });
  expect((await ask<{ stopped: boolean }>("DELETE", of(id))).body).toEqual({ stopped: true });
});

it("are told with each boot, over evictions and alarms", async () => {
  const { id, name } = await created();
  await says(name, 1, { name: "memory" });
  const { token } = await start(id, [memory]);
  const before = await told(id);
  await evictDurableObject(stub(name));
  await runDurableObjectAlarm(stub(name));
  await runDurableObjectAlarm(stub(name));
  await ask("POST", `/v1/sandboxes/${id}:restart`, {});
  expect(await told(id)).toEqual(before);
  await says(name, 1, { name: "memory" });
  expect((await look(id)).token).toBe(token);
});

it("join those that are there under the same token; replace makes another token", async () => {
  const { id, name } = await created();
  await says(name, 1, { name: "memory" });
  const first = await start(id, [memory]);
  await says(name, 2, { name: "memory" }, { name: "git" });
  const second = await start(id, [{ id: "git", options: { repository: "/workspace/app" } }]);
  expect(second.token).toBe(first.token);
  expect(second.servers.map((one) => one.name)).toEqual(["memory", "git"]);
  // The one of before may still answer: it is not taken for the new one.
  await says(name, 2, { name: "memory" }, { name: "git" });
  await says(name, 3, { name: "time" });
  const third = await start(id, [{ id: "time" }], { replace: true });
  expect(third.servers.map((one) => one.name)).toEqual(["time"]);
  expect(third.token).not.toBe(first.token);
  expect([(await visit(name, first.token ?? "")).status, (await visit(name, third.token ?? "")).status]).toEqual([
    401, 200,
  ]);
  // The same call twice at once, under one key, is one change.
  const headers = { "idempotency-key": crypto.randomUUID() };
  await says(name, 4, { name: "git" });
  await says(name, 4, { name: "git" });
  const both = await Promise.all([0, 1].map(() => start(id, [{ id: "git" }], { replace: true }, headers)));
  expect(both[0]?.token).toBe(both[1]?.token);
  expect((await told(id)).version).toBe(4);
});

it("stay with their sandbox: a fork has none, and is told so", async () => {
  const { id, name } = await created();
  await says(name, 1, { name: "memory" });
  const { token } = await start(id, [memory]);
  const { body } = await ask<Forks>("POST", `/v1/sandboxes/${id}:fork`, {});
  const [fork] = body.sandboxes;
  expect(await look(fork?.id ?? "")).toMatchObject({ running: false, servers: [] });
  expect(await fake.boot(fork?.id ?? "")).toEqual({ onBoot: null, onWake: null, services: [] });
  expect((await visit(fork?.label ?? "", token ?? "")).status).toBe(403);
});

it("a link that was revoked ends the token, and a start makes a new one", async () => {
  const { id, name } = await created();
  await says(name, 1, { name: "memory" });
  const { token } = await start(id, [memory]);
  const { data } = (await ask<{ data: { id: string; name: string }[] }>("GET", `/v1/sandboxes/${id}/links`)).body;
  expect(data.map((one) => one.name)).toEqual(["MCP servers"]);
  await ask("DELETE", `/v1/sandboxes/${id}/links/${data[0]?.id}`);
  const over = await look(id);
  expect([over.running, over.token, over.warnings.length]).toEqual([false, null, 1]);
  await says(name, 2, { name: "memory" });
  const again = await start(id, [memory]);
  expect(again.token).not.toBe(token);
  expect((await visit(name, again.token ?? "")).status).toBe(200);
});

it("a server that fails says with what, and everything that is wrong is named", async () => {
  const { id, name } = await created();
  await says(name, 1, { name: "mine", status: "failed", message: "ended with code 3\nno configuration" });
  const { error } = await start(id, [own]);
  expect([error.code, error.status]).toEqual(["mcp_failed", 502]);
  expect(error.message).toContain("no configuration");
  // It is kept: the gateway goes on to start it.
  expect((await look(id)).servers.map((one) => one.name)).toEqual(["mine"]);

  expect((await start(id, [{ id: "nothing" }, { id: "nobody" }, memory])).error).toMatchObject({
    code: "mcp_server_not_found",
    details: { ids: ["nothing", "nobody"] },
  });
  const bad = await start(id, [
    { id: "git", options: { branch: "x" } },
    { ...memory, env: { A: "b" } },
  ]);
  expect(bad.error.details?.issues).toHaveLength(2);
  expect((await start(id, [{ ...own, secrets: { KEY: "missing" } }])).error.code).toBe("secret_not_found");
  expect((await start(id, [memory, memory])).error.code).toBe("invalid_request");
  expect((await start(id, [memory], { port: 10_800 })).error.code).toBe("invalid_port");
  const many = Array.from({ length: 12 }, (_, n) => ({ id: "time", name: `t-${n}` }));
  expect((await start(id, many)).error.code).toBe("quota_exceeded");
  const named = await ask<Answer>("POST", `/v1/sandboxes/${id}:update`, {
    services: [{ name: GATEWAY_SERVICE, command: "mine" }],
  });
  expect(named.body.error.code).toBe("invalid_request");
  expect((await told(id)).version).toBe(1);
});

it("have secrets of the account as variables, whose values pass no answer", async () => {
  const secret = `s-${crypto.randomUUID().slice(0, 8)}`;
  await ask("PUT", `/v1/secrets/${secret}`, { value: "hush-hush", mode: "env", envName: "HUSH" });
  await ask("PUT", `/v1/secrets/${secret}-b`, { value: "hush-hush-b", hosts: ["api.example.com"] });
  const { id, name } = await created();
  await says(name, 1, { name: "mine" });
  const gateway = await start(id, [{ ...own, secrets: { MY_KEY: secret, OTHER: `${secret}-b` } }]);
  expect(gateway.servers[0]?.secrets).toEqual({ MY_KEY: secret, OTHER: `${secret}-b` });
  expect(gateway.servers[0]?.envNames).toEqual(["LEVEL"]);
  const [server] = (await told(id)).servers;
  expect(server).toMatchObject({ fromEnv: { MY_KEY: "HUSH" }, env: { OTHER: expect.any(String) } });
  expect((await fake.outside(name)).at(-1)?.env).toMatchObject({ HUSH: "hush-hush" });
  expect(JSON.stringify([gateway, await told(id)])).not.toContain("hush-hush");
});

it("keys that only read do not see the token, and other accounts see nothing", async () => {
  const { id, name } = await created();
  await says(name, 1, { name: "memory" });
  const { token } = await start(id, [memory]);
  const { key } = (await ask<{ key: string }>("POST", "/v1/keys", { name: "reader", access: "read" })).body;
  const headers = { authorization: `Bearer ${key}` };
  await says(name, 1, { name: "memory" });
  const seen = await edge(`http://api.test${of(id)}`, { headers });
  const body = (await seen.json()) as McpGateway;
  expect([body.token, body.servers[0]?.status]).toEqual([null, "ready"]);
  expect(JSON.stringify(body)).not.toContain(token);
  const refused = await edge(`http://api.test${of(id)}`, {
    ...{ method: "POST", headers },
    body: JSON.stringify({ servers: [memory] }),
  });
  expect(refused.status).toBe(403);
  const other = await openAccount();
  expect((await other.as<Answer>("GET", of(id))).status).toBe(404);
});

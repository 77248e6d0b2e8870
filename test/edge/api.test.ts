import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { accountObject } from "../../durable/account/api.ts";
import type { Sandbox, SandboxList } from "../../sdk/contract/sandbox.ts";
import { errorCodes } from "../../sdk/contract/error-codes.ts";
import { idOf } from "../../worker/api/names.ts";
import { operations } from "../../worker/api/operations.ts";
import { app } from "../../worker/app.ts";
import { API, ask, call, created, edge, fake, faultOf, freshName, heartbeat, secrets } from "./client.ts";

beforeEach(async () => {
  await heartbeat();
});

const list = async (query: string) => (await ask<SandboxList>("GET", `/v1/sandboxes?${query}`)).body;

describe("input", () => {
  it("reports every wrong field together and changes nothing", async () => {
    const name = freshName();
    const answer = await call("POST", "/v1/sandboxes", {
      name,
      vcpu: 0,
      memoryMiB: "big",
      colour: "red",
      idlePauseSeconds: 3,
      labels: { "": "x" },
    });
    expect(answer.status).toBe(400);
    const fault = await faultOf(answer);
    expect(fault.code).toBe("invalid_request");
    const paths = fault.details?.issues?.map(({ path }) => path) ?? [];
    expect(paths).toEqual(expect.arrayContaining(["vcpu", "memoryMiB", "idlePauseSeconds"]));
    expect(JSON.stringify(fault.details)).toContain("colour");
    expect((await call("GET", `/v1/sandboxes/${name}`)).status).toBe(404);
  });

  it.each([["[]"], ["null"], ["{"], ['"x"'], ["\u0000"]])("refuses the body %j", async (body) => {
    expect((await faultOf(await call("POST", "/v1/sandboxes", body))).code).toBe("invalid_request");
  });

  it("takes no body for an empty one", async () => {
    const { id } = await created();
    expect((await ask("POST", `/v1/sandboxes/${id}:pause`)).body.state).toBe("paused");
    const unnamed = await ask("POST", "/v1/sandboxes");
    expect(unnamed.body).toMatchObject({ state: "running", name: null });
    expect(unnamed.body.label).toMatch(/^0sbx-/);
  });

  it("refuses a JSON body over 8 MiB before it reaches a guest", async () => {
    const { id, name } = await created();
    const answer = await call("POST", `/v1/sandboxes/${id}:exec`, { command: "cat", stdin: "x".repeat(9 * 1_048_576) });
    expect((await faultOf(answer)).code).toBe("payload_too_large");
    expect((await fake.state(name)).requests).toBe(0);
    const large = await ask<{ bytes: number }>("POST", `/v1/sandboxes/${id}:exec`, {
      command: "cat",
      stdin: "x".repeat(2 * 1_048_576),
    });
    expect(large.body.bytes).toBeGreaterThan(2 * 1_048_576);
  });
});

describe("names", () => {
  it.each(["a:b", "Ünïcödé 名前", "with/slash", "a b", "100%", "UPPER", "a--b", "x~y", "q?u#h", "123"])(
    "%j works through the API and its URL",
    async (name) => {
      const at = `/v1/sandboxes/${encodeURIComponent(name)}`;
      const { body } = await ask("POST", "/v1/sandboxes", { name });
      expect(body).toMatchObject({ name, state: "running" });
      expect((await ask("GET", at)).body.id).toBe(body.id);
      expect((await ask("POST", `${at}:pause`, {})).body.state).toBe("paused");
      const exec = await ask<{ path: string }>("POST", `${at}:exec`, { command: "true" });
      expect(exec.body.path).toBe("/exec");
      const files = await ask<{ path: string }>("GET", `${at}/files/stat?path=%2Ftmp`);
      expect(files.body.path).toBe("/files/stat?path=%2Ftmp");
      expect((await edge(body.url, { headers: { authorization: `Bearer ${secrets.apiKey}` } })).status).toBe(200);
      expect((await list(`name=${encodeURIComponent(name)}`)).data.map(({ id }) => id)).toEqual([body.id]);
      expect((await call("GET", `/v1/sandboxes/${body.id.replace("~", "%7E")}`)).status).toBe(200);
      expect((await call("DELETE", at)).status).toBe(200);
    },
  );

  it.each([["", " x", "a\u0007b", "x".repeat(129)]])("%j is refused", async (name) => {
    expect((await faultOf(await call("POST", "/v1/sandboxes", { name }))).code).toBe("invalid_request");
  });
});

describe("guest calls", () => {
  it.each<[string, string, unknown, string]>([
    ["POST", "/processes", { command: "sleep 9" }, "/processes"],
    ["GET", "/processes/p-1/output?cursor=0&follow=true", undefined, "/processes/p-1/output?cursor=0&follow=true"],
    ["POST", "/processes/p-1:signal", { signal: "SIGTERM" }, "/processes/p-1:signal"],
    ["POST", "/files:mkdir", { path: "/a", parents: true }, "/files:mkdir"],
    ["PUT", "/files/content?path=%2Fa&mode=644", "raw", "/files/content?path=%2Fa&mode=644"],
    ["POST", "/uploads/u1:commit", {}, "/uploads/u1:commit"],
    ["POST", "/interpreter:run", { code: "1+1" }, "/interpreter:run"],
    ["DELETE", "/interpreter/contexts/python", undefined, "/interpreter/contexts/python"],
  ])("%s %s reaches the agent", async (method, path, body, expected) => {
    const { id } = await created();
    const { status, body: echo } = await ask<{ target: string; path: string; method: string }>(
      method,
      `/v1/sandboxes/${id}${path}`,
      body,
    );
    expect(status).toBe(200);
    expect(echo).toMatchObject({ target: "agent", method, path: expected });
  });

  it("asks for an old id in vain", async () => {
    const { id, name } = await created();
    await ask("DELETE", `/v1/sandboxes/${id}`);
    await ask("POST", "/v1/sandboxes", { name });
    await ask("POST", `/v1/sandboxes/${name}:exec`, { command: "true" });
    expect((await call("POST", `/v1/sandboxes/${id}:exec`, { command: "true" })).status).toBe(410);
  });
});

describe("Idempotency-Key", () => {
  it("makes one unnamed sandbox of a request that is sent again", async () => {
    const headers = { "idempotency-key": crypto.randomUUID() };
    const [first, second] = await Promise.all([
      ask("POST", "/v1/sandboxes", { labels: { a: "1" } }, headers),
      ask("POST", "/v1/sandboxes", { labels: { a: "1" } }, headers),
    ]);
    expect(first.body.id).toBe(second.body.id);
    await evictDurableObject(env.SANDBOX.getByName(`default/${first.body.label}`));
    const third = await call("POST", "/v1/sandboxes", { labels: { a: "1" } }, headers);
    expect(third.headers.get("idempotency-replayed")).toBe("true");
    expect(await third.json<Sandbox>()).toMatchObject({ id: first.body.id, replayed: true });
    const other = await ask("POST", "/v1/sandboxes", { labels: { a: "2" } }, headers);
    expect(other).toMatchObject({ status: 422, body: { error: { code: "idempotency_key_reused" } } });
  });

  it("does a verb once, and forgets after a day", async () => {
    const { id, name } = await created();
    const headers = { "idempotency-key": crypto.randomUUID() };
    const restart = () => ask("POST", `/v1/sandboxes/${id}:restart`, {}, headers);
    expect((await restart()).body).toMatchObject({ generation: 2 });
    expect((await restart()).body).toMatchObject({ generation: 2, replayed: true });
    const stub = env.SANDBOX.getByName(`default/${name}`);
    const remembered = () =>
      runInDurableObject(
        stub,
        (_object: object, state) => state.storage.sql.exec("SELECT key FROM answers").toArray().length,
      );
    expect(await remembered()).toBe(1);
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(Date.now() + 86_400_001);
    await runDurableObjectAlarm(stub).finally(() => vi.useRealTimers());
    expect(await remembered()).toBe(0);
  });

  it("does not keep a failure", async () => {
    const { id, name } = await created();
    const headers = { "idempotency-key": crypto.randomUUID() };
    await fake.plan({ label: name, action: "pause", fail: { code: "pause_failed", message: "busy" } });
    expect((await ask("POST", `/v1/sandboxes/${id}:pause`, {}, headers)).status).toBe(502);
    expect((await ask("POST", `/v1/sandboxes/${id}:pause`, {}, headers)).body.state).toBe("paused");
  });
});

describe("the list", () => {
  it("filters by state, name and all labels, and pages oldest first", async () => {
    const group = freshName();
    const made: Sandbox[] = [];
    for (const n of ["1", "2", "3"]) made.push(await created({ labels: { group, n } }));
    await ask("POST", `/v1/sandboxes/${made[1]?.id}:pause`, {});
    await ask("POST", `/v1/sandboxes/${made[2]?.id}:stop`, {});
    const ids = (page: SandboxList) => page.data.map(({ id }) => id);
    const all = made.map(({ id }) => id);
    expect(ids(await list(`label=group:${group}`))).toEqual(all);
    expect(ids(await list(`label=group:${group}&label=n:2`))).toEqual([all[1]]);
    expect(ids(await list(`label=group:${group}&state=paused&state=stopped`))).toEqual([all[1], all[2]]);
    expect(ids(await list(`name=${made[0]?.name}`))).toEqual([all[0]]);
    const first = await list(`label=group:${group}&limit=2`);
    expect(ids(first)).toEqual(all.slice(0, 2));
    const last = await list(`label=group:${group}&limit=2&cursor=${first.nextCursor}`);
    expect(ids(last)).toEqual([all[2]]);
    expect(last.nextCursor).toBeNull();
    await ask("DELETE", `/v1/sandboxes/${all[0]}`);
    expect(ids(await list(`label=group:${group}`))).toEqual(all.slice(1));
  });

  it("refuses what it does not know", async () => {
    expect((await faultOf(await call("GET", "/v1/sandboxes?cursor=nonsense"))).code).toBe("invalid_request");
    expect((await faultOf(await call("GET", "/v1/sandboxes?colour=red&limit=0"))).details?.issues).toHaveLength(2);
  });

  it("catches up with what it was not told, and takes no step back", async () => {
    const { id, name, label } = await created();
    const account = env.ACCOUNT.getByName("default");
    await runInDurableObject(account, (_object: object, state) => {
      state.storage.sql.exec("UPDATE sandboxes SET state = 'starting', sequence = 0 WHERE label = ?", label);
    });
    // The object knows that it was not acknowledged, and its alarm makes it good.
    const stub = env.SANDBOX.getByName(`default/${name}`);
    await runInDurableObject(stub, (_object: object, state) => {
      state.storage.sql.exec("UPDATE outbox SET acknowledged = 0");
      state.storage.sql.exec("INSERT OR REPLACE INTO timers (kind, due_at) VALUES ('outbox', 0)");
      return state.storage.setAlarm(Date.now() + 60_000);
    });
    await evictDurableObject(stub);
    await runDurableObjectAlarm(stub);
    expect((await list(`name=${name}&state=running`)).data.map((one) => one.id)).toEqual([id]);
    await accountObject(env.ACCOUNT, "default").applySummary({
      label,
      sequence: 1,
      sandbox: null,
      hostId: null,
      createdBy: null,
    });
    expect((await list(`name=${name}`)).data).toHaveLength(1);
  });
});

describe("the account", () => {
  it("is who the key says", async () => {
    expect((await ask<object>("GET", "/v1/me")).body).toEqual({
      orgId: "default",
      principalId: "default",
      credentialId: "abcdefghijkl",
      apiVersion: "0.2.0",
      orgName: "default",
      role: "owner",
      access: "full",
      namePrefix: null,
    });
  });

  it("keeps no key, only its hash", async () => {
    await ask("GET", "/v1/me");
    const rows = await runInDurableObject(env.ACCOUNT.getByName("default"), (_object: object, state) =>
      state.storage.sql.exec("SELECT * FROM keys").toArray(),
    );
    expect(rows).toHaveLength(1);
    expect(JSON.stringify(rows)).not.toContain("A".repeat(32));
  });

  it.each([undefined, "Bearer", "Bearer nonsense", `Basic ${secrets.apiKey}`, `Bearer ${secrets.hostSecret}`])(
    "does not know %j",
    async (authorization) => {
      const answer = await edge(`${API}/v1/me`, authorization === undefined ? {} : { headers: { authorization } });
      expect((await faultOf(answer)).code).toBe("unauthorized");
    },
  );

  it("of a guessed name leaves nothing stored", async () => {
    const name = freshName();
    await call("GET", `/v1/sandboxes/${name}`);
    const tables = await runInDurableObject(env.SANDBOX.getByName(`default/${name}`), (_object: object, state) =>
      state.storage.sql.exec("SELECT name FROM sqlite_master").toArray(),
    );
    expect(tables).toEqual([]);
  });
});

describe("without a key, it describes", () => {
  it("its health, and each of its routes", async () => {
    expect(await (await edge(`${API}/healthz`)).json()).toEqual({ ok: true });
    const document = await (
      await edge(`${API}/v1/openapi.json`)
    ).json<{ openapi: string; paths: Record<string, Record<string, object>> }>();
    expect(document.openapi).toBe("3.1.0");
    for (const { method, path } of operations)
      expect(document.paths[path.replace("*}", "}")]).toHaveProperty(method.toLowerCase());
    // Hosts have a contract of their own, and so has the dashboard's page; what is below /v1 are the operations.
    const routes = app.routes.filter(({ path }) => !/^\/($|dashboard|internal)/.test(path) && !path.includes("*"));
    expect(routes.length).toBeGreaterThan(8);
    const missing = routes.filter(({ method, path }) => {
      const described = document.paths[path.replace(/:(\w+)/g, "{$1}")] ?? {};
      return method === "ALL" ? Object.keys(described).length === 0 : !described[method.toLowerCase()];
    });
    expect(missing).toEqual([]);
    expect((await faultOf(await call("GET", "/v1/nothing"))).code).toBe("route_not_found");
    expect((await faultOf(await edge(`${API}/nothing`))).code).toBe("route_not_found");
  });

  it("everything on a page that reaches for nothing else", async () => {
    const answer = await edge(`${API}/docs/api`);
    expect(answer.headers.get("content-type")).toBe("text/html; charset=utf-8");
    const policy = answer.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toContain("unsafe");
    const page = await answer.text();
    for (const part of ["style", "script"]) {
      const [, content = ""] = new RegExp(`<${part}>(.*?)</${part}>`, "s").exec(page) ?? [];
      const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(content));
      expect(policy).toContain(`${part}-src 'sha256-${btoa(String.fromCharCode(...new Uint8Array(digest)))}'`);
    }
    expect(page).not.toMatch(/(?:src|href)="(?:https?:|\/\/)/);
    expect(page).not.toMatch(/ (?:style|on\w+)="/);
    const ids = new Set([...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
    expect(ids.size).toBe([...page.matchAll(/ id="/g)].length);
    for (const [, target] of page.matchAll(/href="#([^"]+)"/g)) expect(ids).toContain(target);
    for (const operation of operations) expect(ids).toContain(idOf(operation));
    for (const code of errorCodes) expect(ids).toContain(`e-${code}`);
    // Of the contract's comments.
    expect(page).toContain("Seconds that each run may last, busy or not");
  });
});

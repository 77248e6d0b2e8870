/** Calls of the Python SDK on the wire, by both halves: what the tests of the TypeScript SDK hold that one to. */
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { NO_PYTHON, halves, python, pythonText, stopPython } from "./python-run.ts";
import { SANDBOX, TEST_KEY, WireServer, sandboxInfo } from "./wire-server.ts";

const GET = 'sandbox = await rouse.sandboxes.get("demo~abcdefghijkl")\n';

let server: WireServer;
let folder: string;
afterAll(stopPython);
beforeEach((context) => {
  if (NO_PYTHON !== null) context.skip(NO_PYTHON);
});
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rouse-python-"));
  server = await WireServer.start();
  server.on(`GET ${SANDBOX}`, (_request, reply) => reply.json(sandboxInfo()));
});
afterEach(async () => {
  await server[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

describe.each(halves)("%s", (half) => {
  const run = (body: string, options = {}) => python(half, server.url, body, options);

  test("a change is retried under one idempotency key over cuts and refusals, and two changes have two keys", async () => {
    server.on("POST /v1/sandboxes", (_request, reply, count) => {
      if (count === 0) return reply.cut();
      if (count === 1) return reply.error("host_unavailable", { retryAfterMs: 1 });
      if (count === 2) return reply.raw("<html>bad gateway</html>", 502);
      return reply.json(sandboxInfo());
    });
    await run("await rouse.sandboxes.create()\nawait rouse.sandboxes.create()");
    const keys = server.requests.map((request) => request.headers["idempotency-key"]);
    expect(new Set(keys.slice(0, 4)).size).toBe(1);
    expect(keys).toHaveLength(5);
    expect(keys[4]).not.toBe(keys[0]);
    expect(server.requests[0]?.headers["x-rouse-client"]).toMatch(/^sdk-python\//);
  });

  test("names of arguments go out as the wire has them, those of the caller as they are", async () => {
    server.on("POST /v1/sandboxes", (_request, reply) => reply.json(sandboxInfo({ reused: true })));
    const reused = await run(`
sandbox = await AsyncSandbox.get_or_create(
    "agent-u-42", client=rouse, idle_pause_seconds=600, memory_mib=4096, image=None,
    labels={"my_label": "a_b"}, env={"MY_VAR": "x"},
    volumes=[{"volume_id": "vol-1", "path": "/memory"}],
    services=[{"name": "web", "command": "x", "env": {"A_B": "1"}, "ready": {"port": 80, "timeout_seconds": 5}}],
    idempotency_key="mine", timeout_ms=5000,
)
return [sandbox.info.get("reused"), sandbox.info["idlePauseSeconds"], sandbox.name, sandbox.url(3000)]`);
    expect(reused).toEqual([true, 60, "demo", "http://3000-demo.localhost:8787/"]);
    expect(server.requests[0]?.json()).toEqual({
      name: "agent-u-42",
      getOrCreate: true,
      idlePauseSeconds: 600,
      memoryMiB: 4096,
      labels: { my_label: "a_b" },
      env: { MY_VAR: "x" },
      volumes: [{ volumeId: "vol-1", path: "/memory" }],
      services: [{ name: "web", command: "x", env: { A_B: "1" }, ready: { port: 80, timeoutSeconds: 5 } }],
    });
    expect(server.requests[0]?.headers).toMatchObject({ "idempotency-key": "mine", prefer: "wait=60" });
  });

  test("an argument that there is not is a TypeError, as for any function", async () => {
    const found = await run("return [await failure(lambda: rouse.sandboxes.create(idle_pause_second=1))]");
    expect(found).toMatchObject([
      { class: "TypeError", text: expect.stringContaining("idle_pause_second") as unknown },
    ]);
    expect(server.requests).toHaveLength(0);
  });

  test("a session token is made with a key, and used without one; when it is over, the next one follows", async () => {
    const token = `rs_default_${"A".repeat(43)}`;
    const session = {
      ...{ id: `ses-${"0".repeat(20)}`, sandboxId: "demo~abcdefghijkl", name: null, scopes: ["exec"], origins: [] },
      ...{ servers: true, state: "active", createdBy: "k1", createdAt: "2031-01-02T03:04:05.000Z", revokedAt: null },
      ...{ expiresAt: "2031-01-02T03:19:05.000Z", lastUsedAt: null, token, apiUrl: server.url },
      url: "http://demo.localhost:8787/",
    };
    server.credentials.add(token);
    server.on(`POST ${SANDBOX}/sessions`, (_request, reply) => reply.json(session));
    server.on(`GET ${SANDBOX}/sessions`, (_request, reply) => reply.json({ data: [session] }));
    server.on(`POST ${SANDBOX}/sessions/${session.id}:revoke`, (_request, reply) =>
      reply.json({ ...session, state: "revoked" }),
    );
    server.onOpen("GET /s/demo/8080/page", (request, reply) =>
      request.headers["x-rouse-token"] === token ? reply.raw("seen") : reply.error("unauthorized"),
    );
    const found = await run(`${GET}
made = await sandbox.sessions.create(origins=["https://app.example"], scopes=["exec"], ttl_seconds=600)
tokens = ["rs_default_over", made["token"]]
guest = AsyncSandbox.from_session(lambda: tokens.pop(0), made["sandboxId"], api_url=made["apiUrl"], url=made["url"])
async def look():
    return guest.info
unread = await failure(look)
state = (await guest.refresh()).state
page = await (await guest.fetch("/page", headers={"Authorization": "Basic mine"})).text()
over = AsyncSandbox.from_session("rs_default_over", made["sandboxId"], api_url=made["apiUrl"])
refused = await failure(lambda: over.refresh())
listed = [one["id"] for one in await sandbox.sessions.list()]
revoked = (await sandbox.sessions.revoke(made["id"]))["state"]
return [unread["code"], state, page, refused["code"], listed, revoked, guest.url(3000), len(tokens)]`);
    expect(found).toEqual([
      ...["invalid_argument", "running", "seen", "unauthorized", [session.id], "revoked"],
      ...["http://3000-demo.localhost:8787/", 0],
    ]);
    expect(server.of(`POST ${SANDBOX}/sessions`)[0]?.json()).toEqual({
      ...{ origins: ["https://app.example"], scopes: ["exec"], ttlSeconds: 600 },
    });
    expect(server.of("GET /s/demo/8080/page")[0]?.headers.authorization).toBe("Basic mine");
  });

  test("reads have no idempotency key, and a body cut in the middle is read again", async () => {
    server.on(`GET ${SANDBOX}`, async (_request, reply, count) =>
      count === 0 ? await reply.lines([sandboxInfo()], { cutAfter: 40 }) : reply.json(sandboxInfo()),
    );
    expect(await run(`${GET}return sandbox.name`)).toBe("demo");
    expect(server.requests.map((request) => request.headers["idempotency-key"])).toEqual([undefined, undefined]);
  });

  test("errors have the class of their status, and all that the body says", async () => {
    server.on("POST /v1/sandboxes", (_request, reply) =>
      reply.error("invalid_request", { message: "no", details: { issues: [{ path: "vcpu", message: "too many" }] } }),
    );
    server.on("GET /v1/sandboxes/gone", (_request, reply) => reply.error("not_found"));
    server.on("GET /v1/me", (_request, reply) => reply.json({ hello: "world" }));
    server.on("GET /v1/account", (_request, reply) => reply.error("wake_failed"));
    const found = await run(`return [
    await failure(lambda: rouse.sandboxes.create(vcpu=99)),
    await failure(lambda: rouse.sandboxes.get("gone")),
    await failure(lambda: rouse.me()),
    await failure(lambda: rouse.account()),
]`);
    expect(found).toMatchObject([
      {
        ...{ class: "InvalidRequestError", code: "invalid_request", status: 400, message: "no", retryable: false },
        hint: expect.stringContaining("details.issues") as unknown,
        details: { issues: [{ path: "vcpu", message: "too many" }] },
        ...{ request_id: "req_1", idempotency_key: expect.any(String) as unknown },
      },
      { class: "NotFoundError", code: "not_found" },
      { class: "RouseError", code: "unexpected_answer" },
      { class: "ServiceUnavailableError", code: "wake_failed", retryable: false },
    ]);
    expect(server.of("GET /v1/account")).toHaveLength(1);
  });

  test("what promises that nothing ran is resent beyond max_retries; other retries end with the server's last word", async () => {
    server.on("GET /v1/me", (_request, reply, count) =>
      count < 6
        ? reply.error(count % 2 ? "guest_busy" : "sandbox_waking", { retryAfterMs: 1 })
        : reply.error("host_unavailable", { retryAfterMs: 1 }),
    );
    const found = await run("return await failure(lambda: rouse.me())", { client: "max_retries=2" });
    expect(found).toMatchObject({ code: "host_unavailable", retryable: true, retry_after_ms: 1 });
    expect(server.of("GET /v1/me")).toHaveLength(9);
  });

  test("the time limit covers the whole call, headers and body", async () => {
    server.on("GET /v1/me", () => undefined);
    server.on("GET /v1/account", (_request, reply) => reply.open([{}]));
    const found = await run(`return [
    await failure(lambda: rouse.me(timeout_ms=200)),
    await failure(lambda: rouse.account(timeout_ms=200)),
]`);
    expect(found).toMatchObject([
      { class: "ConnectionError", code: "timeout" },
      { class: "ConnectionError", code: "timeout" },
    ]);
  });

  test("no redirect is followed, so that the key goes nowhere else; a server that is not there is named, the key is not", async () => {
    server.on("GET /v1/me", (_request, reply) => reply.raw("", 302, { location: `${server.url}/elsewhere` }));
    const found = await run("return await failure(lambda: rouse.me())", { client: "max_retries=0" });
    expect(found).toMatchObject({ code: "connection_error" });
    expect(server.of("GET /elsewhere")).toHaveLength(0);
    const gone = await WireServer.start();
    await gone[Symbol.asyncDispose]();
    const refused = await python(half, gone.url, "return await failure(lambda: rouse.me())", {
      client: "max_retries=0",
    });
    expect(refused).toMatchObject({ code: "connection_error", text: expect.stringContaining(gone.url) as unknown });
    expect(JSON.stringify(refused)).not.toContain(TEST_KEY);
  });

  test("a server that has no room is waited for", async () => {
    server.on("POST /v1/sandboxes", (_request, reply, count) =>
      count < 7 ? reply.error("no_capacity", { retryAfterMs: 1 }) : reply.json(sandboxInfo()),
    );
    expect(await run("return (await rouse.sandboxes.create()).state", { client: "max_retries=0" })).toBe("running");
  });

  test("one connection serves calls one after another", async () => {
    const ports = new Set<unknown>();
    server.on("GET /v1/me", (request, reply) => {
      ports.add(request.remotePort);
      reply.error("forbidden");
    });
    await run("for _ in range(5):\n    await failure(lambda: rouse.me())");
    expect([server.requests.length, ports.size]).toEqual([5, 1]);
  });

  test("a list goes on page by page", async () => {
    server.on("GET /v1/sandboxes", (request, reply) => {
      const at = Number(request.query.get("cursor") ?? 0);
      reply.json({ data: [sandboxInfo({ name: `n${at}` })], nextCursor: at < 2 ? String(at + 1) : null });
    });
    const names = await run(`
page = await rouse.sandboxes.list(state=["running", "paused"], labels={"kind": "a b", "user": "u"}, limit=1)
second = await page.next()
return [page.has_more, [one.name for one in page.data], second.data[0].name, [one.name for one in await page.to_list()]]`);
    expect(names).toEqual([true, ["n0"], "n1", ["n0", "n1", "n2"]]);
    const last = server.requests.at(-1)?.query;
    expect(last?.getAll("label")).toEqual(["kind:a b", "user:u"]);
    expect(last?.getAll("state")).toEqual(["running", "paused"]);
    expect(last?.get("cursor")).toBe("2");
  });

  test("stop_all stops what has the labels and reports each failure", async () => {
    const ids = ["a~aaaaaaaaaaaa", "b~aaaaaaaaaaaa", "c~aaaaaaaaaaaa"];
    server.on("GET /v1/sandboxes", (_request, reply) =>
      reply.json({ data: ids.map((id) => sandboxInfo({ id })), nextCursor: null }),
    );
    for (const id of ids)
      server.on(`POST /v1/sandboxes/${encodeURIComponent(id)}:stop`, (_request, reply) =>
        id.startsWith("b") ? reply.error("conflict") : reply.json(sandboxInfo({ id, state: "stopped" })),
      );
    const found = await run(`
result = await rouse.sandboxes.stop_all(labels={"user": "u"})
return [sorted(result.stopped), [[one.id, one.error.code] for one in result.failed]]`);
    expect(found).toEqual([[ids[0], ids[2]], [[ids[1], "conflict"]]]);
  });

  test("names with odd characters reach the server as one path segment", async () => {
    const name = "a/b:pause ?ü";
    server.on(`GET /v1/sandboxes/${encodeURIComponent(name)}`, (_request, reply) => reply.json(sandboxInfo({ name })));
    const found = await run(`
found = await rouse.sandboxes.get("a/b:pause ?ü")
return [found.name] + [(await failure(lambda: rouse.sandboxes.get(bad)))["code"] for bad in ("", ".", "..")]`);
    expect(found).toEqual([name, "invalid_argument", "invalid_argument", "invalid_argument"]);
  });

  test("states are waited for, and a with stops at its end", async () => {
    const states = ["pausing", "pausing", "paused"];
    server.on(`POST ${SANDBOX}:pause`, (_request, reply) => reply.json(sandboxInfo({ state: "pausing" })));
    server.on(`POST ${SANDBOX}:stop`, (_request, reply) => reply.error("conflict"));
    server.on(`GET ${SANDBOX}`, (_request, reply, count) =>
      reply.json(sandboxInfo({ state: count === 0 ? "running" : (states[count - 1] as "paused") })),
    );
    const found = await run(`${GET}
async with sandbox as same:
    await same.pause()
return [same is sandbox, sandbox.state]`);
    expect(found).toEqual([true, "paused"]);
    expect(server.of(`POST ${SANDBOX}:stop`)).toHaveLength(1);
  });

  test("without a key: a saved login, then the local key file of a server on this machine; none is said to be", async () => {
    server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()));
    const env = {
      ...{ ROUSE_API_KEY: "", ROUSE_API_URL: "", ROUSE_HOME: "" },
      ...{ XDG_DATA_HOME: join(folder, "data"), XDG_CONFIG_HOME: join(folder, "config") },
    };
    const text = `
async def ask():
    return (await AsyncSandbox.connect("demo")).name
fault = await failure(ask)
return fault and [fault["class"], fault["code"], fault["hint"]]`;
    expect(await run(text, { env })).toEqual([
      "AuthenticationError",
      "missing_api_key",
      expect.stringContaining("npm start"),
    ]);
    await mkdir(join(folder, "data/rouse"), { recursive: true });
    await writeFile(join(folder, "data/rouse/local-key"), JSON.stringify({ apiKey: TEST_KEY, url: server.url }));
    expect(await run(text, { env })).toBeNull();
    await rm(join(folder, "data"), { recursive: true });
    const saved = { apiKey: TEST_KEY, account: "default", savedAt: "2031-01-02T03:00:00.000Z" };
    const file = join(folder, "config/rouse/credentials.json");
    await mkdir(join(folder, "config/rouse"), { recursive: true });
    await writeFile(file, JSON.stringify({ version: 1, current: server.url, logins: { [server.url]: saved } }), {
      mode: 0o600,
    });
    expect(await run(text, { env })).toBeNull();
    await chmod(file, 0o644);
    expect(await run(text, { env })).toMatchObject([
      "AuthenticationError",
      "credentials_file",
      expect.stringContaining("chmod 600"),
    ]);
  });
});

test("threads share a client", async () => {
  server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()));
  const text = `
import sys
from concurrent.futures import ThreadPoolExecutor
from rouse import Rouse
rouse = Rouse(base_url=sys.argv[1], api_key=sys.argv[2])
with ThreadPoolExecutor(16) as pool:
    names = list(pool.map(lambda _: rouse.sandboxes.get("demo").name, range(200)))
print(len(names), set(names))`;
  expect(await pythonText(text, [server.url, TEST_KEY])).toBe("200 {'demo'}\n");
  expect(server.of("GET /v1/sandboxes/demo")).toHaveLength(200);
});

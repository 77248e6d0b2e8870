import { mkdtemp, mkdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import {
  AuthenticationError,
  ConnectionError,
  RateLimitError,
  Rouse,
  Sandbox,
  ServiceUnavailableError,
} from "../../sdk/src/index.ts";
import { SANDBOX, TEST_KEY, WireServer, sandboxInfo } from "./wire-server.ts";

let server: WireServer;
let rouse: Rouse;

beforeEach(async () => {
  server = await WireServer.start();
  rouse = new Rouse({ baseUrl: server.url, apiKey: TEST_KEY });
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await server[Symbol.asyncDispose]();
});

test("a change is retried under one idempotency key over cuts and refusals, and two changes have two keys", async () => {
  server.on("POST /v1/sandboxes", (_request, reply, count) => {
    if (count === 0) return reply.cut();
    if (count === 1) return reply.error("host_unavailable", { retryAfterMs: 1 });
    if (count === 2) return reply.raw("<html>bad gateway</html>", 502);
    return reply.json(sandboxInfo());
  });
  await rouse.sandboxes.create();
  await rouse.sandboxes.create();
  const keys = server.requests.map((request) => request.headers["idempotency-key"]);
  expect(new Set(keys.slice(0, 4)).size).toBe(1);
  expect(keys).toHaveLength(5);
  expect(keys[4]).not.toBe(keys[0]);
});

test("the caller's idempotency key is the one that is sent", async () => {
  server.on("POST /v1/sandboxes", (_request, reply) => reply.json(sandboxInfo()));
  await rouse.sandboxes.create({}, { idempotencyKey: "mine" });
  expect(server.requests[0]?.headers["idempotency-key"]).toBe("mine");
});

test("reads have no idempotency key, and a body cut in the middle is read again", async () => {
  server.on(`GET ${SANDBOX}`, async (_request, reply, count) =>
    count === 0 ? await reply.lines([sandboxInfo()], { cutAfter: 40 }) : reply.json(sandboxInfo()),
  );
  expect((await rouse.sandboxes.get("demo~abcdefghijkl")).name).toBe("demo");
  expect(server.requests.map((request) => request.headers["idempotency-key"])).toEqual([undefined, undefined]);
});

test.each(["wake_failed", "guest_failed", "port_not_listening", "unavailable", "internal_error"] as const)(
  "%s is final",
  async (code) => {
    server.on(`GET ${SANDBOX}`, (_request, reply) => reply.error(code));
    const failure = await rouse.sandboxes.get("demo~abcdefghijkl").catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ServiceUnavailableError);
    expect(failure).toMatchObject({ code, retryable: false });
    expect(server.requests).toHaveLength(1);
  },
);

test("what promises that nothing ran is resent beyond maxRetries", async () => {
  server.on(`GET ${SANDBOX}`, (_request, reply, count) =>
    count < 9
      ? reply.error(count % 2 ? "guest_busy" : "sandbox_waking", { retryAfterMs: 1 })
      : reply.json(sandboxInfo()),
  );
  expect((await rouse.sandboxes.get("demo~abcdefghijkl")).state).toBe("running");
  expect(server.requests).toHaveLength(10);
});

test("retries end after maxRetries with the server's last word", async () => {
  const impatient = new Rouse({ baseUrl: server.url, apiKey: TEST_KEY, maxRetries: 2 });
  server.on(`GET ${SANDBOX}`, (_request, reply) => reply.error("host_unavailable", { retryAfterMs: 1 }));
  await expect(impatient.sandboxes.get("demo~abcdefghijkl")).rejects.toMatchObject({
    code: "host_unavailable",
    retryable: true,
  });
  expect(server.requests).toHaveLength(3);
});

test("without retries a rate limit is thrown as its class with the time of Retry-After", async () => {
  const single = new Rouse({ baseUrl: server.url, apiKey: TEST_KEY, maxRetries: 0 });
  server.on(`GET ${SANDBOX}`, (_request, reply) =>
    reply.json({ error: { code: "rate_limited", status: 429, message: "slow" } }, 429, { "retry-after": "2" }),
  );
  const failure = await single.sandboxes.get("demo~abcdefghijkl").catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(RateLimitError);
  expect(failure).toMatchObject({ retryAfterMs: 2000 });
});

test("the time limit covers the whole call", async () => {
  server.on(`GET ${SANDBOX}`, () => undefined);
  const failure = await rouse.sandboxes.get("demo~abcdefghijkl", { timeoutMs: 50 }).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(ConnectionError);
  expect(failure).toMatchObject({ code: "timeout" });
  expect(server.requests).toHaveLength(1);
});

test("a wait that would outlast the time limit is not begun", async () => {
  server.on(`GET ${SANDBOX}`, (_request, reply) => reply.error("host_unavailable", { retryAfterMs: 29_000 }));
  await expect(rouse.sandboxes.get("demo~abcdefghijkl", { timeoutMs: 5000 })).rejects.toMatchObject({
    code: "host_unavailable",
  });
});

test("an aborted call is cancelled, with the caller's reason as its cause", async () => {
  const controller = new AbortController();
  server.on(`GET ${SANDBOX}`, () => controller.abort("enough"));
  const call = rouse.sandboxes.get("demo~abcdefghijkl", { signal: controller.signal });
  await expect(call).rejects.toMatchObject({ code: "cancelled", cause: "enough" });
});

test("no redirect is followed, so that the key goes nowhere else", async () => {
  const single = new Rouse({ baseUrl: server.url, apiKey: TEST_KEY, maxRetries: 0 });
  server.on(`GET ${SANDBOX}`, (_request, reply) => reply.raw("", 302, { location: `${server.url}/elsewhere` }));
  await expect(single.sandboxes.get("demo~abcdefghijkl")).rejects.toMatchObject({ code: "connection_error" });
  expect(server.of("GET /elsewhere")).toHaveLength(0);
});

test("a server that is not there is a connection error that names it, not the key", async () => {
  const gone = await WireServer.start();
  await gone[Symbol.asyncDispose]();
  const failure = await new Rouse({ baseUrl: gone.url, apiKey: TEST_KEY, maxRetries: 0 })
    .me()
    .catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(ConnectionError);
  expect(String(failure)).toContain(gone.url);
  expect(String(failure)).toContain("ECONNREFUSED");
  expect(JSON.stringify(failure)).not.toContain(TEST_KEY);
});

test.each([
  ["ftp://localhost", "neither https nor http"],
  ["http://example.com", "unencrypted"],
  ["https://example.com/api", "path"],
  ["https://user:pass@example.com", "password"],
  ["nonsense", "not a URL"],
])("base URL %s is refused", (baseUrl, why) => {
  expect(() => new Rouse({ baseUrl, apiKey: TEST_KEY })).toThrow(why);
});

test("without a key: the local key file of a server on this machine, with its url", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rouse-test-"));
  try {
    vi.stubEnv("ROUSE_API_KEY", undefined);
    vi.stubEnv("ROUSE_API_URL", undefined);
    vi.stubEnv("ROUSE_HOME", undefined);
    vi.stubEnv("XDG_DATA_HOME", folder);
    vi.stubEnv("XDG_CONFIG_HOME", join(folder, "config"));
    server.on(`GET /v1/sandboxes/demo`, (_request, reply) => reply.json(sandboxInfo()));
    const missing = await Sandbox.connect("demo").catch((error: unknown) => error);
    expect(missing).toBeInstanceOf(AuthenticationError);
    expect(missing).toMatchObject({ code: "missing_api_key", hint: expect.stringContaining("npm start") as unknown });

    await mkdir(join(folder, "rouse"));
    await writeFile(join(folder, "rouse", "local-key"), JSON.stringify({ apiKey: TEST_KEY, url: server.url }), {
      mode: 0o600,
    });
    expect((await Sandbox.connect("demo")).name).toBe("demo");
    vi.stubEnv("ROUSE_HOME", join(folder, "rouse"));
    vi.stubEnv("XDG_DATA_HOME", undefined);
    expect((await Sandbox.connect("demo")).name).toBe("demo");

    const elsewhere = await new Rouse({ baseUrl: "https://rouse.example.com" }).me().catch((error: unknown) => error);
    expect(elsewhere).toMatchObject({ code: "missing_api_key" });
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("the environment's key and url are used", async () => {
  vi.stubEnv("ROUSE_API_KEY", TEST_KEY);
  vi.stubEnv("ROUSE_API_URL", server.url);
  server.on(`GET /v1/sandboxes/demo`, (_request, reply) => reply.json(sandboxInfo()));
  expect((await Sandbox.connect("demo")).name).toBe("demo");
});

import { afterEach, beforeEach, expect, test } from "vitest";
import { Rouse } from "../../sdk/src/index.ts";
import type { Sandbox } from "../../sdk/src/index.ts";
import { hostLabelOf, redirectTarget, urlOfPort } from "../../sdk/src/named-url.ts";
import { SANDBOX, TEST_KEY, WireServer, sandboxInfo } from "./wire-server.ts";

let server: WireServer;
let sandbox: Sandbox;

beforeEach(async () => {
  server = await WireServer.start();
  server.on(`GET ${SANDBOX}`, (_request, reply) => reply.json(sandboxInfo()));
  sandbox = await new Rouse({ baseUrl: server.url, apiKey: TEST_KEY }).sandboxes.get("demo~abcdefghijkl");
});
afterEach(async () => {
  await server[Symbol.asyncDispose]();
});

test.each([
  ["http://demo.localhost:8787/", 8080, "http://demo.localhost:8787/"],
  ["http://demo.localhost:8787/", 3000, "http://3000-demo.localhost:8787/"],
  ["https://demo--acme.rouse.example/", 3000, "https://3000-demo--acme.rouse.example/"],
  ["https://rouse.example/s/demo/8080/", 3000, "https://rouse.example/s/demo/3000/"],
])("url of %s for port %i", (base, port, expected) => {
  expect(urlOfPort(base, port)).toBe(expected);
});

test("impossible ports are refused", () => {
  for (const port of [0, 65_536, 1.5, Number.NaN]) expect(() => sandbox.url(port)).toThrow("not from 1 to 65535");
});

test("the account stays in the path form", () => {
  expect(hostLabelOf("https://demo--acme.rouse.example/")).toBe("demo--acme");
  expect(hostLabelOf("https://rouse.example/s/demo--acme/8080/")).toBe("demo--acme");
});

test("fetch reaches the program by path, with the key, method, headers and body of the caller", async () => {
  server.on("POST /s/demo/3000/notes", (_request, reply) => reply.raw("made", 201, { "x-mine": "1" }));
  const answer = await sandbox.fetch("/notes?a=1", { method: "POST", body: "buy milk", headers: { "x-q": "2" } }, 3000);
  expect([answer.status, answer.headers.get("x-mine"), await answer.text()]).toEqual([201, "1", "made"]);
  const [request] = server.of("POST /s/demo/3000/notes");
  expect([request?.body.toString(), request?.headers["x-q"], request?.query.get("a")]).toEqual(["buy milk", "2", "1"]);
});

test("fetch without a leading slash, and paths that would leave the sandbox", async () => {
  server.on("GET /s/demo/8080/a/b", (_request, reply) => reply.raw("ok"));
  expect(await (await sandbox.fetch("a/b")).text()).toBe("ok");
  expect(await (await sandbox.fetch("//a/b")).text()).toBe("ok");
  for (const path of ["../../../v1/me", "/../x", "http://evil.example/", "a/../../../v1/me"]) {
    await expect(sandbox.fetch(path)).rejects.toMatchObject({ code: "invalid_argument" });
  }
  expect(server.requests.filter((request) => request.path.startsWith("/v1/me"))).toEqual([]);
});

test("fetch waits while the sandbox wakes, but an application's own 503 is its answer", async () => {
  server.on("GET /s/demo/8080/", (_request, reply, count) =>
    count < 2 ? reply.error("sandbox_waking", { retryAfterMs: 100 }) : reply.raw("awake"),
  );
  expect(await (await sandbox.fetch("/")).text()).toBe("awake");
  server.on("GET /s/demo/8080/busy", (_request, reply) => reply.json({ error: { code: "mine" } }, 503));
  expect((await sandbox.fetch("/busy")).status).toBe(503);
  expect(server.of("GET /s/demo/8080/busy")).toHaveLength(1);
});

test("redirects stay in the sandbox, and never carry the key to the API or elsewhere", async () => {
  const other = await WireServer.start();
  try {
    server
      .on("POST /s/demo/8080/form", (_request, reply) => reply.raw("", 303, { location: "/done?x=1" }))
      .on("GET /s/demo/8080/done", (_request, reply) => reply.raw("done"))
      .on("POST /s/demo/8080/attack", (_request, reply) =>
        reply.raw("", 307, { location: `${server.url}/v1/sandboxes/victim:stop` }),
      )
      .on("POST /v1/sandboxes/victim:stop", (_request, reply) => reply.raw("stopped"))
      .on("GET /s/demo/8080/away", (_request, reply) => reply.raw("", 302, { location: `${other.url}/away` }));
    expect(await (await sandbox.fetch("/form", { method: "POST", body: "x" })).text()).toBe("done");
    expect((await sandbox.fetch("/form", { method: "POST", body: "x", redirect: "manual" })).status).toBe(303);
    await expect(sandbox.fetch("/form", { method: "POST", redirect: "error" })).rejects.toMatchObject({
      code: "connection_error",
    });

    await sandbox.fetch("/attack", { method: "POST" });
    expect(server.of("POST /v1/sandboxes/victim:stop").map((request) => request.headers.authorization)).toEqual([
      undefined,
    ]);
    await sandbox.fetch("/away", { headers: { cookie: "secret=1" } });
    expect(other.requests[0]?.headers.authorization).toBeUndefined();
    expect(other.requests[0]?.headers.cookie).toBeUndefined();
  } finally {
    await other[Symbol.asyncDispose]();
  }
});

test("redirect targets by the program's own URL, and by the path form", () => {
  const prefix = "http://localhost:8787/s/demo/8080/";
  const at = (location: string) => redirectTarget(location, `${prefix}a/b`, prefix, "http://demo.localhost:8787/");
  expect(at("c")).toEqual({ url: `${prefix}a/c`, inside: true });
  expect(at("/c")).toEqual({ url: `${prefix}c`, inside: true });
  expect(at("http://demo.localhost:8787/c?d=1")).toEqual({ url: `${prefix}c?d=1`, inside: true });
  expect(at("/s/demo/8080/c")).toEqual({ url: `${prefix}c`, inside: true });
  expect(at("http://localhost:8787/v1/me")).toEqual({ url: "http://localhost:8787/v1/me", inside: false });
});

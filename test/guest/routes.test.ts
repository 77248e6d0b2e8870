import { createServer, type Server } from "node:http";
import { connect, createServer as createTcpServer, type AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { guestLimits } from "../../sdk/contract/guest-limits.ts";
import { GuestFacts } from "../../sdk/contract/guest.ts";
import { codeOf, startAgent, type Agent } from "./agent.ts";

let agent: Agent;
let server: Server;
let port: number;
beforeAll(async () => {
  agent = await startAgent("--version-id", "v-test");
  server = createServer((req, res) => {
    if (req.url === "/cut") {
      res.destroy();
      return;
    }
    res.writeHead(req.url === "/teapot" ? 418 : 200, { "set-cookie": ["a=1", "b=2"], "x-url": req.url ?? "" });
    res.write(`${req.method} `);
    req.pipe(res);
  });
  server.on("upgrade", (req, socket, head) => {
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nupgrade: ${req.headers.upgrade}\r\nconnection: upgrade\r\n\r\n`);
    socket.write(head);
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  port = (server.address() as AddressInfo).port;
});
afterAll(async () => {
  server.closeAllConnections();
  server.close();
  await agent.stop();
});

/** A port where nobody listens: it was free a moment ago. */
async function freePort(): Promise<number> {
  const probe = createTcpServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port: free } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return free;
}

test("an unknown route is told", async () => {
  for (const [method, path] of [
    ["GET", "/"],
    ["GET", "/nothing"],
    ["POST", "/files:nothing"],
    ["POST", "/processes/p-1:nothing"],
    ["GET", "/processes/p-1/nothing"],
    ["GET", "/exec/"],
  ] as const) {
    const answer = await agent.call(method, path);
    expect([path, answer.status, codeOf(answer)]).toEqual([path, 404, "route_not_found"]);
  }
});

test("a wrong method is told, also where the path has an id", async () => {
  for (const [method, path] of [
    ["GET", "/exec"],
    ["DELETE", "/processes"],
    ["DELETE", "/processes/p-1"],
    ["GET", "/processes/p-1:signal"],
    ["POST", "/files/content"],
    ["GET", "/uploads/u-1"],
  ] as const) {
    const answer = await agent.call(method, path);
    expect([path, answer.status, codeOf(answer)]).toEqual([path, 405, "method_not_allowed"]);
  }
});

test("a body that is no JSON object is refused", async () => {
  for (const text of ["{", "[]", "5", '"x"', "null", "\u0000"]) {
    const answer = await agent.call("POST", "/exec", { bytes: Buffer.from(text) });
    expect([text, answer.status, codeOf(answer)]).toEqual([text, 400, "invalid_request"]);
  }
});

test("a body beyond every limit is refused and the agent goes on", async () => {
  const answer = await agent.call("POST", "/exec", { bytes: Buffer.alloc(20 * guestLimits.chunkBytes, 32) });
  expect([answer.status, codeOf(answer)]).toEqual([413, "payload_too_large"]);
  expect((await agent.exec("echo on")).stdout).toBe("on\n");
});

test("an id that is not well encoded is refused, and one with odd characters is just not found", async () => {
  expect((await agent.call("GET", "/processes/%zz")).status).toBe(400);
  expect(codeOf(await agent.call("GET", "/processes/a%2Fb%3Ac"))).toBe("process_not_found");
});

test("an error carries the caller's request id", async () => {
  const answer = await agent.call("GET", "/nothing", { headers: { "x-request-id": "req-7" } });
  expect(answer.body["error"]).toMatchObject({ code: "route_not_found", status: 404, requestId: "req-7" });
});

test("facts tell version, boot and listeners, without the agent's own port", async () => {
  const facts = GuestFacts.parse((await agent.call("GET", "/facts")).body);
  expect(facts).toMatchObject({ version: "v-test", running: 0, runs: 0, interpreterReady: false });
  expect(facts.bootId).toMatch(/^[0-9a-f-]{36}$/);
  expect(facts.listening).toContain(port);
  expect(facts.listening).not.toContain(agent.port);
});

test("a port of the sandbox is reached with method, path, query, body and all headers", async () => {
  const answer = await agent.call("POST", `/port/${port}/a/b%20c?x=1&y=%2F`, { bytes: Buffer.from("hello") });
  expect(answer.status).toBe(200);
  expect(answer.bytes.toString()).toBe("POST hello");
  expect(answer.headers["x-url"]).toBe("/a/b%20c?x=1&y=%2F");
  expect(answer.headers["set-cookie"]).toEqual(["a=1", "b=2"]);
  expect((await agent.call("GET", `/port/${port}/teapot`)).status).toBe(418);
  expect((await agent.call("GET", `/port/${port}`)).headers["x-url"]).toBe("/");
  expect((await agent.call("GET", `/port/${port}?q=1`)).headers["x-url"]).toBe("/?q=1");
});

test("a large body goes through whole, both ways", async () => {
  const bytes = Buffer.alloc(12_000_000, "0123456789");
  const answer = await agent.call("PUT", `/port/${port}/echo`, { bytes });
  expect(answer.bytes.subarray(4).equals(bytes)).toBe(true);
});

test("an upgraded connection carries bytes both ways", async () => {
  const socket = connect(agent.port, "127.0.0.1");
  socket.write(`GET /port/${port}/ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nfirst`);
  let text = "";
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    text += chunk.toString();
    if (text.endsWith("first")) socket.write("second");
    if (text.endsWith("second")) break;
  }
  expect(text).toMatch(/^HTTP\/1\.1 101 .*\r\n\r\nfirstsecond$/s);
});

test("a port where nobody listens is told, for requests and upgrades", async () => {
  const free = await freePort();
  const answer = await agent.call("GET", `/port/${free}/`);
  expect([answer.status, codeOf(answer)]).toEqual([502, "port_not_listening"]);
  expect(answer.bytes.toString()).toContain(String(free));
  const upgrade = await agent.call("GET", `/port/${free}/`, { headers: { connection: "upgrade", upgrade: "x" } });
  expect([upgrade.status, codeOf(upgrade)]).toEqual([502, "port_not_listening"]);
});

test("a port that is none is refused", async () => {
  for (const bad of ["0", "65536", "99999999"]) {
    expect(codeOf(await agent.call("GET", `/port/${bad}/`))).toBe("invalid_port");
  }
});

test("a server that hangs up without an answer is told", async () => {
  const answer = await agent.call("GET", `/port/${port}/cut`);
  expect([answer.status, codeOf(answer)]).toEqual([502, "upstream_closed"]);
});

test("connections from elsewhere are not served", async () => {
  const guarded = await startAgent("--allow-from", "127.0.0.9");
  try {
    await expect(guarded.call("GET", "/facts")).rejects.toThrow(/hang up|ECONNRESET/);
    const answer = await new Promise<number | undefined>((resolve, reject) => {
      const req = guarded.open("GET", "/facts");
      req.destroy();
      const socket = connect({ port: guarded.port, host: "127.0.0.1", localAddress: "127.0.0.9" });
      socket.once("error", reject);
      socket.write("GET /facts HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
      socket.once("data", (data: Buffer) => {
        resolve(Number(data.toString().split(" ")[1]));
        socket.destroy();
      });
      req.on("error", () => undefined);
    });
    expect(answer).toBe(200);
  } finally {
    await guarded.end();
  }
});

test("a warm-up leaves nothing that anybody could see", async () => {
  const seen = async () => [
    (await agent.call("GET", "/processes")).body,
    (await agent.call("GET", "/files/list")).body,
    GuestFacts.parse((await agent.call("GET", "/facts")).body).running,
  ];
  const before = await seen();
  expect((await agent.call("POST", "/warm-up", { body: {} })).status).toBe(200);
  expect(await seen()).toEqual(before);
});

test("the agent told no fault meanwhile", () => {
  expect(agent.errors).toBe("");
});

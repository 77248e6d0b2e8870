/** Verbs for held sockets. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { HeldSocket } from "../../sdk/contract/socket.ts";
import { CliBench } from "./cli-bench.ts";
import { SANDBOX, sandboxInfo } from "./wire-server.ts";

let bench: CliBench;

beforeEach(async () => {
  bench = await CliBench.start();
  bench.server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()));
});
afterEach(() => bench[Symbol.asyncDispose]());

const ID = `sock-${"0".repeat(20)}`;
const held: HeldSocket = {
  ...{ id: ID, sandboxId: "demo~abcdefghijkl", state: "detached", since: "2031-01-02T03:04:05.000Z", port: 8080 },
  ...{ path: "/ws", protocol: null, keyId: null, resumed: 2, framesIn: 7, framesOut: 9, bytesIn: 70, bytesOut: 90 },
  ...{ buffered: 1, lastMessageAt: "2031-01-02T03:04:05.000Z", waitsFor: "sandbox_paused" },
};

test("sockets lists those that are held, and closes one", async () => {
  bench.server.on(`GET ${SANDBOX}/sockets`, (_request, reply) => reply.json({ data: [held] }));
  bench.server.on(`DELETE ${SANDBOX}/sockets/${ID}`, (_request, reply) => reply.json({ id: ID, closed: true }));
  const rows = (await bench.run(["sockets", "demo"])).stdout.trimEnd().split("\n");
  expect(rows[0]).toMatch(/^SOCKET +SINCE +PORT +PATH +STATE +IN +OUT +BUFFERED +WAITS FOR$/);
  expect(rows[1]).toMatch(/^sock-0+ .* 8080 +\/ws +detached +7 +9 +1 +sandbox_paused$/);
  expect(JSON.parse((await bench.run(["sockets", "ls", "demo", "--json"])).stdout)).toEqual({ data: [held] });
  expect((await bench.run(["sockets", "close", "demo", ID])).stdout).toBe(`${ID} is closed\n`);
  bench.server.on(`GET ${SANDBOX}/sockets`, (_request, reply) => reply.json({ data: [] }));
  expect((await bench.run(["sockets", "demo"])).stdout).toBe("No held sockets.\n");
});

test("sockets set takes all rules of a file, and says everything that is wrong with them", async () => {
  const sockets = [{ path: "/ws*" }, { path: "/chat", port: 3000, announce: true, ping: "a", pong: "b" }];
  bench.server.on(`POST ${SANDBOX}:update`, (request, reply) => reply.json(sandboxInfo(request.json() as object)));
  const file = join(bench.folder, "sockets.json");
  await writeFile(file, JSON.stringify(sockets));
  const lines = (await bench.run(["sockets", "set", "demo", file])).stdout.trimEnd().split("\n");
  expect(bench.server.requests.at(-1)?.json()).toEqual({ sockets });
  expect(lines[1]).toMatch(/^\/ws\* +any +yes +no +yes$/);
  expect(lines[2]).toMatch(/^\/chat +3000 +yes +yes +yes +a -> b$/);
  expect((await bench.run(["sockets", "rules", "demo"])).stdout).toBe("No WebSocket is held.\n");
  await writeFile(file, JSON.stringify([{ path: "ws" }, { path: "/a", ping: "p" }]));
  expect((await bench.refusal(["sockets", "set", "demo", file]))?.message).toMatch(/0\.path: .*; 1\.ping: /);
});

import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { RouseError } from "../../sdk/src/index.ts";
import { CliBench } from "./cli-bench.ts";
import { GuestEdge } from "./guest-edge.ts";

let edge: GuestEdge;
let program: Server;
let port: number;
beforeAll(async () => {
  edge = await GuestEdge.start();
  program = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => undefined);
    socket.pipe(socket);
  });
  program.listen(0, "127.0.0.1");
  await once(program, "listening");
  ({ port } = program.address() as AddressInfo);
});
afterAll(async () => {
  program.close();
  await edge[Symbol.asyncDispose]();
});

/** What comes back for what is sent, to the end of both. */
async function echo(at: number, data: Buffer): Promise<Buffer> {
  const socket = connect(at, "127.0.0.1");
  socket.end(data);
  return whole(socket);
}

async function whole(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once("close", () => resolve()));
}

test("a port here is one there: many connections, much data, ends of either side", async () => {
  await using forward = await (await edge.sandbox).forward(port, { localPort: 0 });
  expect(forward).toMatchObject({ port, address: "127.0.0.1" });
  const data = Buffer.alloc(5_000_000, "0123456789abcdefghijk");
  const answers = await Promise.all([0, 1, 2].map((n) => echo(forward.localPort, data.subarray(n))));
  expect(answers.map((answer, n) => answer.equals(data.subarray(n)))).toEqual([true, true, true]);
}, 60_000);

test("an open port holds nothing, and a connection wakes", async () => {
  await using forward = await (await edge.sandbox).forward(port, { localPort: 0 });
  const { wakes, upgrades } = edge;
  const before = upgrades.length;
  edge.sleep();
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect([edge.state, edge.upgrades.length]).toEqual(["paused", before]);
  expect((await echo(forward.localPort, Buffer.from("hello"))).toString()).toBe("hello");
  expect([edge.state, edge.wakes]).toEqual(["running", wakes + 1]);
});

test("says why a connection can't be had, and goes on", async () => {
  const closed = createServer().listen(0);
  await once(closed, "listening");
  const free = (closed.address() as AddressInfo).port;
  closed.close();
  const errors: RouseError[] = [];
  const sandbox = await edge.sandbox;
  await using forward = await sandbox.forward(free, { localPort: 0, onError: (error) => errors.push(error) });
  await expect(echo(forward.localPort, Buffer.from("x"))).rejects.toMatchObject({ code: "ECONNRESET" });
  expect(errors[0]).toMatchObject({ code: "port_not_listening", details: { port: free } });
  edge.state = "stopped";
  await expect(echo(forward.localPort, Buffer.from("x"))).rejects.toMatchObject({ code: "ECONNRESET" });
  await expect.poll(() => errors[1]?.code).toBe("sandbox_stopped");
  edge.state = "running";
  await expect(sandbox.forward(1, { localPort: forward.localPort })).rejects.toMatchObject({
    code: "invalid_argument",
  });
  await expect(sandbox.forward(0)).rejects.toMatchObject({ code: "invalid_argument" });
});

test("a connection that is open when it is closed, or cut, breaks", async () => {
  const forward = await (await edge.sandbox).forward(port, { localPort: 0 });
  const socket = connect(forward.localPort, "127.0.0.1");
  socket.on("error", () => undefined);
  socket.write("a");
  await once(socket, "data");
  edge.cut();
  await closed(socket);
  const other = connect(forward.localPort, "127.0.0.1");
  other.on("error", () => undefined);
  other.write("a");
  await once(other, "data");
  await forward.close();
  await closed(other);
  await expect(echo(forward.localPort, Buffer.from("x"))).rejects.toMatchObject({ code: "ECONNREFUSED" });
});

test("rouse forward opens ports until it is ended", async () => {
  await using bench = await CliBench.start();
  const at = { ROUSE_API_URL: edge.url };
  const { child, done } = bench.launch(["forward", "demo", `0:${port}`, "--json"], at);
  const [line] = (await once(child.stdout, "data")) as [string];
  const { localPort } = JSON.parse(line) as { localPort: number };
  expect((await echo(localPort, Buffer.from("through"))).toString()).toBe("through");
  child.kill("SIGINT");
  expect((await done).code).toBe(0);
  const wrong = await bench.run(["forward", "demo", "80:99999"], at);
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining("is no port")]);
}, 60_000);

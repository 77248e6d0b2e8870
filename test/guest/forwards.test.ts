import { once } from "node:events";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { WebSocket } from "ws";
import { guestLimits } from "../../sdk/contract/guest-limits.ts";
import { startAgent, type Agent } from "./agent.ts";

let agent: Agent;
let server: Server;
let port: number;
const programs: Socket[] = [];
beforeAll(async () => {
  agent = await startAgent();
  server = createServer({ allowHalfOpen: true }, (socket) => {
    programs.push(socket);
    socket.on("error", () => undefined);
  });
  server.listen(0, "::1");
  await once(server, "listening");
  ({ port } = server.address() as AddressInfo);
});
afterAll(async () => {
  for (const socket of programs) socket.destroy();
  server.close();
  await agent.stop();
});

class Client {
  readonly socket: WebSocket;
  readonly frames: { kind: string; id: number; payload: Buffer }[] = [];
  close: number | null = null;

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on("message", (data: Buffer, isBinary: boolean) => {
      if (isBinary)
        this.frames.push({ kind: data.toString("latin1", 0, 1), id: data.readUInt32BE(1), payload: data.subarray(5) });
    });
    socket.on("close", (code) => (this.close = code));
  }

  static async open(): Promise<Client> {
    const socket = new WebSocket(`ws://127.0.0.1:${agent.port}/forward`);
    const client = new Client(socket);
    const [first] = (await once(socket, "message")) as [Buffer];
    if (first.toString() !== '{"type":"ready"}') throw new Error(first.toString());
    return client;
  }

  send(kind: string, id: number, payload: string | Buffer = ""): void {
    const head = Buffer.alloc(5);
    head.write(kind);
    head.writeUInt32BE(id, 1);
    this.socket.send(Buffer.concat([head, Buffer.from(payload)]));
  }

  async of(kind: string, id: number): Promise<Buffer> {
    await vi.waitUntil(() => this.frames.some((one) => one.kind === kind && one.id === id), { timeout: 20_000 });
    return this.frames.find((one) => one.kind === kind && one.id === id)?.payload ?? Buffer.alloc(0);
  }

  data(id: number): Buffer {
    return Buffer.concat(this.frames.filter((one) => one.kind === "d" && one.id === id).map((one) => one.payload));
  }

  get taken(): number {
    return Number(this.frames.findLast(({ kind }) => kind === "a")?.payload.readBigUInt64BE() ?? 0);
  }
}

test("streams of one socket are apart, and each direction ends by itself", async () => {
  const client = await Client.open();
  const before = programs.length;
  for (const id of [1, 2]) {
    client.send("o", id, `tcp ${port}`);
    await client.of("o", id);
  }
  const [first, second] = programs.slice(before);
  client.send("d", 1, "to the first");
  client.send("d", 2, "to the second");
  client.send("e", 1);
  expect(String(await new Promise((resolve) => first?.once("data", resolve)))).toBe("to the first");
  if (first) await once(first, "end");
  await expect.poll(() => client.taken).toBeGreaterThan(0);
  first?.write("late answer");
  first?.end();
  expect((await client.of("c", 1)).toString()).toBe("done");
  expect(client.data(1).toString()).toBe("late answer");
  expect(client.frames.filter(({ id }) => id === 1).map(({ kind }) => kind)).toEqual(["o", "d", "e", "c"]);
  second?.end("bye");
  await client.of("e", 2);
  client.send("e", 2);
  expect((await client.of("c", 2)).toString()).toBe("done");
  await expect.poll(() => client.taken).toBe("to the first".length + "to the second".length);
  client.socket.close();
});

test("much data both ways arrives whole, within the window", async () => {
  const client = await Client.open();
  const before = programs.length;
  client.send("o", 7, `tcp ${port}`);
  await client.of("o", 7);
  const program = programs[before];
  program?.pipe(program);
  const data = Buffer.alloc(8_000_000, "0123456789abcdefghijk");
  for (let at = 0; at < data.length; at += 65_536) {
    const from = at;
    await vi.waitUntil(() => from + 65_536 - client.taken <= guestLimits.forwardWindow, {
      timeout: 20_000,
      interval: 1,
    });
    client.send("d", 7, data.subarray(at, at + 65_536));
  }
  client.send("e", 7);
  await client.of("c", 7);
  expect(client.data(7).equals(data)).toBe(true);
  expect(Math.max(...client.frames.map(({ payload }) => payload.length))).toBeLessThanOrEqual(65_536);
}, 60_000);

test("what can't be opened is closed with its reason, and the others go on", async () => {
  const client = await Client.open();
  const closed = createServer().listen(0, "127.0.0.1");
  await once(closed, "listening");
  const free = (closed.address() as AddressInfo).port;
  closed.close();
  for (const [id, target, reason] of [
    [1, `tcp ${free}`, "closed"],
    [2, "tcp 10800", "reserved"],
    [3, "ssh ssh-ed25519 AAAA", "no-sshd"],
    [4, "udp 53", '"udp 53" is no tcp port'],
    [5, "tcp 70000", '"tcp 70000" is no tcp port'],
  ] as const) {
    client.send("o", id, target);
    expect((await client.of("c", id)).toString()).toBe(reason);
  }
  client.send("d", 99, "to nobody");
  await expect.poll(() => client.taken).toBe(9);
  client.socket.send(Buffer.from("abc"));
  const before = programs.length;
  client.send("o", 6, `tcp ${port}`);
  await client.of("o", 6);
  programs[before]?.resetAndDestroy();
  expect((await client.of("c", 6)).toString()).not.toBe("done");
  for (let id = 100; id < 100 + guestLimits.forwarded; id++) client.send("o", id, `tcp ${port}`);
  client.send("o", 1000, `tcp ${port}`);
  expect((await client.of("c", 1000)).toString()).toContain("more than");
  client.send("o", 100, `tcp ${port}`);
  await expect.poll(() => client.close).toBe(1008);
});

test("a client that goes takes its connections along; one that sends more than the window is closed", async () => {
  const client = await Client.open();
  const before = programs.length;
  client.send("o", 1, `tcp ${port}`);
  await client.of("o", 1);
  client.socket.terminate();
  await expect
    .poll(() => programs[before]?.closed || programs[before]?.readableEnded || programs[before]?.destroyed)
    .toBe(true);
  const greedy = await Client.open();
  greedy.send("o", 1, `tcp ${port}`);
  await greedy.of("o", 1);
  programs.at(-1)?.pause();
  for (let sent = 0; sent < 40; sent++) greedy.send("d", 1, Buffer.alloc(1_000_000));
  await expect.poll(() => greedy.close).toBe(1008);
  expect(agent.errors).toBe("");
});

/** A held socket's connection at the host: what counts as use, what the edge is told, and how it ends. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { hostServer } from "../../backend-pool/http/server.ts";
import { Machines } from "../../backend-pool/machine/machines.ts";
import { shapeOf } from "../../backend-pool/shape.ts";
import { Journal } from "../../backend-pool/store/journal.ts";
import { hostHeaders, hostPaths } from "../../sdk/contract/host.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";
import { sign, signingKey } from "../../sdk/contract/ticket.ts";
import { OneMachine } from "./one-machine.ts";

const SECRET = "a secret of this test alone, long enough";
const WORD = "a-word-of-the-edge";
const id = newSandboxId("held");

let app: Server;
let host: Server;
let machines: Machines;
let accepted: WebSocket[];
let seen: { headers: Record<string, unknown>; messages: string[]; close: [number, string] | null };
let refuse: boolean;

beforeEach(async () => {
  [accepted, refuse] = [[], false];
  seen = { headers: {}, messages: [], close: null };
  const sockets = new WebSocketServer({ noServer: true, autoPong: false, perMessageDeflate: true });
  app = createServer().on("upgrade", (req, socket, head) => {
    seen.headers = req.headers;
    if (refuse) return void socket.end("HTTP/1.1 403 No\r\ncontent-length: 4\r\nconnection: close\r\n\r\nnope");
    sockets.handleUpgrade(req, socket, head, (ws) => {
      accepted.push(ws);
      ws.on("message", (data, isBinary) => {
        seen.messages.push(`${isBinary ? "binary" : "text"} ${(data as Buffer).length}`);
        if (!isBinary && String(data) === "close") ws.close(4001, "bye");
      });
      ws.on("close", (code, reason) => (seen.close = [code, reason.toString()]));
    });
  });
  app.listen(0, "127.0.0.1");
  await once(app, "listening");
  const { port } = app.address() as AddressInfo;
  const driver = new OneMachine(
    id,
    () => port,
    async () => undefined,
  );
  const policy = { residentSeconds: 600, prestartedSeconds: 0, compactAfterSeconds: 3600, coldAfterSeconds: 3600 };
  machines = new Machines(driver, new Journal(":memory:"), policy);
  host = await hostServer({ machines, controlSecret: SECRET, ticketSecret: SECRET, about: async () => ({}) });
  host.listen(0, "127.0.0.1");
  await once(host, "listening");
  const run = { generation: 1, env: {}, idlePauseSeconds: 0 };
  await machines.create(id, { ...run, account: "default", shape: shapeOf({}), hostname: "held" });
});
afterEach(async () => {
  for (const server of [app, host]) {
    server.close();
    server.closeAllConnections();
  }
  for (const ws of accepted) ws.terminate();
  await machines.close();
});

class Edge {
  readonly socket: WebSocket;
  readonly messages: string[] = [];
  readonly told: number[] = [];
  close: [number, string] | null = null;
  held: unknown;

  constructor(headers: Record<string, string>) {
    const { port } = host.address() as AddressInfo;
    this.socket = new WebSocket(`ws://127.0.0.1:${port}${hostPaths.port(id, 8080)}/ws?a=1`, { headers });
    this.socket.on("upgrade", (answer) => (this.held = answer.headers[hostHeaders.socketWord]));
    this.socket.on("message", (data, isBinary) => {
      const text = (data as Buffer).toString("latin1");
      if (text.startsWith(`${WORD}:`)) this.told.push(Number(text.slice(WORD.length + 1)));
      else this.messages.push(`${isBinary ? "binary" : "text"} ${text.length}`);
    });
    this.socket.on("close", (code, reason) => (this.close = [code, reason.toString()]));
    this.socket.on("error", () => undefined);
  }

  static async open(more: Record<string, string> = {}): Promise<Edge> {
    const ticket = await sign(await signingKey(SECRET, "ticket"), { m: id, g: 1, e: Date.now() + 60_000 });
    const edge = new Edge({ [hostHeaders.ticket]: ticket, [hostHeaders.socketWord]: WORD, ...more });
    await once(edge.socket, "open");
    await vi.waitUntil(() => accepted.length > 0);
    return edge;
  }
}

/** The program answers pings, as libraries do. */
function answering(socket = accepted.at(-1)): void {
  socket?.on("ping", (payload) => socket.pong(payload));
}

describe("a held socket's connection", () => {
  it("is not told to the program, and frames are not compressed", async () => {
    const edge = await Edge.open();
    expect(edge.held).toBe("1");
    expect(seen.headers["sec-websocket-extensions"]).toBeUndefined();
    expect(Object.keys(seen.headers).filter((name) => name.startsWith("x-rouse-"))).toEqual([]);
  });

  it("tells how many messages have reached the program, and only when it has said so", async () => {
    const edge = await Edge.open();
    edge.socket.send("one");
    edge.socket.send(Buffer.alloc(70_000));
    await expect.poll(() => seen.messages).toEqual(["text 3", "binary 70000"]);
    expect(edge.told).toEqual([]);
    answering();
    edge.socket.send("three");
    // The ping that was not answered is given up, and what was given to the connection counts then.
    await expect.poll(() => edge.told.at(-1), { timeout: 10_000 }).toBe(3);
  });

  it("tells in between messages, however these are cut up, and passes all of them", async () => {
    const edge = await Edge.open();
    answering();
    const program = accepted[0];
    const sizes = [1, 125, 126, 65_535, 65_536, 300_000, 0];
    for (const size of sizes) {
      edge.socket.send(Buffer.alloc(size));
      program?.send("x".repeat(size));
      program?.send(Buffer.alloc(size), { fin: false });
      program?.ping();
      edge.socket.send("begun", { fin: false });
      program?.send(Buffer.alloc(2), { fin: true });
      edge.socket.send("done", { fin: true });
    }
    await expect.poll(() => seen.messages.length).toBe(2 * sizes.length);
    await expect.poll(() => edge.told.at(-1)).toBe(2 * sizes.length);
    expect(edge.told).toEqual(edge.told.toSorted((a, b) => a - b));
    expect(seen.messages).toEqual(sizes.flatMap((size) => [`binary ${size}`, "text 9"]));
    await expect.poll(() => edge.messages).toEqual(sizes.flatMap((size) => [`text ${size}`, `binary ${size + 2}`]));
  });

  it("keeps nothing awake while it is open; its messages count as use, pings do not", async () => {
    const edge = await Edge.open();
    answering();
    expect(machines.describe(id).open).toBe(0);
    const { lastActiveAt } = machines.describe(id);
    await new Promise((resolve) => setTimeout(resolve, 20));
    const pong = once(accepted[0] ?? edge.socket, "pong");
    accepted[0]?.ping();
    edge.socket.ping();
    await pong;
    expect(machines.describe(id).lastActiveAt).toBe(lastActiveAt);
    edge.socket.send("a");
    await expect.poll(() => machines.describe(id).lastActiveAt).not.toBe(lastActiveAt);
    const then = machines.describe(id).lastActiveAt;
    await new Promise((resolve) => setTimeout(resolve, 20));
    accepted[0]?.send("b");
    await expect.poll(() => machines.describe(id).lastActiveAt).not.toBe(then);
    const quiet = await Edge.open({ [hostHeaders.noKeep]: "1" });
    const last = machines.describe(id).lastActiveAt;
    await new Promise((resolve) => setTimeout(resolve, 20));
    quiet.socket.send("c");
    await expect.poll(() => seen.messages.length).toBe(2);
    expect(machines.describe(id).lastActiveAt).toBe(last);
  });

  it("breaks when the machine sleeps; the program sees the other side go away", async () => {
    const edge = await Edge.open();
    await machines.pause(id, { generation: 1 });
    await expect.poll(() => edge.close).toEqual([1006, ""]);
    await expect.poll(() => seen.close).toEqual([1001, ""]);
  });

  it("ends with the program's code, and with the client's", async () => {
    const first = await Edge.open();
    first.socket.send("close");
    await expect.poll(() => first.close).toEqual([4001, "bye"]);
    const second = await Edge.open();
    second.socket.close(4002, "enough");
    await expect.poll(() => seen.close).toEqual([4002, "enough"]);
  });

  it("that the program refuses is answered as it answers", async () => {
    refuse = true;
    const ticket = await sign(await signingKey(SECRET, "ticket"), { m: id, g: 1, e: Date.now() + 60_000 });
    const edge = new Edge({ [hostHeaders.ticket]: ticket, [hostHeaders.socketWord]: WORD });
    const [, answer] = (await once(edge.socket, "unexpected-response")) as [unknown, { statusCode: number }];
    expect(answer.statusCode).toBe(403);
  });
});

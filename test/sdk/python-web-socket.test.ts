/** The WebSocket client of the Python SDK, in both halves, at servers of which some break every rule. */
import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { WebSocketServer, type WebSocket } from "ws";
import { Authority } from "../../backend-pool/egress/ca.ts";
import { closeFrame, frameOf, opcodes } from "../../backend-pool/http/frames.ts";
import { errorBody } from "../../sdk/contract/errors.ts";
import { NO_PYTHON, halves, python, stopPython } from "./python-run.ts";
import { TEST_KEY } from "./wire-server.ts";

type Upgrade = (socket: Duplex, req: IncomingMessage, count: number) => void;

let server: Server;
let upgrade: Upgrade;
let asked: IncomingMessage[];
const sockets = new Set<Duplex>();
beforeEach(async (context) => {
  if (NO_PYTHON !== null) context.skip(NO_PYTHON);
  asked = [];
  server = createServer();
  server.on("upgrade", (req, socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    asked.push(req);
    upgrade(socket, req, asked.length - 1);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterEach(() => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  server?.close();
});
afterAll(stopPython);

/** Answers the handshake as it should be, with lines that are added or take the place of others. */
function accept(socket: Duplex, req: IncomingMessage, lines: Record<string, string> = {}): void {
  const key = req.headers["sec-websocket-key"] ?? "";
  const proof = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
  const headers = { upgrade: "websocket", connection: "Upgrade", "sec-websocket-accept": proof, ...lines };
  const text = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`HTTP/1.1 101 Switching Protocols\r\n${text.join("")}\r\n`);
}

/** All that a client sends after its handshake, to the end of its connection. */
function heard(socket: Duplex): Promise<Buffer> {
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  socket.once("end", () => socket.end());
  return new Promise((resolve) => socket.once("close", () => resolve(Buffer.concat(chunks))));
}

/** Frames of a client: their kind and what is in them. @throws when one is not masked */
function framesOf(bytes: Buffer): { kind: number; data: Buffer; mask: string }[] {
  const frames = [];
  for (let at = 0; at < bytes.length;) {
    const short = bytes.readUInt8(at + 1);
    if (short < 0x80 || short - 0x80 > 125) throw new Error("not masked, or longer than these tests have it");
    const mask = bytes.subarray(at + 2, at + 6);
    const end = at + 6 + short - 0x80;
    const data = Buffer.from(bytes.subarray(at + 6, end).map((byte, n) => byte ^ (mask[n % 4] ?? 0)));
    frames.push({ kind: bytes.readUInt8(at) & 0x0f, data, mask: mask.toString("hex") });
    at = end;
  }
  return frames;
}

const serve = (kind: number, data: Buffer | string = "", fin = true): Buffer => {
  const frame = frameOf(kind, Buffer.from(data), false);
  if (!fin) frame[0] = kind;
  return frame;
};

describe.each(halves)("%s", (half) => {
  const url = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const run = (body: string, options = {}, at = url()) =>
    python(
      half,
      at,
      `
from rouse._${half} import web_socket
from rouse._${half}.remote import sandbox_remote
async def begin(query={}, max_retries=None):
    return await web_socket.begin_socket(sandbox_remote(rouse._transport, "demo"), "/terminal", query, max_retries)
${body}`,
      options,
    );

  test("asks with the key, takes messages in fragments, answers pings, and closes as it is closed", async () => {
    const said = Promise.withResolvers<Buffer>();
    upgrade = (socket, req) => {
      void heard(socket).then(said.resolve);
      accept(socket, req);
      const text = Buffer.from("grüße");
      for (const part of [
        serve(opcodes.text, text.subarray(0, 3), false),
        serve(opcodes.ping, "are you there"),
        serve(opcodes.continuation, text.subarray(3)),
        serve(opcodes.binary, Buffer.alloc(65_000, "ab")),
        closeFrame(4001, "the machine rests", false),
      ])
        socket.write(part);
    };
    const found = await run(`
socket = await begin({"cols": 80, "cursor": None, "processId": "p 1"})
socket.send("sent")
messages = [await socket.receive() for _ in range(3)]
socket.send("goes nowhere")
return [messages[0], messages[1] == b"ab" * 32_500, messages[2], socket.code]`);
    expect(found).toEqual(["grüße", true, null, 4001]);
    expect(asked[0]).toMatchObject({ method: "GET", url: "/v1/sandboxes/demo/terminal?cols=80&processId=p+1" });
    expect(asked[0]?.headers).toMatchObject({
      ...{ authorization: `Bearer ${TEST_KEY}`, "sec-websocket-version": "13", upgrade: "websocket" },
      "x-rouse-client": expect.stringMatching(/^sdk-python\//) as unknown,
    });
    expect(asked[0]?.headers).not.toHaveProperty("sec-websocket-extensions");
    const frames = framesOf(await said.promise);
    const text = frames.map(({ kind, data }) => [kind, kind === opcodes.close ? data.readUInt16BE() : data.toString()]);
    expect(text.toSorted()).toEqual(
      [
        [opcodes.pong, "are you there"],
        [opcodes.text, "sent"],
        [opcodes.close, 4001],
      ].toSorted(),
    );
    expect(new Set(frames.map(({ mask }) => mask)).size).toBe(3);
  });

  test("messages of every length arrive at a server that is strict itself", async () => {
    const echo = new WebSocketServer({ noServer: true });
    upgrade = (socket, req) =>
      echo.handleUpgrade(req, socket, Buffer.alloc(0), (client: WebSocket) => {
        client.on("message", (data: Buffer, isBinary: boolean) => client.send(data, { binary: isBinary }));
      });
    const found = await run(`
socket = await begin()
wrong = []
for size in (0, 1, 125, 126, 127, 65_535, 65_536, 1_000_000):
    for sent in (os.urandom(size), "ü" * size):
        socket.send(sent)
        if await socket.receive() != sent:
            wrong.append(size)
socket.close(4321)
return [wrong, await socket.receive(), socket.code]`);
    expect(found).toEqual([[], null, 4321]);
  });

  test("what breaks a rule ends the connection with the code for it, after what came before", async () => {
    const faults: [string, Buffer, number][] = [
      ["a masked frame", frameOf(opcodes.text, Buffer.from("x"), true), 1002],
      ["an extension", Buffer.from([0xc1, 1, 0x78]), 1002],
      ["an unknown kind", Buffer.from([0x83, 0]), 1002],
      ["a fragment of nothing", serve(opcodes.continuation, "x"), 1002],
      ["a long ping", Buffer.from([0x89, 126, 0, 126]), 1002],
      ["no text", serve(opcodes.text, Buffer.from([0xff])), 1007],
      ["too much", Buffer.from([0x82, 127, 0, 0, 0, 0, 0, 0x50, 0, 0]), 1009],
    ];
    for (const [name, bytes, code] of faults) {
      const said = Promise.withResolvers<Buffer>();
      upgrade = (socket, req) => {
        void heard(socket).then(said.resolve);
        accept(socket, req);
        socket.write(Buffer.concat([serve(opcodes.text, "good"), bytes]));
      };
      const found = await run("socket = await begin()\nreturn [await socket.receive(), await failure(socket.receive)]");
      expect([name, found]).toEqual([name, ["good", expect.objectContaining({ code: "unexpected_answer" })]]);
      const [close] = framesOf(await said.promise);
      expect([name, close?.kind, close?.data.readUInt16BE()]).toEqual([name, opcodes.close, code]);
    }
  });

  test("a cut is the end, without a code; so is a server that gives no sign of life", async () => {
    upgrade = (socket, req, count) => {
      accept(socket, req);
      if (count === 0) setTimeout(() => socket.destroy(), 50);
    };
    const found = await run(`
web_socket.PING_SECONDS = web_socket.PONG_SECONDS = 0.2
try:
    socket, silent = await begin(), await begin()
    return [await socket.receive(), socket.code, await silent.receive(), silent.code]
finally:
    web_socket.PING_SECONDS, web_socket.PONG_SECONDS = 30.0, 20.0`);
    expect(found).toEqual([null, 1006, null, 1006]);
  });

  test("a server that asks without end and reads nothing is given up", async () => {
    upgrade = (socket, req) => {
      accept(socket, req);
      socket.pause();
      const pings = Buffer.concat(Array.from({ length: 500 }, () => serve(opcodes.ping, Buffer.alloc(125, "p"))));
      const more = (): void => {
        if (!socket.destroyed) socket.write(pings, () => setImmediate(more));
      };
      more();
    };
    const found = await run(`
from rouse._async import channels
channels.UNSENT_BYTES = 1_000_000
try:
    socket = await begin()
    return [await socket.receive(), socket.code]
finally:
    channels.UNSENT_BYTES = 16_777_216`);
    expect(found).toEqual([null, 1006]);
  });

  test("one that is quiet is asked for a sign of life, and goes on by it", async () => {
    const echo = new WebSocketServer({ noServer: true });
    let pings = 0;
    upgrade = (socket, req) =>
      echo.handleUpgrade(req, socket, Buffer.alloc(0), (client: WebSocket) => {
        client.on("ping", () => (pings += 1) === 3 && client.send("at last"));
      });
    const found = await run(`
web_socket.PING_SECONDS, web_socket.PONG_SECONDS = 0.1, 10.0
try:
    return await (await begin()).receive()
finally:
    web_socket.PING_SECONDS, web_socket.PONG_SECONDS = 30.0, 20.0`);
    expect(found).toBe("at last");
  });

  test("a refusal is the error that other calls raise", async () => {
    const answers: Upgrade[] = [
      (socket) => refuse(socket, 401, JSON.stringify(errorBody({ code: "unauthorized", message: "no" }, "req_7"))),
      (socket) => refuse(socket, 302, "", "location: http://127.0.0.1:1/\r\n"),
      (socket) => refuse(socket, 200, "hello"),
      (socket, req) => accept(socket, req, { "sec-websocket-accept": "AAAA" }),
      (socket, req) => accept(socket, req, { "sec-websocket-extensions": "permessage-deflate" }),
      (socket) => socket.end("SSH-2.0-OpenSSH\r\n"),
    ];
    upgrade = (socket, req, count) => answers[count]?.(socket, req, count);
    const found = await run("return [await failure(lambda: begin(max_retries=0)) for _ in range(6)]");
    expect(found).toMatchObject([
      { class: "AuthenticationError", code: "unauthorized", status: 401, request_id: "req_7", message: "no" },
      { class: "ConnectionError", message: expect.stringContaining("redirect") as unknown },
      { code: "unexpected_answer", message: expect.stringContaining("200") as unknown },
      { code: "unexpected_answer", message: expect.stringContaining("Accept") as unknown },
      { code: "unexpected_answer", message: expect.stringContaining("extensions") as unknown },
      { class: "ConnectionError", code: "connection_error" },
    ]);
    expect(asked).toHaveLength(6);
    expect(JSON.stringify(found)).not.toContain(TEST_KEY);
  });

  test("over TLS megabytes go both ways at once, and only to whom the certificate fits", async () => {
    const folder = await mkdtemp(join(tmpdir(), "rouse-tls-"));
    const authority = await Authority.open(join(folder, "authority.pem"));
    const file = join(folder, "trusted.pem");
    await writeFile(file, authority.pem);
    const secure = createSecureServer({ SNICallback: (name, done) => done(null, authority.context(name)) });
    const echo = new WebSocketServer({ server: secure });
    echo.on("connection", (client) => client.on("message", (data: Buffer) => client.send(data)));
    try {
      await new Promise<void>((resolve) => secure.listen(0, "localhost", resolve));
      const body = `
socket = await begin(max_retries=0)
data = os.urandom(8_000_000)
for at in range(0, len(data), 50_000):
    socket.send(data[at : at + 50_000])
back = b"".join([await socket.receive() for _ in range(160)])
socket.close()
return [back == data, await socket.receive(), socket.code]`;
      const at = `https://localhost:${(secure.address() as AddressInfo).port}`;
      expect(await run(body, { env: { SSL_CERT_FILE: file } }, at)).toEqual([true, null, 1000]);
      const refused = await run("return await failure(lambda: begin(max_retries=0))", {}, at);
      expect(refused).toMatchObject({
        code: "connection_error",
        message: expect.stringMatching(/certificate/i) as unknown,
      });
    } finally {
      for (const client of echo.clients) client.terminate();
      secure.close();
      await rm(folder, { recursive: true });
    }
  }, 60_000);

  test("is asked for again while the sandbox wakes, and over a cut", async () => {
    const body = JSON.stringify(errorBody({ code: "sandbox_waking", message: "soon", retryAfterMs: 1 }, "req_1"));
    upgrade = (socket, req, count) => {
      if (count < 6) return refuse(socket, 503, body);
      if (count === 6) return void socket.destroy();
      accept(socket, req);
      return void socket.write(serve(opcodes.text, "here"));
    };
    expect(await run("return await (await begin()).receive()")).toBe("here");
    expect(asked).toHaveLength(8);
  });
});

function refuse(socket: Duplex, status: number, body: string, lines = ""): void {
  const type = body.startsWith("{") ? "application/json" : "text/plain";
  socket.end(`HTTP/1.1 ${status} X\r\n${lines}content-type: ${type}\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
}

/** First contact: whatever reaches a sleeping machine wakes it once, and is answered as if it had never slept. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { afterAll, beforeAll, describe, it } from "vitest";
import type { Sandbox } from "rouse";
import { WebSocket } from "ws";
import { COUNTER_SERVER, freshName, machine, named, rouse, serve, settle, sha256, system } from "./support.ts";

describe("first contact", () => {
  let sandbox: Sandbox;

  beforeAll(async () => {
    sandbox = await rouse.sandboxes.create({ name: freshName("wake"), idlePauseSeconds: 0 });
    await serve(sandbox, COUNTER_SERVER);
    await named(sandbox, "/");
  });
  afterAll(() => sandbox.delete());

  it("is answered fifty times over by one wake", async ({ expect }) => {
    await sandbox.pause();
    await settle(sandbox, "local");
    const before = (await sandbox.refresh()).info.generation;
    const counted = JSON.parse((await named(sandbox, "/")).text) as { count: number };
    await sandbox.pause();
    const answers = await Promise.all(Array.from({ length: 50 }, () => named(sandbox, "/")));
    expect(answers.map((answer) => answer.status)).toEqual(Array.from({ length: 50 }, () => 200));
    const counts = answers
      .map((answer) => (JSON.parse(answer.text) as { count: number }).count)
      .toSorted((a, b) => a - b);
    expect(counts).toEqual(Array.from({ length: 50 }, (_, i) => counted.count + 1 + i));
    // One wake for the first request above, one for the fifty.
    expect((await sandbox.refresh()).info.generation).toBe(before + 2);
  });

  it.for(["resident", "prestarted", "local"] as const)(
    "wakes a %s sleeper with its programs as they were",
    async (depth, { expect }) => {
      const before = JSON.parse((await named(sandbox, "/")).text) as { count: number };
      await sandbox.pause();
      await settle(sandbox, depth);
      expect((await machine(sandbox)).depth).toBe(depth);
      const after = await named(sandbox, "/");
      expect(after.status).toBe(200);
      expect((JSON.parse(after.text) as { count: number }).count).toBe(before.count + 1);
      expect((await sandbox.refresh()).state).toBe("running");
    },
  );

  it("by a POST of 5 MB reaches the program once, and whole", async ({ expect }) => {
    const body = randomBytes(5_000_000);
    const before = JSON.parse((await named(sandbox, "/")).text) as { count: number };
    await sandbox.pause();
    await settle(sandbox, "local");
    const answer = await named(sandbox, "/", { method: "POST", body });
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text)).toMatchObject({ count: before.count + 1, size: body.length, sha256: sha256(body) });
  });

  it("hands the program the name its user asked for, and never our key", async ({ expect }) => {
    const answer = JSON.parse((await named(sandbox, "/")).text) as { host: string; authorization: string | null };
    expect(answer.host).toBe(new URL(sandbox.url()).host);
    expect(answer.authorization).toBeNull();
  });

  it("by exec, by a file read and by the interpreter", async ({ expect }) => {
    await sandbox.files.write("/workspace/note.txt", "kept");
    await sandbox.interpreter.run("x = 41");
    await sandbox.pause();
    expect((await sandbox.exec("echo awake")).stdout).toBe("awake\n");
    await sandbox.pause();
    expect(await sandbox.files.readText("/workspace/note.txt")).toBe("kept");
    await sandbox.pause();
    const run = await sandbox.interpreter.run("x + 1");
    expect(run.results[0]?.data["text/plain"]).toBe("42");
  });

  it("by a WebSocket completes the upgrade and carries messages both ways", async ({ expect }) => {
    await serve(sandbox, SOCKET_SERVER, 9001);
    await sandbox.pause();
    await settle(sandbox, "local");
    const { host } = new URL(sandbox.url(9001));
    const socket = new WebSocket(`ws://127.0.0.1:${new URL(system.url).port}/chat`, {
      headers: { host, authorization: `Bearer ${system.apiKey}` },
    });
    await once(socket, "open");
    socket.send("hello");
    const [echo] = (await once(socket, "message")) as [Buffer];
    expect(echo.toString()).toBe("hello");
    socket.close();
    await once(socket, "close");
  });

  it("by an event stream hands each event on as it comes", async ({ expect }) => {
    await serve(sandbox, EVENT_SERVER, 9002);
    await sandbox.pause();
    await settle(sandbox, "local");
    const stream = await sandbox.fetch("/", {}, 9002);
    expect(stream.headers.get("content-type")).toContain("text/event-stream");
    const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
    // The server sends its second event only after it was told that the first arrived.
    expect((await reader?.read())?.value).toContain("data: first");
    await sandbox.files.write("/workspace/seen", "");
    expect((await reader?.read())?.value).toContain("data: second");
    await reader?.cancel();
  });
});

const SOCKET_SERVER = `
import base64, hashlib, socketserver, struct
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        head = b""
        while b"\\r\\n\\r\\n" not in head:
            head += self.rfile.readline()
        key = [l.split(b":", 1)[1].strip() for l in head.split(b"\\r\\n") if l.lower().startswith(b"sec-websocket-key")][0]
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: " + accept + b"\\r\\n\\r\\n")
        while True:
            start = self.rfile.read(2)
            if len(start) < 2:
                return
            size = start[1] & 127
            mask = self.rfile.read(4)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(size)))
            self.wfile.write(bytes([start[0], size]) + data)
            if start[0] & 15 == 8:
                return
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
Server(("127.0.0.1", 9001), Echo).serve_forever()
`;

const EVENT_SERVER = `
import http.server, os, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"data: first\\n\\n")
        while not os.path.exists("/workspace/seen"):
            time.sleep(0.05)
        self.wfile.write(b"data: second\\n\\n")
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 9002), Handler).serve_forever()
`;

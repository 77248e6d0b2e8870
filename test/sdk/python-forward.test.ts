/** Forwarded ports of the Python SDK, in both halves: a real guest agent behind an edge that sleeps and cuts. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { PythonEdge } from "./python-edge.ts";
import { NO_PYTHON, halves, stopPython, type Half } from "./python-run.ts";

let at: PythonEdge;
/** What programs of the sandbox serve: what comes is sent back, to the end of both. */
let program: Server;
/** Connections to it. */
const served: Socket[] = [];
let port: number;
beforeAll(async () => {
  at = await PythonEdge.start();
  program = createServer({ allowHalfOpen: true }, (socket) => {
    served.push(socket);
    socket.on("error", () => undefined);
    socket.pipe(socket);
  });
  port = await listening(program);
});
afterAll(async () => {
  stopPython();
  program.close();
  await at[Symbol.asyncDispose]();
});
beforeEach((context) => {
  at.edge.state = "running";
  if (NO_PYTHON !== null) context.skip(NO_PYTHON);
});

async function listening(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** A port that a program of the SDK has open until `end`, which answers what it has been told of. */
async function forwarded(half: Half, target: number, options = "local_port=0") {
  const opened = Promise.withResolvers<number>();
  let isOver = false;
  type Told = { forward: unknown; errors: { class: string; code: string; details: unknown }[] };
  at.words.set("over", () => isOver);
  const running = at.run(
    half,
    `
errors = []
forward = await sandbox.forward(${target}, ${options}, on_error=errors.append)
async with forward:
    edge(f"port-{forward.local_port}")
    await until(lambda: edge("over"), 120)
return {
    "forward": [forward.port, forward.address],
    "errors": [{"class": type(one).__name__, "code": one.code, "details": one.details} for one in errors],
}`,
  );
  at.onWord = (word) => {
    const [, found] = /^port-(\d+)$/.exec(word) ?? [];
    if (found !== undefined) opened.resolve(Number(found));
  };
  running.catch((error: unknown) => opened.reject(error));
  const end = async () => {
    isOver = true;
    return (await running) as Told;
  };
  return {
    local: await opened.promise,
    end,
    async [Symbol.asyncDispose]() {
      await end().catch(() => undefined);
    },
  };
}

async function whole(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** What comes back for what is sent, to the end of both. */
async function echo(local: number, data: Buffer): Promise<Buffer> {
  const socket = connect({ port: local, host: "127.0.0.1", allowHalfOpen: true });
  socket.end(data);
  return await whole(socket);
}

function closed(socket: Socket): Promise<void> {
  socket.on("error", () => undefined);
  return new Promise((resolve) => socket.once("close", () => resolve()));
}

describe.each(halves)("%s", (half) => {
  test("a port here is one there: many connections, megabytes of any bytes both ways at once", async () => {
    await using forward = await forwarded(half, port);
    const { local, end } = forward;
    const data = randomBytes(5_000_000);
    const answers = await Promise.all([0, 1, 2].map((n) => echo(local, data.subarray(n))));
    expect(answers.map((answer, n) => answer.equals(data.subarray(n)))).toEqual([true, true, true]);
    expect(await end()).toEqual({ forward: [port, "127.0.0.1"], errors: [] });
  }, 120_000);

  test("each side ends its direction, and the other goes on", async () => {
    const first = createServer({ allowHalfOpen: true }, (socket) => {
      socket.on("error", () => undefined);
      socket.end("all of mine");
      void whole(socket).then((data) => heard.resolve(data.toString()));
    });
    const heard = Promise.withResolvers<string>();
    await using forward = await forwarded(half, await listening(first));
    const { local, end } = forward;
    const socket = connect({ port: local, host: "127.0.0.1", allowHalfOpen: true });
    expect((await whole(socket)).toString()).toBe("all of mine");
    socket.write("still ");
    await wait(200);
    socket.end("here");
    expect(await heard.promise).toBe("still here");
    expect((await echo(local, Buffer.alloc(0))).toString()).toBe("all of mine");
    expect((await end()).errors).toEqual([]);
    first.close();
  }, 60_000);

  test("an open port holds nothing, and a connection wakes", async () => {
    await using forward = await forwarded(half, port);
    const { local } = forward;
    const { wakes, upgrades } = at.edge;
    const before = upgrades.length;
    at.edge.sleep();
    await wait(300);
    expect([at.edge.state, at.edge.upgrades.length]).toEqual(["paused", before]);
    expect((await echo(local, Buffer.from("hello"))).toString()).toBe("hello");
    expect([at.edge.state, at.edge.wakes]).toEqual(["running", wakes + 1]);
  }, 60_000);

  test("a program there waits for one here that does not read, and nothing is lost", async () => {
    // More than all buffers of the systems on the way hold together.
    const total = 120_000_000;
    let sent = 0;
    const piece = randomBytes(1_000_000);
    const source = createServer((socket) => {
      socket.on("error", () => undefined);
      const more = (): void => {
        if (sent >= total) return void socket.end();
        sent += piece.length;
        socket.write(piece, more);
      };
      more();
    });
    await using forward = await forwarded(half, await listening(source));
    const { local, end } = forward;
    const socket = connect(local, "127.0.0.1");
    await once(socket, "connect");
    socket.pause();
    let last = -1;
    await expect
      .poll(() => [last, (last = sent)].every((one) => one > 0 && one === sent), { interval: 1000, timeout: 60_000 })
      .toBe(true);
    expect(sent).toBeLessThan(total);
    const data = await whole(socket);
    expect(data.length).toBe(total);
    expect(piece.equals(data.subarray(total - piece.length))).toBe(true);
    expect((await end()).errors).toEqual([]);
    source.close();
  }, 120_000);

  test("says why a connection can't be had, and goes on", async () => {
    const none = createServer();
    const free = await listening(none);
    none.close();
    await using forward = await forwarded(half, free);
    const { local, end } = forward;
    const x = Buffer.from("x");
    await expect(echo(local, x)).rejects.toMatchObject({ code: "ECONNRESET" });
    at.edge.refusals = 3;
    await expect(echo(local, x)).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(at.edge.refusals).toBe(0);
    const { errors } = await end();
    const refused = { class: "RouseError", code: "port_not_listening", details: { port: free, reason: "closed" } };
    expect(errors).toEqual([refused, refused]);
    await using own = await forwarded(half, 10_800);
    await expect(echo(own.local, x)).rejects.toMatchObject({ code: "ECONNRESET" });
    expect((await own.end()).errors).toMatchObject([{ code: "invalid_port" }]);
  }, 60_000);

  test("what is no port, or can't be had here, is refused", async () => {
    const found = await at.run(
      half,
      `
async with await sandbox.forward(${port}, local_port=0) as one:
    taken = await failure(lambda: sandbox.forward(${port}, local_port=one.local_port))
wrong = [
    await failure(lambda: sandbox.forward(*words, **more))
    for words, more in (
        ([0], {}), ([65_536], {}), (["80"], {}), ([${port}], {"local_port": -1}), ([${port}], {"local_port": 70_000}),
        ([${port}], {"local_port": 0, "address": "no.such.host.invalid"}), ([${port}], {"local_port": 0, "address": "192.0.2.1"}),
    )
]
return [[one["class"], one["code"], one["text"]] for one in (taken, *wrong)]`,
    );
    const texts = [
      "EADDRINUSE",
      "0 is",
      "65536 is",
      "'80' is",
      "-1 is",
      "70000 is",
      "no.such.host.invalid",
      "EADDRNOTAVAIL",
    ];
    expect(found).toEqual(
      texts.map((text) => ["InvalidRequestError", "invalid_argument", expect.stringContaining(text) as unknown]),
    );
  }, 60_000);

  test("a connection that is cut, whose program here breaks off, or that is open at the end, breaks for both", async () => {
    await using forward = await forwarded(half, port);
    const { local, end } = forward;
    const opened = async (): Promise<[Socket, Socket]> => {
      const socket = connect(local, "127.0.0.1");
      socket.write("a");
      await once(socket, "data");
      return [socket, served.at(-1) as Socket];
    };
    const [one] = await opened();
    const cut = closed(one);
    at.edge.cut();
    await cut;
    const [two, far] = await opened();
    const gone = closed(far);
    two.resetAndDestroy();
    await gone;
    const [three] = await opened();
    const over = closed(three);
    const { errors } = await end();
    await over;
    expect(errors).toMatchObject([{ class: "ConnectionError", code: "connection_error" }]);
    await expect(echo(local, Buffer.from("x"))).rejects.toMatchObject({ code: "ECONNREFUSED" });
  }, 60_000);
});

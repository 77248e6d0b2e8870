import { afterEach, beforeEach, expect, test } from "vitest";
import type { OutputEvent } from "../../sdk/contract/guest.ts";
import { CommandError, Rouse } from "../../sdk/src/index.ts";
import type { CommandEvent, Sandbox } from "../../sdk/src/index.ts";
import { SANDBOX, TEST_KEY, WireServer, sandboxInfo } from "./wire-server.ts";
import type { Recorded, Reply } from "./wire-server.ts";

const EXEC = `POST ${SANDBOX}:exec`;
const OUTPUT = `GET ${SANDBOX}/processes/p1/output`;
const SIGNAL = `POST ${SANDBOX}/processes/p1:signal`;
const exit: OutputEvent = { type: "exit", exitCode: 0, state: "exited", timedOut: false, durationMs: 5 };

let server: WireServer;
let sandbox: Sandbox;

beforeEach(async () => {
  server = await WireServer.start();
  server.on(`GET ${SANDBOX}`, (_request, reply) => reply.json(sandboxInfo()));
  server.on(SIGNAL, (_request, reply) => reply.json({}));
  sandbox = await new Rouse({ baseUrl: server.url, apiKey: TEST_KEY }).sandboxes.get("demo~abcdefghijkl");
});
afterEach(async () => {
  await server[Symbol.asyncDispose]();
});

/** A process whose output is `text`, kept by the server as raw bytes in chunks of `step` characters. */
function outputOf(text: string, step: number): OutputEvent[] {
  const events: OutputEvent[] = [];
  const characters = [...text];
  let offset = 0;
  for (let at = 0; at < characters.length; at += step) {
    const data = characters.slice(at, at + step).join("");
    events.push({ type: (at / step) % 3 === 2 ? "stderr" : "stdout", data, offset });
    offset += Buffer.byteLength(data);
  }
  return events;
}

/** Serve output as the wire says: from the cursor on, even when that is inside a chunk. */
function serveFrom(events: readonly OutputEvent[], request: Recorded): OutputEvent[] {
  const cursor = Number(request.query.get("cursor"));
  return events.filter((event) => !("data" in event) || event.offset + Buffer.byteLength(event.data) > cursor);
}

async function collect(events: AsyncIterable<CommandEvent>): Promise<CommandEvent[]> {
  const all: CommandEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

function textOf(events: readonly CommandEvent[]): string {
  return events.map((event) => ("data" in event ? event.data : "")).join("");
}

const plainResult = {
  exitCode: 0,
  stdout: "hi\n",
  stderr: "",
  timedOut: false,
  stdoutTruncated: false,
  stderrTruncated: false,
  durationMs: 3,
  processId: "p1",
};

test("a short command is one plain call; text is a shell line and a list is argv", async () => {
  server.on(EXEC, (_request, reply) => reply.json(plainResult));
  expect((await sandbox.exec("echo hi", { cwd: "app", env: { A: "1" }, stdin: new Uint8Array([255]) })).stdout).toBe(
    "hi\n",
  );
  await sandbox.exec(["echo", "hi"], { stdin: "text", timeoutMs: 100 });
  expect(server.of(EXEC).map((request) => request.json())).toEqual([
    { command: "echo hi", cwd: "app", env: { A: "1" }, stdinBase64: "/w==" },
    { argv: ["echo", "hi"], stdin: "text", timeoutMs: 100 },
  ]);
});

test("check throws what the command left", async () => {
  server.on(EXEC, (_request, reply, count) =>
    reply.json({
      ...plainResult,
      exitCode: count === 0 ? 3 : null,
      timedOut: count === 1,
      stderr: "first\nno such file\n",
    }),
  );
  const failed = await sandbox.exec("false", { check: true }).catch((error: unknown) => error);
  expect(failed).toBeInstanceOf(CommandError);
  expect(failed).toMatchObject({
    code: "command_failed",
    exitCode: 3,
    stderr: "first\nno such file\n",
    message: expect.stringContaining("no such file") as unknown,
  });
  await expect(sandbox.exec("sleep 9", { check: true })).rejects.toMatchObject({
    code: "command_timeout",
    exitCode: null,
  });
  expect((await sandbox.exec("x")).exitCode).toBeNull();
});

test.each([1, 2, 7])(
  "a stream in pieces of %i bytes is read whole, characters and lines intact",
  async (pieceBytes) => {
    const text = "žluťoučký 🐎\n日本語\n".repeat(5);
    server.on(EXEC, (_request, reply) =>
      reply.lines([{ type: "start", processId: "p1" }, ...outputOf(text, 4), exit], { pieceBytes }),
    );
    const events = await collect(sandbox.execStream("x"));
    expect(textOf(events)).toBe(text);
    expect(events.at(-1)).toEqual(exit);
  },
);

test("output callbacks get everything, and the result holds both streams", async () => {
  server.on(EXEC, (_request, reply) =>
    reply.lines([
      { type: "start", processId: "p1" },
      { type: "stdout", data: "a", offset: 0 },
      { type: "stderr", data: "b", offset: 1 },
      { type: "stdout", data: "c", offset: 2 },
      { ...exit, exitCode: 7 },
    ]),
  );
  const seen: string[] = [];
  const result = await sandbox.exec("x", {
    onStdout: (text) => seen.push(`out:${text}`),
    onStderr: (text) => seen.push(`err:${text}`),
  });
  expect(seen).toEqual(["out:a", "err:b", "out:c"]);
  expect(result).toEqual({
    exitCode: 7,
    stdout: "ac",
    stderr: "b",
    timedOut: false,
    stdoutTruncated: false,
    stderrTruncated: false,
    durationMs: 5,
    processId: "p1",
  });
  expect(server.of(EXEC)[0]?.json()).toMatchObject({ stream: true, timeoutMs: 86_400_000 });
});

test("a command cut after any number of bytes is resumed without loss or repetition", async () => {
  const text = "0123456789 áé🐎".repeat(4);
  const events = outputOf(text, 5);
  const stream = [{ type: "start", processId: "p1" }, ...events, exit];
  const length = Buffer.byteLength(stream.map((event) => `${JSON.stringify(event)}\n`).join(""));
  for (let cutAfter = 37; cutAfter < length; cutAfter += 61) {
    server.on(EXEC, (_request, reply) => reply.lines(stream, { cutAfter }));
    server.on(OUTPUT, (request, reply) => reply.lines([...serveFrom(events, request), exit]));
    const got = await collect(sandbox.execStream("x"));
    expect(textOf(got)).toBe(text);
    expect(got.filter((event) => event.type === "truncated")).toEqual([]);
    expect(got.filter((event) => event.type === "exit")).toHaveLength(1);
  }
  // Every cut lay behind the start, so no command was sent twice.
  expect(server.of(EXEC)).toHaveLength(Math.ceil((length - 37) / 61));
});

test("repeated chunks after a reconnect are cut at the byte", async () => {
  server.on(EXEC, (_request, reply) =>
    reply.lines([
      { type: "start", processId: "p1" },
      { type: "stdout", data: "aé", offset: 0 },
      { type: "continue", processId: "p1", cursor: 3 },
    ]),
  );
  server.on(OUTPUT, (_request, reply) =>
    reply.lines([{ type: "stdout", data: "aébc", offset: 0 }, { type: "stdout", data: "d", offset: 5 }, exit]),
  );
  const got = await collect(sandbox.execStream("x"));
  expect(textOf(got)).toBe("aébcd");
  expect(server.of(OUTPUT)[0]?.query.get("cursor")).toBe("3");
  expect(server.of(OUTPUT)[0]?.query.get("follow")).toBe("true");
});

test("output that the sandbox no longer keeps is reported as lost", async () => {
  server.on(EXEC, (_request, reply) =>
    reply.lines([
      { type: "start", processId: "p1" },
      { type: "continue", processId: "p1", cursor: 0 },
    ]),
  );
  server.on(OUTPUT, (_request, reply) => reply.lines([{ type: "stdout", data: "late", offset: 10 }, exit]));
  const got = await collect(sandbox.execStream("x"));
  expect(got.filter((event) => event.type === "truncated")).toEqual([
    { type: "truncated", droppedBytes: 10, resumeAt: 10 },
  ]);
  expect(textOf(got)).toBe("late");
  const result = await sandbox.exec("x", { onStdout: () => undefined });
  expect(result.stdoutTruncated).toBe(true);
});

test("bytes that are no text neither hide nor repeat what follows", async () => {
  server.on(EXEC, (_request, reply) =>
    reply.lines([
      { type: "start", processId: "p1" },
      // One raw byte each, shown by a character of three.
      { type: "stdout", data: "\ufffd", offset: 0 },
      { type: "stdout", data: "\ufffd", offset: 1 },
      { type: "stdout", data: "ok", offset: 2 },
      exit,
    ]),
  );
  expect(textOf(await collect(sandbox.execStream("x")))).toBe("\ufffd\ufffdok");
});

test("error events of a busy server are followed again, others are thrown by their status", async () => {
  server.on(EXEC, (_request, reply) =>
    reply.lines([
      { type: "start", processId: "p1" },
      { type: "error", error: { code: "host_unavailable", message: "moved", status: 503 } },
    ]),
  );
  server.on(OUTPUT, (_request, reply, count) =>
    count === 0 ? reply.error("host_unavailable") : reply.lines([{ type: "stdout", data: "x", offset: 0 }, exit]),
  );
  expect(textOf(await collect(sandbox.execStream("x")))).toBe("x");
  server.on(EXEC, (_request, reply) =>
    reply.lines([
      { type: "start", processId: "p1" },
      { type: "error", error: { code: "guest_failed", message: "gone", status: 502 } },
    ]),
  );
  await expect(collect(sandbox.execStream("x"))).rejects.toMatchObject({ code: "guest_failed", status: 502 });
});

test("a stream that ends again and again with nothing new is given up", async () => {
  server.on(EXEC, (_request, reply) => reply.lines([{ type: "start", processId: "p1" }]));
  server.on(OUTPUT, (_request, reply) => reply.lines([]));
  await expect(collect(sandbox.execStream("x"))).rejects.toMatchObject({ code: "connection_error" });
  expect(server.of(OUTPUT)).toHaveLength(4);
});

test("a cut before the start sends the command again under the same key", async () => {
  const answer = (_request: Recorded, reply: Reply, count: number): Promise<void> =>
    reply.lines([{ type: "start", processId: "p1" }, exit], count === 0 ? { cutAfter: 5 } : {});
  server.on(EXEC, answer);
  await collect(sandbox.execStream("x"));
  const keys = server.of(EXEC).map((request) => request.headers["idempotency-key"]);
  expect(keys).toHaveLength(2);
  expect(keys[0]).toBe(keys[1]);
});

test("aborting ends the command by SIGTERM", async () => {
  const controller = new AbortController();
  server.on(EXEC, (_request, reply) =>
    reply.open([
      { type: "start", processId: "p1" },
      { type: "stdout", data: "x", offset: 0 },
    ]),
  );
  const run = sandbox.exec("sleep 100", { signal: controller.signal, onStdout: () => controller.abort() });
  await expect(run).rejects.toMatchObject({ code: "cancelled" });
  expect(server.of(SIGNAL).map((request) => request.json())).toEqual([{ signal: "SIGTERM" }]);
});

const processInfo = {
  id: "p1",
  kind: "process",
  state: "running",
  exitCode: null,
  command: "cat",
  cwd: "/workspace",
  pty: false,
  stdinOpen: true,
  stdinOffset: 0,
  outputEncoding: "base64",
  startedAt: "2031-01-02T03:04:05.000Z",
  endedAt: null,
  timeoutMs: null,
  outputBytes: 0,
  firstOffset: 0,
} as const;

test("a spawned process: spawn, output as bytes, wait, kill", async () => {
  server.on(`POST ${SANDBOX}/processes`, (_request, reply) => reply.json(processInfo));
  server.on(OUTPUT, (_request, reply) =>
    reply.lines([
      { type: "stdout", data: "\ufffd", offset: 0, base64: "/w==" },
      { ...exit, exitCode: -9, state: "killed" },
    ]),
  );
  const child = await sandbox.spawn("cat", { stdin: "pipe", outputEncoding: "base64" });
  expect(server.of(`POST ${SANDBOX}/processes`)[0]?.json()).toEqual({
    command: "cat",
    stdinMode: "pipe",
    outputEncoding: "base64",
  });
  const bytes: number[] = [];
  for await (const part of child.outputBytes()) bytes.push(...part.bytes);
  expect(bytes).toEqual([255]);
  expect([child.state, child.exitCode]).toEqual(["killed", -9]);
  expect(await child.wait()).toEqual({ exitCode: -9, state: "killed", timedOut: false, durationMs: 5 });
  await child.kill("SIGKILL");
  expect(server.of(SIGNAL)[0]?.json()).toEqual({ signal: "SIGKILL" });
});

test("writing to stdin keeps order and place when the process takes little", async () => {
  server.on(`POST ${SANDBOX}/processes`, (_request, reply) => reply.json(processInfo));
  let taken = Buffer.alloc(0);
  let ended = false;
  server.on(`POST ${SANDBOX}/processes/p1:write`, (request, reply, count) => {
    const body = request.json() as { base64: string; offset: number; eof?: boolean };
    expect(body.offset).toBe(taken.length);
    const piece = Buffer.from(body.base64, "base64");
    const room = count === 1 ? 0 : count % 2 === 0 ? piece.length : Math.floor(piece.length / 2);
    taken = Buffer.concat([taken, piece.subarray(0, room)]);
    ended = body.eof === true && room === piece.length;
    reply.json({ offset: taken.length });
  });
  const child = await sandbox.spawn("cat", { stdin: "pipe" });
  const data = Buffer.from(Array.from({ length: 200_000 }, (_, index) => index % 251));
  await Promise.all([child.write("head"), child.write(data, { eof: true })]);
  expect(taken.equals(Buffer.concat([Buffer.from("head"), data]))).toBe(true);
  expect(ended).toBe(true);
});

test("processes can be listed, got and followed by id", async () => {
  server.on(`GET ${SANDBOX}/processes`, (_request, reply) => reply.json({ data: [processInfo] }));
  server.on(`GET ${SANDBOX}/processes/p1`, (_request, reply) => reply.json(processInfo));
  server.on(OUTPUT, (_request, reply) => reply.lines([{ type: "stdout", data: "bc", offset: 1 }, exit]));
  expect((await sandbox.processes.list()).map((child) => child.id)).toEqual(["p1"]);
  expect((await sandbox.processes.get("p1")).command).toBe("cat");
  expect(textOf(await collect(sandbox.processes.follow("p1", { cursor: 1 })))).toBe("bc");
});

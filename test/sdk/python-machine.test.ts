/** Commands, files and programs by the Python SDK on the wire, by both halves. */
import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import type { OutputEvent } from "../../sdk/contract/guest.ts";
import { NO_PYTHON, halves, python, pythonText, stopPython } from "./python-run.ts";
import { SANDBOX, TEST_KEY, WireServer, sandboxInfo } from "./wire-server.ts";
import type { Recorded } from "./wire-server.ts";

const EXEC = `POST ${SANDBOX}:exec`;
const OUTPUT = `GET ${SANDBOX}/processes/p1/output`;
const SIGNAL = `POST ${SANDBOX}/processes/p1:signal`;
const CONTENT = `${SANDBOX}/files/content`;
const UPLOAD = `${SANDBOX}/uploads/u1`;
const MIB = 1_048_576;
const exit: OutputEvent = { type: "exit", exitCode: 0, state: "exited", timedOut: false, durationMs: 5 };
const GET = 'sandbox = await rouse.sandboxes.get("demo~abcdefghijkl")\n';

let server: WireServer;
let folder: string;
afterAll(stopPython);
beforeEach((context) => {
  if (NO_PYTHON !== null) context.skip(NO_PYTHON);
});
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rouse-python-"));
  server = await WireServer.start();
  server.on(`GET ${SANDBOX}`, (_request, reply) => reply.json(sandboxInfo()));
  server.on(SIGNAL, (_request, reply) => reply.json({}));
});
afterEach(async () => {
  await server[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

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

function serveFrom(events: readonly OutputEvent[], request: Recorded): OutputEvent[] {
  const cursor = Number(request.query.get("cursor"));
  return events.filter((event) => !("data" in event) || event.offset + Buffer.byteLength(event.data) > cursor);
}

describe.each(halves)("%s", (half) => {
  const run = (body: string, options = {}) => python(half, server.url, body, options);

  test("a command: a plain call; check raises what it left", async () => {
    const plain = {
      ...{ exitCode: 3, stdout: "hi\n", stderr: "first\nno such file\n", timedOut: false },
      ...{ stdoutTruncated: false, stderrTruncated: false, durationMs: 3, processId: "p1" },
    };
    server.on(EXEC, (_request, reply) => reply.json(plain));
    const found = await run(`${GET}
one = await sandbox.exec("echo hi", cwd="app", env={"MY_A": "1"}, stdin=b"\\xff")
await sandbox.exec(["echo", "hi"], stdin="text", timeout_ms=100)
return [one, await failure(lambda: sandbox.exec("false", check=True))]`);
    expect(found).toMatchObject([
      { exit_code: 3, stdout: "hi\n", timed_out: false, process_id: "p1" },
      { class: "CommandError", code: "command_failed", exit_code: 3, message: expect.stringContaining("no such file") },
    ]);
    expect(server.of(EXEC).map((request) => request.json())).toEqual([
      { command: "echo hi", cwd: "app", env: { MY_A: "1" }, stdinBase64: "/w==" },
      { argv: ["echo", "hi"], stdin: "text", timeoutMs: 100 },
      { command: "false" },
    ]);
  });

  test("output callbacks get everything, characters and lines intact in pieces of any size", async () => {
    const text = "žluťoučký 🐎\n日本語\n".repeat(5);
    server.on(EXEC, (_request, reply) =>
      reply.lines([{ type: "start", processId: "p1" }, ...outputOf(text, 4), { ...exit, exitCode: 7 }], {
        pieceBytes: 3,
      }),
    );
    const found = await run(`${GET}
seen = []
result = await sandbox.exec("x", on_stdout=seen.append, on_stderr=seen.append)
return ["".join(seen), result.exit_code, len(result.stdout) + len(result.stderr), result.process_id]`);
    expect(found).toEqual([text, 7, [...text].length, "p1"]);
    expect(server.of(EXEC)[0]?.json()).toMatchObject({ stream: true, timeoutMs: 86_400_000 });
  });

  test("a command cut after any number of bytes is resumed without loss or repetition", async () => {
    const text = "0123456789 áé🐎".repeat(4);
    const events = outputOf(text, 5);
    const stream = [{ type: "start", processId: "p1" }, ...events, exit];
    const length = Buffer.byteLength(stream.map((event) => `${JSON.stringify(event)}\n`).join(""));
    const cuts: number[] = [];
    for (let cutAfter = 37; cutAfter < length; cutAfter += 151) cuts.push(cutAfter);
    server.on(EXEC, (_request, reply, count) => reply.lines(stream, { cutAfter: cuts[count] ?? length }));
    server.on(OUTPUT, (request, reply, count) =>
      count % 3 === 0 ? reply.cut() : reply.lines([...serveFrom(events, request), exit]),
    );
    const found = await run(`${GET}
texts = []
for _ in range(${cuts.length}):
    seen = []
    async for event in sandbox.exec_stream("x"):
        seen.append(event)
    assert seen[-1]["type"] == "exit", seen
    texts.append("".join(event["data"] for event in seen if "data" in event))
return texts`);
    expect(found).toEqual(cuts.map(() => text));
    expect(new Set(server.of(EXEC).map((request) => request.headers["idempotency-key"])).size).toBe(cuts.length);
  });

  test("a command whose start never arrived is sent again under its key", async () => {
    server.on(EXEC, (_request, reply, count) =>
      count < 2 ? reply.lines([], {}) : reply.lines([{ type: "start", processId: "p1" }, exit]),
    );
    const kinds = await run(
      `${GET}return [event["type"] async for event in sandbox.exec_stream("x", idempotency_key="k")]`,
    );
    expect(kinds).toEqual(["start", "exit"]);
    expect(server.of(EXEC).map((request) => request.headers["idempotency-key"])).toEqual(["k", "k", "k"]);
  });

  test("a loop that is left early leaves the command running, and no connection open", async () => {
    server.on(EXEC, (_request, reply) => reply.open([{ type: "start", processId: "p1" }]));
    await run(`${GET}
stream = sandbox.exec_stream("x")
async for event in stream:
    break
await stream.aclose()`);
    expect(server.of(SIGNAL)).toHaveLength(0);
  });

  test("a process: output from a cursor, what is kept, raw bytes, stdin in the pieces that it takes", async () => {
    const info = {
      ...{ id: "p1", kind: "process", state: "running", exitCode: null, command: "x", cwd: "/workspace" },
      ...{
        pty: false,
        stdinOpen: true,
        stdinOffset: 0,
        outputEncoding: "base64",
        startedAt: "2031-01-02T03:00:00.000Z",
      },
      ...{ endedAt: null, timeoutMs: 0, outputBytes: 0, firstOffset: 0 },
    };
    let taken = 0;
    server.on(`POST ${SANDBOX}/processes`, (_request, reply) => reply.json(info));
    server.on(OUTPUT, (request, reply) =>
      request.query.get("follow") === "true"
        ? reply.lines([
            { type: "stdout", data: "\u{fffd}b", base64: "/2I=", offset: 0 },
            { ...exit, exitCode: 4 },
          ])
        : reply.json({
            chunks: request.query.get("cursor") === "0" ? [{ stream: "stdout", text: "kept", offset: 0 }] : [],
            ...{ nextCursor: 4, truncated: false, process: info },
          }),
    );
    server.on(`POST ${SANDBOX}/processes/p1:write`, (request, reply, count) => {
      const body = request.json() as { base64: string; offset: number; eof?: boolean };
      const length = Buffer.from(body.base64, "base64").length;
      expect(body.offset).toBe(taken);
      taken += count === 0 ? 3 : count === 1 ? 0 : length;
      reply.json({ offset: taken });
    });
    const found = await run(`${GET}
process = await sandbox.spawn("x", stdin="pipe", output_encoding="base64")
await process.write("0123456789", eof=True)
kept = [event async for event in process.output(follow=False)]
raw = [one.bytes async for one in process.output_bytes()]
ended = await process.wait()
await process.kill("SIGINT")
return [kept, raw, ended, process.exit_code, process.state]`);
    expect(found).toEqual([
      [{ type: "stdout", data: "kept", offset: 0 }],
      ["ff62"],
      { exit_code: 4, state: "exited", timed_out: false, duration_ms: 5 },
      4,
      "exited",
    ]);
    expect(taken).toBe(10);
    expect(server.of(`POST ${SANDBOX}/processes`)[0]?.json()).toMatchObject({ stdinMode: "pipe" });
    expect(server.of(SIGNAL)[0]?.json()).toEqual({ signal: "SIGINT" });
  });

  test("files: small ones by PUT, large ones by chunks of which some are dropped, streams, folders", async () => {
    const kept = new Map<string, { bytes: Buffer; mode: string | null }>();
    let upload = { path: "", sha256: "", mode: undefined as string | undefined, bytes: Buffer.alloc(0) };
    const written = (path: string, bytes: Buffer) => ({ path, size: bytes.length, sha256: sha256(bytes) });
    server.on(`PUT ${CONTENT}`, (request, reply) => {
      const path = request.query.get("path") ?? "";
      kept.set(path, { bytes: request.body, mode: request.query.get("mode") });
      reply.json(written(path, request.body));
    });
    server.on(`POST ${SANDBOX}/uploads`, (request, reply) => {
      const body = request.json() as { path: string; size: number; sha256: string; mode?: string };
      upload = { ...body, mode: body.mode, bytes: Buffer.alloc(body.size) };
      reply.json({ uploadId: "u1", chunkBytes: MIB });
    });
    server.on(`PUT ${UPLOAD}`, (request, reply, count) => {
      if (count % 3 === 0) return reply.cut();
      request.body.copy(upload.bytes, Number(request.query.get("offset")));
      reply.json({ received: request.body.length });
    });
    server.on(`POST ${UPLOAD}:commit`, (_request, reply) => {
      if (sha256(upload.bytes) !== upload.sha256) return reply.error("digest_mismatch");
      kept.set(upload.path, { bytes: upload.bytes, mode: upload.mode ?? null });
      reply.json(written(upload.path, upload.bytes));
    });
    server.on(`POST ${UPLOAD}:abort`, (_request, reply) => reply.json({}));
    await writeFile(join(folder, "a.sh"), "echo", { mode: 0o755 });
    const found = await run(`${GET}
data = bytes(range(256)) * 8192 + b"rest"
await sandbox.files.write("note.md", "žluť", mode=0o600)
big = await sandbox.files.write("big", data, mode="0755")
await sandbox.files.write_stream("streamed", [data[at : at + 100_001] for at in range(0, len(data), 100_001)])
await sandbox.files.write_stream("opened", io.BytesIO(b"abc"))
seen = []
report = await sandbox.files.upload(${JSON.stringify(join(folder, "a.sh"))}, "there/a.sh", on_progress=lambda one: seen.append(one.files))
bad = await failure(lambda: sandbox.files.chmod("x", "rwx"))
return [big["size"], report.files, report.bytes, seen, bad["code"]]`);
    const data = Buffer.concat([
      Buffer.from(Array.from({ length: 256 * 8192 }, (_, at) => at % 256)),
      Buffer.from("rest"),
    ]);
    expect(found).toEqual([data.length, 1, 4, [1], "invalid_argument"]);
    expect(kept.get("note.md")).toEqual({ bytes: Buffer.from("žluť"), mode: "600" });
    expect(kept.get("big")?.bytes.equals(data)).toBe(true);
    expect(kept.get("big")?.mode).toBe("755");
    expect(kept.get("streamed")?.bytes.equals(data)).toBe(true);
    expect(kept.get("opened")?.bytes.toString()).toBe("abc");
    expect(kept.get("there/a.sh")).toEqual({ bytes: Buffer.from("echo"), mode: "755" });
    expect(server.of(`POST ${UPLOAD}:abort`)).toHaveLength(0);
  });

  test("an upload that fails is aborted and raised", async () => {
    server.on(`POST ${SANDBOX}/uploads`, (_request, reply) => reply.json({ uploadId: "u1", chunkBytes: MIB }));
    server.on(`PUT ${UPLOAD}`, (_request, reply) => reply.error("disk_full"));
    server.on(`POST ${UPLOAD}:abort`, (_request, reply) => reply.json({}));
    const found = await run(`${GET}return await failure(lambda: sandbox.files.write("big", b"x" * ${3 * MIB}))`);
    expect(found).toMatchObject({ code: "disk_full", status: 507 });
    expect(server.of(`POST ${UPLOAD}:abort`)).toHaveLength(1);
  });

  test("reads are checked against length and digest, and done again when they are wrong", async () => {
    const bytes = Buffer.alloc(1000, 7);
    const headers = { "x-content-length": "1000", "x-content-sha256": sha256(bytes) };
    server.on(`GET ${CONTENT}`, (request, reply, count) => {
      if (request.query.get("path") === "short") return reply.raw("short", 200, { "x-content-length": "6" });
      return reply.raw(count === 0 ? bytes.subarray(0, 999) : count === 1 ? Buffer.alloc(1000) : bytes, 200, headers);
    });
    const found = await run(`${GET}
whole = await sandbox.files.read("x")
streamed = b"".join([chunk async for chunk in sandbox.files.read_stream("x")])
async def read():
    return [chunk async for chunk in sandbox.files.read_stream("short")]
return [len(whole), len(streamed), await failure(lambda: sandbox.files.read_text("short")), await failure(read)]`);
    expect(found).toMatchObject([
      1000,
      1000,
      { code: "download_incomplete", retryable: true },
      { code: "download_incomplete" },
    ]);
  });

  test("the interpreter: results, callbacks, a failure as if it were the answer's status", async () => {
    const execution = {
      ...{ id: "e1", contextId: "python", language: "python", executionCount: 1, status: "ok", stdout: "", stderr: "" },
      results: [{ main: true, data: { "text/plain": "['weekly']" }, refs: {} }],
      ...{ error: null, overflow: [], durationMs: 2, contextStarted: false, lostBytes: 0 },
    };
    const route = `POST ${SANDBOX}/interpreter:run`;
    server.on(route, (request, reply) => {
      const { code, stream } = request.json() as { code: string; stream?: boolean };
      if (code === "bad")
        return reply.lines([{ k: "failure", code: "context_not_found", message: "m", hint: null, status: 404 }]);
      if (stream !== true) return reply.json(execution);
      return reply.lines(
        [{ k: "start", n: 1 }, { k: "stdout", text: "a🐎" }, { k: "new" }, { k: "execution", execution }],
        { pieceBytes: 3 },
      );
    });
    const found = await run(`${GET}
seen = []
recall = await sandbox.interpreter.run("notes", on_stdout=seen.append)
plain = await sandbox.interpreter.run("notes", timeout_ms=5000, context="other")
return [recall["results"][0]["data"]["text/plain"], seen, plain["status"], await failure(lambda: sandbox.interpreter.run("bad"))]`);
    expect(found).toMatchObject(["['weekly']", ["a🐎"], "ok", { class: "NotFoundError", code: "context_not_found" }]);
    expect(server.of(route)[1]?.json()).toEqual({ code: "notes", timeoutMs: 5000, context: "other" });
  });

  test("a request to the program in it: the key goes along inside, and is left behind where a redirect leads away", async () => {
    const other = await WireServer.start();
    try {
      other.onOpen("GET /away", (request, reply) =>
        reply.json({ secrets: [request.headers.authorization, request.headers.cookie] }),
      );
      server.on("POST /s/demo/8080/notes", (request, reply, count) =>
        count === 0
          ? reply.error("sandbox_waking", { retryAfterMs: 1 })
          : reply.json({ body: request.body.toString(), key: request.headers.authorization === `Bearer ${TEST_KEY}` }),
      );
      server.on("GET /s/demo/3000/in", (_request, reply) => reply.raw("", 302, { location: "/there?x=1" }));
      server.on("GET /s/demo/3000/there", (request, reply) => reply.json({ x: request.query.get("x") }));
      server.on("GET /s/demo/8080/out", (_request, reply) => reply.raw("", 302, { location: `${other.url}/away` }));
      const found = await run(`${GET}
posted = await sandbox.fetch("/notes", method="post", body="buy milk", headers={"Authorization": "mine"})
inside = await sandbox.fetch("/in", port=3000)
away = await sandbox.fetch("/out", headers={"cookie": "c"})
manual = await sandbox.fetch("/out", redirect="manual")
escape = await failure(lambda: sandbox.fetch("/../../v1/me"))
return [await posted.json(), await inside.json(), await away.json(), manual.status, escape["code"]]`);
      expect(found).toEqual([
        { body: "buy milk", key: true },
        { x: "1" },
        { secrets: [null, null] },
        302,
        "invalid_argument",
      ]);
    } finally {
      await other[Symbol.asyncDispose]();
    }
  });

  test("state: values with versions, a compare that lost, a transaction that is done again", async () => {
    const key = `${SANDBOX}/state/keys/plan%2Fa`;
    const facts = { contentType: "application/json", bytes: 1, updatedAt: "2031-01-02T03:00:00.000Z", expiresAt: null };
    const entry = { key: "plan/a", version: 2, by: "key-1", ...facts };
    server.on(`PUT ${key}`, (request, reply) =>
      request.headers["if-match"] === '"1"' ? reply.error("version_mismatch") : reply.json(entry),
    );
    server.on(`GET ${key}`, (_request, reply) =>
      reply.raw('{"step":8}', 200, { etag: '"7"', "content-type": "application/json" }),
    );
    server.on(`GET ${SANDBOX}/state/keys/none`, (_request, reply) => reply.error("state_not_found"));
    server.on(`POST ${SANDBOX}/state/keys:batch`, (_request, reply, count) =>
      count === 0 ? reply.error("version_mismatch") : reply.json({ data: [{ key: "plan/a", version: 8 }] }),
    );
    server.on(`POST ${SANDBOX}/state/sql`, (_request, reply) =>
      reply.json({ results: [{ columns: ["a", "b"], rows: [[1, "x"]], rowsWritten: 0, truncated: false }] }),
    );
    const found = await run(`${GET}
data = sandbox.data
async def work(transaction):
    plan = await transaction.get("plan/a")
    transaction.set("plan/a", {"step": plan["step"] + 1})
    return plan["step"]
return [
    await data.get("plan/a"), await data.get("none"), (await data.read("plan/a")).version,
    await data.cas("plan/a", 1, {}), await data.cas("plan/a", None, {}), await data.transaction(work),
    await data.sql("SELECT 1", [30]),
]`);
    expect(found).toEqual([{ step: 8 }, null, 7, null, 2, 8, [{ a: 1, b: "x" }]]);
    expect(server.of(`PUT ${key}`)[1]?.headers["if-none-match"]).toBe("*");
    expect(server.of(`POST ${SANDBOX}/state/keys:batch`)[1]?.json()).toEqual({
      checks: [{ key: "plan/a", version: 7 }],
      writes: [{ op: "put", key: "plan/a", value: { step: 9 } }],
    });
  });
});

test("a task that is cancelled ends its command by SIGTERM, as Ctrl-C does in the synchronous half", async () => {
  server.on(EXEC, (_request, reply) => reply.open([{ type: "start", processId: "p1" }]));
  await python(
    "async",
    server.url,
    `${GET}
started = asyncio.Event()
async def work():
    async for event in sandbox.exec_stream("sleep 100"):
        started.set()
task = asyncio.create_task(work())
await started.wait()
task.cancel()
await asyncio.wait([task])
assert task.cancelled()`,
  );
  expect(server.of(SIGNAL).map((request) => request.json())).toEqual([{ signal: "SIGTERM" }]);
  const text = `
import os, signal, sys
from rouse import Rouse
sandbox = Rouse(base_url=sys.argv[1], api_key=sys.argv[2]).sandboxes.get("demo~abcdefghijkl")
try:
    for event in sandbox.exec_stream("sleep 100"):
        import threading
        threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
except KeyboardInterrupt:
    print("interrupted")`;
  expect(await pythonText(text, [server.url, TEST_KEY])).toBe("interrupted\n");
  expect(server.of(SIGNAL)).toHaveLength(2);
});

/**
 * Runtime's client, pointed here: what it does in a machine, as it does it, and what it reads of the answers. The guest
 * agent is the real one; only the machine around it is none.
 */
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { execFileSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startAgent, type Agent } from "../guest/agent.ts";
import { KERNEL_PYTHON, KERNEL_STAND_IN, NO_KERNEL } from "../support/kernel-python.ts";
import { cursorAfter, type Json } from "../support/runtime-client.ts";
import { collect, created, fault, stage } from "./runtimes.ts";
import { eventually } from "./test-edge.ts";

const MIB = 1_048_576;

let agent: Agent;
let id: string;
let path: string;
const on = stage(async () => {
  agent = await startAgent("--python", NO_KERNEL === null ? KERNEL_PYTHON : KERNEL_STAND_IN);
  return agent.port;
});
beforeAll(async () => {
  id = (await created(on)).id;
  path = on.runtime.path(id);
});
afterAll(() => agent.stop());

const exec = (json: Json, key?: string) => on.runtime.call("POST", `${path}:exec`, { json, ...(key && { key }) });
const put = (name: string, bytes: Buffer, mode?: string) =>
  on.runtime.call("PUT", `${path}/files/content`, { bytes, query: { path: name, mode } });
const textOf = (events: readonly Json[], stream = "stdout") =>
  events.map((one) => (one["type"] === stream ? String(one["data"]) : "")).join("");

describe("commands", () => {
  it("run to their end: by a shell, or as they are", async () => {
    const ran = await exec({
      command: "cat; echo $A; pwd; echo bad >&2; exit 3",
      env: { A: "b c" },
      cwd: "/tmp",
      stdin: "in\n",
    });
    expect(ran).toMatchObject({ exitCode: 3, stdout: "in\nb c\n/tmp\n", stderr: "bad\n", timedOut: false });
    expect(ran).toMatchObject({ stdoutTruncated: false, stderrTruncated: false, durationMs: expect.any(Number) });
    expect(ran["processId"]).toEqual(expect.any(String));
    const bytes = await exec({ argv: ["od", "-An", "-tx1"], stdinBase64: Buffer.from([0, 255]).toString("base64") });
    expect(String(bytes["stdout"]).trim()).toBe("00 ff");
    expect(await exec({ command: "kill -9 $$" })).toMatchObject({ exitCode: -9, timedOut: false });
    expect(await exec({ command: "sleep 9", timeoutMs: 200 })).toMatchObject({ timedOut: true });
    const wrong = await fault(exec({ command: "a", argv: ["b"] }));
    expect(wrong).toMatchObject({ status: 400, code: "invalid_request", details: { issues: expect.any(Array) } });
  });

  it("run once for a key", async () => {
    const key = randomUUID();
    const json = { command: "echo $RANDOM$RANDOM$RANDOM" };
    const first = await exec(json, key);
    expect(await exec(json, key)).toMatchObject({
      stdout: first["stdout"],
      processId: first["processId"],
      replayed: true,
    });
    expect(await fault(exec({ command: "echo other" }, key))).toMatchObject({
      status: 422,
      code: "idempotency_key_reused",
    });
  });

  it("stream what they write, with offsets of both streams together", async () => {
    const events = await collect(
      on.runtime.exec(id, { command: "echo hello; sleep 0.2; echo warn >&2; sleep 0.2; echo ü" }),
    );
    expect(events).toMatchObject([
      { type: "start", processId: expect.any(String) },
      { type: "stdout", data: "hello\n", offset: 0 },
      { type: "stderr", data: "warn\n", offset: 6 },
      { type: "stdout", data: "ü\n", offset: 11 },
      { type: "exit", exitCode: 0, state: "exited", timedOut: false, durationMs: expect.any(Number) },
    ]);
  });

  it("go on where a connection was cut, and past the end of a slice", async () => {
    const command = "for n in $(seq 1 200000); do echo line $n; done";
    const events = await collect(on.runtime.exec(id, { command }, 4));
    const lines = textOf(events).trimEnd().split("\n");
    expect([lines.length, lines.at(0), lines.at(-1)]).toEqual([200_000, "line 1", "line 200000"]);
    expect(events.at(-1)).toMatchObject({ type: "exit", exitCode: 0 });
  });

  it("end by a signal, and say so", async () => {
    const events: Json[] = [];
    for await (const event of on.runtime.exec(id, { command: "echo up; sleep 60" })) {
      events.push(event);
      if (event["type"] === "stdout")
        await on.runtime.call("POST", `${path}/processes/${String(events[0]?.["processId"])}:signal`, {
          json: { signal: "SIGTERM" },
        });
    }
    expect(events.at(-1)).toMatchObject({ type: "exit", state: "killed" });
  });
});

describe("processes", () => {
  const spawn = (json: Json) => on.runtime.call("POST", `${path}/processes`, { json });
  const of = (pid: unknown) => `${path}/processes/${String(pid)}`;

  it("take input by offset, as often as it is sent", async () => {
    const process = await spawn({ command: "cat; echo done", stdinMode: "pipe" });
    expect(process).toMatchObject({
      ...{ kind: "process", state: "running", exitCode: null, command: "cat; echo done", pty: false, stdinOpen: true },
      ...{ stdinOffset: 0, outputEncoding: "utf8", endedAt: null, timeoutMs: null, outputBytes: 0, firstOffset: 0 },
    });
    const write = (text: string, offset: number, eof?: boolean) =>
      on.runtime.call("POST", `${of(process["id"])}:write`, {
        json: { base64: Buffer.from(text).toString("base64"), offset, ...(eof && { eof }) },
      });
    expect(await write("one\n", 0)).toMatchObject({ offset: 4 });
    expect(await write("one\n", 0)).toMatchObject({ offset: 4 });
    expect(await write("two\n", 4, true)).toMatchObject({ offset: 8 });
    const events = await collect(on.runtime.follow(id, String(process["id"]), 0));
    expect(textOf(events)).toBe("one\ntwo\ndone\n");
    expect(await on.runtime.call("GET", of(process["id"]))).toMatchObject({
      state: "exited",
      exitCode: 0,
      stdinOpen: false,
    });
    const { data } = await on.runtime.call<{ data: Json[] }>("GET", `${path}/processes`);
    expect(data.map((one) => one["id"])).toContain(process["id"]);
  });

  it("take much input by what was accepted", async () => {
    const process = await spawn({ command: "sleep 0.5; sha256sum", stdinMode: "pipe" });
    const data = randomBytes(5 * MIB);
    let offset = Number(process["stdinOffset"]);
    for (let size = MIB; offset < data.length;) {
      const piece = data.subarray(offset, offset + size);
      const json = {
        base64: piece.toString("base64"),
        offset,
        ...(offset + piece.length === data.length && { eof: true }),
      };
      const answer = await on.runtime.call<{ offset: number }>("POST", `${of(process["id"])}:write`, { json });
      const taken = answer.offset - offset;
      expect(taken >= 0 && taken <= piece.length).toBe(true);
      offset = answer.offset;
      if (taken === 0) await sleep(100);
      size = taken === 0 ? 65_536 : MIB;
    }
    const events = await collect(on.runtime.follow(id, String(process["id"]), 0));
    expect(textOf(events)).toContain(createHash("sha256").update(data).digest("hex"));
  });

  it("keep their output, by pages and as raw bytes", async () => {
    const process = await spawn({
      command: "head -c 300000 /dev/zero | tr '\\0' x; printf '\\377\\376'",
      outputEncoding: "base64",
    });
    await collect(on.runtime.follow(id, String(process["id"]), 0));
    const pieces: Buffer[] = [];
    for (let cursor = 0; ;) {
      const query = { cursor, maxBytes: 196_608 };
      const page = await on.runtime.call<{ chunks: Json[]; nextCursor: number; truncated: boolean; process: Json }>(
        "GET",
        `${of(process["id"])}/output`,
        { query },
      );
      expect([page.truncated, page.process]).toEqual([false, { state: "exited", exitCode: 0 }]);
      for (const chunk of page.chunks) {
        cursor = cursorAfter({ ...chunk, type: chunk["stream"], data: chunk["text"] }, cursor);
        pieces.push(Buffer.from(String(chunk["base64"]), "base64"));
      }
      if (page.chunks.length === 0) break;
      expect(page.nextCursor).toBe(cursor);
    }
    const all = Buffer.concat(pieces);
    expect([all.length, all.subarray(-2)]).toEqual([300_002, Buffer.from([255, 254])]);
  });

  it("that are none answer 404", async () => {
    expect(await fault(on.runtime.call("GET", of("none")))).toMatchObject({ status: 404, code: "process_not_found" });
    const follow = collect(on.runtime.follow(id, "none", 0));
    expect((await fault(follow)).status).toBe(404);
  });
});

describe("files", () => {
  const files = () => `${path}/files`;
  const stat = (name: string) => on.runtime.call("GET", `${files()}/stat`, { query: { path: name } });

  it("are written whole with the folders above, and read with length and digest", async () => {
    const text = Buffer.from("hallo ü\n");
    await put("a b/ü+&.txt", text, "640");
    expect(await on.runtime.bytes(`${files()}/content`, { path: "a b/ü+&.txt" })).toEqual(text);
    const { message, headers } = await on.runtime.open("GET", `${files()}/content`, {
      query: { path: "a b/ü+&.txt" },
      accept: "application/octet-stream",
    });
    message.resume();
    expect(headers["x-content-length"]).toBe(String(text.length));
    expect(headers["x-content-sha256"]).toBe(createHash("sha256").update(text).digest("hex"));
    const entry = await stat("a b/ü+&.txt");
    expect(entry).toMatchObject({ exists: true, name: "ü+&.txt", type: "file", size: text.length, mode: "0640" });
    expect(entry["modifiedAt"]).toMatch(/^\d{4}-.*Z$/);
    await put("empty", Buffer.alloc(0));
    expect(await on.runtime.bytes(`${files()}/content`, { path: "empty" })).toHaveLength(0);
  });

  it("that are missing are 200 to stat, and 404 to read", async () => {
    expect(await stat("none/at/all")).toMatchObject({ exists: false, path: expect.stringContaining("none/at/all") });
    expect(await fault(on.runtime.bytes(`${files()}/content`, { path: "none" }))).toMatchObject({
      status: 404,
      code: "file_not_found",
    });
    expect(await fault(on.runtime.bytes(`${files()}/content`, { path: "/tmp" }))).toMatchObject({
      status: 409,
      code: "is_a_directory",
    });
  });

  it("are listed, made, moved, changed and removed", async () => {
    const call = (verb: string, json: object) => on.runtime.call("POST", `${files()}:${verb}`, { json });
    await call("mkdir", { path: "tree/deep", parents: true });
    await put("tree/deep/one.txt", Buffer.from("1"));
    await put("tree/.hidden", Buffer.from("2"));
    await exec({ command: `ln -s deep/one.txt ${agent.home}/tree/link` });
    const list = async (query: Record<string, string | number | boolean>) =>
      (await on.runtime.call<{ data: Json[] }>("GET", `${files()}/list`, { query })).data
        .map((one) => `${String(one["name"])} ${String(one["type"])}`)
        .toSorted();
    expect(await list({ path: "tree" })).toEqual([".hidden file", "deep directory", "link symlink"]);
    expect(await list({ path: "tree", depth: 2, hidden: false })).toEqual([
      "deep directory",
      "link symlink",
      "one.txt file",
    ]);
    expect(await list({ path: "tree", glob: "**/*.txt", limit: 10 })).toEqual(["one.txt file"]);
    await call("rename", { from: "tree/deep/one.txt", to: "tree/two.txt" });
    expect(await fault(call("rename", { from: "tree/two.txt", to: "tree/.hidden" }))).toMatchObject({ status: 409 });
    await call("rename", { from: "tree/two.txt", to: "tree/.hidden", overwrite: true });
    await call("chmod", { path: "tree/.hidden", mode: "755" });
    expect(await stat("tree/.hidden")).toMatchObject({ mode: "0755", size: 1 });
    expect(await fault(call("remove", { path: "tree" }))).toMatchObject({ status: 409, code: "directory_not_empty" });
    expect(await call("remove", { path: "tree", recursive: true })).toEqual({ removed: true });
    expect(await call("remove", { path: "tree" })).toEqual({ removed: false });
  });

  /** Keys of the steps of one write, as that client makes them. */
  const phaseKey = (key: string, phase: string) =>
    createHash("sha256")
      .update(JSON.stringify(["files.write", key, phase]))
      .digest("hex");

  it("of any size go up in chunks, several at once, each as often as it takes", async () => {
    const data = randomBytes(3 * MIB + 77);
    const key = randomUUID();
    const json = {
      path: "large.bin",
      size: data.length,
      sha256: createHash("sha256").update(data).digest("hex"),
      mode: "755",
    };
    const begin = () => on.runtime.call("POST", `${path}/uploads`, { json, key: phaseKey(key, "begin") });
    const begun = await begin();
    // What is echoed needs no chmod.
    expect(begun).toMatchObject({ uploadId: expect.any(String), chunkBytes: MIB, mode: "755" });
    const again = await begin();
    expect(again).toMatchObject({ uploadId: begun["uploadId"], replayed: true });
    const upload = `${path}/uploads/${String(begun["uploadId"])}`;
    const commit = () => on.runtime.call("POST", `${upload}:commit`, { json: {}, key: phaseKey(key, "commit") });
    expect(await fault(commit())).toMatchObject({ code: "upload_incomplete" });
    const send = async (offset: number) => {
      const bytes = data.subarray(offset, offset + MIB);
      const { received } = await on.runtime.call<{ received: number }>("PUT", upload, { bytes, query: { offset } });
      expect(received >= bytes.length && received <= data.length).toBe(true);
    };
    await Promise.all([3 * MIB, 0, 2 * MIB, MIB, 0].map(send));
    await commit();
    expect(await on.runtime.bytes(`${path}/files/content`, { path: "large.bin" })).toEqual(data);
    expect(await stat("large.bin")).toMatchObject({ mode: "0755", size: data.length });
    await commit();
  });

  it("that were given up leave nothing", async () => {
    const json = { path: "given-up", size: 10, sha256: "0".repeat(64) };
    const begun = await on.runtime.call("POST", `${path}/uploads`, { json });
    await on.runtime.call("POST", `${path}/uploads/${String(begun["uploadId"])}:abort`, { json: {} });
    expect(await stat("given-up")).toMatchObject({ exists: false });
    const gone = on.runtime.call("PUT", `${path}/uploads/${String(begun["uploadId"])}`, {
      bytes: Buffer.alloc(10),
      query: { offset: 0 },
    });
    expect(await fault(gone)).toMatchObject({ status: 404, code: "upload_not_found" });
  });
});

describe("folders", () => {
  const archive = () => `${path}/files/archive`;
  const pack = (...flags: string[]) =>
    execFileSync("tar", ["--format=ustar", "-cf", "-", ...flags], { maxBuffer: 16 * MIB });

  it("come as archives that its own unpacker reads: no pax headers, no hard links, nothing that leads out", async () => {
    const long = `${"folder-of-many-letters/".repeat(7)}file`;
    await exec({
      command: `mkdir -p src/$(dirname ${long}) && echo 1 > src/${long} && echo 2 > src/a && ln src/a src/b && ln -s a src/c && echo 3 > src/.no`,
    });
    const { message, headers } = await on.runtime.open("GET", archive(), {
      query: { path: "src", gzip: true, exclude: [".no", "*.tmp"] },
      accept: "application/gzip",
    });
    expect(headers["content-type"]).toBe("application/gzip");
    const chunks: Buffer[] = [];
    for await (const chunk of message as AsyncIterable<Buffer>) chunks.push(chunk);
    const tar = gunzipSync(Buffer.concat(chunks));
    const entries = [...entriesOf(tar)];
    const types = new Set(entries.map(({ type }) => type));
    expect([...types].filter((type) => !["0", "5", "2", "L", "K"].includes(type))).toEqual([]);
    expect(
      entries
        .filter(({ name }) => /^(?:[abc]|\.no)$/.test(name))
        .map(({ name, type }) => name + type)
        .toSorted(),
    ).toEqual(["a0", "b0", "c2"]);
    expect(entries.some(({ name }) => name.startsWith("/") || name.split("/").includes(".."))).toBe(false);
    // It wants the block of zeros at the end.
    expect(tar.subarray(-1024).every((byte) => byte === 0)).toBe(true);
  });

  it("go up in one piece, or in parts that are in order, each as often as it takes", async () => {
    await put("up/one.txt", Buffer.from("one"));
    const small = pack("-C", agent.home, "up/one.txt");
    await on.runtime.call("PUT", archive(), { bytes: small, query: { path: "small" } });
    expect((await on.runtime.bytes(`${path}/files/content`, { path: "small/up/one.txt" })).toString()).toBe("one");
    const data = randomBytes(3 * MIB);
    for (const half of [0, 1]) await put(`up/${half}.bin`, data.subarray(half * MIB, half * MIB + MIB));
    const large = gzipSync(pack("-C", `${agent.home}/up`, "."));
    const begun = await on.runtime.call("POST", `${archive()}/uploads`, { json: { path: "large", gzip: true } });
    expect(begun).toMatchObject({ uploadId: expect.any(String), chunkBytes: MIB });
    const upload = `${archive()}/uploads/${String(begun["uploadId"])}`;
    for (let offset = 0; offset < large.length; offset += MIB)
      for (const _ of [1, 2])
        await on.runtime.call("PUT", upload, { bytes: large.subarray(offset, offset + MIB), query: { offset } });
    await on.runtime.call("POST", `${upload}:commit`, { json: {} });
    expect(await on.runtime.bytes(`${path}/files/content`, { path: "large/1.bin" })).toEqual(
      data.subarray(MIB, 2 * MIB),
    );
    const other = await on.runtime.call("POST", `${archive()}/uploads`, { json: { path: "none", gzip: false } });
    await on.runtime.call("POST", `${archive()}/uploads/${String(other["uploadId"])}:abort`, { json: {} });
    const root = on.runtime.open("GET", archive(), { query: { path: "up", user: "root" } });
    expect(await fault(root)).toMatchObject({ status: 503, code: "unavailable" });
  });

  function* entriesOf(tar: Buffer): Generator<{ name: string; type: string }> {
    for (let at = 0; tar[at] !== 0;) {
      const text = (from: number, to: number) =>
        tar
          .subarray(at + from, at + to)
          .toString()
          .replace(/\0.*$/s, "");
      const size = Number.parseInt(text(124, 136), 8);
      yield { name: text(0, 100).replace(/^\.\//, ""), type: text(156, 157) || "0" };
      at += 512 + Math.ceil(size / 512) * 512;
    }
  }
});

describe("the interpreter", () => {
  const run = (json: Json) => on.runtime.call("POST", `${path}/interpreter:run`, { json });

  it("answers an execution, and keeps its variables", async () => {
    expect(await run({ code: "x = 41\nprint('hi')" })).toMatchObject({
      status: "ok",
      stdout: "hi\n",
      stderr: "",
      error: null,
    });
    const second = await run({ code: "x + 1", language: "python", timeoutMs: 0 });
    expect(second).toMatchObject({
      ...{ id: expect.any(String), contextId: "python", language: "python", executionCount: expect.any(Number) },
      ...{ overflow: [], durationMs: expect.any(Number), contextStarted: false, lostBytes: 0 },
      results: [{ main: true, data: { "text/plain": "42" }, refs: {} }],
    });
    expect(await run({ code: "1/0" })).toMatchObject({
      status: "error",
      error: { name: "ZeroDivisionError", value: "division by zero", traceback: expect.any(String) },
    });
    expect(await run({ code: "import time; time.sleep(60)", timeoutMs: 300 })).toMatchObject({ status: "timeout" });
    expect(await fault(run({ code: "1", language: "r" }))).toMatchObject({ status: 400 });
    expect(await fault(run({ code: "1", context: "none", stream: true }))).toMatchObject({
      status: 404,
      code: "context_not_found",
    });
  });

  it("streams lines by k, the last of which is the execution", async () => {
    const lines = await collect(
      on.runtime.lines("POST", `${path}/interpreter:run`, {
        json: {
          code: "import sys\nprint('a')\nprint('b', file=sys.stderr)\n7",
          ...{ language: "python", interruptOnDisconnect: true, stream: true },
        },
      }),
    );
    expect(lines.map((line) => line["k"])).toEqual(
      expect.arrayContaining(["start", "stdout", "stderr", "result", "execution"]),
    );
    expect(lines.at(-1)).toMatchObject({ k: "execution", execution: { status: "ok", stdout: "a\n", stderr: "b\n" } });
    expect(lines.find((line) => line["k"] === "start")).toEqual({ k: "start", n: expect.any(Number) });
    expect(lines.find((line) => line["k"] === "result")).toEqual({
      ...{ k: "result", main: true, data: { "text/plain": "7" }, refs: {} },
    });
    const failing = await collect(
      on.runtime.lines("POST", `${path}/interpreter:run`, { json: { code: "1/0", stream: true } }),
    );
    expect(failing.find((line) => line["k"] === "error")).toEqual({
      ...{ k: "error", name: "ZeroDivisionError", value: "division by zero", traceback: expect.any(String) },
    });
    expect(failing.slice(-2)).toMatchObject([{ k: "end" }, { k: "execution", execution: { status: "error" } }]);
  });

  it("has contexts", async () => {
    const contexts = `${path}/interpreter/contexts`;
    const made = await on.runtime.call("POST", contexts, { json: { id: "two", language: "python", cwd: "/tmp" } });
    expect(made).toMatchObject({
      id: "two",
      language: "python",
      cwd: "/tmp",
      processId: expect.any(String),
      startedAt: expect.any(Number),
    });
    const { data } = await on.runtime.call<{ data: Json[] }>("GET", contexts);
    expect(data.map((one) => one["id"])).toContain("two");
    const running = run({ code: "import time; time.sleep(60)", context: "two" });
    await eventually(
      () => on.runtime.call("POST", `${contexts}/two:interrupt`, { json: {} }),
      ({ interrupted }) => interrupted === true,
    );
    expect(await running).toMatchObject({ status: "interrupted" });
    expect(await on.runtime.call("POST", `${contexts}/two:restart`, { json: {} })).toMatchObject({ id: "two" });
    expect(await on.runtime.call("DELETE", `${contexts}/two`)).toEqual({ deleted: true });
  });
});

describe("a sleeper", () => {
  it("is woken by a command and a file, not by a look at it", async () => {
    await on.runtime.act(id, "pause", {}, 60);
    expect(await on.runtime.call("GET", path)).toMatchObject({ state: "paused" });
    expect(await exec({ command: "echo awake" })).toMatchObject({ stdout: "awake\n" });
    await on.runtime.act(id, "pause", {}, 60);
    expect(await on.runtime.call("GET", `${path}/files/stat`, { query: { path: "/tmp" } })).toMatchObject({
      exists: true,
    });
    expect(await on.runtime.call("GET", path)).toMatchObject({ state: "running" });
    await on.runtime.act(id, "stop", {}, 60);
    expect(await fault(exec({ command: "true" }))).toMatchObject({ status: 409, code: "sandbox_stopped" });
    await on.runtime.act(id, "restart", {}, 60);
  });
});

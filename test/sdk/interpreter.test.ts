import { afterEach, beforeEach, expect, test } from "vitest";
import { Rouse } from "../../sdk/src/index.ts";
import type { Sandbox } from "../../sdk/src/index.ts";
import { SANDBOX, TEST_KEY, WireServer, sandboxInfo } from "./wire-server.ts";

const RUN = `POST ${SANDBOX}/interpreter:run`;
const execution = {
  id: "e1",
  contextId: "python",
  language: "python",
  executionCount: 1,
  status: "ok",
  stdout: "hi\n",
  stderr: "",
  results: [{ main: true, data: { "text/plain": "['prefers weekly summaries']" }, refs: {} }],
  error: null,
  overflow: [],
  durationMs: 2,
  contextStarted: false,
  lostBytes: 0,
};

let server: WireServer;
let sandbox: Sandbox;

beforeEach(async () => {
  server = await WireServer.start();
  server.on(`GET ${SANDBOX}`, (_request, reply) => reply.json(sandboxInfo()));
  sandbox = await new Rouse({ baseUrl: server.url, apiKey: TEST_KEY }).sandboxes.get("demo~abcdefghijkl");
});
afterEach(async () => {
  await server[Symbol.asyncDispose]();
});

test("a run answers its results; a short limit makes it one plain call", async () => {
  server.on(RUN, (request, reply) =>
    (request.json() as { stream?: boolean }).stream
      ? reply.lines([{ k: "start", n: 1 }, { k: "end" }, { k: "execution", execution }])
      : reply.json(execution),
  );
  const recall = await sandbox.interpreter.run("notes");
  expect(recall.results[0]?.data["text/plain"]).toBe("['prefers weekly summaries']");
  expect((await sandbox.interpreter.run("notes", { timeoutMs: 5000, context: "other" })).status).toBe("ok");
  expect(server.of(RUN).map((request) => request.json())).toEqual([
    { code: "notes", stream: true },
    { code: "notes", timeoutMs: 5000, context: "other" },
  ]);
});

test("callbacks hear what happens, in order, in pieces of any size", async () => {
  const error = { name: "ValueError", value: "ñ", traceback: "…" };
  server.on(RUN, (_request, reply) =>
    reply.lines(
      [
        { k: "start", n: 1 },
        { k: "stdout", text: "a🐎" },
        { k: "stderr", text: "b" },
        { k: "somethingNew", x: 1 },
        { k: "result", main: false, data: { "image/png": "aGk=" }, refs: {} },
        { k: "error", ...error },
        { k: "end" },
        { k: "execution", execution: { ...execution, status: "error", error } },
      ],
      { pieceBytes: 3 },
    ),
  );
  const seen: unknown[] = [];
  const run = await sandbox.interpreter.run("x", {
    onStdout: (text) => seen.push(text),
    onStderr: (text) => seen.push(text),
    onResult: (result) => seen.push(result.data),
    onError: (failure) => seen.push(failure),
  });
  expect(seen).toEqual(["a🐎", "b", { "image/png": "aGk=" }, error]);
  expect(run.error).toEqual(error);
});

test("a failure of the interpreter is thrown by its status, a cut is not run again", async () => {
  server.on(RUN, (_request, reply) =>
    reply.lines([
      { k: "start", n: 1 },
      { k: "failure", code: "interpreter_failed", message: "kernel died", hint: null, status: 502 },
    ]),
  );
  await expect(sandbox.interpreter.run("x")).rejects.toMatchObject({
    code: "interpreter_failed",
    status: 502,
    retryable: false,
  });
  server.on(RUN, (_request, reply) =>
    reply.lines(
      [
        { k: "start", n: 1 },
        { k: "stdout", text: "x" },
      ],
      { cutAfter: 30 },
    ),
  );
  await expect(sandbox.interpreter.run("x")).rejects.toMatchObject({ code: "connection_error" });
  expect(server.of(RUN)).toHaveLength(2);
});

test("contexts", async () => {
  const context = { id: "c1", language: "python", processId: "p1", cwd: "/workspace", state: "idle", startedAt: 1 };
  const contexts = `${SANDBOX}/interpreter/contexts`;
  server
    .on(`GET ${contexts}`, (_request, reply) => reply.json({ data: [context] }))
    .on(`POST ${contexts}`, (_request, reply) => reply.json(context))
    .on(`POST ${contexts}/c1:restart`, (_request, reply) => reply.json(context))
    .on(`POST ${contexts}/c1:interrupt`, (_request, reply) => reply.json({ interrupted: true }))
    .on(`DELETE ${contexts}/c1`, (_request, reply) => reply.json({ deleted: true }));
  expect((await sandbox.interpreter.contexts.list())[0]?.id).toBe("c1");
  expect((await sandbox.interpreter.contexts.create({ id: "c1" })).state).toBe("idle");
  expect((await sandbox.interpreter.contexts.restart("c1")).id).toBe("c1");
  expect(await sandbox.interpreter.contexts.interrupt("c1")).toBe(true);
  expect(await sandbox.interpreter.contexts.remove("c1")).toBe(true);
  await expect(sandbox.interpreter.contexts.restart("nope")).rejects.toMatchObject({ status: 404 });
});

test("previews", async () => {
  const preview = {
    id: "pv1",
    sandboxId: "demo~abcdefghijkl",
    port: 3000,
    visibility: "private",
    url: "http://3000-demo.localhost:8787/",
    token: "t",
    tokenExpiresAt: "2031-01-02T03:04:05.000Z",
    urlWithToken: "http://3000-demo.localhost:8787/?t=t",
    disabled: false,
    embedOrigins: null,
    createdAt: "2031-01-02T03:04:05.000Z",
  };
  const path = `${SANDBOX}/previews`;
  server
    .on(`POST ${path}`, (_request, reply) => reply.json(preview))
    .on(`GET ${path}`, (_request, reply) => reply.json({ data: [preview] }))
    .on(`GET ${path}/3000`, (_request, reply) => reply.json(preview))
    .on(`POST ${path}/3000:rotate`, (_request, reply) => reply.json(preview))
    .on(`DELETE ${path}/3000`, (_request, reply) =>
      reply.json({ id: "pv1", sandboxId: "demo~abcdefghijkl", port: 3000, deleted: true }),
    );
  const expiresAt = new Date("2031-01-03T00:00:00Z");
  expect((await sandbox.previews.create(3000, { expiresAt })).token).toBe("t");
  expect(server.of(`POST ${path}`)[0]?.json()).toEqual({ port: 3000, expiresAt: "2031-01-03T00:00:00.000Z" });
  expect(await sandbox.previews.list()).toHaveLength(1);
  await sandbox.previews.get(3000, { ttlSeconds: 60 });
  expect(server.of(`GET ${path}/3000`)[0]?.query.get("ttlSeconds")).toBe("60");
  await sandbox.previews.rotate(3000);
  expect(server.of(`POST ${path}/3000:rotate`)[0]?.headers["content-type"]).toBeUndefined();
  expect((await sandbox.previews.delete(3000)).deleted).toBe(true);
});

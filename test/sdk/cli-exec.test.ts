import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { CliBench } from "./cli-bench.ts";
import { SANDBOX, sandboxInfo } from "./wire-server.ts";
import type { WireServer } from "./wire-server.ts";

const EXEC = `POST ${SANDBOX}:exec`;
const start = { type: "start", processId: "p1" };
const exit = { type: "exit", exitCode: 0, state: "exited", timedOut: false, durationMs: 5 };

let bench: CliBench;
let server: WireServer;
const rouse: CliBench["run"] = (words, env, input) => bench.run(words, env, input);

beforeEach(async () => {
  bench = await CliBench.start();
  ({ server } = bench);
  server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()));
  server.on(`GET ${SANDBOX}`, (_request, reply) => reply.json(sandboxInfo()));
});
afterEach(async () => {
  await bench[Symbol.asyncDispose]();
});

describe("exec", () => {
  test("streams both outputs, and exits with the command's code", async () => {
    server.on(EXEC, (_request, reply) =>
      reply.lines(
        [
          start,
          { type: "stdout", data: "out ž\n", offset: 0 },
          { type: "stderr", data: "err\n", offset: 7 },
          { ...exit, exitCode: 7 },
        ],
        { pieceBytes: 5 },
      ),
    );
    const run = await rouse([
      "exec",
      "demo",
      "--cwd",
      "app",
      "--env",
      "A=1",
      "--timeout",
      "1.5",
      "--",
      "ls",
      "-la",
      "--json",
    ]);
    expect(run).toEqual({ code: 7, stdout: "out ž\n", stderr: "err\n" });
    expect(server.of(EXEC)[0]?.json()).toEqual({
      argv: ["ls", "-la", "--json"],
      cwd: "app",
      env: { A: "1" },
      timeoutMs: 1500,
      stream: true,
    });
    await rouse(["exec", "demo", "--", "echo a | wc"]);
    expect(server.of(EXEC)[1]?.json()).toMatchObject({ command: "echo a | wc" });
  });

  test.each([
    ["124 when its time is up", { ...exit, exitCode: -15, state: "timed_out", timedOut: true }, 124],
    ["128 + n for signal n", { ...exit, exitCode: -9, state: "killed" }, 137],
    ["1 when it never started", { ...exit, exitCode: null, state: "unknown" }, 1],
  ])("exits with %s", async (_what, event, code) => {
    server.on(EXEC, (_request, reply) => reply.lines([start, event]));
    expect((await rouse(["exec", "demo", "--", "x"])).code).toBe(code);
  });

  test("--json prints the result and keeps the exit code", async () => {
    server.on(EXEC, (_request, reply) =>
      reply.lines([start, { type: "stdout", data: "hi", offset: 0 }, { ...exit, exitCode: 3 }]),
    );
    const run = await rouse(["exec", "demo", "--json", "--", "x"]);
    expect(run.code).toBe(3);
    expect(JSON.parse(run.stdout)).toEqual({
      exitCode: 3,
      state: "exited",
      stdout: "hi",
      stderr: "",
      timedOut: false,
      droppedBytes: 0,
      durationMs: 5,
      processId: "p1",
    });
  });

  test("Ctrl-C sends SIGTERM to the command, and its end is still seen", async () => {
    let end: () => void = () => undefined;
    const terminated = new Promise<void>((resolve) => (end = resolve));
    server.on(EXEC, async (_request, reply) => {
      await reply.open([start, { type: "stdout", data: "ready\n", offset: 0 }]);
      await terminated;
      reply.cut();
    });
    server.on(`POST ${SANDBOX}/processes/p1:signal`, (_request, reply) => {
      reply.json({});
      end();
    });
    server.on(`GET ${SANDBOX}/processes/p1/output`, (_request, reply) =>
      reply.lines([
        { type: "stdout", data: "bye\n", offset: 6 },
        { ...exit, exitCode: -15, state: "killed" },
      ]),
    );
    const { child, done } = bench.launch(["exec", "demo", "--", "x"]);
    child.stdout.once("data", () => child.kill("SIGINT"));
    expect(await done).toEqual({ code: 143, stdout: "ready\nbye\n", stderr: "" });
    expect(server.of(`POST ${SANDBOX}/processes/p1:signal`).map((request) => request.json())).toEqual([
      { signal: "SIGTERM" },
    ]);
  });

  test("-i passes input, and bytes that are no text come through", async () => {
    const info = {
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
    };
    let finish: (text: string) => void = () => undefined;
    const received = new Promise<string>((resolve) => (finish = resolve));
    let taken = "";
    server.on(`POST ${SANDBOX}/processes`, (_request, reply) => reply.json(info));
    server.on(`POST ${SANDBOX}/processes/p1:write`, (request, reply) => {
      const body = request.json() as { base64: string; offset: number; eof?: boolean };
      taken += Buffer.from(body.base64, "base64").toString();
      reply.json({ offset: taken.length });
      if (body.eof) finish(taken);
    });
    server.on(`GET ${SANDBOX}/processes/p1/output`, async (_request, reply) => {
      const text = await received;
      await reply.lines([
        { type: "stdout", data: text, offset: 0, base64: Buffer.from(text).toString("base64") },
        { ...exit, exitCode: 4 },
      ]);
    });
    expect(await rouse(["exec", "demo", "-i", "--", "cat"], {}, "given\n")).toEqual({
      code: 4,
      stdout: "given\n",
      stderr: "",
    });
  });
});

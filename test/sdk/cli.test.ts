import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { API_VERSION } from "../../sdk/contract/account.ts";
import { VERSION } from "../../sdk/src/index.ts";
import { CliBench } from "./cli-bench.ts";
import type { Run } from "./cli-bench.ts";
import { SANDBOX, TEST_KEY, WireServer, sandboxInfo } from "./wire-server.ts";

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

test("sandbox create prints only the id, and sends what the options say", async () => {
  server.on("POST /v1/sandboxes", (_request, reply) => reply.json(sandboxInfo({ reused: true })));
  const words = [
    "sandbox",
    "create",
    "--name",
    "demo",
    "--get-or-create",
    "--idle-pause",
    "600",
    "--label",
    "user=u-42",
    "--label",
    "kind=a=b",
  ];
  const run = await rouse([...words, "--env", "A=1", "--env", "TOKEN", "--vcpu", "1", "--public", "--no-auto-wake"], {
    TOKEN: "t0p",
  });
  expect(run).toEqual({ code: 0, stdout: "demo~abcdefghijkl\n", stderr: "" });
  expect(server.requests[0]?.json()).toEqual({
    name: "demo",
    getOrCreate: true,
    idlePauseSeconds: 600,
    labels: { user: "u-42", kind: "a=b" },
    env: { A: "1", TOKEN: "t0p" },
    vcpu: 1,
    access: "public",
    autoWake: false,
  });
  const json = await rouse(["create", "--name", "demo", "--json"]);
  expect(JSON.parse(json.stdout)).toMatchObject({ id: "demo~abcdefghijkl", reused: true });
});

test("ls shows a table of all pages, or JSON", async () => {
  server.on("GET /v1/sandboxes", (request, reply) =>
    request.query.get("cursor") === null
      ? reply.json({ data: [sandboxInfo()], nextCursor: "2" })
      : reply.json({
          data: [sandboxInfo({ name: null, state: "paused", pausedAt: "2031-01-02T03:05:00.000Z" })],
          nextCursor: null,
        }),
  );
  const run = await rouse(["ls", "--state", "running", "--state=paused", "--label", "k=v", "--all"]);
  const lines = run.stdout.trimEnd().split("\n");
  expect(lines[0]).toMatch(/^NAME +STATE +AGE +IDLE SINCE +URL$/);
  expect(lines[1]).toMatch(/^demo +running +\S+ +\S+ +http:\/\/demo\.localhost:8787\/$/);
  expect(lines[2]).toMatch(/^demo~abcdefghijkl +paused/);
  expect(server.requests[0]?.query.getAll("state")).toEqual(["running", "paused"]);
  expect([server.requests[0]?.query.get("label"), server.requests[0]?.query.get("includeStopped")]).toEqual([
    "k:v",
    "true",
  ]);
  const json = JSON.parse((await rouse(["ls", "--json"])).stdout) as { data: unknown[] };
  expect(json.data).toHaveLength(2);
});

describe("exit codes and errors", () => {
  test.each([
    ["unknown option, with a suggestion", ["ls", "--lable", "k=v"], 2, "did you mean --label?"],
    ["all wrong options together", ["create", "--nmae", "x", "--vcpu"], 2, "--vcpu needs a value"],
    ["no number", ["create", "--vcpu", "two"], 2, "not a number"],
    ["unknown verb, with a suggestion", ["sandbox", "paws"], 2, "Did you mean rouse pause?"],
    ["a word too few", ["wake"], 2, "needs <name>"],
    ["a word too many", ["wake", "a", "b"], 2, "one word too many"],
    ["exec without a command", ["exec", "demo"], 2, "after --"],
    ["an impossible port", ["url", "demo", "70000"], 2, "not a port"],
    ["a state that is none", ["ls", "--state", "asleep"], 2, "paused"],
    ["an unknown name", ["get", "nobody"], 3, "no route"],
  ])("%s", async (_what, words, code, says) => {
    const run = await rouse(words);
    expect(run.code).toBe(code);
    expect(run.stdout).toBe("");
    expect(run.stderr).toContain(says);
  });

  test("a wrong key and a missing one are 4", async () => {
    const wrong = await rouse(["ls", "--json"], { ROUSE_API_KEY: "rouse_wrong" });
    expect(wrong.code).toBe(4);
    expect(JSON.parse(wrong.stderr)).toMatchObject({
      error: { code: "unauthorized", status: 401, requestId: "req_1" },
    });
    const missing = await rouse(["ls"], { ROUSE_API_KEY: undefined });
    expect(missing.code).toBe(4);
    expect(missing.stderr).toContain("ROUSE_API_KEY");
  });

  test("with --json an error is one JSON object on stderr, also for usage", async () => {
    const usage = await rouse(["ls", "--json", "--wat"]);
    expect([usage.code, usage.stdout]).toEqual([2, ""]);
    expect(JSON.parse(usage.stderr)).toMatchObject({ error: { code: "usage" } });
    server.on("POST /v1/sandboxes", (_request, reply) =>
      reply.error("invalid_request", { details: { issues: [{ path: "vcpu", message: "too many" }] } }),
    );
    const invalid = await rouse(["create", "--vcpu", "99", "--json"]);
    expect(invalid.code).toBe(1);
    expect(JSON.parse(invalid.stderr)).toMatchObject({
      error: { code: "invalid_request", details: { issues: [{ path: "vcpu" }] } },
    });
    expect((await rouse(["create", "--vcpu", "99"])).stderr).toContain("vcpu: too many");
  });
});

test.each([
  ["pause", "paused"],
  ["wake", "running"],
  ["stop", "stopped"],
  ["restart", "running"],
  ["recover", "running"],
] as const)("%s says the new state", async (verb, state) => {
  server.on(`POST ${SANDBOX}:${verb}`, (_request, reply) => reply.json(sandboxInfo({ state })));
  expect(await rouse([verb, "demo"])).toEqual({ code: 0, stdout: `demo: ${state}\n`, stderr: "" });
});

test("extend moves the end of a time limit, and says when it is", async () => {
  const endsAt = "2031-01-02T04:04:05.000Z";
  server.on(`POST ${SANDBOX}:extend`, (request, reply) =>
    reply.json(sandboxInfo({ endsAt: (request.json() as { seconds: number }).seconds === 3600 ? endsAt : null })),
  );
  expect(await rouse(["extend", "demo", "3600"])).toEqual({ code: 0, stdout: `demo: ends at ${endsAt}\n`, stderr: "" });
  expect((await rouse(["extend", "demo", "60"])).stdout).toBe("demo: no time limit\n");
  expect((await rouse(["extend", "demo", "soon"])).code).toBe(2);
});

test("create takes a time limit and what comes at its end", async () => {
  server.on("POST /v1/sandboxes", (_request, reply) => reply.json(sandboxInfo()));
  expect((await rouse(["create", "--lease", "600", "--on-lease-end", "pause"])).code).toBe(0);
  expect(server.requests[0]?.json()).toEqual({ leaseSeconds: 600, onLeaseEnd: "pause" });
  expect((await rouse(["create", "--on-lease-end", "explode"])).code).toBe(2);
});

test("create takes a limit on the whole cost, in dollars", async () => {
  server.on("POST /v1/sandboxes", (_request, reply) => reply.json(sandboxInfo()));
  expect((await rouse(["create", "--max-total-cost", "2.50", "--paid"])).code).toBe(0);
  expect(server.requests[0]?.json()).toEqual({ maxTotalCostMicros: 2_500_000 });
  for (const wrong of ["-1", "1e3", "1000000.01"])
    expect((await bench.refusal(["create", `--max-total-cost=${wrong}`]))?.message).toContain("--max-total-cost");
});

test("rm deletes by name", async () => {
  server.on("DELETE /v1/sandboxes/demo", (_request, reply) =>
    reply.json({
      id: "demo~abcdefghijkl",
      kind: "sandbox",
      name: "demo",
      labels: {},
      status: "deleted",
      state: "stopped",
      deletedAt: "2031-01-02T03:05:00.000Z",
      endedAt: null,
    }),
  );
  expect(await rouse(["sandbox", "rm", "demo"])).toEqual({ code: 0, stdout: "demo: deleted\n", stderr: "" });
});

test("url prints the named URL, with --token one that lets a browser in", async () => {
  expect((await rouse(["url", "demo", "3000"])).stdout).toBe("http://3000-demo.localhost:8787/\n");
  server.on(`POST ${SANDBOX}/previews`, (_request, reply) =>
    reply.json({
      id: "pv1",
      sandboxId: "demo~abcdefghijkl",
      port: 8080,
      visibility: "private",
      url: "http://demo.localhost:8787/",
      token: "t",
      tokenExpiresAt: "2031-01-02T03:04:05.000Z",
      urlWithToken: "http://demo.localhost:8787/?t=t",
      disabled: false,
      embedOrigins: null,
      createdAt: "2031-01-02T03:04:05.000Z",
    }),
  );
  server.on(`GET ${SANDBOX}/previews/8080`, (_request, reply) => reply.error("not_found"));
  expect((await rouse(["url", "demo", "--token", "--ttl", "60"])).stdout).toBe("http://demo.localhost:8787/?t=t\n");
  expect(server.of(`POST ${SANDBOX}/previews`)[0]?.json()).toEqual({ port: 8080, ttlSeconds: 60 });
});

test("logs prints what the latest process has written, without waiting for more", async () => {
  const info = (id: string, startedAt: string) => ({
    id,
    kind: "process",
    state: "running",
    exitCode: null,
    command: `run ${id}`,
    cwd: "/workspace",
    pty: false,
    stdinOpen: false,
    stdinOffset: 0,
    outputEncoding: "utf8",
    startedAt,
    endedAt: null,
    timeoutMs: null,
    outputBytes: 4,
    firstOffset: 0,
  });
  server.on(`GET ${SANDBOX}/processes`, (_request, reply) =>
    reply.json({ data: [info("p2", "2031-01-02T03:04:06.000Z"), info("p1", "2031-01-02T03:04:05.000Z")] }),
  );
  server.on(`GET ${SANDBOX}/processes/p2/output`, (request, reply) => {
    const cursor = Number(request.query.get("cursor"));
    const chunks =
      cursor === 0
        ? [{ stream: "stdout", text: "ab", offset: 0 }]
        : cursor === 2
          ? [{ stream: "stderr", text: "cd", offset: 2 }]
          : [];
    reply.json({
      chunks,
      nextCursor: Math.min(4, cursor + 2),
      truncated: false,
      process: { state: "running", exitCode: null },
    });
  });
  expect(await rouse(["logs", "demo"])).toEqual({ code: 0, stdout: "ab", stderr: "cd" });
  const list = await rouse(["logs", "demo", "--list"]);
  expect(list.stdout).toMatch(/p2 +running/);
  server.on(`GET ${SANDBOX}/processes/p1`, (_request, reply) => reply.json(info("p1", "2031-01-02T03:04:05.000Z")));
  server.on(`GET ${SANDBOX}/processes/p1/output`, (request, reply) => {
    expect(request.query.get("follow")).toBe("true");
    return reply.lines([{ type: "stdout", data: "all", offset: 0 }, exit]);
  });
  expect((await rouse(["logs", "demo", "p1", "-f"])).stdout).toBe("all");
});

test("cp copies both ways", async () => {
  const written: Buffer[] = [];
  server.on(`PUT ${SANDBOX}/files/content`, (request, reply) => {
    written.push(request.body);
    reply.json({ path: "x", size: request.body.length, sha256: "0".repeat(64) });
  });
  server.on(`GET ${SANDBOX}/files/stat`, (_request, reply) =>
    reply.json({
      name: "a",
      path: "/workspace/a",
      type: "file",
      size: 2,
      mode: "0644",
      modifiedAt: "2031-01-02T03:04:05.000Z",
      exists: true,
    }),
  );
  server.on(`GET ${SANDBOX}/files/content`, (_request, reply) => reply.raw("hi"));
  await writeFile(join(bench.folder, "note.md"), "text");
  expect((await rouse(["cp", "note.md", "demo:/workspace/"])).stdout).toBe(
    "demo:/workspace/note.md: 1 file, 4 bytes\n",
  );
  expect(written.map(String)).toEqual(["text"]);
  expect(server.of(`PUT ${SANDBOX}/files/content`)[0]?.query.get("path")).toBe("/workspace/note.md");
  expect((await rouse(["cp", "demo:/workspace/a", "."])).code).toBe(0);
  expect(await readFile(join(bench.folder, "a"), "utf8")).toBe("hi");
  expect((await rouse(["cp", "a", "b"])).code).toBe(2);
  const missing = await rouse(["cp", "nothing-here", "demo:/x", "--json"]);
  expect(missing.code).toBe(1);
  expect(JSON.parse(missing.stderr)).toMatchObject({ error: { code: "ENOENT" } });
});

test("run-code prints output and results; an exception is exit code 1", async () => {
  const execution = {
    id: "e1",
    contextId: "python",
    language: "python",
    executionCount: 1,
    status: "ok",
    stdout: "hi\n",
    stderr: "",
    results: [{ main: true, data: { "text/plain": "42" }, refs: {} }],
    error: null,
    overflow: [],
    durationMs: 2,
    contextStarted: false,
    lostBytes: 0,
  };
  const error = { name: "E", value: "v", traceback: "Traceback..." };
  server.on(`POST ${SANDBOX}/interpreter:run`, (_request, reply, count) =>
    reply.lines([
      { k: "start", n: 1 },
      { k: "stdout", text: "hi\n" },
      { k: "execution", execution: count === 0 ? execution : { ...execution, status: "error", results: [], error } },
    ]),
  );
  expect(await rouse(["run-code", "demo", "-"], {}, "40 + 2")).toEqual({ code: 0, stdout: "hi\n42\n", stderr: "" });
  expect(server.of(`POST ${SANDBOX}/interpreter:run`)[0]?.json()).toMatchObject({ code: "40 + 2", timeoutMs: 0 });
  await writeFile(join(bench.folder, "bad.py"), "raise");
  expect(await rouse(["run-code", "demo", "bad.py"])).toEqual({ code: 1, stdout: "hi\n", stderr: "Traceback...\n" });
});

describe("doctor", () => {
  const host = {
    hostId: "h1",
    url: "http://127.0.0.1:1/",
    accelerator: "tcg",
    acceleratorReason: "no /dev/kvm",
    qemuVersion: "10.0",
    images: ["default"],
    vcpus: 2,
    memoryMiB: 8192,
    freeMemoryMiB: 4096,
    freeDiskMiB: 9000,
    running: 1,
    paused: 2,
    lastSeenAt: "2031-01-02T03:05:00.000Z",
    live: true,
    draining: false,
  };
  const me = {
    orgId: "default",
    principalId: "p",
    credentialId: null,
    apiVersion: API_VERSION,
    orgName: "default",
    role: "owner",
  };
  const statuses = (run: Run): Record<string, string> => {
    const { checks } = JSON.parse(run.stdout) as { checks: { name: string; status: string }[] };
    return Object.fromEntries(checks.map(({ name, status }) => [name, status]));
  };

  test("all is well, with a warning about software emulation", async () => {
    server
      .on("GET /v1/me", (_request, reply) => reply.json(me))
      .on("GET /v1/hosts", (_request, reply) => reply.json({ data: [host] }));
    const run = await rouse(["doctor", "--json"]);
    expect(run.code).toBe(0);
    expect(statuses(run)).toEqual({
      node: "ok",
      key: "ok",
      api: "ok",
      version: "ok",
      account: "ok",
      clock: "ok",
      hosts: "ok",
      room: "ok",
      "accelerator of h1": "warn",
      images: "ok",
    });
    const text = (await rouse(["doctor"])).stdout;
    expect(text).toContain("no security boundary");
    expect(text).not.toContain(TEST_KEY);
  });

  test("a clock apart, no host, a refused key, no server: each is named", async () => {
    server
      .on("GET /v1/me", (_request, reply) => reply.json(me, 200, { date: new Date(Date.now() - 60_000).toUTCString() }))
      .on("GET /v1/hosts", (_request, reply) => reply.json({ data: [{ ...host, live: false }] }));
    const away = await rouse(["doctor", "--json"]);
    expect(away.code).toBe(1);
    expect(statuses(away)).toMatchObject({ clock: "warn", hosts: "fail" });
    const refused = await rouse(["doctor", "--json"], { ROUSE_API_KEY: "rouse_wrong" });
    expect([refused.code, statuses(refused)]).toEqual([1, { node: "ok", key: "ok", api: "ok", account: "fail" }]);
    const keyless = await rouse(["doctor", "--json"], { ROUSE_API_KEY: undefined });
    expect(statuses(keyless)).toEqual({ node: "ok", key: "fail" });
    const gone = await WireServer.start();
    await gone[Symbol.asyncDispose]();
    const unreachable = await rouse(["doctor", "--json"], { ROUSE_API_URL: gone.url });
    expect([unreachable.code, statuses(unreachable)]).toEqual([1, { node: "ok", key: "ok", api: "fail" }]);
  });
});

test("help and version", async () => {
  expect((await rouse(["version"])).stdout).toBe(`rouse ${VERSION}\n`);
  expect(JSON.parse((await rouse(["--version", "--json"])).stdout)).toMatchObject({ version: VERSION });
  expect((await rouse([])).stdout).toContain("rouse exec <name>");
  expect((await rouse(["help", "exec"])).stdout).toContain("--cwd PATH");
  expect((await rouse(["sandbox", "create", "-h"])).stdout).toContain("--idle-pause SEC");
  expect((await rouse(["help", "crate"])).stderr).toContain("rouse help create");
});

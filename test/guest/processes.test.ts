import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { guestLimits } from "../../sdk/contract/guest-limits.ts";
import { GuestFacts, Process } from "../../sdk/contract/guest.ts";
import { codeOf, isAlive, startAgent, type Agent } from "./agent.ts";

let agent: Agent;
beforeAll(async () => {
  agent = await startAgent();
});
afterAll(async () => {
  await agent.stop();
});

const base64 = (text: string) => Buffer.from(text).toString("base64");
const write = (id: string, offset: number, text: string, eof = false) =>
  agent.call("POST", `/processes/${id}:write`, { body: { base64: base64(text), offset, ...(eof ? { eof } : {}) } });
const ended = (id: string) =>
  expect.poll(async () => (await agent.process(id)).state, { timeout: 10_000 }).not.toBe("running");
const list = async () => Process.array().parse((await agent.call("GET", "/processes")).body["data"]);
const facts = async () => GuestFacts.parse((await agent.call("GET", "/facts")).body);

test("a process is started, listed, read and ended", async () => {
  const started = await agent.spawn({ command: "echo ready; sleep 600", env: { A: "1" } });
  expect(started).toMatchObject({
    kind: "process",
    state: "running",
    exitCode: null,
    command: "echo ready; sleep 600",
    cwd: agent.home,
    pty: false,
    stdinOpen: false,
    stdinOffset: 0,
    outputEncoding: "utf8",
    endedAt: null,
    timeoutMs: null,
  });
  await agent.textOf(started.id, "ready\n");
  expect((await list()).map(({ id }) => id)).toContain(started.id);
  expect(await agent.process(started.id)).toMatchObject({ state: "running", outputBytes: 6, firstOffset: 0 });
  expect((await agent.signal(started.id, "SIGTERM")).status).toBe(200);
  await ended(started.id);
  const after = await agent.process(started.id);
  expect(after).toMatchObject({ state: "killed", exitCode: -15, stdinOpen: false });
  expect(after.endedAt).not.toBe(null);
});

test("facts count what runs", async () => {
  const before = (await facts()).running;
  const started = await agent.spawn({ command: "sleep 600" });
  expect((await facts()).running).toBe(before + 1);
  await agent.signal(started.id, "SIGKILL");
  await ended(started.id);
  expect((await facts()).running).toBe(before);
});

test("output is read by cursor, in pages", async () => {
  const { id } = await agent.spawn({ command: "printf 0123456789" });
  await ended(id);
  const first = await agent.page(id, "?cursor=0&maxBytes=4");
  expect(first).toMatchObject({ nextCursor: 4, truncated: false, process: { state: "exited", exitCode: 0 } });
  expect(first.chunks).toEqual([{ stream: "stdout", text: "0123", offset: 0 }]);
  const second = await agent.page(id, "?cursor=4");
  expect(second.chunks).toEqual([{ stream: "stdout", text: "456789", offset: 4 }]);
  expect(await agent.page(id, "?cursor=10")).toMatchObject({ chunks: [], nextCursor: 10, truncated: false });
});

test("output that is no longer kept is told, and reading goes on with what is", async () => {
  const { id } = await agent.spawn({ command: "seq -f %019.0f 1 100000" });
  await ended(id);
  const { firstOffset, outputBytes } = await agent.process(id);
  expect(outputBytes).toBe(2_000_000);
  expect(outputBytes - firstOffset).toBeLessThanOrEqual(guestLimits.outputBytes);
  const page = await agent.page(id);
  expect(page.truncated).toBe(true);
  expect(page.chunks[0]?.offset).toBe(firstOffset);
});

test("a long poll answers when there is output, and when the process ends", async () => {
  const { id } = await agent.spawn({ command: "read a; echo got $a; read b", stdinMode: "pipe" });
  const waiting = agent.page(id, "?cursor=0&waitMs=8000");
  await write(id, 0, "x\n");
  expect((await waiting).chunks.map(({ text }) => text).join("")).toBe("got x\n");
  const last = agent.page(id, "?cursor=6&waitMs=8000");
  await write(id, 2, "y\n");
  expect(await last).toMatchObject({ chunks: [], nextCursor: 6, process: { state: "exited" } });
});

test("a long poll without news answers empty when its time is up", async () => {
  const { id } = await agent.spawn({ command: "sleep 600" });
  expect(await agent.page(id, "?waitMs=50")).toMatchObject({
    chunks: [],
    nextCursor: 0,
    process: { state: "running" },
  });
  await agent.signal(id, "SIGKILL");
});

test("a query that is not valid is refused with every fault", async () => {
  const { id } = await agent.spawn({ command: "true" });
  const answer = await agent.call("GET", `/processes/${id}/output?cursor=-1&waitMs=9000&maxBytes=x`);
  expect([answer.status, codeOf(answer)]).toEqual([400, "invalid_request"]);
  for (const field of ["cursor", "waitMs", "maxBytes"]) expect(answer.bytes.toString()).toContain(field);
});

test("stdin is written by offset, a repeated write counts once, and eof ends it", async () => {
  const { id, stdinOpen } = await agent.spawn({ command: "cat > got", stdinMode: "pipe" });
  expect(stdinOpen).toBe(true);
  expect((await write(id, 0, "hello ")).body).toEqual({ offset: 6 });
  expect((await write(id, 0, "hello ")).body).toEqual({ offset: 6 });
  expect((await write(id, 3, "lo world")).body).toEqual({ offset: 11 });
  expect(codeOf(await write(id, 50, "gap"))).toBe("invalid_request");
  expect((await write(id, 11, "!", true)).body).toEqual({ offset: 12 });
  expect((await write(id, 11, "!", true)).body).toEqual({ offset: 12 });
  await ended(id);
  expect(await readFile(join(agent.home, "got"), "utf8")).toBe("hello world!");
  expect(await agent.process(id)).toMatchObject({ exitCode: 0, stdinOffset: 12, stdinOpen: false });
  expect(codeOf(await write(id, 12, "more"))).toBe("not_running");
});

test("stdin that nobody reads is taken only up to a limit", async () => {
  const { id } = await agent.spawn({ command: "read go; wc -c", stdinMode: "pipe" });
  await write(id, 0, "go");
  const block = "x".repeat(1_000_000);
  let offset = 2;
  let refused = 0;
  for (let i = 0; i < 8 && refused === 0; i++) {
    const next = Number((await write(id, offset, block)).body["offset"]);
    if (next === offset) refused++;
    offset = next;
  }
  expect(refused).toBe(1);
  await agent.signal(id, "SIGKILL");
});

test("a large stdin written in chunks arrives whole", async () => {
  const { id } = await agent.spawn({ command: "wc -c", stdinMode: "pipe" });
  const block = "y".repeat(1_000_000);
  for (let offset = 0; offset < 6_000_000;) {
    offset = Number((await write(id, offset, block.slice(0, 6_000_000 - offset))).body["offset"]);
  }
  await write(id, 6_000_000, "", true);
  expect((await agent.textOf(id, "\n")).trim()).toBe("6000000");
});

test("without a pipe there is nothing to write to", async () => {
  const { id } = await agent.spawn({ command: "sleep 600" });
  expect(codeOf(await write(id, 0, "x"))).toBe("invalid_request");
  await agent.signal(id, "SIGKILL");
});

test("output comes as base64 when asked", async () => {
  const { id } = await agent.spawn({ command: "printf abc", outputEncoding: "base64" });
  await ended(id);
  expect((await agent.page(id)).chunks).toEqual([{ stream: "stdout", text: "abc", offset: 0, base64: base64("abc") }]);
});

test("a signal reaches all that the process started", async () => {
  const { id } = await agent.spawn({ command: "sleep 600 & echo $!; wait" });
  const pid = Number((await agent.textOf(id, "\n")).trim());
  await agent.signal(id, "SIGKILL");
  await expect.poll(() => isAlive(pid)).toBe(false);
});

test("a signal can be caught, and one of no name is refused", async () => {
  const { id } = await agent.spawn({
    command: "trap 'echo usr1; exit 5' USR1; echo set; while :; do sleep 0.05; done",
  });
  await agent.textOf(id, "set");
  expect(codeOf(await agent.call("POST", `/processes/${id}:signal`, { body: { signal: "SIGSTOP" } }))).toBe(
    "invalid_request",
  );
  await agent.signal(id, "SIGUSR1");
  await ended(id);
  expect(await agent.process(id)).toMatchObject({ state: "exited", exitCode: 5 });
  expect(codeOf(await agent.signal(id, "SIGTERM"))).toBe("not_running");
});

test("a time limit ends a process", async () => {
  const { id, timeoutMs } = await agent.spawn({ command: "sleep 600", timeoutMs: 200 });
  expect(timeoutMs).toBe(200);
  await ended(id);
  expect(await agent.process(id)).toMatchObject({ state: "timed_out", exitCode: -9 });
});

test("an unknown process is not found, on every route", async () => {
  for (const [method, path, body] of [
    ["GET", "/processes/p-none", undefined],
    ["GET", "/processes/p-none/output", undefined],
    ["POST", "/processes/p-none:signal", { signal: "SIGTERM" }],
    ["POST", "/processes/p-none:write", { base64: "", offset: 0 }],
  ] as const) {
    const answer = await agent.call(method, path, { body });
    expect([answer.status, codeOf(answer)]).toEqual([404, "process_not_found"]);
  }
});

test("a repeated key starts one process, also after many others ended", async () => {
  const body = { command: "echo x >> spawned; sleep 600" };
  const first = await agent.call("POST", "/processes", { body, key: "spawn" });
  await Promise.all(Array.from({ length: 60 }, () => agent.exec({ argv: ["true"] })));
  const again = await agent.call("POST", "/processes", { body, key: "spawn" });
  expect(again.body).toMatchObject({ id: first.body["id"], replayed: true, state: "running" });
  await agent.signal(String(first.body["id"]), "SIGKILL");
});

test("the last 16 that ended are remembered, and all that run", async () => {
  const running = await agent.spawn({ command: "sleep 600" });
  const ids: string[] = [];
  for (let i = 0; i < guestLimits.endedProcesses + 4; i++) {
    const { id } = await agent.spawn({ command: `exit ${i}` });
    ids.push(id);
    await ended(id);
  }
  const listed = (await list()).filter(({ state }) => state !== "running").map(({ id }) => id);
  expect(listed).toEqual(ids.slice(-guestLimits.endedProcesses));
  expect((await agent.call("GET", `/processes/${ids[0]}`)).status).toBe(404);
  expect((await agent.process(running.id)).state).toBe("running");
  await agent.signal(running.id, "SIGKILL");
});

test("an idle agent has no timer that ticks", async () => {
  // A count of its thread's voluntary waits grows with every wake-up.
  const switches = async () =>
    Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(await readFile(`/proc/${agent.pid}/status`, "utf8"))?.[1]);
  await agent.exec("true");
  const wait = () => new Promise((resolve) => setTimeout(resolve, 1000));
  await wait();
  const before = await switches();
  await wait();
  await wait();
  expect((await switches()) - before).toBeLessThanOrEqual(1);
});

test("the agent told no fault meanwhile", () => {
  expect(agent.errors).toBe("");
});

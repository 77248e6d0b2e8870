import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Terminal } from "../../backend-pool/guest/terminal.ts";
import { guestLimits } from "../../sdk/contract/guest-limits.ts";
import { codeOf, isAlive, startAgent, type Agent } from "./agent.ts";
import { look } from "./terminals.ts";

let agent: Agent;
beforeAll(async () => {
  agent = await startAgent();
});
afterAll(async () => {
  await agent.stop();
});

/** A shell that asks nothing of what the machine's owner has set up. */
const SHELL = "PS1='$ ' exec bash --norc --noprofile -i";
const idOf = async (one: ReturnType<typeof look>) => String((await one.of("ready"))["processId"]);

test("a shell has a terminal of its own, of the size that was asked for, and a new size reaches it", async () => {
  const one = look(agent, { command: SHELL, cols: 101, rows: 33 });
  const id = await idOf(one);
  one.type("tty; stty size; echo job-$(ps -o tpgid= -p $$ | wc -w); echo $TERM\r");
  expect(await one.until(/xterm-256color\r\n/)).toMatch(/\/dev\/pts\/\d+\r\n33 101\r\njob-1\r\n/);
  one.type("trap 'stty size' WINCH\r");
  one.say({ type: "resize", cols: 55, rows: 21 });
  await one.until("21 55\r\n");
  expect(await agent.process(id)).toMatchObject({ pty: true, stdinOpen: true, state: "running" });
  one.type("exit 7\r");
  expect(await one.of("exit")).toEqual({ type: "exit", exitCode: 7, state: "exited" });
  expect(await one.closed).toBe(1000);
  expect(await agent.process(id)).toMatchObject({ state: "exited", exitCode: 7, stdinOpen: false });
});

test("a size that comes before the program has its terminal holds", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rouse-terminal-"));
  const python = join(folder, "python");
  // What opens the terminal is late, as on a busy machine.
  await writeFile(python, '#!/bin/sh\ncase "$*" in *" open "*) sleep 1;; esac\nexec python3 "$@"\n', { mode: 0o755 });
  const script = fileURLToPath(new URL("../../backend-pool/guest/terminal.py", import.meta.url));
  const program = ["sh", "-c", "read word; stty size"];
  const env = { PATH: process.env["PATH"] ?? "" };
  const terminal = new Terminal({ python, script }, program, { cols: 80, rows: 24 }, { cwd: "/", env });
  let text = "";
  terminal.output.on("error", () => undefined); // of a terminal without a program
  terminal.output.on("data", (chunk: Buffer) => (text += chunk.toString()));
  terminal.resize({ cols: 120, rows: 40 });
  await terminal.resizing;
  terminal.input.write("go\r");
  await expect.poll(() => text, { timeout: 5000 }).toContain("40 120");
  terminal.close();
  await rm(folder, { recursive: true });
});

test("a program waits for a client that does not keep up, and not for one that left on purpose", async () => {
  const one = look(agent, { command: "stty raw -echo; head -c 3000000 /dev/zero" });
  const id = await idOf(one);
  one.say({ type: "ack", cursor: 0 });
  await expect.poll(() => one.output.length).toBeGreaterThan(600_000);
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(await agent.process(id)).toMatchObject({ state: "running" });
  one.socket.close(1000);
  // One that broke off would be waited for longer than that.
  await expect.poll(() => agent.process(id), { timeout: 5000 }).toMatchObject({ state: "exited", exitCode: 0 });
});

test("Ctrl-C reaches the program in front, and the shell stays", async () => {
  const one = look(agent, { command: SHELL });
  await one.until("$ ");
  one.type("sleep 6017.5; echo after-$?\r");
  await one.until("sleep 6017.5");
  await expect.poll(() => agent.exec("pgrep -f '^sleep 6017[.]5$' | wc -l")).toMatchObject({ stdout: "1\n" });
  one.type("\u0003");
  await expect.poll(() => agent.exec("pgrep -f '^sleep 6017[.]5$' | wc -l")).toMatchObject({ stdout: "0\n" });
  one.type("echo code-$?\r");
  await one.until("code-130");
  one.type("exit\r");
  await one.of("exit");
});

test("it goes on without a client; another one has everything from the byte that it names", async () => {
  const first = look(agent, { command: SHELL });
  const id = await idOf(first);
  first.type("word=kept\r");
  await first.until("word=kept");
  const seen = first.output.length;
  first.type("sleep 0.3; echo missed-$word\r");
  first.socket.terminate();
  await expect
    .poll(() => agent.page(id).then((page) => page.chunks.map(({ text }) => text).join("")))
    .toContain("missed-kept");
  const second = look(agent, { processId: id, cursor: seen });
  expect(await second.of("ready")).toMatchObject({ processId: id, cursor: seen });
  await second.until("missed-kept");
  // Without a place: all that is kept.
  const third = look(agent, { processId: id });
  expect(await third.of("ready")).toMatchObject({ cursor: 0 });
  await third.until("missed-kept");
  expect(third.text.startsWith(first.text)).toBe(true);
  expect(third.output.subarray(seen, seen + second.output.length).equals(second.output)).toBe(true);
  // What one types, both see.
  second.type("echo to-all\r");
  await Promise.all([second.until("to-all\r\n"), third.until("to-all\r\n")]);
  second.type("exit 3\r");
  await Promise.all([second.of("exit"), third.of("exit")]);
  // Once it has ended, what it wrote is still there, with its code.
  const late = look(agent, { processId: id, cursor: seen });
  expect(await late.of("exit")).toMatchObject({ exitCode: 3 });
  expect(late.text).toContain("to-all");
});

test("more output than is kept is told as lost, and the rest is whole", async () => {
  const started = await agent.spawn({ command: "stty raw -echo; seq 1 400000; echo the-end", pty: {} });
  await expect.poll(() => agent.process(started.id), { timeout: 20_000 }).toMatchObject({ state: "exited" });
  const { outputBytes, firstOffset } = await agent.process(started.id);
  expect(outputBytes).toBeGreaterThan(guestLimits.outputBytes);
  const one = look(agent, { processId: started.id, cursor: 10 });
  const ready = await one.of("ready");
  expect(ready["cursor"]).toBe(firstOffset);
  await one.of("exit");
  expect(one.output.length).toBe(outputBytes - firstOffset);
  expect(one.text.endsWith("399999\n400000\nthe-end\n")).toBe(true);
});

test("a client that names itself sends its input once, whatever was cut", async () => {
  const { id } = await agent.spawn({ command: "stty raw -echo; echo go; head -c 12 | od -An -c", pty: {} });
  const first = look(agent, { processId: id, client: "c1" });
  expect(await first.of("ready")).toMatchObject({ input: 0 });
  await first.until("go");
  first.type("abcdef");
  expect(await first.of("input")).toMatchObject({ offset: 6 });
  const second = look(agent, { processId: id, client: "c1", cursor: first.output.length });
  expect(await second.of("ready")).toMatchObject({ input: 6 });
  // The older socket is over, and what it still says is not taken.
  await first.closed;
  const other = look(agent, { processId: id, client: "c2" });
  expect(await other.of("ready")).toMatchObject({ input: 0 });
  second.type("ghijkl");
  await second.of("exit");
  expect(second.text.replaceAll(/\s/g, "")).toContain("abcdefghijkl");
});

test("what waits unread in an older socket of a client is not taken beside what the client sends again", async () => {
  const data = Buffer.from(Array.from({ length: 20_000 }, (_, n) => `${String(n).padStart(7, "0")}\n`).join(""));
  const command = `stty raw -echo; echo go; sleep 1; head -c ${data.length} | sha256sum; echo more; cat`;
  const { id } = await agent.spawn({ command, pty: {} });
  const first = look(agent, { processId: id, client: "c1" });
  await first.until("go");
  for (let at = 0; at < data.length; at += 10_000) first.socket.send(data.subarray(at, at + 10_000));
  await first.of("input");
  const second = look(agent, { processId: id, client: "c1", cursor: first.output.length });
  const { input } = await second.of("ready");
  for (let at = Number(input); at < data.length; at += 10_000) second.socket.send(data.subarray(at, at + 10_000));
  second.type("the end");
  await second.until("the end");
  const { hash } = await import("node:crypto");
  expect(second.text.replaceAll(/^go\s+/g, "")).toBe(
    `${hash("sha256", data)}  -\r\nmore\r\nthe end`.replaceAll("\r\n", "\n"),
  );
  await agent.signal(id, "SIGKILL");
}, 60_000);

test("a program that does not read holds up its own client alone, and reads all of it later", async () => {
  const bytes = 3_000_000;
  const { id } = await agent.spawn({
    command: `stty raw -echo; echo go; sleep 1; head -c ${bytes} | sha256sum`,
    pty: {},
  });
  const one = look(agent, { processId: id });
  await one.until("go");
  const data = Buffer.alloc(bytes, "0123456789abcdef");
  for (let at = 0; at < bytes; at += 500_000) one.socket.send(data.subarray(at, at + 500_000));
  expect((await agent.exec("echo still-there")).stdout).toBe("still-there\n");
  await one.of("exit");
  const { hash } = await import("node:crypto");
  expect(one.text).toContain(hash("sha256", data));
}, 60_000);

test("SIGHUP ends a shell with what it runs; the hang-up at the end reaches what was left behind", async () => {
  const one = look(agent, { command: SHELL });
  const id = await idOf(one);
  one.type("sleep 700 & echo pid-$!-\r");
  const pid = Number(/pid-(\d+)-/.exec(await one.until(/pid-\d+-/))?.[1]);
  expect(isAlive(pid)).toBe(true);
  expect((await agent.signal(id, "SIGHUP")).status).toBe(200);
  expect(await one.of("exit")).toMatchObject({ state: "killed", exitCode: -1 });
  await expect.poll(() => isAlive(pid)).toBe(false);
});

test("what can't be is told, and nothing is left open", async () => {
  const missing = look(agent, { processId: "p-0-none" });
  expect(await missing.of("error")).toMatchObject({ error: { code: "process_not_found", status: 404 } });
  expect(await missing.closed).toBe(1008);
  const wrong = look(agent, { cols: 0, rows: 99_999, client: "?" });
  expect(await wrong.of("error")).toMatchObject({ error: { code: "invalid_request" } });
  expect((await wrong.of("error"))["error"]).toMatchObject({
    details: { issues: [{ path: "cols" }, { path: "rows" }, { path: "client" }] },
  });
  const { id } = await agent.spawn({ command: "sleep 600" });
  const plain = look(agent, { processId: id });
  expect(await plain.of("error")).toMatchObject({ error: { message: expect.stringContaining("no terminal") } });
  const resized = await agent.call("POST", `/processes/${id}:resize`, { body: { cols: 5, rows: 5 } });
  expect([resized.status, codeOf(resized)]).toEqual([400, "invalid_request"]);
  const bad = await agent.call("POST", "/processes", { body: { command: "true", pty: { cols: "x", more: 1 } } });
  expect([bad.status, codeOf(bad)]).toEqual([400, "invalid_request"]);
  const nothing = look(agent, { command: SHELL });
  await nothing.of("ready");
  nothing.say({ type: "resize", cols: -1 });
  expect(await nothing.of("error")).toMatchObject({ error: { code: "invalid_request" } });
  const gone = await agent.spawn({ argv: ["/no/such/program"], pty: {} });
  await expect.poll(() => agent.process(gone.id)).toMatchObject({ state: "exited", exitCode: 127 });
  expect(await agent.textOf(gone.id, "No such file")).toContain("/no/such/program");
});

test("a terminal of the HTTP routes: arguments, variables, writing by offset, a new size", async () => {
  const { id } = await agent.spawn({
    argv: ["bash", "--norc", "-i"],
    env: { PS1: "% ", WORD: "of-env" },
    pty: { cols: 44, rows: 11 },
  });
  const write = (offset: number, text: string) =>
    agent.call("POST", `/processes/${id}:write`, { body: { base64: Buffer.from(text).toString("base64"), offset } });
  expect((await write(0, "echo $WORD\r")).body).toEqual({ offset: 11 });
  // Again: it is not typed twice.
  expect((await write(0, "echo $WORD\r")).body).toEqual({ offset: 11 });
  await agent.textOf(id, "of-env");
  expect((await agent.call("POST", `/processes/${id}:resize`, { body: { cols: 60, rows: 20 } })).status).toBe(200);
  await expect
    .poll(async () => {
      const { stdinOffset } = await agent.process(id);
      await write(stdinOffset, "stty size\r");
      return (await agent.page(id)).chunks.map(({ text }) => text).join("");
    })
    .toContain("20 60");
  await agent.signal(id, "SIGHUP");
});

test("the agent had no fault of its own", () => {
  expect(agent.errors).toBe("");
});

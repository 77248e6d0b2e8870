import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { guestLimits } from "../../sdk/contract/guest-limits.ts";
import { codeOf, isAlive, startAgent, type Agent } from "./agent.ts";

let agent: Agent;
beforeAll(async () => {
  agent = await startAgent();
});
afterAll(async () => {
  await agent.stop();
});

test("a command line runs in a shell", async () => {
  expect(await agent.exec("echo out; echo err >&2; exit 3")).toMatchObject({
    exitCode: 3,
    stdout: "out\n",
    stderr: "err\n",
    timedOut: false,
    stdoutTruncated: false,
    stderrTruncated: false,
  });
});

test("argv runs as it is, without a shell", async () => {
  const result = await agent.exec({ argv: ["printf", "%s|", "a b", "$HOME", "'q'", "*", ""] });
  expect(result.stdout).toBe("a b|$HOME|'q'|*||");
});

test("commands start in the home folder, or where cwd says", async () => {
  await mkdir(join(agent.home, "inner"), { recursive: true });
  expect((await agent.exec("pwd")).stdout.trim()).toBe(agent.home);
  expect((await agent.exec({ command: "pwd", cwd: "inner" })).stdout.trim()).toBe(join(agent.home, "inner"));
  expect((await agent.exec({ command: "pwd", cwd: "/usr" })).stdout.trim()).toBe("/usr");
});

test("a folder that does not exist is named, and nothing is said about the program", async () => {
  const missing = await agent.call("POST", "/exec", { body: { command: "true", cwd: "no/such" } });
  expect(codeOf(missing)).toBe("file_not_found");
  expect(missing.bytes.toString()).toContain(join(agent.home, "no/such"));
  expect(missing.bytes.toString()).not.toContain("bash");
  await writeFile(join(agent.home, "plain"), "");
  expect(codeOf(await agent.call("POST", "/exec", { body: { command: "true", cwd: "plain" } }))).toBe(
    "not_a_directory",
  );
});

test("a command has the given variables and a usual environment", async () => {
  const result = await agent.exec({ command: 'echo "$A|$HOME|$B"', env: { A: "x=y z", B: "" } });
  expect(result.stdout).toBe(`x=y z|${agent.home}|\n`);
});

test("configured variables reach every command from then on, and a command's own win", async () => {
  expect((await agent.call("PUT", "/configure", { body: { env: { SHARED: "one", OWN: "one" } } })).status).toBe(200);
  expect((await agent.exec({ command: 'echo "$SHARED $OWN"', env: { OWN: "two" } })).stdout).toBe("one two\n");
  await agent.call("PUT", "/configure", { body: { env: {} } });
  expect((await agent.exec('echo "[$SHARED]"')).stdout).toBe("[]\n");
});

test("a configuration that is not one changes nothing", async () => {
  await agent.call("PUT", "/configure", { body: { env: { GOOD: "1" } } });
  for (const body of [
    {},
    ...[{ BAD: 1 }, ["x"], "x", null, { "A=B": "x" }, { "": "x" }, { A: "\0" }].map((env) => ({ env })),
  ]) {
    expect(codeOf(await agent.call("PUT", "/configure", { body }))).toBe("invalid_request");
  }
  expect((await agent.exec("echo $GOOD")).stdout).toBe("1\n");
  await agent.call("PUT", "/configure", { body: { env: {} } });
});

test("stdin is given as text or bytes, and ends; without any it is empty", async () => {
  expect((await agent.exec({ command: "cat; echo .", stdin: "grüße" })).stdout).toBe("grüße.\n");
  const bytes = Buffer.from([0, 255, 10, 128]);
  const result = await agent.exec({ command: "od -An -tx1", stdinBase64: bytes.toString("base64") });
  expect(result.stdout.trim()).toBe("00 ff 0a 80");
  expect((await agent.exec("cat | wc -c")).stdout.trim()).toBe("0");
});

test("a large stdin arrives whole, and one that nobody reads does no harm", async () => {
  const stdin = "0123456789abcdef".repeat(200_000);
  expect((await agent.exec({ command: "wc -c", stdin })).stdout.trim()).toBe(String(stdin.length));
  expect((await agent.exec({ command: "echo done", stdin })).stdout).toBe("done\n");
});

test("a time limit is a result, and takes what the command started with it", async () => {
  const result = await agent.exec({ command: "echo before; sleep 600 & echo $!; wait", timeoutMs: 400 });
  expect(result).toMatchObject({ timedOut: true, exitCode: -9 });
  const [before, pid] = result.stdout.trim().split("\n");
  expect(before).toBe("before");
  await expect.poll(() => isAlive(Number(pid))).toBe(false);
});

test("a signal is reported as its negative number", async () => {
  expect((await agent.exec("kill -KILL $$")).exitCode).toBe(-9);
  expect((await agent.exec("kill -TERM $$")).exitCode).toBe(-15);
});

test("a background child that holds the pipes does not delay the answer, and lives on", async () => {
  const result = await agent.exec("sleep 600 & echo $!");
  const pid = Number(result.stdout.trim());
  try {
    expect(result.exitCode).toBe(0);
    expect(isAlive(pid)).toBe(true);
  } finally {
    process.kill(pid, "SIGKILL");
  }
});

test("a background child may go on writing to the pipes without being stopped by them", async () => {
  await agent.exec("(for i in $(seq 300); do printf '%01000d' 0; done; echo finished > done.txt) & true");
  await expect
    .poll(() => readFile(join(agent.home, "done.txt"), "utf8").catch(() => ""), { timeout: 20_000 })
    .toBe("finished\n");
});

test("a program can open its own output by path", async () => {
  const result = await agent.exec("echo one > /dev/stderr; echo two > /dev/stdout; echo x | cat /dev/stdin");
  expect(result).toMatchObject({ exitCode: 0, stderr: "one\n", stdout: "two\nx\n" });
});

test("a missing program is told: 127 in a shell, no exit code where nothing started", async () => {
  const shell = await agent.exec("no-such-program-here");
  expect(shell.exitCode).toBe(127);
  expect(shell.stderr).toContain("no-such-program-here");
  const bare = await agent.exec({ argv: ["no-such-program-here"] });
  expect(bare).toMatchObject({ exitCode: null, timedOut: false });
  expect(bare.stderr).toContain("no-such-program-here");
  await writeFile(join(agent.home, "noexec"), "x", { mode: 0o644 });
  expect(await agent.exec({ argv: ["./noexec"] })).toMatchObject({ exitCode: null });
});

test("exactly the limit is whole; one byte more is truncated to the exact beginning", async () => {
  for (const [timeoutMs, limit] of [
    [60_000, guestLimits.execBytesShort],
    [60_001, guestLimits.execBytesLong],
  ] as const) {
    const whole = await agent.exec({ command: `head -c ${limit} /dev/zero | tr '\\0' x`, timeoutMs });
    expect([whole.stdout.length, whole.stdoutTruncated]).toEqual([limit, false]);
    const more = await agent.exec({ command: `head -c ${limit + 1} /dev/zero | tr '\\0' x >&2`, timeoutMs });
    expect([more.stderr.length, more.stderrTruncated, more.stdoutTruncated]).toEqual([limit, true, false]);
  }
});

test("output far faster than anyone reads keeps its exact beginning", async () => {
  const result = await agent.exec({ command: "seq 3000000; seq 3000000 >&2", timeoutMs: 90_000 });
  let expected = "";
  for (let i = 1; expected.length < guestLimits.execBytesLong; i++) expected += `${i}\n`;
  expected = expected.slice(0, guestLimits.execBytesLong);
  expect(result.exitCode).toBe(0);
  expect(result.stdout === expected).toBe(true);
  expect(result.stderr === expected).toBe(true);
  expect([result.stdoutTruncated, result.stderrTruncated]).toEqual([true, true]);
});

test("the last output of a command that ends at once is never lost", async () => {
  for (let round = 0; round < 20; round++) {
    const result = await agent.exec("head -c 60000 /dev/zero | tr '\\0' y; printf END");
    expect([result.stdout.length, result.stdout.endsWith("END")]).toEqual([60_003, true]);
  }
});

test("a cut inside a character is made before it", async () => {
  const { stdout, stdoutTruncated } = await agent.exec("printf a; yes € | tr -d '\\n' | head -c 300000");
  expect(stdoutTruncated).toBe(true);
  expect(stdout).not.toContain("\ufffd");
  expect(Buffer.byteLength(stdout)).toBeGreaterThan(guestLimits.execBytesShort - 4);
});

test("every fault of a body is told together", async () => {
  const answer = await agent.call("POST", "/exec", {
    body: { cwd: 5, timeoutMs: 0, env: { A: 1 }, argv: "ls", stdin: 7 },
  });
  expect(answer.status).toBe(400);
  expect(codeOf(answer)).toBe("invalid_request");
  for (const field of ["cwd", "timeoutMs", "env", "argv", "stdin"]) expect(answer.bytes.toString()).toContain(field);
});

test("neither or both of command and argv is refused", async () => {
  for (const body of [{}, { command: "true", argv: ["true"] }, { command: "" }, { argv: [] }]) {
    expect(codeOf(await agent.call("POST", "/exec", { body }))).toBe("invalid_request");
  }
});

test("a command line with NUL, or longer than the system takes, is refused", async () => {
  for (const body of [{ command: "echo \0" }, { argv: ["echo", "\0"] }, { argv: ["echo", "x".repeat(4_000_000)] }]) {
    expect(codeOf(await agent.call("POST", "/exec", { body }))).toBe("invalid_request");
  }
  expect((await agent.exec("echo still here")).stdout).toBe("still here\n");
});

test("a key runs once: repeated, at the same time and later, it answers the first run", async () => {
  const body = { command: "echo x >> ran; sleep 0.2; wc -l < ran" };
  const both = await Promise.all([1, 2].map(() => agent.call("POST", "/exec", { body, key: "once" })));
  const again = await agent.call("POST", "/exec", { body, key: "once" });
  expect([...both, again].map((answer) => answer.body["stdout"])).toEqual(["1\n", "1\n", "1\n"]);
  expect(again.body["replayed"]).toBe(true);
  expect(new Set([...both, again].map((answer) => answer.body["processId"])).size).toBe(1);
  expect(await readFile(join(agent.home, "ran"), "utf8")).toBe("x\n");
});

test("a key with another body, or on another route, is refused", async () => {
  await agent.call("POST", "/exec", { body: { command: "true" }, key: "mine" });
  const other = await agent.call("POST", "/exec", { body: { command: "false" }, key: "mine" });
  expect([other.status, codeOf(other)]).toEqual([422, "idempotency_key_reused"]);
  const route = await agent.call("POST", "/processes", { body: { command: "true" }, key: "mine" });
  expect(codeOf(route)).toBe("idempotency_key_reused");
});

test("a key whose command could not start can be used again", async () => {
  const body = { command: "echo now", cwd: "later" };
  expect((await agent.call("POST", "/exec", { body, key: "late" })).status).toBe(404);
  await mkdir(join(agent.home, "later"));
  expect((await agent.call("POST", "/exec", { body, key: "late" })).body["stdout"]).toBe("now\n");
});

test("many commands at once each get their own output", async () => {
  const all = await Promise.all(Array.from({ length: 40 }, (_, i) => agent.exec(`echo ${i}; echo e${i} >&2`)));
  expect(all.map(({ stdout, stderr }) => [stdout, stderr])).toEqual(all.map((_, i) => [`${i}\n`, `e${i}\n`]));
});

test("the agent told no fault meanwhile", () => {
  expect(agent.errors).toBe("");
});

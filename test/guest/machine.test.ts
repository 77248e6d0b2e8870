/** The agent as a machine has it: one bundled file, another user than root, copies of one saved state. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { access, chmod, chown, mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { buildGuestAgent } from "../../backend-pool/guest/build.ts";
import { Execution, GuestFacts } from "../../sdk/contract/guest.ts";
import { KERNEL_PYTHON, NO_KERNEL } from "../support/kernel-python.ts";
import { Agent, codeOf, isAlive, startAgent } from "./agent.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rouse-machine-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** What the last expression of the code is, as text. */
async function valueOf(agent: Agent, code: string): Promise<unknown> {
  const { body } = await agent.call("POST", "/interpreter:run", { body: { code } });
  const { status, results } = Execution.parse(body);
  expect(status).toBe("ok");
  return results.find(({ main }) => main)?.data["text/plain"];
}

/** An agent started in a way of the test's own: the words of a command line that ends with the agent's file. */
async function startBy(command: readonly string[], home: string, ...flags: string[]): Promise<Agent> {
  const [program = "", ...words] = command;
  const args = [...words, "--listen", "127.0.0.1:0", "--home", home, ...flags];
  const env = { ...process.env, NODE_NO_WARNINGS: "1" };
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"], env });
  const exited = once(child, "exit");
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  const { listening } = JSON.parse(line) as { listening: number };
  const stop = async () => {
    child.kill("SIGTERM");
    await exited;
  };
  return new Agent(listening, home, child.pid ?? 0, () => "", stop);
}

test("the bundled agent becomes the user it is told, with that user's rights and no more", async (context) => {
  if (process.getuid?.() !== 0) context.skip("only root can become another user");
  const home = join(folder, "home");
  await mkdir(home);
  await chmod(folder, 0o755);
  const uid = Number(execFileSync("id", ["-u", "nobody"]).toString());
  const gid = Number(execFileSync("id", ["-g", "nobody"]).toString());
  await chown(home, uid, gid);
  const { file } = await buildGuestAgent(join(folder, "built"));
  const kept = join(folder, "kept");
  const flags = ["--state", join(folder, "state"), "--user", "nobody", "--timers", join(kept, "timers.json")];
  const agent = await startBy([process.execPath, file], home, ...flags);
  try {
    const { stdout } = await agent.exec("id -u; id -G; echo $USER $HOME");
    expect(stdout).toBe(`${uid}\n${gid}\nnobody ${home}\n`);
    const write = (path: string) => agent.call("PUT", `/files/content?path=${path}`, { bytes: Buffer.from("x") });
    for (const path of ["/root/rouse-x", "/etc/rouse-x"]) expect(codeOf(await write(path))).toBe("file_access_denied");
    expect((await write("mine/x")).status).toBe(200);
    expect((await stat(join(home, "mine/x"))).uid).toBe(uid);
    expect((await agent.call("PUT", "/timers/nightly", { body: { inSeconds: 60 } })).status).toBe(200);
    expect((await stat(join(kept, "timers.json"))).uid).toBe(uid);
  } finally {
    await agent.stop();
  }
});

test("a copy of a machine tells the boot id that it was given after the agent began", async (context) => {
  if (process.getuid?.() !== 0) context.skip("only root can mount over a boot id");
  const main = fileURLToPath(new URL("../../backend-pool/guest/main.ts", import.meta.url));
  const given = join(folder, "boot-id");
  await writeFile(given, "11111111-2222-3333-4444-555555555555\n");
  const namespace = ["unshare", "--mount", "--propagation", "private"];
  try {
    execFileSync("unshare", [...namespace.slice(1), "true"], { stdio: "ignore" });
  } catch {
    context.skip("no mount namespace of its own here, such as below a chroot");
  }
  const agent = await startBy([...namespace, process.execPath, main], folder, "--state", join(folder, "state"));
  try {
    const told = async () => GuestFacts.parse((await agent.call("GET", "/facts")).body).bootId;
    expect(await told()).toBe((await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim());
    const mount = ["mount", "--bind", given, "/proc/sys/kernel/random/boot_id"];
    execFileSync("nsenter", ["--target", String(agent.pid), "--mount", ...mount]);
    expect(await told()).toBe("11111111-2222-3333-4444-555555555555");
  } finally {
    await agent.stop();
  }
});

test("what is built says by its digest when anything in it changed", async () => {
  const first = await buildGuestAgent(join(folder, "a"));
  const second = await buildGuestAgent(join(folder, "b"));
  expect(second.sha256).toBe(first.sha256);
  for (const script of first.scripts) await access(script);
  // Packages are not there in a machine: all it imports comes with Node.
  const code = await readFile(first.file, "utf8");
  const imported = [...code.matchAll(/^import .*?from "([^"]+)";$/gm)].map((match) => match[1] ?? "");
  expect(imported.length).toBeGreaterThan(0);
  expect(imported.filter((name) => !name.startsWith("node:"))).toEqual([]);
});

test("a machine that became another one draws other random numbers, and only then", async (context) => {
  if (NO_KERNEL !== null) context.skip(NO_KERNEL);
  const identity = join(folder, "machine-id");
  await writeFile(identity, "origin");
  const agent = await startAgent("--python", KERNEL_PYTHON, "--identity", identity);
  try {
    const seed = "import random, numpy; random.seed(7); numpy.random.seed(7)";
    const draw = async () => [
      await valueOf(agent, "random.random()"),
      await valueOf(agent, "float(numpy.random.rand())"),
    ];
    await valueOf(agent, seed);
    const origin = await draw();
    await valueOf(agent, seed);
    expect(await draw()).toEqual(origin);
    await valueOf(agent, seed);
    await writeFile(identity, "copy");
    const copy = await draw();
    expect(copy[0]).not.toBe(origin[0]);
    expect(copy[1]).not.toBe(origin[1]);
    // A seed the user sets from now on holds as everywhere.
    await valueOf(agent, seed);
    expect(await draw()).toEqual(origin);
  } finally {
    await agent.stop();
  }
});

test("no kernel outlives an agent that was killed", async (context) => {
  if (NO_KERNEL !== null) context.skip(NO_KERNEL);
  const agent = await startAgent("--python", KERNEL_PYTHON);
  try {
    const kernel = Number(await valueOf(agent, "__import__('os').getpid()"));
    expect(isAlive(kernel)).toBe(true);
    process.kill(agent.pid, "SIGKILL");
    await expect.poll(() => isAlive(kernel), { timeout: 20_000 }).toBe(false);
  } finally {
    await agent.stop();
  }
});

test("commands run on when somebody cleaned the agent's temporary folder", async () => {
  const state = join(folder, "state");
  const agent = await startAgent("--state", state);
  try {
    await rm(state, { recursive: true });
    for (let i = 0; i < 3; i++) {
      const result = await agent.exec({ command: "cat; echo err > /dev/stderr", stdin: "in" });
      expect(result).toMatchObject({ exitCode: 0, stdout: "in", stderr: "err\n" });
    }
  } finally {
    await agent.stop();
  }
});

test("an agent that is told to end leaves nothing in its folder", async () => {
  const state = join(folder, "state");
  const agent = await startAgent("--state", state);
  await agent.exec("true");
  await agent.stop();
  expect(execFileSync("find", [state, "-mindepth", "1"]).toString()).toBe("");
});

test("a file moves to another file system with its content and mode", async (context) => {
  const other = await mkdtemp("/dev/shm/rouse-machine-").catch(() => null);
  if (other === null) context.skip("no /dev/shm to write to");
  const agent = await startAgent();
  try {
    if (other === null || (await stat(other)).dev === (await stat(agent.home)).dev) {
      context.skip("/dev/shm is on the same file system as the temporary folder");
    }
    await agent.exec("mkdir -p d/e && echo content > d/e/f && chmod 750 d/e/f && ln -s f d/e/link");
    const move = (to: string) => agent.call("POST", "/files:rename", { body: { from: "d", to } });
    expect(codeOf(await move(other ?? ""))).toBe("file_exists");
    expect((await move(`${other}/moved`)).status).toBe(200);
    const { stdout } = await agent.exec(`cd ${other}/moved/e && cat f && stat -c %a f && readlink link; ls ~`);
    expect(stdout).toBe("content\n750\nf\n");
  } finally {
    await agent.stop();
    if (other !== null) await rm(other, { recursive: true, force: true });
  }
});

/** However the system that `npm start` runs is ended, nothing of it stays, and the next start finds its ports free. */
import { spawn, type ChildProcess } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));

async function start(line: string): Promise<{ child: ChildProcess; port: number; said: () => string }> {
  const home = await mkdtemp(join(tmpdir(), "rouse-ending-"));
  const port = await portPair();
  const env = { ...process.env, ROUSE_HOME: home, ROUSE_PORT: String(port), ROUSE_DRIVER: "fake" };
  const child = spawn("bash", [join(root, "backend-pool/local/run.sh"), join(root, "backend-pool/local/start.ts")], {
    env,
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (said += chunk.toString()));
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await expect.poll(() => isOpen(port)).toBe(false);
    await rm(home, { recursive: true, force: true, maxRetries: 5 });
  });
  await expect.poll(() => said, { timeout: 60_000 }).toContain(line);
  return { child, port, said: () => said };
}

/** One with the next one, for edge and host agent; below those that systems give to whoever asks for any. */
async function portPair(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 32_000);
    if (!(await isOpen(port)) && !(await isOpen(port + 1))) return port;
  }
}

async function isOpen(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  return new Promise((resolve) => {
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
  }).finally(() => socket.destroy()) as Promise<boolean>;
}

const openPorts = async (port: number) => [await isOpen(port), await isOpen(port + 1)];

test.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)("%s ends it in order", async (signal) => {
  const { child, port, said } = await start("Up at ");
  expect(await openPorts(port)).toEqual([true, true]);
  child.kill(signal);
  expect(await once(child, "exit")).toEqual([0, null]);
  expect(said()).toContain("Ending: ");
  expect(await openPorts(port)).toEqual([false, false]);
});

test("a signal while it starts ends what has begun", async () => {
  const { child, port, said } = await start("Starting ...");
  await expect.poll(() => isOpen(port), { timeout: 30_000, interval: 20 }).toBe(true);
  child.kill("SIGTERM");
  expect((await once(child, "exit"))[0]).toBeOneOf([0, 130]);
  expect(said()).toMatch(/Ended before it was up|Ending: /);
  expect(await openPorts(port)).toEqual([false, false]);
});

test("after kill -9 of it, its edge and host agent end by themselves", async () => {
  const { child, port } = await start("Up at ");
  child.kill("SIGKILL");
  await expect.poll(() => openPorts(port), { timeout: 30_000 }).toEqual([false, false]);
});

/** Kill each process in turn: the state that follows is right, the reason is said, and the machine is usable again. */
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { Rouse } from "rouse";
import { defaultHome } from "../../backend-pool/config.ts";
import { launch, type System } from "../../backend-pool/local/launcher.ts";
import { freshName } from "./fresh-name.ts";

describe("a killed", () => {
  let own: System;
  let rouse: Rouse;
  let stateDir: string;

  beforeAll(async () => {
    stateDir = await mkdtemp(join(tmpdir(), "rouse-crash-"));
    own = await launch({
      homeDir: defaultHome(),
      stateDir,
      edgePort: 0,
      hostPort: 0,
      env: { ROUSE_ARCHIVE_SECONDS: "off" },
    });
    rouse = new Rouse({ apiKey: own.apiKey, baseUrl: own.url });
  });
  afterAll(async () => {
    await own.stop();
    await rm(stateDir, { recursive: true, force: true });
  });

  async function pidFiles(): Promise<string[]> {
    const runDir = join(stateDir, "run");
    return (await readdir(runDir)).filter((name) => name.endsWith(".pid")).map((name) => join(runDir, name));
  }

  /** Processes of the machines of this test's own system. */
  async function machineProcesses(): Promise<number[]> {
    const pids = await Promise.all((await pidFiles()).map(async (file) => Number(await readFile(file, "utf8"))));
    const alive = await Promise.all(
      pids.map((pid) =>
        readFile(`/proc/${pid}/cmdline`, "utf8").then(
          (text) => text.includes(stateDir),
          () => false,
        ),
      ),
    );
    return pids.filter((_, i) => alive[i]);
  }

  it("guest agent takes nothing of the interpreter with it, asleep or awake", async ({ expect }) => {
    const sandbox = await rouse.sandboxes.create({ name: freshName("agent"), idlePauseSeconds: 0 });
    await sandbox.interpreter.run("x = 41");
    const kill = "sudo pkill -9 -f '[/]usr/lib/rouse/agent.mjs'";
    await sandbox.exec(`setsid sh -c "sleep 1; ${kill}" > /dev/null 2>&1 &`);
    const startedAt = async () =>
      (await sandbox.exec("stat -c %Y /proc/$(pgrep -f '[/]usr/lib/rouse/agent.mjs' -o)")).stdout;
    const before = await startedAt();
    await expect.poll(() => startedAt().catch(() => before), { timeout: 60_000 }).not.toBe(before);
    const next = await sandbox.interpreter.run("x += 1; x");
    expect(next).toMatchObject({ status: "ok", contextStarted: false });
    expect(next.results[0]?.data["text/plain"]).toBe("42");
    await sandbox.pause();
    expect((await sandbox.interpreter.run("x")).results[0]?.data["text/plain"]).toBe("42");
    await sandbox.delete();
  });

  it("machine is stopped with its reason, and starts again from its disk", async ({ expect }) => {
    const sandbox = await rouse.sandboxes.create({ name: freshName("vm"), idlePauseSeconds: 0 });
    await sandbox.exec("echo kept > disk.txt && sync", { check: true });
    for (const pid of await machineProcesses()) process.kill(pid, "SIGKILL");
    const { info } = await sandbox.waitFor("stopped", { timeoutSeconds: 30 });
    expect(info).toMatchObject({ state: "stopped", stopReason: "vm_crashed" });
    await expect(sandbox.exec("true")).rejects.toMatchObject({ code: "sandbox_stopped" });
    const again = await rouse.sandboxes.getOrCreate(sandbox.name ?? "");
    expect(again.info).toMatchObject({ state: "running", memoryRestored: false, reused: true });
    expect((await again.exec("cat disk.txt")).stdout).toBe("kept\n");
    await again.delete();
    expect(await machineProcesses()).toEqual([]);
  });

  it("host agent finds its running and its sleeping machines again", async ({ expect }) => {
    const awake = await rouse.sandboxes.create({ name: freshName("awake"), idlePauseSeconds: 0 });
    const asleep = await rouse.sandboxes.create({ name: freshName("asleep"), idlePauseSeconds: 0 });
    const boots = await Promise.all([awake, asleep].map((one) => one.exec("cat /proc/sys/kernel/random/boot_id")));
    await awake.interpreter.run("kept = 1");
    await asleep.interpreter.run("kept = 2");
    await asleep.pause();
    await own.host.kill();
    expect((await machineProcesses()).length).toBeGreaterThan(0);
    // As if the kill had come before the process's number was written.
    for (const file of await pidFiles()) await writeFile(file, "starting");
    await own.host.start();
    expect((await awake.interpreter.run("kept")).results[0]?.data["text/plain"]).toBe("1");
    expect((await awake.refresh()).info.generation).toBe(awake.info.generation);
    expect((await asleep.interpreter.run("kept")).results[0]?.data["text/plain"]).toBe("2");
    const after = await Promise.all([awake, asleep].map((one) => one.exec("cat /proc/sys/kernel/random/boot_id")));
    expect(after.map((one) => one.stdout)).toEqual(boots.map((one) => one.stdout));
    await Promise.all([awake.delete(), asleep.delete()]);
  });

  it("host agent in the middle of pauses and wakes loses nothing", async ({ expect }) => {
    const sandbox = await rouse.sandboxes.create({ name: freshName("middle"), idlePauseSeconds: 0 });
    await sandbox.interpreter.run("rounds = []");
    for (let round = 0; round < 4; round++) {
      const action = round % 2 === 0 ? sandbox.pause() : sandbox.wake();
      action.catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, 5 + 12 * round));
      await own.host.kill();
      await own.host.start();
      await action.catch(() => undefined);
      await sandbox.interpreter.run(`rounds.append(${round})`);
      expect((await sandbox.refresh()).info.memoryRestored).not.toBe(false);
      if (round % 2 === 0) await sandbox.pause();
    }
    expect((await sandbox.interpreter.run("rounds")).results[0]?.data["text/plain"]).toBe("[0, 1, 2, 3]");
    await sandbox.delete();
  });

  it("edge comes back with every sandbox in the state it had", async ({ expect }) => {
    const awake = await rouse.sandboxes.create({ name: freshName("edge-awake"), idlePauseSeconds: 0 });
    const asleep = await rouse.sandboxes.create({
      name: freshName("edge-asleep"),
      idlePauseSeconds: 0,
      labels: { team: "crash" },
    });
    await asleep.interpreter.run("kept = 3");
    await asleep.pause();
    await own.edge.kill();
    // The whole edge is gone, not only the process that started it.
    await expect(fetch(own.url)).rejects.toThrow();
    await own.edge.start();
    expect((await awake.exec("echo here")).stdout).toBe("here\n");
    expect((await asleep.refresh()).state).toBe("paused");
    expect((await asleep.interpreter.run("kept")).results[0]?.data["text/plain"]).toBe("3");
    expect((await rouse.sandboxes.list({ labels: { team: "crash" } })).data.map((one) => one.id)).toEqual([asleep.id]);
    await Promise.all([awake.delete(), asleep.delete()]);
    expect(await machineProcesses()).toEqual([]);
  });
});

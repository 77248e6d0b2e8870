/** Sleep keeps everything: writes, memory, processes, random numbers apart, the clock right. */
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, it } from "vitest";
import type { Sandbox } from "rouse";
import { freshName, machine, rouse, settle } from "./support.ts";

const bootId = async (sandbox: Sandbox) => (await sandbox.exec("cat /proc/sys/kernel/random/boot_id")).stdout.trim();

describe("a machine that sleeps", () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await rouse.sandboxes.create({ name: freshName("sleep"), idlePauseSeconds: 0 });
  });
  afterAll(() => sandbox.delete());

  it("loses no write and no boot over twelve cycles", async ({ expect }) => {
    const boot = await bootId(sandbox);
    for (let cycle = 1; cycle <= 12; cycle++) {
      await sandbox.exec(`mkdir -p cycles && echo ${cycle} > cycles/f${cycle} && echo ${cycle} > cycles/last`, {
        check: true,
      });
      await sandbox.pause();
      // Every depth has its share of the cycles.
      if (cycle % 3 === 1) await settle(sandbox, "local");
      if (cycle % 3 === 2) await settle(sandbox, "prestarted");
      await sandbox.wake();
    }
    const left = await sandbox.exec("ls cycles/f* | wc -l; cat cycles/last; cat cycles/f* | sort -n | md5sum");
    const right = await sandbox.exec("seq 12 | md5sum");
    expect(left.stdout).toBe(`12\n12\n${right.stdout}`);
    expect(await bootId(sandbox)).toBe(boot);
  });

  it("runs what comes right after a pause that nobody waited for", async ({ expect }) => {
    for (let round = 1; round <= 20; round++) {
      const pausing = sandbox.pause({ wait: false });
      const waking = sandbox.wake().catch(() => undefined); // it may find the machine still awake
      await Promise.all([pausing, waking]);
      const result = await sandbox.exec(`echo ${round}`);
      expect(result.stdout).toBe(`${round}\n`);
    }
  });

  it("goes on counting in memory where it stopped", async ({ expect }) => {
    const counter = await sandbox.spawn([
      "python3",
      "-uc",
      "import time\nn = 0\nwhile True:\n  n += 1\n  print(n)\n  time.sleep(0.05)",
    ]);
    await delay(1000);
    await sandbox.pause();
    await settle(sandbox, "local");
    await sandbox.wake();
    const before = await counter.refresh();
    expect(before.state).toBe("running");
    await delay(1000);
    await counter.kill("SIGKILL");
    await counter.wait();
    let text = "";
    for await (const event of counter.output()) if (event.type === "stdout") text += event.data;
    const numbers = text.trim().split("\n").map(Number);
    expect(numbers).toEqual(Array.from({ length: numbers.length }, (_, i) => i + 1));
    expect(numbers.length).toBeGreaterThan(10);
  });

  // These mostly wait, each with a machine of its own.
  it.concurrent("has the right time on the first command after a sleep", async ({ expect }) => {
    await sandbox.pause();
    await settle(sandbox, "local");
    await delay(20_000);
    const from = Date.now() / 1000;
    const result = await sandbox.exec("date +%s.%N");
    const to = Date.now() / 1000;
    expect(Number(result.stdout)).toBeGreaterThan(from - 0.5);
    expect(Number(result.stdout)).toBeLessThan(to + 0.5);
  });

  it.concurrent("keeps over an idle pause what a manual pause keeps", async ({ expect }) => {
    const idle = await rouse.sandboxes.create({ name: freshName("idle"), idlePauseSeconds: 10 });
    // Unsynced writes up to the moment it goes idle, and a variable.
    await idle.exec(
      "for i in $(seq 200); do head -c 2000 /dev/urandom > w$i; done; cat $(ls w* | sort) | sha256sum > sum",
      { check: true },
    );
    await idle.interpreter.run("kept = [1, 2, 3]");
    let { info } = await idle.waitFor("paused", { timeoutSeconds: 60 });
    expect(info.state).toBe("paused");
    expect(info.stopReason).toBe("idle");
    await settle(idle, "local");
    const check = await idle.exec("cat $(ls w* | sort) | sha256sum | diff - sum && echo same");
    expect(check.stdout).toBe("same\n");
    expect((await idle.interpreter.run("kept")).results[0]?.data["text/plain"]).toBe("[1, 2, 3]");
    ({ info } = await idle.refresh());
    expect(info.memoryRestored).toBe(true);
    await idle.delete();
  });

  it.concurrent("stays awake while a command runs, and while its CPUs work", async ({ expect }) => {
    const busy = await rouse.sandboxes.create({ name: freshName("busy"), idlePauseSeconds: 10 });
    await busy.exec(
      "nohup sh -c 'end=$(( $(date +%s) + 18 )); while [ $(date +%s) -lt $end ]; do :; done' >/dev/null 2>&1 &",
    );
    await delay(14_000);
    expect((await machine(busy)).state).toBe("running");
    await busy.waitFor("paused", { timeoutSeconds: 60 });
    expect(busy.state).toBe("paused");
    await busy.delete();
  });

  it("does not sleep at all with idlePauseSeconds 0, and comes back from stop with its disk alone", async ({
    expect,
  }) => {
    await sandbox.exec("echo durable > disk.txt; sudo sh -c 'echo root > /root/mark'");
    await sandbox.exec("echo memory > /dev/shm/memory");
    await sandbox.stop();
    expect((await sandbox.refresh()).state).toBe("stopped");
    await sandbox.restart();
    expect((await sandbox.refresh()).info.memoryRestored).toBe(false);
    expect((await sandbox.exec("cat disk.txt; sudo cat /root/mark")).stdout).toBe("durable\nroot\n");
    expect((await sandbox.exec("cat /dev/shm/memory")).exitCode).not.toBe(0);
  });
});

describe("machines made from one image", () => {
  it("have an identity, random numbers and files of their own", async ({ expect }) => {
    const made = await Promise.all(
      Array.from({ length: 4 }, (_, i) => rouse.sandboxes.create({ name: freshName(`twin${i}`), idlePauseSeconds: 0 })),
    );
    const script = `cat /etc/machine-id; hostname; cat /proc/sys/kernel/random/boot_id; python3 -c '
import secrets
for _ in range(200):
    print(open("/proc/sys/kernel/random/uuid").read().strip(), secrets.token_hex(16), sep=chr(10))'`;
    const outputs = await Promise.all(
      made.map(async (one) => (await one.exec(script, { check: true })).stdout.trim().split("\n")),
    );
    const all = outputs.flat();
    expect(all).toHaveLength(4 * 403);
    expect(new Set(all).size).toBe(all.length);
    expect(outputs.map((lines) => lines[1])).toEqual(made.map((one) => one.info.label));
    await Promise.all(made.map((one) => one.delete()));
  });
});

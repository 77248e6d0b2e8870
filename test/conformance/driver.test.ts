/** What every driver must do, run against each of them. */
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { agentFacts } from "../../backend-pool/machine/agent-client.ts";
import type { Driver } from "../../backend-pool/machine/driver.ts";
import { shapeOf } from "../../backend-pool/shape.ts";
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";
import { drivers, execIn } from "./drivers.ts";

describe.for(Object.keys(drivers))("driver %s", (name) => {
  let dir: string;
  let driver: Driver;
  const id = newSandboxId("conformance");
  const identity = { hostname: "conformance" };

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), `rouse-${name}-`));
    const make = drivers[name];
    if (!make) throw new Error(`no driver ${name}`);
    driver = await make(dir);
    await driver.prepare(shapeOf({}));
  });
  afterAll(async () => {
    await driver.destroy(id);
    await driver.close();
    await rm(dir, { recursive: true, force: true });
  });

  const exec = (command: string, of = id): Promise<string> => execIn(driver, of, command);

  it("knows nothing of a machine that was never made", async ({ expect }) => {
    expect(await driver.inspect(id)).toEqual({ exists: false, running: false, memory: "none", depth: null });
    await expect(driver.wake(id, identity)).rejects.toMatchObject({
      code: expect.stringMatching(/not_found|wake_failed/),
    });
    await driver.destroy(id);
  });

  it("refuses an image it does not have", async ({ expect }) => {
    await expect(driver.create(newSandboxId("other"), shapeOf({ image: "none" }))).rejects.toMatchObject({
      code: "invalid_image",
    });
  });

  it("creates asleep, twice the same, and wakes", async ({ expect }) => {
    await driver.create(id, shapeOf({}));
    await driver.create(id, shapeOf({}));
    expect(await driver.inspect(id)).toMatchObject({ exists: true, running: false, memory: "saved" });
    const { ready } = await driver.wake(id, identity);
    expect(await driver.inspect(id)).toEqual({ exists: true, running: true, memory: "live", depth: null });
    expect(await driver.list()).toEqual([id]);
    await ready;
    expect(await exec("echo ready")).toBe("ready");
    expect((await agentFacts(await driver.endpoint(id, AGENT_PORT))).running).toBe(0);
  });

  it("keeps programs and files over a pause, from every depth", async ({ expect }) => {
    await exec(
      "echo one > file; (n=0; while :; do n=$((n+1)); echo $n > next; mv next count; sleep 0.05; done) >/dev/null 2>&1 & echo $! > pid",
    );
    for (const depth of ["resident", "prestarted", "local"] as const) {
      await driver.pause(id);
      await driver.pause(id);
      expect(await driver.inspect(id)).toMatchObject({ running: false, memory: "saved" });
      await driver.settle(id, depth);
      await driver.settle(id, depth);
      expect((await driver.inspect(id)).memory).toBe("saved");
      await (
        await driver.wake(id, identity)
      ).ready;
      const before = Number(await exec("cat file >/dev/null && kill -0 $(cat pid) && cat count"));
      expect(before).toBeGreaterThan(0);
      expect(Number(await exec("sleep 0.5; cat count"))).toBeGreaterThan(before);
    }
  });

  it("tells who listens, and measures CPU", async ({ expect }) => {
    expect(await driver.listening(id, 8123)).toBe("no");
    await exec(
      "nohup python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 & for i in $(seq 100); do python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8123))' 2>/dev/null && break; sleep 0.1; done",
    );
    expect(await driver.listening(id, 8123)).toBe("reachable");
    const [before, taken] = [await driver.cpuTicks(id), (await driver.stats(id)).cpuNs ?? 0n];
    // Time of its own, of which a busy host gives it less than all.
    await exec("python3 -c 'import time\nwhile time.process_time() < 4: pass'");
    expect((await driver.cpuTicks(id)) - before).toBeGreaterThan(50);
    const { cpuNs, storedBytes } = await driver.stats(id);
    expect((cpuNs ?? 0n) - taken).toBeGreaterThan(500_000_000n);
    expect(storedBytes).toBeGreaterThan(0);
  });

  it("copies a machine that runs, which runs on, and one that sleeps", async ({ expect, skip }) => {
    if (driver.sleepers === null) skip("this driver's machines are processes, which can't be copied");
    const [copy, other] = ["a", "b"].map((letter) => `snap-${letter.repeat(20)}`) as [string, string];
    const before = Number(await exec("cat count"));
    const frozenMs = await driver.capture(id, { capture: copy, diskOnly: false, volumes: [] }, identity);
    expect(frozenMs).toBeGreaterThan(0);
    expect(await driver.capture(id, { capture: copy, diskOnly: false, volumes: [] }, identity)).toBeNull();
    expect((await driver.inspect(id)).running).toBe(true);
    await expect.poll(async () => Number(await exec("cat count")), { timeout: 20_000 }).toBeGreaterThan(before);
    await driver.pause(id);
    expect(await driver.capture(id, { capture: other, diskOnly: true, volumes: [] }, identity)).toBeNull();
    await (
      await driver.wake(id, identity)
    ).ready;
    expect([...(await driver.captures())].toSorted()).toEqual([copy, other]);
    expect(await driver.list()).toEqual([id]);

    const child = newSandboxId("child");
    await driver.createFrom(copy, child);
    await driver.createFrom(copy, child);
    expect(await driver.inspect(child)).toMatchObject({ running: false, memory: "saved" });
    await (
      await driver.wake(child, { hostname: "child" })
    ).ready;
    expect(await exec("hostname", child)).toBe("child");
    expect(await exec("hostname")).toBe("conformance");
    const counted = Number(await exec("cat count", child));
    await expect.poll(async () => Number(await exec("cat count", child)), { timeout: 20_000 }).toBeGreaterThan(counted);
    await driver.destroy(child);
    for (const one of [copy, other]) await driver.dropCapture(one);
    expect(await driver.captures()).toEqual([]);
  });

  it("boots from its disk: files stay, programs do not", async ({ expect }) => {
    await exec("sync");
    await driver.boot(id, identity);
    expect(await exec("cat file")).toBe("one");
    expect(await exec("readlink /proc/$(cat pid)/exe >/dev/null && echo alive || echo gone")).toBe("gone");
  });

  it("stops without RAM, and can't be woken then", async ({ expect }) => {
    await driver.stop(id);
    await driver.stop(id);
    expect(await driver.inspect(id)).toEqual({ exists: true, running: false, memory: "none", depth: null });
    expect((await driver.stats(id)).cpuNs).toBeNull();
    await expect(driver.wake(id, identity)).rejects.toMatchObject({
      code: "wake_failed",
      details: { memoryLost: true },
    });
    await driver.boot(id, identity);
    expect(await exec("cat file")).toBe("one");
  });

  it("reports a machine that ends by itself, once", async ({ expect }) => {
    const ended = new Promise<string>((resolve) => driver.onEnded(resolve));
    await exec(name === "fake" ? "kill -9 $PPID" : "sudo sh -c 'sync; echo o > /proc/sysrq-trigger'").catch(
      () => undefined,
    );
    expect(await ended).toBe(id);
    expect(await driver.inspect(id)).toMatchObject({ running: false, memory: "none" });
  });

  it("destroys from any state, twice the same, and leaves nothing", async ({ expect }) => {
    await driver.boot(id, identity);
    await driver.destroy(id);
    await driver.destroy(id);
    expect(await driver.list()).toEqual([]);
    expect(await readdir(join(dir, "machines"))).toEqual([]);
  });
});

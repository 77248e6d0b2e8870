/** No two machines of one name ever run: host and edge lose each other in every way, and find each other again. */
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { Rouse, type Sandbox } from "rouse";
import { defaultHome } from "../../backend-pool/config.ts";
import { freePort, launch, type System } from "../../backend-pool/local/launcher.ts";
import { labelOfId } from "../../sdk/contract/names.ts";
import { CutProxy } from "../support/cut-proxy.ts";
import { freshName } from "../e2e/fresh-name.ts";

/** Short, so that the tests are: machines are put to sleep after 6 s, and given up after 9 s of silence. */
const LEASE_SECONDS = 8;
const LOST_MS = 10_000;

describe("a host that is cut off", () => {
  let stateDir: string;
  let system: System;
  let rouse: Rouse;
  let proxy: CutProxy;
  let watching = true;
  let watch: Promise<void>;
  const twice: string[] = [];

  beforeAll(async () => {
    stateDir = await mkdtemp(join(tmpdir(), "rouse-fencing-"));
    const edgePort = await freePort();
    proxy = await CutProxy.open(edgePort);
    const env = {
      ROUSE_HOST_LEASE_SECONDS: String(LEASE_SECONDS),
      // Hosts reach the edge through here alone.
      ROUSE_EDGE_URL: `http://127.0.0.1:${proxy.port}`,
      ROUSE_SPARES: "1",
      ROUSE_ARCHIVE_SECONDS: "off",
    };
    system = await launch({ homeDir: defaultHome(), stateDir, edgePort, hostPort: 0, hosts: 2, env });
    rouse = new Rouse({ apiKey: system.apiKey, baseUrl: system.url, maxRetries: 0 });
    watch = look();
  }, 600_000);
  afterAll(async () => {
    watching = false;
    await watch;
    proxy.cut(false);
    await system.stop();
    await proxy.close();
    await rm(stateDir, { recursive: true, force: true });
  });

  /** All through the tests: of each name at most one process may run. */
  async function look(): Promise<void> {
    while (watching) {
      const running = processes().filter(({ pid }) => runs(pid));
      const labels = running.map(({ id }) => labelOfId(id));
      for (const label of labels) if (labels.indexOf(label) !== labels.lastIndexOf(label)) twice.push(String(label));
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  /** The QEMU processes of all hosts of this test. */
  function processes(): { pid: number; id: string; host: number }[] {
    return readdirSync("/proc").flatMap((entry) => {
      if (!/^\d+$/.test(entry)) return [];
      let command: string;
      try {
        command = readFileSync(`/proc/${entry}/cmdline`, "utf8");
      } catch {
        return [];
      }
      const found = command.startsWith("qemu-system") ? /mem-path=(.*)\/machines\/([^/]+)\//.exec(command) : null;
      if (!found?.[1]?.startsWith(stateDir) || !found[2]) return [];
      return [{ pid: Number(entry), id: found[2], host: found[1].endsWith("/host-2") ? 1 : 0 }];
    });
  }

  /** Whether a process is not stopped from outside. */
  function runs(pid: number): boolean {
    try {
      const text = readFileSync(`/proc/${pid}/stat`, "utf8");
      return text.slice(text.lastIndexOf(")") + 2)[0] !== "T";
    } catch {
      return false;
    }
  }

  const stateOf = async (sandbox: Sandbox) => (await sandbox.refresh()).info;
  const remember = (sandbox: Sandbox) =>
    sandbox.exec("echo $RANDOM$RANDOM > /dev/shm/in-ram; cat /dev/shm/in-ram /proc/sys/kernel/random/boot_id");
  const recall = (sandbox: Sandbox) => sandbox.exec("cat /dev/shm/in-ram /proc/sys/kernel/random/boot_id");

  it("puts its machines to sleep by itself, and they wake with their RAM when it is back", async () => {
    const sandbox = await rouse.sandboxes.create({ name: freshName("cut"), idlePauseSeconds: 0 });
    const { stdout } = await remember(sandbox);
    proxy.cut(true);
    await new Promise((resolve) => setTimeout(resolve, LOST_MS));
    await expect(sandbox.exec("true", { timeoutMs: 5000 })).rejects.toMatchObject({ code: "host_unavailable" });
    expect(await stateOf(sandbox)).toMatchObject({ state: "paused" });
    proxy.cut(false);
    await vi.waitFor(async () => expect((await recall(sandbox)).stdout).toBe(stdout), {
      timeout: 15_000,
      interval: 500,
    });
    expect(await stateOf(sandbox)).toMatchObject({ state: "running", memoryRestored: true });
    await sandbox.delete();
  });

  it("whose host agent is dead has its machines frozen, and the next one lets them run on", async () => {
    const sandbox = await rouse.sandboxes.create({ name: freshName("dead"), idlePauseSeconds: 0 });
    const { stdout } = await remember(sandbox);
    const { generation } = await stateOf(sandbox);
    const host = hostOf(sandbox);
    await host.kill();
    await vi.waitFor(() => expect(frozen(sandbox)).toBe(true), { timeout: 15_000, interval: 200 });
    await host.start();
    await vi.waitFor(async () => expect((await recall(sandbox)).stdout).toBe(stdout), {
      timeout: 30_000,
      interval: 500,
    });
    // Nobody asked for it meanwhile: it is the same run.
    expect(await stateOf(sandbox)).toMatchObject({ state: "running", generation });
    await sandbox.delete();
  });

  it("that hangs, and is asked meanwhile, still has the RAM when it goes on", async () => {
    const sandbox = await rouse.sandboxes.create({ name: freshName("hang"), idlePauseSeconds: 0 });
    const { stdout } = await remember(sandbox);
    const host = hostOf(sandbox);
    process.kill(host.pid ?? 0, "SIGSTOP");
    try {
      await vi.waitFor(() => expect(frozen(sandbox)).toBe(true), { timeout: 15_000, interval: 200 });
      await new Promise((resolve) => setTimeout(resolve, 3000));
      await expect(sandbox.exec("true", { timeoutMs: 5000 })).rejects.toMatchObject({ code: "host_unavailable" });
    } finally {
      process.kill(host.pid ?? 0, "SIGCONT");
    }
    await vi.waitFor(async () => expect((await recall(sandbox)).stdout).toBe(stdout), {
      timeout: 60_000,
      interval: 500,
    });
    await sandbox.delete();
  });

  it("does not keep a name: deleted meanwhile it is made anew on another host, and the old machine goes", async () => {
    const name = freshName("name");
    const first = await rouse.sandboxes.create({ name, idlePauseSeconds: 0 });
    await remember(first);
    const host = hostOf(first);
    await host.kill();
    await rouse.sandboxes.delete(first.id);
    // Its old machine may run until the lease is over: nobody gets the name before. A try that gave up may go on, so
    // that the next one finds what it made.
    const second = await vi.waitFor(() => rouse.sandboxes.getOrCreate(name, { idlePauseSeconds: 0 }), {
      timeout: 30_000,
      interval: 500,
    });
    expect(second.id).not.toBe(first.id);
    expect((await second.exec("cat /dev/shm/in-ram 2>&1")).exitCode).not.toBe(0);
    await host.start();
    await vi.waitFor(() => expect(processes().filter(({ id }) => id === first.id)).toEqual([]), {
      timeout: 30_000,
      interval: 300,
    });
    expect((await second.exec("echo on")).stdout).toBe("on\n");
    await second.delete();
  });

  it("never runs a name twice, whatever happened above", () => {
    expect(twice).toEqual([]);
  });

  function hostOf(sandbox: Sandbox): System["host"] {
    const [process] = processes().filter(({ id }) => id === sandbox.id);
    const host = process && system.hosts[process.host];
    if (!host) throw new Error("the sandbox has no process");
    return host;
  }

  function frozen(sandbox: Sandbox): boolean {
    const [process] = processes().filter(({ id }) => id === sandbox.id);
    return process !== undefined && !runs(process.pid);
  }
}, 120_000);

/** Saved states off their host, with real machines on two hosts: durable pauses, loss of a host, copies, going back. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Rouse, type Sandbox } from "rouse";
import { defaultHome } from "../../backend-pool/config.ts";
import { launch, type System } from "../../backend-pool/local/launcher.ts";
import { bootId, count, startCounter } from "../../backend-pool/local/story/counter.ts";
import { freshName } from "./fresh-name.ts";

describe("a saved state", () => {
  let system: System;
  let rouse: Rouse;
  let stateDir: string;

  beforeAll(async () => {
    stateDir = await mkdtemp(join(tmpdir(), "rouse-archive-"));
    const env = {
      ROUSE_ARCHIVE_SECONDS: "0",
      ROUSE_RESIDENT_SECONDS: "1",
      ROUSE_PRESTARTED_SECONDS: "0",
      ROUSE_COMPACT_AFTER_SECONDS: "0",
      // Short, for the last test, and longer than a busy machine's heartbeats are late.
      ROUSE_HOST_LEASE_SECONDS: "20",
    };
    system = await launch({ homeDir: defaultHome(), stateDir, edgePort: 0, hostPort: 0, hosts: 2, env });
    rouse = new Rouse({ apiKey: system.apiKey, baseUrl: system.url });
    // Its golden image begins to leave the host, which takes a while and happens once.
    const first = await rouse.sandboxes.create({ name: freshName("first"), idlePauseSeconds: 0 });
    await first.pause();
  });
  afterAll(async () => {
    await system.stop();
    await rm(stateDir, { recursive: true, force: true });
  });

  const dirs = () => [join(stateDir, "machines"), join(stateDir, "host-2", "machines")];
  const hostOf = ({ id }: Sandbox) => dirs().findIndex((dir) => list(dir).includes(id));
  const filesOf = (sandbox: Sandbox) => list(join(dirs()[hostOf(sandbox)] ?? "", sandbox.id));
  async function counting(): Promise<Sandbox> {
    const sandbox = await rouse.sandboxes.create({ name: freshName("kept"), idlePauseSeconds: 0, keepPauses: 2 });
    await startCounter(sandbox);
    return sandbox;
  }

  async function asleep(sandbox: Sandbox): Promise<void> {
    await sandbox.pause();
    await sandbox.waitUntilDurable({ timeoutMs: 170_000 });
  }

  it("is forked with its processes and files, and no two forks draw the same random numbers", async () => {
    const sandbox = await counting();
    const make =
      "mkdir -p /workspace/many && cd /workspace/many && python3 -c 'import os\nfor i in range(1000): open(str(i),\"wb\").write(os.urandom(2000))' && sha256sum * > ../sums";
    await sandbox.exec(make);
    await sandbox.exec(
      "nohup sh -c 'while :; do cat /proc/sys/kernel/random/uuid; sleep 0.05; done > /workspace/uuids' >/dev/null 2>&1 &",
    );
    // Somebody waits for an answer that does not come.
    const holder =
      "import socket\ns=socket.create_server(('127.0.0.1',9090))\nkept=[]\nwhile True: kept.append(s.accept())\n";
    await sandbox.files.write("/workspace/holder.py", holder);
    await sandbox.spawn("python3 /workspace/holder.py");
    const lines = async (one: Sandbox, command: string) => (await one.exec(`${command} | wc -l`)).stdout.trim();
    await expect.poll(() => lines(sandbox, "ss -tlnH sport = :9090"), { timeout: 30_000 }).toBe("1");
    const held = "ss -tnH state established sport = :9090";
    const waiting = new AbortController();
    const hanging = sandbox.fetch("/", { signal: waiting.signal }, 9090).catch(() => undefined);
    await expect.poll(() => lines(sandbox, held), { timeout: 30_000 }).toBe("1");

    const before = await count(sandbox);
    const forks = await sandbox.fork({ count: 3 });
    expect(forks).toHaveLength(3);
    expect(await lines(sandbox, held)).toBe("1");
    // The source's connections are nobody's in its forks.
    for (const fork of forks) expect(await lines(fork, held)).toBe("0");
    waiting.abort();
    await hanging;
    const checked = await Promise.all(
      forks.map((fork) => fork.exec("cd /workspace/many && sha256sum -c --quiet ../sums && git --version && sleep 1")),
    );
    expect(checked.map(({ exitCode }) => exitCode)).toEqual([0, 0, 0]);
    expect(await Promise.all(forks.map(count))).toEqual([1, 1, 1].map((one) => before + one));
    expect(await count(sandbox)).toBe(before + 1);
    // What was drawn before the fork is the same in all; nothing that came after is.
    const drawn = await Promise.all(
      [sandbox, ...forks].map(async (one) => (await one.exec("cat /workspace/uuids")).stdout.trim().split("\n")),
    );
    const common = (drawn[0] ?? []).filter((line) => drawn.every((lines) => lines.includes(line)));
    const later = drawn.flatMap((lines) => lines.filter((line) => !common.includes(line)));
    expect(later.length).toBeGreaterThan(20);
    expect(new Set(later).size).toBe(later.length);
    await Promise.all([sandbox, ...forks].map((one) => one.delete()));
  });

  it("is durable, then all that its host keeps, and wakes with all it had", async () => {
    const sandbox = await counting();
    const [boot, before] = [await bootId(sandbox), await count(sandbox)];
    await asleep(sandbox);
    // Of more than two gigabytes that the machine has.
    expect(sandbox.info.durability?.storedBytes).toBeLessThan(10_000_000);
    const left = ["golden", "machine.json", "sealed", "sealed-state.json"];
    await expect.poll(() => filesOf(sandbox).toSorted(), { timeout: 30_000 }).toEqual(left);
    expect(await count(sandbox)).toBe(before + 1);
    expect(await bootId(sandbox)).toBe(boot);
    // A second one stores only what changed since.
    await asleep(sandbox);
    expect(await count(sandbox)).toBe(before + 2);
    await sandbox.delete();
  });

  it("becomes durable however often its host agent dies on the way", async () => {
    const sandbox = await counting();
    const before = await count(sandbox);
    await sandbox.pause();
    const host = system.hosts[hostOf(sandbox)];
    for (const ms of [50, 400, 900]) {
      await new Promise((resolve) => setTimeout(resolve, ms));
      await host?.kill();
      await host?.start();
    }
    await sandbox.waitUntilDurable({ timeoutMs: 170_000 });
    expect(await count(sandbox)).toBe(before + 1);
    await sandbox.delete();
  });

  it("that is rotten on its host comes from the store; rotten in both it is said to be", async () => {
    const sandbox = await counting();
    const before = await count(sandbox);
    await asleep(sandbox);
    await expect.poll(() => filesOf(sandbox), { timeout: 30_000 }).not.toContain("ram");
    const sealed = join(dirs()[hostOf(sandbox)] ?? "", sandbox.id, "sealed");
    for (const blob of list(sealed).filter((name) => name.length === 64)) {
      const bytes = readFileSync(join(sealed, blob));
      bytes.writeUInt8((bytes[bytes.length >> 1] ?? 0) ^ 1, bytes.length >> 1);
      writeFileSync(join(sealed, blob), bytes);
    }
    expect(await count(sandbox)).toBe(before + 1);
    await sandbox.delete();
  });

  it("gives a sandbox back what it was, and lets others begin as it was", async () => {
    const sandbox = await counting();
    const first = await count(sandbox);
    await asleep(sandbox);
    const point = (await sandbox.history())[0]?.point ?? "";
    const second = await count(sandbox);
    expect(second).toBe(first + 1);

    const snapshot = await sandbox.snapshot({ name: "two" });
    expect(snapshot).toMatchObject({ state: "ready", backedUp: true });
    expect(await count(sandbox)).toBe(second + 1);

    // The history tells the files of two states apart, and the sandbox sleeps on.
    await sandbox.exec("cd /workspace && echo 1 > kept && echo 1 > changed && mkdir sub && echo 1 > sub/gone");
    await asleep(sandbox);
    await sandbox.exec("cd /workspace && echo 22 > changed && rm sub/gone && ln -s kept link");
    await asleep(sandbox);
    const diff = await sandbox.diff({ path: "/workspace" });
    expect(diff.truncated).toBe(false);
    const changes = diff.data.filter(({ path }) => path.startsWith("/workspace"));
    expect(changes.map((one) => Object.values(one).join(" "))).toEqual([
      "/workspace/changed modified file 2 3",
      "/workspace/link added symlink  ",
      "/workspace/sub/gone removed file 2 ",
    ]);
    expect((await sandbox.refresh()).state).toBe("paused");

    await sandbox.rollback(point);
    expect(await count(sandbox)).toBe(first + 1);

    const child = await rouse.sandboxes.create({
      name: freshName("child"),
      snapshot: snapshot.id,
      idlePauseSeconds: 0,
    });
    expect(await count(child)).toBe(second + 1);
    const identity = "cat /etc/machine-id /proc/sys/kernel/random/boot_id; hostname; cat /proc/sys/kernel/random/uuid";
    const [own, others] = await Promise.all([sandbox.exec(identity), child.exec(identity)]);
    const [mine, theirs] = [own.stdout.trim().split("\n"), others.stdout.trim().split("\n")];
    for (const [i, line] of mine.entries()) expect(theirs[i]).not.toBe(line);
    await Promise.all([sandbox.delete(), child.delete(), rouse.snapshots.delete(snapshot.id)]);
  });

  it("of a volume outlives its sandboxes, one after another, and is written by one at a time", async () => {
    const { id: volumeId, name } = await rouse.volumes.create({ name: freshName("disk"), sizeMiB: 128 });
    const mount = { volumeId, path: "/data" };
    const one = await rouse.sandboxes.create({ name: freshName("one"), idlePauseSeconds: 0, volumes: [mount] });
    await one.exec("echo first > /data/log", { check: true });
    await expect(rouse.sandboxes.create({ name: freshName("two"), volumes: [mount] })).rejects.toMatchObject({
      code: "volume_attached",
    });
    // Deleted while it runs: what programs wrote is there.
    await one.delete();
    const two = await rouse.sandboxes.create({ name: freshName("two"), idlePauseSeconds: 0 });
    await two.attachVolume(name ?? "", "/mnt/data");
    expect((await two.exec("cat /mnt/data/log")).stdout).toBe("first\n");
    await two.exec("nohup sh -c 'exec 9>>/mnt/data/log; echo second >&9; sleep 1000' >/dev/null 2>&1 & sleep 0.3");
    await expect(two.detachVolume(volumeId)).rejects.toMatchObject({ code: "volume_busy" });
    const backup = await rouse.volumes.backup(volumeId);
    await rouse.volumes.resize(volumeId, 192);

    // Its copy in a snapshot is of the same instant as RAM, and a volume of its own.
    const snapshot = await two.snapshot();
    await two.exec("echo third >> /mnt/data/log");
    const child = await rouse.sandboxes.create({
      name: freshName("child"),
      snapshot: snapshot.id,
      idlePauseSeconds: 0,
    });
    expect((await child.exec("cat /mnt/data/log; pgrep -xc sleep")).stdout).toBe("first\nsecond\n1\n");
    await expect(two.fork()).rejects.toMatchObject({ code: "volume_attached" });
    await two.pause();
    expect((await two.exec("cat /mnt/data/log; df -m --output=size /mnt/data | tail -n1")).stdout).toMatch(
      /^first\nsecond\nthird\n\s*1[6-9]\d\n$/,
    );
    await two.stop();
    await expect
      .poll(async () => (await rouse.volumes.get(volumeId)).storedBytes, { timeout: 60_000 })
      .toBeGreaterThan(0);
    const restored = await rouse.volumes.restore(backup.id);
    const three = await rouse.sandboxes.create({
      name: freshName("three"),
      idlePauseSeconds: 0,
      volumes: [{ volumeId: restored.id, path: "/old" }],
    });
    expect((await three.exec("cat /old/log")).stdout).toBe("first\nsecond\n");
    const [copied] = child.volumes;
    await Promise.all([two, three, child].map((sandbox) => sandbox.delete()));
    for (const volume of [volumeId, restored.id, copied?.volumeId ?? ""]) await rouse.volumes.delete(volume);
    await rouse.snapshots.delete(snapshot.id);
  });

  // The last one: a host is gone for good.
  it("wakes on another host when its own is gone for good", async () => {
    await rouse.drainHost("local");
    const sleepers = [await counting(), await counting()] as const;
    const { id: volume } = await rouse.volumes.create({ sizeMiB: 64 });
    await sleepers[0].attachVolume(volume, "/data");
    await sleepers[0].exec("nohup sh -c 'exec 9>>/data/log; while :; do date >&9; sleep 0.2; done' >/dev/null 2>&1 &");
    await sleepers[0].exec("echo kept > /data/note", { check: true });
    await rouse.drainHost("local", { draining: false });
    const boots = await Promise.all(sleepers.map(bootId));
    const before = await Promise.all(sleepers.map(count));
    await Promise.all(sleepers.map(asleep));
    expect(sleepers.map(hostOf)).toEqual([1, 1]);
    await system.hosts[1]?.kill();
    rmSync(dirs()[1] ?? "", { recursive: true });
    const woken = async (sandbox: Sandbox) => {
      for (let tries = 0; ; tries++) {
        try {
          return await count(sandbox);
        } catch (fault) {
          if (tries > 60) throw fault;
          await new Promise((resolve) => setTimeout(resolve, 500));
        }
      }
    };
    expect(await Promise.all(sleepers.map(woken))).toEqual(before.map((n) => n + 1));
    expect(await Promise.all(sleepers.map(bootId))).toEqual(boots);
    expect(sleepers.map(hostOf)).toEqual([0, 0]);
    // The volume came along, with the program that writes to it.
    const lines = async () => Number((await sleepers[0].exec("cat /data/note >&2; wc -l < /data/log")).stdout);
    const written = await lines();
    await expect.poll(lines, { timeout: 20_000 }).toBeGreaterThan(written);
    expect((await sleepers[0].exec("cat /data/note")).stdout).toBe("kept\n");
    for (const sandbox of sleepers)
      expect((await sandbox.refresh()).info).toMatchObject({ state: "running", memoryRestored: true });
    await Promise.all(sleepers.map((sandbox) => sandbox.delete()));
  });
});

function list(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}

/** States cross an upgrade of QEMU and its rollback: a machine of one version wakes in another, and back again. */
import { mkdtemp, readdir, readFile, readlink, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it, vi } from "vitest";
import type { Driver } from "../../backend-pool/machine/driver.ts";
import { qemuVersion } from "../../backend-pool/machine/qemu/driver.ts";
import { shapeOf } from "../../backend-pool/shape.ts";
import { attachmentId, newSandboxId } from "../../sdk/contract/names.ts";
import { drivers, execIn } from "./drivers.ts";
import { otherQemu } from "./other-qemu.ts";

describe("a machine of the driver qemu", () => {
  const id = newSandboxId("upgrade");
  const identity = { hostname: "upgrade" };
  const path = process.env["PATH"];
  let dir: string;
  let own: Driver;
  let other: Driver | undefined;
  let bin = "";
  let missing: string | null = null;

  /** The driver finds its QEMU in PATH. */
  async function upgraded<T>(work: () => Promise<T>): Promise<T> {
    process.env["PATH"] = `${bin}:${path}`;
    try {
      return await work();
    } finally {
      process.env["PATH"] = path;
    }
  }

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "rouse-upgrade-"));
    const found = await otherQemu(await qemuVersion());
    if (typeof found === "string") {
      missing = found;
      return;
    }
    bin = found.bin;
    const make = drivers["qemu"];
    if (!make) throw new Error("no driver");
    own = await make(dir);
    await own.create(id, shapeOf({}));
    other = await upgraded(() => make(dir));
  });
  afterAll(async () => {
    await own?.destroy(id);
    await Promise.all([own?.close(), other?.close()]);
    await rm(dir, { recursive: true, force: true });
  });

  /** Sleep without a process: the next wake is another QEMU's. */
  async function asleep(driver: Driver): Promise<void> {
    await driver.pause(id);
    await driver.settle(id, "local");
  }

  async function wake(driver: Driver): Promise<void> {
    const { ready } = await driver.wake(id, identity);
    await ready;
  }

  /** The file of the QEMU that runs the machine. */
  async function program(): Promise<string> {
    const run = join(dir, "run");
    const [noted] = (await readdir(run)).filter((name) => name.endsWith(".pid"));
    return readlink(`/proc/${await readFile(join(run, noted ?? ""), "utf8")}/exe`);
  }

  it("goes on in another version of QEMU and in its own again, with programs, open files and volumes", async ({
    expect,
    skip,
  }) => {
    if (other === undefined) return skip(missing ?? "no other QEMU");
    const next = other;
    expect(next.qemuVersion).not.toBe(own.qemuVersion);
    if (next.compatibility !== own.compatibility)
      return skip(`states of QEMU ${own.qemuVersion} and ${next.qemuVersion} are not alike, and their hosts say so`);

    await wake(own);
    const volume = await attachmentId("upgrade", null);
    await own.sleepers?.volumes.makeEmpty(volume, 128);
    const found = {
      id: volume,
      slot: 1,
      path: "/data",
      mode: "rw" as const,
      sizeMiB: 128,
      plugged: false,
      clean: false,
    };
    await own.sleepers?.volumes.note(id, [found]);
    await own.plugVolume(id, volume);
    const boot = await execIn(own, id, "cat /proc/sys/kernel/random/boot_id");
    // What it counts is in RAM alone, and both files stay open.
    await execIn(
      own,
      id,
      "(exec 8>>/data/log 9>>log; n=0; while :; do n=$((n+1)); echo $n >&8; echo $n >&9; sleep 0.1; done) >/dev/null 2>&1 & echo $! > pid",
    );

    let counted = 0;
    async function goesOn(driver: Driver): Promise<void> {
      const exec = (command: string): Promise<string> => execIn(driver, id, command);
      expect(await exec("cat /proc/sys/kernel/random/boot_id")).toBe(boot);
      for (const log of ["log", "/data/log"]) {
        const last = async () => Number(await exec(`tail -n1 ${log}`));
        await expect.poll(last, { timeout: 60_000, interval: 200 }).toBeGreaterThan(counted);
        // Each number once, in order.
        expect(await exec(`awk '$1 != NR' ${log} | wc -l`)).toBe("0");
      }
      expect(await exec("findmnt -no FSTYPE,OPTIONS /data | grep -c '^ext4.*rw'")).toBe("1");
      counted = Number(await exec("tail -n1 /data/log"));
    }

    await goesOn(own);
    const system = await program();
    await asleep(own);

    await upgraded(() => wake(next));
    expect(await program()).toBe(await realpath(join(bin, "../root/usr/bin/qemu-system-x86_64")));
    await goesOn(next);
    await execIn(next, id, "echo upgraded > /data/note; sync");
    await asleep(next);

    await wake(own);
    expect(await program()).toBe(system);
    await goesOn(own);
    expect(await execIn(own, id, "cat /data/note")).toBe("upgraded");
    // Plugged in by one, kept by the other, and taken out in order in the end.
    await execIn(own, id, "kill $(cat pid)");
    await vi.waitFor(() => own.unplugVolume(id, volume), { timeout: 60_000, interval: 300 });
    expect(await execIn(own, id, "ls /sys/block | grep -c vd")).toBe("1");
  });
});

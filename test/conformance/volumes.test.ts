/** Volumes of real machines: plugged in while they run, known to their RAM, clean when they are let go. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import type { Driver, Sleepers } from "../../backend-pool/machine/driver.ts";
import { run } from "../../backend-pool/process.ts";
import { shapeOf } from "../../backend-pool/shape.ts";
import { attachmentId, backupId, newSandboxId } from "../../sdk/contract/names.ts";
import { drivers, execIn } from "./drivers.ts";

describe("volumes of the driver qemu", () => {
  let dir: string;
  let driver: Driver;
  let sleepers: Sleepers;
  const id = newSandboxId("volumes");
  const identity = { hostname: "volumes" };
  const exec = (command: string): Promise<string> => execIn(driver, id, command);
  let data: string;
  let ready: string;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "rouse-volumes-"));
    const made = await drivers["qemu"]?.(dir);
    if (!made?.sleepers) throw new Error("no driver");
    driver = made;
    sleepers = made.sleepers;
    await driver.create(id, shapeOf({}));
    await (
      await driver.wake(id, identity)
    ).ready;
    data = await attachmentId("test", null);
    ready = await attachmentId("test", null);
  });
  afterAll(async () => {
    await driver.destroy(id);
    await driver.close();
    await rm(dir, { recursive: true, force: true });
  });

  const hostVolume = (volume: string, slot: number, path: string, mode: "rw" | "snapshot" = "rw") => {
    return { id: volume, slot, path, mode, sizeMiB: 128, plugged: false, clean: false };
  };
  const isClean = async (volume: string): Promise<boolean> => {
    const { stdout } = await run("dumpe2fs", ["-h", sleepers.volumes.disk(volume)]);
    return !stdout.includes("needs_recovery");
  };

  it("plugs an empty volume into a running machine, twice the same", async ({ expect }) => {
    await sleepers.volumes.makeEmpty(data, 128);
    await sleepers.volumes.note(id, [hostVolume(data, 1, "/data")]);
    await driver.plugVolume(id, data);
    await driver.plugVolume(id, data);
    expect(await exec("findmnt -no FSTYPE,OPTIONS /data | grep -c '^ext4.*rw'; stat -c %U /data")).toBe("1\nruntime");
    await exec("echo kept > /data/note; sync");
  });

  it("keeps it through sleep from every depth, with files open on it", async ({ expect }) => {
    await exec("(exec 9>>/data/log; n=0; while :; do n=$((n+1)); echo $n >&9; sleep 0.1; done) >/dev/null 2>&1 &");
    for (const depth of ["resident", "prestarted", "local"] as const) {
      await driver.pause(id);
      await driver.settle(id, depth);
      await (
        await driver.wake(id, identity)
      ).ready;
      expect(await exec("cat /data/note")).toBe("kept");
      const before = Number(await exec("tail -n1 /data/log"));
      await expect
        .poll(async () => Number(await exec("tail -n1 /data/log")), { timeout: 20_000 })
        .toBeGreaterThan(before);
    }
  });

  it("copies it as it is at one instant, clean, while programs write", async ({ expect }) => {
    const copy = await backupId("test", null);
    expect(await driver.copyVolume(id, data, copy)).toBe(true);
    expect(await isClean(copy)).toBe(true);
    await run("e2fsck", ["-fn", sleepers.volumes.disk(copy)]);
    // A clean copy mounts read-only in the same machine.
    await sleepers.volumes.copy(copy, ready);
    await sleepers.volumes.note(id, [...(await sleepers.volumes.of(id)), hostVolume(ready, 2, "/mnt/old", "snapshot")]);
    await driver.plugVolume(id, ready);
    expect(await exec("cat /mnt/old/note; touch /mnt/old/x 2>&1 | grep -c 'Read-only'")).toBe("kept\n1");
  });

  it("refuses to take out what a program uses, and takes it out after that", async ({ expect }) => {
    await expect(driver.unplugVolume(id, data)).rejects.toMatchObject({ code: "volume_busy" });
    expect(await exec("cat /data/note")).toBe("kept");
    await exec("pkill -f '[e]xec 9'; true");
    // It ends in its own time.
    const out = () =>
      driver.unplugVolume(id, data).then(
        () => "out",
        (fault: { code?: string }) => fault.code,
      );
    await expect.poll(out, { timeout: 30_000 }).toBe("out");
    expect(await exec("test -e /data/note; echo $?; ls /sys/block | grep -c vd")).toBe("1\n2");
    expect(await isClean(data)).toBe(true);
  });

  it("grows it, and gives ENOSPC when it is full", async ({ expect }) => {
    await driver.plugVolume(id, data);
    await driver.growVolume(id, data, 192);
    expect(Number(await exec("df -m --output=size /data | tail -n1"))).toBeGreaterThan(150);
    expect(await exec("dd if=/dev/zero of=/data/big bs=1M count=400 2>&1 | grep -c 'No space left'")).toBe("1");
    expect(await exec("rm /data/big; echo ok > /data/after; cat /data/after /data/note")).toBe("ok\nkept");
  });

  it("is clean after a stop, and no RAM knows it any more", async ({ expect }) => {
    await driver.stop(id);
    expect(await isClean(data)).toBe(true);
    await run("e2fsck", ["-fn", sleepers.volumes.disk(data)]);
    expect((await sleepers.volumes.of(id)).map(({ plugged, clean }) => ({ plugged, clean }))[0]).toEqual({
      plugged: false,
      clean: true,
    });
  });
});

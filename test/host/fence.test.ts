/** A host keeps its machines within its lease, and the warden does where the host agent can't. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FakeDriver } from "../../backend-pool/machine/fake/driver.ts";
import { Fence } from "../../backend-pool/machine/fence.ts";
import { HostLease, uptimeMs } from "../../backend-pool/machine/host-lease.ts";
import { Machines } from "../../backend-pool/machine/machines.ts";
import { Warden } from "../../backend-pool/machine/warden.ts";
import { shapeOf } from "../../backend-pool/shape.ts";
import { Journal } from "../../backend-pool/store/journal.ts";
import { hostLeaseTimes } from "../../sdk/contract/host-lease.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "rouse-fence-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

describe("a host's lease", () => {
  it("ends on the host before the edge gives the host up, whatever the length", () => {
    for (const seconds of [1, 8, 40, 600]) {
      const { freezeAfterMs, endsAfterMs, lostAfterMs } = hostLeaseTimes(seconds);
      expect(freezeAfterMs).toBeLessThan(endsAfterMs);
      // Clocks may run apart by a tenth.
      expect(endsAfterMs * 1.1).toBeLessThan(lostAfterMs);
    }
  });

  it("counts from when the heartbeat was sent, never shrinks, and outlives the host agent", () => {
    let now = 100_000;
    const file = join(dir, "host-lease");
    const lease = new HostLease({ file, now: () => now });
    expect(lease.holds).toBe(false);
    lease.renew(now, 8);
    now += 5900;
    expect(lease.holds).toBe(true);
    lease.renew(100_000 - 5000, 8);
    expect(lease.holds).toBe(true);
    now += 200;
    expect(lease.holds).toBe(false);
    expect(lease.untilEndMs).toBe(1900);
    // The next host agent may let what runs run on, to the end that was granted.
    const next = new HostLease({ file, now: () => now });
    expect(next.untilEndMs).toBe(1900);
    now += 2000;
    expect(new HostLease({ file, now: () => now }).holds).toBe(false);
  });
});

describe("machines of a host that is cut off", () => {
  it("sleep before the lease ends, refuse to run, and go on when there is a new one", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    let now = 0;
    const driver = new FakeDriver(join(dir, "machines"));
    const lease = new HostLease({ file: null, now: () => now });
    const machines = new Machines(
      driver,
      new Journal(":memory:"),
      { residentSeconds: 600, prestartedSeconds: 0, compactAfterSeconds: 3600, coldAfterSeconds: 3600 },
      { mayRun: () => lease.holds },
    );
    const fence = new Fence(lease, machines, async () => "run");
    const id = newSandboxId("fenced");
    const run = { generation: 1, env: {}, idlePauseSeconds: 0 };
    const create = () => machines.create(id, { ...run, account: "default", shape: shapeOf({}), hostname: "fenced" });
    try {
      await expect(create()).rejects.toMatchObject({ code: "host_unavailable" });
      expect(machines.list()).toEqual([]);
      await fence.renewed(now, 8);
      await create();
      now = 5000;
      await fence.renewed(now, 8);
      now = 11_000;
      vi.advanceTimersByTime(6000);
      vi.useRealTimers();
      await vi.waitFor(() => expect(machines.describe(id).state).toBe("paused"));
      expect((await driver.inspect(id)).running).toBe(false);
      expect(machines.pendingEvents()).toMatchObject([{ id, event: { type: "paused", reason: "host_lost" } }]);
      const wake = () => machines.wake(id, { ...run, generation: 2 });
      await expect(wake()).rejects.toMatchObject({ code: "host_unavailable" });
      expect(() => machines.lease(id, 1)).toThrow("does not run");
      await fence.renewed(now, 8);
      expect(await wake()).toMatchObject({ state: "running", generation: 2 });
    } finally {
      vi.useRealTimers();
      fence.close();
      await machines.close();
    }
  });

  it("that can't be put to sleep are ended at the end of the lease", async () => {
    const driver = new FakeDriver(join(dir, "machines"));
    driver.pause = () => Promise.reject(new Error("the disk is full"));
    const lease = new HostLease({ file: null });
    const machines = new Machines(
      driver,
      new Journal(":memory:"),
      { residentSeconds: 600, prestartedSeconds: 0, compactAfterSeconds: 3600, coldAfterSeconds: 3600 },
      { mayRun: () => lease.holds },
    );
    const fence = new Fence(lease, machines, async () => "run");
    const id = newSandboxId("stuck");
    try {
      await fence.renewed(lease.now(), 2);
      const run = { generation: 1, env: {}, idlePauseSeconds: 0 };
      await machines.create(id, { ...run, account: "default", shape: shapeOf({}), hostname: "stuck" });
      await vi.waitFor(
        () => expect(machines.describe(id)).toMatchObject({ state: "stopped", endReason: "host_lost" }),
        15_000,
      );
      expect((await driver.inspect(id)).running).toBe(false);
    } finally {
      fence.close();
      await machines.close();
    }
  }, 20_000);
});

it("a call that was on its way while the host was cut off begins nothing", async () => {
  let now = 0;
  const lease = new HostLease({ file: null, now: () => now });
  const driver = new FakeDriver(join(dir, "machines"));
  const gate = { mayRun: () => lease.holds, session: () => lease.session };
  const sleep = { residentSeconds: 600, prestartedSeconds: 0, compactAfterSeconds: 3600, coldAfterSeconds: 3600 };
  const machines = new Machines(driver, new Journal(":memory:"), sleep, gate);
  const id = newSandboxId("late");
  const create = (session: string) =>
    machines.create(id, {
      ...{ generation: 1, env: {}, idlePauseSeconds: 0, session },
      ...{ account: "default", shape: shapeOf({}), hostname: "late" },
    });
  try {
    const before = lease.sessionOfBeat();
    lease.renew(now, 8);
    now = 5000;
    expect(lease.sessionOfBeat()).toBe(before);
    lease.renew(now, 8);
    now = 20_000;
    await expect(create(before)).rejects.toMatchObject({ code: "host_unavailable" });
    // The edge may have taken this one, and its answer was lost.
    const lost = lease.sessionOfBeat();
    expect(lease.sessionOfBeat()).not.toBe(lost);
    lease.renew(now, 8);
    await expect(create(lost)).rejects.toMatchObject({ code: "misdirected" });
    await expect(create(before)).rejects.toMatchObject({ code: "misdirected" });
    expect([machines.list(), await driver.list()]).toEqual([[], []]);
    expect(await create(lease.session)).toMatchObject({ state: "running" });
  } finally {
    await machines.close();
  }
});

it("a host that is full refuses before anything is done, and what sleeps stays as it is", async () => {
  let lack: string | null = "it is full";
  const driver = new FakeDriver(join(dir, "machines"));
  const sleep = { residentSeconds: 600, prestartedSeconds: 0, compactAfterSeconds: 3600, coldAfterSeconds: 3600 };
  const room = { lack: async () => lack };
  const machines = new Machines(driver, new Journal(":memory:"), sleep, { room });
  const id = newSandboxId("full");
  const run = { generation: 1, env: {}, idlePauseSeconds: 0 };
  const create = () => machines.create(id, { ...run, account: "default", shape: shapeOf({}), hostname: "full" });
  try {
    await expect(create()).rejects.toMatchObject({ code: "no_capacity" });
    expect([machines.list(), await driver.list()]).toEqual([[], []]);
    lack = null;
    await create();
    await machines.pause(id, { generation: 1 });
    lack = "it is full";
    await expect(machines.wake(id, { ...run, generation: 2 })).rejects.toMatchObject({ code: "no_capacity" });
    expect(machines.describe(id)).toMatchObject({ state: "paused", generation: 1, memory: "saved" });
    lack = null;
    expect(await machines.wake(id, { ...run, generation: 2 })).toMatchObject({ state: "running" });
    // It has its room already.
    lack = "it is full";
    expect(await machines.wake(id, { ...run, generation: 2 })).toMatchObject({ state: "running" });
  } finally {
    await machines.close();
  }
});

describe("the warden", () => {
  let machine: ChildProcess;
  const warden = () => new Warden(dir);

  beforeEach(async () => {
    await mkdir(join(dir, "run"));
    await mkdir(join(dir, "machines", "one"), { recursive: true });
    const flag = `memory-backend-file,id=ram,size=1M,mem-path=${dir}/machines/one/ram,share=on`;
    machine = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)", "--", flag], { stdio: "ignore" });
    await once(machine, "spawn");
    await writeFile(join(dir, "run", "one.pid"), String(machine.pid));
  });
  afterEach(async () => {
    await warden().dismiss();
    machine.kill("SIGKILL");
  });

  const frozen = async () => / T /.test((await readFile(`/proc/${machine.pid}/stat`, "utf8")).slice(0, 40));
  const leaseUntil = (ms: number) => writeFile(join(dir, "host-lease"), `${Math.floor((uptimeMs() + ms) / 1000)}\n`);

  it("leaves machines alone while the lease holds, and freezes them past its end", async () => {
    await leaseUntil(3000);
    await warden().watch();
    const before = await readFile(join(dir, "warden.pid"), "utf8");
    await warden().watch();
    expect(await readFile(join(dir, "warden.pid"), "utf8")).toBe(before);
    expect(await frozen()).toBe(false);
    await vi.waitFor(async () => expect(await frozen()).toBe(true), { timeout: 8000, interval: 100 });
  });

  it("does not touch what sleeps", async () => {
    await writeFile(join(dir, "machines", "one", "device-state"), "");
    await leaseUntil(-1000);
    await warden().watch();
    await new Promise((resolve) => setTimeout(resolve, 2500));
    expect(await frozen()).toBe(false);
  });
});

/** Sealing in the child process: what is left of it when it is cut, and what never leaves it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { access, copyFile, mkdir, readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pass } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { seal } from "../../backend-pool/archive/seal.ts";
import { Sealer, type SealJob } from "../../backend-pool/archive/sealer.ts";
import { exists } from "../../backend-pool/paths.ts";
import { chance, faultOf, noise, Sleeper, Vault, write } from "./support.ts";

const CANARY = "canary-in-the-ram-of-a-sleeper";

/** A machine whose sealing takes long enough to be cut: several packs. */
async function busySleeper(): Promise<Sleeper> {
  const sleeper = await Sleeper.create(64_000_000, async () => undefined);
  for (let at = 0; at < 10; at++) await write(sleeper.ram, at * 6_000_000, noise(chance(at), 6_000_000, 4));
  await write(sleeper.ram, 63_000_000, Buffer.from(CANARY));
  await write(sleeper.devices, 5000, Buffer.from(CANARY));
  return sleeper;
}

function newSealer(idleMs?: number): Sealer {
  const sealer = new Sealer(idleMs);
  onTestFinished(() => sealer.close());
  return sealer;
}

const jobOf = (sleeper: Sleeper, name = "out"): SealJob => ({
  parts: sleeper.parts,
  previous: null,
  key: sleeper.key,
  facts: {},
  outDir: join(sleeper.dir, name),
});

/** Resolves when a pack is written, and more are to come. */
async function begun(outDir: string): Promise<void> {
  while ((await readdir(`${outDir}.part`).catch(() => [])).length === 0) await pass(1);
}

/** Resolves when a process has ended. */
async function gone(pid: number): Promise<void> {
  while (await exists(`/proc/${pid}`)) await pass(5);
}

async function restoredFrom(sleeper: Sleeper, dir: string, sealed: Awaited<ReturnType<typeof seal>>) {
  const vault = new Vault();
  await vault.take(dir, sealed);
  return sleeper.restored(await vault.open(sealed.manifest, sleeper.key), vault.fetch);
}

describe("the sealer", () => {
  it("seals one state after the other, also against an earlier one", async () => {
    const sleeper = await busySleeper();
    const sealer = newSealer();
    const [one, other] = await Promise.all([sealer.seal(jobOf(sleeper, "one")), sealer.seal(jobOf(sleeper, "other"))]);
    expect(await restoredFrom(sleeper, join(sleeper.dir, "other"), other)).toEqual(await sleeper.digests());
    const bytes = await readFile(join(sleeper.dir, "one", one.manifest));
    const previous = { manifest: one.manifest, key: sleeper.key, bytes };
    const third = await sealer.seal({ ...jobOf(sleeper, "third"), previous });
    expect(third.stats.packedBytes).toBe(0);
    const wrong = { ...previous, manifest: other.manifest };
    await expect(sealer.seal({ ...jobOf(sleeper, "fourth"), previous: wrong })).rejects.toMatchObject({
      name: "DamagedState",
      blob: other.manifest,
    });
  }, 60_000);

  it("writes neither plaintext nor keys, for its owner only", async () => {
    const sleeper = await busySleeper();
    const dir = join(sleeper.dir, "out");
    await newSealer().seal(jobOf(sleeper));
    const key = Buffer.from(sleeper.key, "base64url");
    const secrets = [Buffer.from(CANARY), Buffer.from(sleeper.key), key, Buffer.from(key.toString("hex"))];
    for (const name of await readdir(dir)) {
      const bytes = await readFile(join(dir, name));
      expect([name, secrets.map((secret) => bytes.includes(secret))]).toEqual([name, secrets.map(() => false)]);
      expect((await stat(join(dir, name))).mode & 0o777).toBe(0o600);
    }
    expect((await stat(dir)).mode & 0o777).toBe(0o700);
  });

  it("keeps keys out of what other processes see of it", async () => {
    const sleeper = await busySleeper();
    const sealer = newSealer();
    process.env["ROUSE_TEST_CANARY"] = CANARY;
    onTestFinished(() => void delete process.env["ROUSE_TEST_CANARY"]);
    const sealed = sealer.seal(jobOf(sleeper));
    await begun(jobOf(sleeper).outDir);
    const seen = await Promise.all(
      ["cmdline", "environ"].map((name) => readFile(`/proc/${sealer.pid}/${name}`, "utf8")),
    );
    expect(seen.join("")).toContain("sealer-main");
    expect(seen.join("")).not.toContain(sleeper.key);
    expect(seen.join("")).not.toContain(CANARY);
    await sealed;
  });

  it("leaves nothing when it is aborted in the middle, and goes on with the next", async () => {
    const sleeper = await busySleeper();
    const sealer = newSealer();
    const stop = new AbortController();
    const job = jobOf(sleeper);
    const cut = sealer.seal(job, stop.signal);
    const waiting = sealer.seal(jobOf(sleeper, "waiting"), stop.signal);
    const faults = Promise.all([faultOf(cut), faultOf(waiting)]);
    const next = sealer.seal(jobOf(sleeper, "next"));
    await begun(job.outDir);
    const pid = sealer.pid;
    stop.abort(new Error("it wakes"));
    expect(await faults).toMatchObject([{ message: "it wakes" }, { message: "it wakes" }]);
    await next;
    expect(sealer.pid).toBe(pid);
    const left = (await readdir(sleeper.dir)).filter((name) => /^(out|waiting)/.test(name));
    expect(left).toEqual([]);
  });

  it("leaves nothing that counts when it is killed, and the next try works", async () => {
    const sleeper = await busySleeper();
    const sealer = newSealer();
    const job = jobOf(sleeper);
    const cut = sealer.seal(job);
    const failed = faultOf(cut);
    await begun(job.outDir);
    if (sealer.pid) process.kill(sealer.pid, "SIGKILL");
    expect(await failed).toMatchObject({ message: "The sealer failed: it ended with SIGKILL." });
    await expect(access(job.outDir)).rejects.toThrow("ENOENT");
    const sealed = await sealer.seal(job);
    expect(await restoredFrom(sleeper, job.outDir, sealed)).toEqual(await sleeper.digests());
    await expect(access(`${job.outDir}.part`)).rejects.toThrow("ENOENT");
  });

  it("ends when it has nothing to do, and starts anew", async () => {
    const sleeper = await Sleeper.create(100_000, async () => undefined);
    const sealer = newSealer(0);
    const first = sealer.seal(jobOf(sleeper, "first"));
    const pid = sealer.pid ?? 0;
    await first;
    await gone(pid);
    expect(sealer.pid).toBeNull();
    await sealer.seal(jobOf(sleeper, "second"));
  });

  it("ends with the process that started it", async () => {
    const sleeper = await busySleeper();
    const job = jobOf(sleeper);
    const script = `import { Sealer } from ${JSON.stringify(import.meta.resolve("../../backend-pool/archive/sealer.ts"))};
      const sealer = new Sealer();
      void sealer.seal(${JSON.stringify(job)});
      console.log(sealer.pid);`;
    const parent = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = await once(parent.stdout, "data");
    await begun(job.outDir);
    parent.kill("SIGKILL");
    await gone(Number(String(line)));
    await expect(access(job.outDir)).rejects.toThrow("ENOENT");
  });

  it("does not seal over what is sealed already", async () => {
    const sleeper = await Sleeper.create(100_000, async () => undefined);
    const job = jobOf(sleeper);
    await mkdir(job.outDir);
    await copyFile(sleeper.devices, join(job.outDir, "precious"));
    await expect(newSealer().seal(job)).rejects.toMatchObject({ name: "Unsealable" });
    expect(await readdir(job.outDir)).toEqual(["precious"]);
  });
});

describe("sealing in this process", () => {
  it("can be aborted at any time, and leaves nothing", async () => {
    const sleeper = await busySleeper();
    const job = jobOf(sleeper);
    const stop = new AbortController();
    const cut = faultOf(seal({ ...job, previous: null, signal: stop.signal }));
    await begun(job.outDir);
    stop.abort(new Error("enough"));
    expect(await cut).toMatchObject({ message: "enough" });
    expect((await readdir(sleeper.dir)).filter((name) => name.startsWith("out"))).toEqual([]);
  });

  it("fails with the file system's error, and leaves nothing", async () => {
    const sleeper = await Sleeper.create(100_000, async () => undefined);
    const job = jobOf(sleeper);
    const parts = [...job.parts, { name: "more", path: join(sleeper.dir, "absent"), unit: 4096 as const, base: null }];
    await expect(seal({ ...job, parts, previous: null })).rejects.toThrow("ENOENT");
    expect((await readdir(sleeper.dir)).filter((name) => name.startsWith("out"))).toEqual([]);
  });
});

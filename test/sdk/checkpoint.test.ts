/** Checkpoints on a disk, by both SDKs: what was saved is loaded, whole, whatever was killed. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Checkpoint } from "../../sdk/src/index.ts";

const PYTHON = existsSync("/usr/bin/python3") ? "/usr/bin/python3" : "python3";
const python = fileURLToPath(new URL("../../sdk/python/", import.meta.url));
const command = join(python, "rouse/checkpoint.py");
const source = JSON.stringify(new URL("../../sdk/src/checkpoint.ts", import.meta.url).href);
/** In memory: nothing here looks at what a power cut leaves. */
const base = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(base, "rouse-checkpoint-"));
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(directory, { recursive: true, force: true });
});

function job(name = "job", keep?: number): Checkpoint {
  return new Checkpoint(name, { directory, mirror: "off", keep });
}

function start(file: string, ...words: string[]): ChildProcess {
  const env = { ...process.env, TMPDIR: base, PYTHONDONTWRITEBYTECODE: "1", ROUSE_CHECKPOINT_MIRROR: "off" };
  return spawn(file, words, { cwd: python, env, stdio: ["pipe", "pipe", "pipe"] });
}

async function ended(child: ChildProcess, input = ""): Promise<{ code: number | null; out: string; err: string }> {
  let [out, err] = ["", ""];
  child.stdout?.on("data", (chunk: Buffer) => (out += chunk.toString()));
  child.stderr?.on("data", (chunk: Buffer) => (err += chunk.toString()));
  child.stdin?.on("error", () => undefined);
  child.stdin?.end(input);
  const [code] = (await once(child, "close")) as [number | null];
  return { code, out, err };
}

function inNode(text: string, ...words: string[]): ChildProcess {
  const script = `import { Checkpoint } from ${source}; ${text}`;
  return start(
    process.execPath,
    "--disable-warning=ExperimentalWarning",
    "--input-type=module",
    "-e",
    script,
    ...words,
  );
}

it("the Python SDK holds its promises, too", async () => {
  const { code, err } = await ended(start(PYTHON, "-m", "unittest", "discover", "-t", ".", "-s", "tests"));
  // All that it says is shown when it fails.
  expect(err.replaceAll(/^\.+$/gm, "")).toMatch(/^OK$/m);
  expect(code).toBe(0);
}, 120_000);

describe("a checkpoint", () => {
  it("is what was saved last; the newest five stay", async () => {
    expect(await job().load("nothing")).toBe("nothing");
    const bytes = new Uint8Array([0, 255, 10]);
    for (const value of [{ a: [1, "ü", null] }, bytes, "text", 0, null]) {
      const saved = await job().save(value, { step: 3, meta: { model: "m" } });
      expect(saved).toMatchObject({ step: 3, meta: { model: "m" }, mirrored: null });
      expect(await job().load<unknown>("x")).toEqual(value);
    }
    for (let n = 6; n <= 8; n++) await job().save(n);
    expect((await job().list()).map(({ version }) => version)).toEqual([8, 7, 6, 5, 4]);
    expect(await job().load(0, { version: 6 })).toBe(6);
    await expect(job().load(0, { version: 1 })).rejects.toMatchObject({ code: "checkpoint_not_found" });
  });

  it("is nobody else's", async () => {
    await job().save("mine");
    expect(await job("other").load(null)).toBeNull();
    await job("other").save("theirs");
    expect([await job().load(""), await job("other").load("")]).toEqual(["mine", "theirs"]);
    await mkdir(join(directory, "third"));
    await copyFile(join(directory, "job/v0000000001.checkpoint"), join(directory, "third/v0000000001.checkpoint"));
    expect((await job("third").list())[0]?.fault).toBe("it is version 1 of job");
  });

  it("names all that is wrong with it", async () => {
    expect(() => new Checkpoint("../x", { keep: 0, mirror: "maybe" as "off" })).toThrow(/name.*keep.*mirror/);
    await expect(job().save(undefined)).rejects.toMatchObject({ code: "invalid_argument" });
    await expect(job().save(1n)).rejects.toMatchObject({ code: "invalid_argument" });
    await expect(job().save(1, { step: 1.5 })).rejects.toMatchObject({ code: "invalid_argument" });
    await expect(job().save(1, { meta: { a: "x".repeat(70_000) } })).rejects.toThrow(/meta/);
    expect(await job().list()).toEqual([]);
  });

  it("that is cut off or changed at any byte is never loaded", async () => {
    await job().save({ step: 1 });
    await job().save({ step: 2 });
    const file = join(directory, "job/v0000000002.checkpoint");
    const whole = await readFile(file);
    for (let at = 0; at < whole.length; at++) {
      const changed = Buffer.from(whole);
      changed[at] = (changed[at] ?? 0) ^ 1;
      for (const damaged of [whole.subarray(0, at), changed]) {
        await writeFile(file, damaged);
        const found = await job().read();
        expect([found?.value, found?.skipped.map(({ version }) => version)]).toEqual([{ step: 1 }, [2]]);
      }
    }
    expect((await job().save({ step: 2 })).version).toBe(3);
    expect(await job().load(null)).toEqual({ step: 2 });
  });
});

describe("both SDKs and the command", () => {
  it("read what the others wrote, with one numbering", async () => {
    await job().save({ step: 1, text: "ü" }, { step: 1, meta: { by: "node" } });
    const run = (input: string, ...words: string[]) =>
      ended(start(PYTHON, command, "--dir", directory, ...words), input);
    expect(JSON.parse((await run("", "load", "job")).out)).toEqual({ step: 1, text: "ü" });
    const saved = await run('{"step": 2, "text": "\u{1f600}"}', "save", "job", "--step", "2");
    expect(JSON.parse(saved.out)).toMatchObject({ version: 2, step: 2 });
    expect(await job().read()).toMatchObject({ version: 2, step: 2, value: { step: 2, text: "\u{1f600}" } });
    expect((await run("\0raw", "save", "raw")).code).toBe(0);
    expect(await job("raw").load(null)).toEqual(new TextEncoder().encode("\0raw"));
    const listed = (await run("", "list", "job")).out.trim().split("\n");
    expect(listed.map((line) => JSON.parse(line) as unknown)).toMatchObject([{ version: 2 }, { version: 1 }]);
    await truncate(join(directory, "job/v0000000002.checkpoint"), 70);
    expect((await run("", "verify", "job")).code).toBe(1);
    expect(JSON.parse((await run("", "load", "job")).out)).toMatchObject({ step: 1 });
  });

  it("that save at once have versions of their own", async () => {
    const node = `const c = new Checkpoint("job", { directory: process.argv[1], keep: 1000, mirror: "off" });
      for (let n = 0; n < 20; n++) await c.save({ n });`;
    const other = `import sys; from rouse import Checkpoint
c = Checkpoint("job", directory=sys.argv[1], keep=1000, mirror="off")
for n in range(20): c.save({"n": n})`;
    const writers = [inNode(node, directory), inNode(node, directory), start(PYTHON, "-c", other, directory)];
    expect((await Promise.all(writers.map((one) => ended(one)))).map(({ code }) => code)).toEqual([0, 0, 0]);
    const listed = await job().list();
    expect(listed.map(({ version }) => version)).toEqual(Array.from({ length: 60 }, (_, n) => 60 - n));
    expect(listed.filter(({ fault }) => fault !== null)).toEqual([]);
    expect((await readdir(join(directory, "job"))).filter((name) => name.startsWith("."))).toEqual([]);
  });
});

it("a job of ten steps that is killed at any instant loses one step at most", async () => {
  const script = `
    const c = new Checkpoint("job", { directory: process.argv[1], mirror: "off" });
    let state = await c.load({ step: 0, sum: 0 });
    while (state.step < 10) {
      const step = state.step + 1;
      console.log("begun " + step);
      state = { step, sum: state.sum + step, pad: "x".repeat(20000) };
      await c.save(state, { step });
      console.log("saved " + step);
    }
    console.log("sum " + state.sum);`;
  const begun: number[] = [];
  const sums: number[] = [];
  let kills = 0;
  for (let starts = 0; starts < 30; starts++) {
    const child = inNode(script, directory);
    let before = "";
    // Killed at once after something it said, which is at another place each time.
    const at = 1 + Math.floor(Math.random() * 4);
    child.stdout?.on("data", (chunk: Buffer) => {
      before += chunk.toString();
      if (starts < 6 && before.split("\n").length > at) child.kill("SIGKILL");
    });
    const { code, out } = await ended(child);
    const said = (what: string) => [...out.matchAll(new RegExp(`${what} (\\d+)`, "g"))].map(([, n]) => Number(n));
    begun.push(...said("begun"));
    const found = await job().read<{ step: number; sum: number }>();
    expect(found?.skipped ?? []).toEqual([]);
    expect(found?.value.step ?? 0).toBeGreaterThanOrEqual(Math.max(0, ...said("saved")));
    sums.push(...said("sum"));
    if (code === 0) break;
    kills += 1;
  }
  // One that is killed too late has said it already; the next says it again.
  expect([...new Set(sums)]).toEqual([55]);
  expect(kills).toBeGreaterThan(0);
  expect([...new Set(begun)]).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  // Each start goes on at the step after the last that was saved.
  expect(begun.slice(1).every((step, n) => step - (begun[n] ?? 0) <= 1 && step >= (begun[n] ?? 0))).toBe(true);
}, 60_000);

it("what the disk lost comes from the mirror, and versions go on; one that is away fails no save", async () => {
  const kept = new Map<string, Buffer>();
  const server = createServer((request, response) => {
    const [path = ""] = (request.url ?? "").split("?");
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      if (request.method === "PUT") kept.set(path, Buffer.concat(chunks));
      const data = kept.get(path);
      response.writeHead(data ? 200 : 404).end(data);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    vi.stubEnv("ROUSE_CHECKPOINT_MIRROR", `http://127.0.0.1:${(server.address() as { port: number }).port}/c`);
    const mirrored = new Checkpoint("job", { directory });
    expect([(await mirrored.save(1)).mirrored, (await mirrored.save(2)).mirrored]).toEqual([true, true]);
    await rm(join(directory, "job"), { recursive: true });
    expect((await mirrored.save(3)).version).toBe(3);
    await rm(join(directory, "job"), { recursive: true });
    expect(await mirrored.read()).toMatchObject({ value: 3, version: 3, source: "mirror" });
    await truncate(join(directory, "job/v0000000003.checkpoint"), 3);
    expect(await mirrored.read()).toMatchObject({ value: 3, source: "mirror", skipped: [{ version: 3 }] });
    expect(await job().load(null)).toBe(3);
  } finally {
    server.close();
  }
  vi.stubEnv("ROUSE_CHECKPOINT_MIRROR", "http://127.0.0.1:1/c");
  expect((await new Checkpoint("job", { directory }).save(4)).mirrored).toBe(false);
  const required = new Checkpoint("job", { directory, mirror: "required" });
  await expect(required.save(5)).rejects.toMatchObject({ code: "unavailable" });
  expect(await job().load(null)).toBe(5);
});

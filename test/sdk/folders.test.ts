/** Copies of folders: with a real guest agent, whose archives are the system's tar's, and with a sandbox that lies. */
import { lstat, mkdir, mkdtemp, readFile, readdir, rm, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Rouse, type CopyReport, type Sandbox } from "../../sdk/src/index.ts";
import { headOf, paddingOf, tarEnd } from "../../sdk/src/tar.ts";
import { CliBench } from "./cli-bench.ts";
import { GuestEdge } from "./guest-edge.ts";
import { NO_PYTHON, halves, python, stopPython } from "./python-run.ts";
import { SANDBOX, TEST_KEY, WireServer, sandboxInfo } from "./wire-server.ts";

const BIG = Buffer.from(Array.from({ length: 1_300_000 }, (_, at) => (at * 7 + (at >> 11)) % 256));
/** Longer than a head of tar has room for. */
const LONG = `${"a folder with a name of some length ü/".repeat(4)}file`;

afterAll(stopPython);
let here: string;
beforeEach(async () => {
  here = await mkdtemp(join(tmpdir(), "rouse-test-"));
});
afterEach(() => rm(here, { recursive: true, force: true }));

describe("with a guest agent", () => {
  let edge: GuestEdge;
  let sandbox: Sandbox;
  let count = 0;
  let there: (path: string) => string;
  beforeAll(async () => {
    edge = await GuestEdge.start();
    sandbox = await edge.sandbox;
  });
  beforeEach(() => {
    const folder = join(edge.agent.home, `f${count++}`);
    there = (path) => join(folder, path);
  });
  afterAll(() => edge[Symbol.asyncDispose]());

  /** Also what is left out. Answers the bytes of its files. */
  async function tree(folder: string): Promise<number> {
    await mkdir(join(folder, LONG, ".."), { recursive: true });
    await mkdir(join(folder, "empty"));
    await writeFile(join(folder, LONG), "long");
    await writeFile(join(folder, "run.sh"), "#!/bin/sh\n", { mode: 0o750 });
    await writeFile(join(folder, "big"), BIG);
    await writeFile(join(folder, "nothing"), "");
    await symlink("run.sh", join(folder, "link"));
    await utimes(join(folder, "run.sh"), 1_000_000_000, 1_000_000_000);
    return "long".length + "#!/bin/sh\n".length + BIG.length;
  }
  async function mustBeCopy(folder: string): Promise<void> {
    expect((await readFile(join(folder, "big"))).equals(BIG)).toBe(true);
    expect(await readFile(join(folder, LONG), "utf8")).toBe("long");
    expect((await stat(join(folder, "run.sh"))).mode & 0o777).toBe(0o750);
    expect((await stat(join(folder, "nothing"))).size).toBe(0);
    const names = ["a folder with a name of some length ü", "big", "empty", "nothing", "run.sh"];
    expect((await readdir(folder)).toSorted()).toEqual(names);
  }

  test("one goes up with its permission bits, and what is left out is named", async () => {
    const bytes = await tree(join(here, "src"));
    const seen: CopyReport[] = [];
    const onProgress = (report: CopyReport) => seen.push({ ...report });
    const report = await sandbox.files.upload(join(here, "src"), there("to"), { onProgress });
    const all = { files: 4, bytes, totalBytes: bytes, skipped: [join(here, "src", "link")] };
    expect(report).toEqual(all);
    expect(seen.at(-1)).toEqual(all);
    expect(seen.some(({ bytes: some }) => some > 0 && some < bytes)).toBe(true);
    await mustBeCopy(there("to"));
    expect((await stat(join(there("to"), "run.sh"))).mtimeMs).toBe(1_000_000_000_000);
    // Again, onto what is there: files are replaced, others stay.
    await writeFile(there("to/nothing"), "something");
    await writeFile(there("to/other"), "other");
    await sandbox.files.upload(join(here, "src"), there("to"));
    expect([await readFile(there("to/nothing"), "utf8"), await readFile(there("to/other"), "utf8")]).toEqual([
      "",
      "other",
    ]);
  });

  test("one comes down, each file whole, and what is left out is named", async () => {
    const bytes = await tree(there("from"));
    await edge.agent.exec({ command: "mkfifo pipe", cwd: there("from") });
    await mkdir(join(here, "out"));
    await writeFile(join(here, "out", "nothing"), "is replaced");
    const report = await sandbox.files.download(there("from"), join(here, "out"));
    expect({ ...report, skipped: report.skipped.toSorted() }).toEqual({
      ...{ files: 4, bytes, totalBytes: bytes, skipped: [there("from/link"), there("from/pipe")] },
    });
    await mustBeCopy(join(here, "out"));
  });

  test("more files than one listing holds come as well", async () => {
    await edge.agent.exec({
      command: `mkdir -p ${there("many")} && cd ${there("many")} && seq 10001 | split -l 1 -a 4`,
    });
    const report = await sandbox.files.download(there("many"), join(here, "many"));
    expect(report.files).toBe(10_001);
    expect(report.totalBytes).toBe(report.bytes);
    expect(await readdir(join(here, "many"))).toHaveLength(10_001);
  }, 120_000);

  test.skipIf(NO_PYTHON !== null).each(halves)(
    "Python takes folders both ways: %s",
    async (half) => {
      const bytes = await tree(join(here, "src"));
      const found = await python(
        half,
        edge.url,
        `
sandbox = await rouse.sandboxes.get("demo")
seen = []
up = await sandbox.files.upload("${join(here, "src")}", "${there("up")}", on_progress=lambda one: seen.append(one.files))
os.symlink("run.sh", "${there("up/link")}")
down = await sandbox.files.download("${there("up")}", "${join(here, "down")}")
file = await sandbox.files.download("${there("up/run.sh")}", "${join(here, "new/run.sh")}")
none = await failure(lambda: sandbox.files.download("${there("none")}", "${join(here, "none")}"))
return {"up": dataclasses.asdict(up), "down": dataclasses.asdict(down), "seen": seen, "file": file.bytes, "none": none["code"]}`,
      );
      expect(found).toEqual({
        up: { files: 4, bytes, skipped: [join(here, "src/link")] },
        down: { files: 4, bytes, skipped: [there("up/link")] },
        ...{ seen: [1, 2, 3, 4], file: "#!/bin/sh\n".length, none: "file_not_found" },
      });
      await rm(there("up/link"));
      await mustBeCopy(there("up"));
      await mustBeCopy(join(here, "down"));
      expect((await stat(join(there("up"), "run.sh"))).mtimeMs).toBe(1_000_000_000_000);
    },
    60_000,
  );

  test("rouse cp takes folders both ways", async () => {
    await using bench = await CliBench.start();
    const bytes = await tree(join(here, "src"));
    const cp = async (from: string, to: string) => {
      const run = await bench.run(["cp", from, to, "--json"], { ROUSE_API_URL: edge.url });
      if (run.code !== 0) throw new Error(run.stderr);
      return JSON.parse(run.stdout) as unknown;
    };
    expect(await cp(join(here, "src"), `demo:${there("up")}/`)).toEqual({
      ...{ to: `demo:${there("up")}/src`, files: 4, bytes, totalBytes: bytes, skipped: [join(here, "src/link")] },
    });
    await mustBeCopy(there("up/src"));
    expect(await cp(`demo:${there("up/src")}`, join(here, "down"))).toMatchObject({ files: 4, bytes, skipped: [] });
    await mustBeCopy(join(here, "down"));
  }, 60_000);

  test("what can't be says so", async () => {
    await mkdir(there("x"), { recursive: true });
    await writeFile(there("x/file"), "");
    await mkdir(join(here, "src"));
    await writeFile(join(here, "src", "a"), "a");
    await expect(sandbox.files.upload(join(here, "src"), there("x/file/to"))).rejects.toMatchObject({
      code: "not_a_directory",
    });
    await expect(sandbox.files.download(there("none"), join(here, "none"))).rejects.toMatchObject({
      code: "file_not_found",
    });
    await expect(lstat(join(here, "none"))).rejects.toMatchObject({ code: "ENOENT" });
  });
});

describe("from a sandbox that lies or breaks off", () => {
  let server: WireServer;
  let sandbox: Sandbox;
  beforeEach(async () => {
    server = await WireServer.start();
    const entry = { name: "d", path: "/workspace/d", type: "directory", size: 0, mode: "0755", exists: true };
    server.on(`GET ${SANDBOX}`, (_request, reply) => reply.json(sandboxInfo()));
    server.on(`GET ${SANDBOX}/files/stat`, (_request, reply) =>
      reply.json({ ...entry, modifiedAt: "2031-01-02T03:04:05.000Z" }),
    );
    server.on(`GET ${SANDBOX}/files/list`, (_request, reply) => reply.json({ data: [] }));
    sandbox = await new Rouse({ baseUrl: server.url, apiKey: TEST_KEY }).sandboxes.get("demo~abcdefghijkl");
  });
  afterEach(() => server[Symbol.asyncDispose]());

  const file = (path: string, text: string, type: "file" | "other" = "file"): Buffer => {
    const bytes = Buffer.from(text);
    const head = headOf({ path, type, mode: 0o644, size: bytes.length, modifiedAt: 0 });
    return Buffer.concat([head, bytes, paddingOf(bytes.length)]);
  };
  const zipped = (...parts: Uint8Array[]) => gzipSync(Buffer.concat([...parts, tarEnd]));
  const answering = (archive: Buffer) =>
    server.on(`GET ${SANDBOX}/files/archive`, (_request, reply) => reply.raw(archive));
  const download = () => sandbox.files.download("/workspace/d", join(here, "out"));

  test.each(["../evil", "a/../../evil", "/etc/evil", "a//evil", "..\\evil", ".."])(
    "%s is not written",
    async (name) => {
      answering(zipped(file("good", "1"), file(name, "2")));
      await expect(download()).rejects.toMatchObject({ code: "unexpected_answer" });
      expect(await readdir(here)).toEqual(["out"]);
      expect(await readdir(join(here, "out"))).toEqual(["good"]);
    },
  );

  test.skipIf(NO_PYTHON !== null).each(halves)(
    "Python: nothing leads out, and what is no archive is an error: %s",
    async (half) => {
      server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()));
      const codes: unknown[] = [];
      for (const archive of [
        zipped(file("good", "1"), file("../evil", "2")),
        zipped(file("good", "1"), file("/etc/evil", "2")),
        Buffer.from("no archive"),
        gzipSync(file("a", "1".repeat(2000)).subarray(0, 1024)),
      ]) {
        answering(archive);
        const program = `
sandbox = await rouse.sandboxes.get("demo")
return await failure(lambda: sandbox.files.download("/workspace/d", "${join(here, "out")}"))`;
        codes.push(((await python(half, server.url, program)) as { code: unknown }).code);
      }
      expect(codes).toEqual(["unexpected_answer", "unexpected_answer", "invalid_archive", "invalid_archive"]);
      expect([await readdir(here), await readdir(join(here, "out"))]).toEqual([["out"], ["good"]]);
    },
    60_000,
  );

  test("an archive that is none is an error, and nothing half is left", async () => {
    const damaged = file("b", "2");
    damaged[0] = 0x63;
    for (const archive of [
      zipped(file("a", "1"), damaged),
      gzipSync(file("a", "1".repeat(2000)).subarray(0, 1024)),
      Buffer.from("no archive"),
      zipped(file("a", "1")).subarray(0, -4),
    ]) {
      answering(archive);
      await expect(download()).rejects.toMatchObject({ code: "invalid_archive" });
      expect((await readdir(join(here, "out"))).filter((name) => name.includes("partial"))).toEqual([]);
    }
  });

  test("a connection that breaks is followed by another try, which counts nothing twice", async () => {
    const archive = zipped(file("a", "1"), file("b", BIG.toString("latin1")), file("c", "3"));
    server.on(`GET ${SANDBOX}/files/archive`, (_request, reply, count) =>
      count === 0 ? reply.broken(archive.subarray(0, archive.length / 2)) : reply.raw(archive),
    );
    const report = await download();
    const bytes = Buffer.byteLength(BIG.toString("latin1")) + 2;
    expect(report).toEqual({ files: 3, bytes, totalBytes: bytes, skipped: [] });
    expect((await readdir(join(here, "out"))).toSorted()).toEqual(["a", "b", "c"]);
    expect(await readFile(join(here, "out", "c"), "utf8")).toBe("3");
  });
});

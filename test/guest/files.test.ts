import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { appendFile, chmod, mkdir, readdir, readFile, stat, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { FileEntry, FileStat, FileWritten } from "../../sdk/contract/guest.ts";
import { codeOf, startAgent, type Agent, type CallOptions } from "./agent.ts";

let agent: Agent;
beforeAll(async () => {
  agent = await startAgent();
});
afterAll(async () => {
  await agent.stop();
});

const sha256 = (data: Buffer) => createHash("sha256").update(data).digest("hex");
const at = (path: string) => join(agent.home, path);
const query = (fields: Record<string, string>) => new URLSearchParams(fields).toString();
const read = (path: string) => agent.call("GET", `/files/content?${query({ path })}`);
const put = (fields: Record<string, string>, bytes: Buffer, options: CallOptions = {}) =>
  agent.call("PUT", `/files/content?${query(fields)}`, { bytes, ...options });
const statOf = async (path: string) => FileStat.parse((await agent.call("GET", `/files/stat?${query({ path })}`)).body);
const list = async (fields: Record<string, string>) =>
  FileEntry.array().parse((await agent.call("GET", `/files/list?${query(fields)}`)).body["data"]);
const verb = (name: string, body: object) => agent.call("POST", `/files:${name}`, { body });
/** Nothing unfinished may stay beside what was written. */
const leftovers = async (folder: string) =>
  (await readdir(at(folder))).filter((name) => name.startsWith(".rouse") || name.includes("part"));

for (const size of [0, 1, 65_536, 1_048_576, 1_048_577, 5 * 1_048_576]) {
  test(`${size} bytes come back as they were`, async () => {
    const data = randomBytes(size);
    await writeFile(at("sized"), data);
    const answer = await read("sized");
    expect(answer.status).toBe(200);
    expect(answer.headers["x-content-length"]).toBe(String(size));
    expect(answer.bytes.equals(data)).toBe(true);
    // Only small files are hashed ahead.
    expect(answer.headers["x-content-sha256"]).toBe(size <= 1_048_576 ? sha256(data) : undefined);
  });
}

test("a write makes its folders, answers size and digest, and replaces what was there", async () => {
  for (const data of [randomBytes(1_048_576), Buffer.alloc(0), Buffer.from("last")]) {
    const answer = await put({ path: "new/deep/file" }, data);
    expect(FileWritten.parse(answer.body)).toEqual({
      path: at("new/deep/file"),
      size: data.length,
      sha256: sha256(data),
    });
    expect((await readFile(at("new/deep/file"))).equals(data)).toBe(true);
  }
  expect(await leftovers("new/deep")).toEqual([]);
});

test("a mode is set; without one an existing file keeps its own, and a new one is 0644", async () => {
  await put({ path: "modes/run", mode: "755" }, Buffer.from("1"));
  expect((await stat(at("modes/run"))).mode & 0o777).toBe(0o755);
  await put({ path: "modes/run" }, Buffer.from("2"));
  expect((await stat(at("modes/run"))).mode & 0o777).toBe(0o755);
  await put({ path: "modes/plain" }, Buffer.from("3"));
  expect((await stat(at("modes/plain"))).mode & 0o777).toBe(0o644);
});

test("a mode that is none is refused and nothing is written", async () => {
  for (const mode of ["7", "888", "0644", "rwx"]) {
    expect(codeOf(await put({ path: "badmode", mode }, Buffer.from("x")))).toBe("invalid_request");
  }
  expect(await statOf("badmode")).toMatchObject({ exists: false });
});

test("a digest that does not fit leaves the old content", async () => {
  await put({ path: "digest/file" }, Buffer.from("old"));
  const wrong = await put({ path: "digest/file" }, Buffer.from("new"), {
    headers: { "x-content-sha256": sha256(Buffer.from("else")) },
  });
  expect([wrong.status, codeOf(wrong)]).toEqual([422, "digest_mismatch"]);
  expect(await readFile(at("digest/file"), "utf8")).toBe("old");
  expect(await leftovers("digest")).toEqual([]);
});

test("a body that is cut short leaves the old content and nothing else", async () => {
  await put({ path: "cut/file" }, Buffer.from("old"));
  for (const headers of [{ "content-length": "1000000" }, { "transfer-encoding": "chunked" }]) {
    const req = agent.open("PUT", `/files/content?${query({ path: "cut/file" })}`, headers);
    req.on("error", () => undefined);
    req.write(Buffer.alloc(300_000));
    await expect.poll(async () => (await readdir(at("cut"))).length).toBe(2);
    req.destroy();
    await expect.poll(() => readdir(at("cut"))).toEqual(["file"]);
    expect(await readFile(at("cut/file"), "utf8")).toBe("old");
  }
});

test("a body of any size is written", async () => {
  const data = randomBytes(5_000_001);
  const answer = await put({ path: "large/file" }, data);
  expect(answer.status).toBe(200);
  expect((await readFile(at("large/file"))).equals(data)).toBe(true);
});

test("a link is written through and stays a link", async () => {
  await mkdir(at("links/target"), { recursive: true });
  await writeFile(at("links/target/real"), "old", { mode: 0o600 });
  await symlink("target/real", at("links/one"));
  await symlink("one", at("links/two"));
  await put({ path: "links/two" }, Buffer.from("through"));
  expect(await readFile(at("links/target/real"), "utf8")).toBe("through");
  expect((await stat(at("links/target/real"))).mode & 0o777).toBe(0o600);
  expect(await statOf("links/two")).toMatchObject({ type: "symlink", symlinkTarget: "one" });
  await symlink("not/there/yet", at("links/dangling"));
  await put({ path: "links/dangling" }, Buffer.from("made"));
  expect(await readFile(at("links/not/there/yet"), "utf8")).toBe("made");
});

test("a circle of links is refused", async () => {
  await symlink("b", at("a"));
  await symlink("a", at("b"));
  expect(codeOf(await put({ path: "a" }, Buffer.from("x")))).toBe("invalid_path");
  expect(codeOf(await read("a"))).toBe("invalid_path");
});

test("what is no regular file is not read, and does not hang", async () => {
  await mkdir(at("odd"), { recursive: true });
  execFileSync("mkfifo", [at("odd/fifo")]);
  expect(codeOf(await read("odd/fifo"))).toBe("invalid_path");
  expect(codeOf(await read("odd"))).toBe("is_a_directory");
  expect(codeOf(await read("/dev/zero"))).toBe("invalid_path");
  expect(await statOf("odd/fifo")).toMatchObject({ exists: true, type: "other" });
});

test("a folder is not written over", async () => {
  await mkdir(at("folder"), { recursive: true });
  expect(codeOf(await put({ path: "folder" }, Buffer.from("x")))).toBe("is_a_directory");
});

test("faults of the file system have their codes", async () => {
  await writeFile(at("afile"), "x");
  const cases: [answer: ReturnType<typeof read>, status: number, code: string][] = [
    [read("missing"), 404, "file_not_found"],
    [read("afile/under"), 409, "not_a_directory"],
    [put({ path: "afile/under" }, Buffer.from("x")), 409, "not_a_directory"],
    [read("n".repeat(300)), 400, "invalid_path"],
    [read("nul\0inside"), 400, "invalid_path"],
    [put({ path: "nul\0inside" }, Buffer.from("x")), 400, "invalid_path"],
    [agent.call("GET", "/files/content"), 400, "invalid_path"],
    [verb("remove", { path: "/proc/version" }), 403, "file_access_denied"],
    [verb("rename", { from: "missing", to: "x" }), 404, "file_not_found"],
    [verb("chmod", { path: "missing", mode: "644" }), 404, "file_not_found"],
    [agent.call("GET", `/files/list?${query({ path: "missing" })}`), 404, "file_not_found"],
    [agent.call("GET", `/files/list?${query({ path: "afile" })}`), 409, "not_a_directory"],
  ];
  for (const [promise, status, code] of cases) {
    const answer = await promise;
    expect([answer.status, codeOf(answer)]).toEqual([status, code]);
  }
});

test("a path that does not exist is a normal answer of stat", async () => {
  expect(await statOf("missing")).toEqual({ exists: false, path: at("missing") });
  await writeFile(at("isfile"), "x");
  expect(await statOf("isfile/under")).toMatchObject({ exists: false });
});

test("stat tells what there is", async () => {
  await writeFile(at("facts"), "12345", { mode: 0o640 });
  await chmod(at("facts"), 0o640);
  const facts = await statOf("facts");
  expect(facts).toMatchObject({ exists: true, name: "facts", path: at("facts"), type: "file", size: 5, mode: "0640" });
  expect(facts).toMatchObject({ uid: process.getuid?.(), gid: process.getgid?.() });
});

test("names of any characters are served", async () => {
  for (const name of ["with space", "ümläut", "a&b=c?d#e", "new\nline", "-dash", "%41", "+plus"]) {
    await put({ path: `names/${name}` }, Buffer.from(name));
    expect((await read(`names/${name}`)).bytes.toString()).toBe(name);
  }
  expect(await list({ path: "names" })).toHaveLength(7);
});

test("list shows one level, sorted, or as deep as asked", async () => {
  for (const path of ["tree/b.txt", "tree/a/c.txt", "tree/a/d/e.py", "tree/.hidden/f.txt"]) {
    await put({ path }, Buffer.from("x"));
  }
  const names = async (fields: Record<string, string>) =>
    (await list({ path: "tree", ...fields })).map(({ path }) => path.slice(at("tree/").length));
  expect(await names({})).toEqual([".hidden", "a", "b.txt"]);
  expect(await names({ hidden: "false" })).toEqual(["a", "b.txt"]);
  expect(await names({ depth: "2", hidden: "false" })).toEqual(["a", "a/c.txt", "a/d", "b.txt"]);
  expect(await names({ glob: "*.txt", hidden: "false" })).toEqual(["a/c.txt", "b.txt"]);
  expect(await names({ glob: "**/*.py" })).toEqual(["a/d/e.py"]);
  expect(await names({ depth: "9", limit: "3" })).toHaveLength(3);
});

test("a query of list that is not valid is refused", async () => {
  for (const field of ["depth=0", "depth=x", "limit=-1", "limit=99999", "hidden=maybe"]) {
    expect(codeOf(await agent.call("GET", `/files/list?path=.&${field}`))).toBe("invalid_request");
  }
});

test("mkdir makes one folder, or all above it with parents", async () => {
  expect((await verb("mkdir", { path: "made", mode: "700" })).status).toBe(200);
  expect((await stat(at("made"))).mode & 0o777).toBe(0o700);
  expect(codeOf(await verb("mkdir", { path: "made" }))).toBe("file_exists");
  expect((await verb("mkdir", { path: "made", parents: true })).status).toBe(200);
  expect(codeOf(await verb("mkdir", { path: "far/away" }))).toBe("file_not_found");
  expect((await verb("mkdir", { path: "far/away", parents: true })).status).toBe(200);
});

test("remove takes a file, an empty folder, or all of it when asked; a missing one is no fault", async () => {
  await put({ path: "gone/inner/file" }, Buffer.from("x"));
  await symlink("/usr", at("gone/link"));
  expect(codeOf(await verb("remove", { path: "gone" }))).toBe("directory_not_empty");
  expect((await verb("remove", { path: "gone/link" })).body).toEqual({ removed: true });
  expect((await stat("/usr")).isDirectory()).toBe(true);
  expect((await verb("remove", { path: "gone", recursive: true })).body).toEqual({ removed: true });
  expect((await verb("remove", { path: "gone" })).body).toEqual({ removed: false });
});

test("the whole machine and the home folder are not removed", async () => {
  for (const path of ["/", agent.home, "."]) {
    expect(codeOf(await verb("remove", { path, recursive: true }))).toBe("invalid_path");
  }
});

test("rename moves, and replaces only when asked", async () => {
  await put({ path: "from" }, Buffer.from("from"));
  await put({ path: "to" }, Buffer.from("to"));
  expect(codeOf(await verb("rename", { from: "from", to: "to" }))).toBe("file_exists");
  expect(await readFile(at("to"), "utf8")).toBe("to");
  expect((await verb("rename", { from: "from", to: "to", overwrite: true })).status).toBe(200);
  expect(await readFile(at("to"), "utf8")).toBe("from");
  expect(await statOf("from")).toMatchObject({ exists: false });
  await mkdir(at("dir1"));
  await mkdir(at("dir2"));
  expect(codeOf(await verb("rename", { from: "dir1", to: "dir2" }))).toBe("file_exists");
  expect((await verb("rename", { from: "dir1", to: "dir3" })).status).toBe(200);
});

test("chmod sets the mode, and refuses one that is none", async () => {
  await put({ path: "chmod" }, Buffer.from("x"));
  expect((await verb("chmod", { path: "chmod", mode: "600" })).status).toBe(200);
  for (const mode of [undefined, "", "9", "u+x", 600]) {
    expect(codeOf(await verb("chmod", { path: "chmod", mode }))).toBe("invalid_request");
  }
  expect((await stat(at("chmod"))).mode & 0o777).toBe(0o600);
});

test("a file that changes its size while it is read ends whole, or visibly short", async () => {
  const size = 4 * 1_048_576;
  await writeFile(at("grows"), Buffer.alloc(size, 1));
  const grown = await agent.answer("GET", `/files/content?${query({ path: "grows" })}`);
  await appendFile(at("grows"), Buffer.alloc(size, 2));
  let got = 0;
  for await (const chunk of grown as AsyncIterable<Buffer>) got += chunk.length;
  expect([got, grown.complete]).toEqual([size, true]);

  const large = 64 * 1_048_576;
  await truncate(at("grows"), large);
  const shrunk = await agent.answer("GET", `/files/content?${query({ path: "grows" })}`);
  await truncate(at("grows"), 1_048_576);
  let error: unknown;
  got = 0;
  try {
    for await (const chunk of shrunk as AsyncIterable<Buffer>) got += chunk.length;
  } catch (fault) {
    error = fault;
  }
  expect(got).toBeLessThan(large);
  expect(error).toMatchObject({ code: "ECONNRESET" });
  expect((await read("grows")).bytes.length).toBe(1_048_576);
});

test("many writes of one file at once leave one of them whole", async () => {
  const all = Array.from({ length: 12 }, (_, i) => Buffer.alloc(100_000, i));
  await Promise.all(all.map((data) => put({ path: "race/file" }, data)));
  const left = await readFile(at("race/file"));
  expect(all.some((data) => data.equals(left))).toBe(true);
  expect(await readdir(at("race"))).toEqual(["file"]);
});

test("the agent told no fault meanwhile", () => {
  expect(agent.errors).toBe("");
});

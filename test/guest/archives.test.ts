/** Folders as tar archives, by the real agent and the system's tar. */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { codeOf, startAgent, type Agent } from "./agent.ts";

let agent: Agent;
let n = 0;
/** A folder of the test's own. */
let at: (path: string) => string;
beforeAll(async () => {
  agent = await startAgent();
});
afterAll(() => agent.stop());
beforeEach(() => {
  n += 1;
  const folder = join(agent.home, `t${n}`);
  mkdirSync(folder);
  at = (path) => join(folder, path);
});

const query = (values: Record<string, string>) => `?${new URLSearchParams(values).toString()}`;
const tarOf = (folder: string, ...flags: string[]) =>
  execFileSync("tar", ["-C", folder, "-cf", "-", ...flags, "."], { maxBuffer: 8_000_000 });
const listed = (archive: Buffer) =>
  execFileSync("tar", ["-tf", "-"], { input: archive }).toString().trim().split("\n").toSorted();

function tree(folder: string): void {
  mkdirSync(join(folder, "deep/er"), { recursive: true });
  writeFileSync(join(folder, "-rf"), "a name like a flag");
  writeFileSync(join(folder, "deep/er/run.sh"), "#!/bin/sh\n");
  chmodSync(join(folder, "deep/er/run.sh"), 0o750);
  writeFileSync(join(folder, "deep/big.bin"), randomBytes(3_000_000));
  symlinkSync("er/run.sh", join(folder, "deep/link"));
  linkSync(join(folder, "deep/big.bin"), join(folder, "deep/twin.bin"));
}

test("a folder is packed by names below it, gzipped unless said, and back again", async () => {
  mkdirSync(at("from"));
  tree(at("from"));
  const answer = await agent.call("GET", `/files/archive${query({ path: at("from"), exclude: "-rf" })}`);
  expect([answer.status, answer.headers["content-type"]]).toEqual([200, "application/gzip"]);
  const plain = gunzipSync(answer.bytes);
  expect(listed(plain)).toEqual(["deep/", "deep/big.bin", "deep/er/", "deep/er/run.sh", "deep/link", "deep/twin.bin"]);
  const raw = await agent.call("GET", `/files/archive${query({ path: at("from"), gzip: "false" })}`);
  expect([raw.headers["content-type"], listed(raw.bytes).includes("-rf")]).toEqual(["application/x-tar", true]);
  // No pax header, no hard link: type flags of all entries.
  expect(execFileSync("tar", ["-tvf", "-"], { input: raw.bytes }).toString()).not.toMatch(/^h/m);
  for (const [to, bytes] of [
    ["one", answer.bytes],
    ["two", raw.bytes],
  ] as const) {
    const put = await agent.call("PUT", `/files/archive${query({ path: at(to) })}`, { bytes });
    expect(put.body).toEqual({ path: at(to), size: bytes.length });
    expect(readFileSync(at(`${to}/deep/twin.bin`)).equals(readFileSync(at("from/deep/big.bin")))).toBe(true);
    expect(statSync(at(`${to}/deep/er/run.sh`)).mode & 0o777).toBe(0o750);
    expect(readFileSync(at(`${to}/deep/link`), "utf8")).toBe("#!/bin/sh\n");
  }
  mkdirSync(at("empty"));
  const none = await agent.call("GET", `/files/archive${query({ path: at("empty"), gzip: "false" })}`);
  expect([none.status, none.bytes.length > 0, none.bytes.every((byte) => byte === 0)]).toEqual([200, true, true]);
});

test("parts are unpacked in order, and none twice", async () => {
  mkdirSync(at("from"));
  tree(at("from"));
  const archive = tarOf(at("from"));
  const body = { path: at("to"), gzip: false };
  const { uploadId, chunkBytes } = (await agent.call("POST", "/files/archive/uploads", { body, key: `b${n}` })).body;
  expect(chunkBytes).toBe(1_048_576);
  expect((await agent.call("POST", "/files/archive/uploads", { body, key: `b${n}` })).body).toMatchObject({
    uploadId,
    replayed: true,
  });
  const path = `/files/archive/uploads/${String(uploadId)}`;
  const send = (offset: number, length = 1_048_576) =>
    agent.call("PUT", `${path}?offset=${offset}`, { bytes: archive.subarray(offset, offset + length) });
  expect(codeOf(await send(1_048_576))).toBe("upload_incomplete");
  await send(0);
  expect((await send(0)).body).toEqual({ received: 1_048_576 });
  // One that overlaps what is here.
  await send(1_000_000);
  for (let offset = 2_048_576; offset < archive.length; offset += 1_048_576) await send(offset);
  const commit = () => agent.call("POST", `${path}:commit`, { body: {} });
  expect((await commit()).body).toEqual({ path: at("to"), size: archive.length });
  expect((await commit()).status).toBe(200);
  expect(readFileSync(at("to/deep/big.bin")).equals(readFileSync(at("from/deep/big.bin")))).toBe(true);
});

test("one that was given up is gone, and takes nothing more", async () => {
  const { uploadId } = (await agent.call("POST", "/files/archive/uploads", { body: { path: at("to") } })).body;
  const path = `/files/archive/uploads/${String(uploadId)}`;
  expect((await agent.call("POST", `${path}:abort`, { body: {} })).body).toEqual({ aborted: true });
  expect(codeOf(await agent.call("PUT", `${path}?offset=0`, { bytes: Buffer.from("x") }))).toBe("upload_not_found");
});

test.each([
  ["no archive", () => randomBytes(5000)],
  ["nothing", () => Buffer.alloc(0)],
  ["half of one", () => tarOf("/etc", "--exclude=*", "--exclude=./*").subarray(0, 100)],
  ["half of a gzip", () => execFileSync("gzip", ["-c"], { input: randomBytes(100_000) }).subarray(0, 50_000)],
])("what is no archive is told: %s", async (_, make) => {
  const answer = await agent.call("PUT", `/files/archive${query({ path: at("to") })}`, { bytes: make() });
  expect([answer.status, codeOf(answer)]).toEqual([400, "invalid_archive"]);
});

test("a link to a folder that is there already stays, and what goes into it goes there", async () => {
  mkdirSync(at("source/data"), { recursive: true });
  writeFileSync(at("source/data/new"), "new");
  mkdirSync(at("volume"));
  mkdirSync(at("to"));
  symlinkSync(at("volume"), at("to/data"));
  const bytes = tarOf(at("source"));
  expect((await agent.call("PUT", `/files/archive${query({ path: at("to") })}`, { bytes })).status).toBe(200);
  expect(lstatSync(at("to/data")).isSymbolicLink()).toBe(true);
  expect(readFileSync(at("volume/new"), "utf8")).toBe("new");
});

test("nothing of an archive gets out of its folder", async () => {
  mkdirSync(at("from"));
  writeFileSync(at("from/evil"), "x");
  const up = execFileSync("tar", ["-C", at("from"), "-cf", "-", "--transform=s,^,../,", "-P", "evil"]);
  const answer = await agent.call("PUT", `/files/archive${query({ path: at("to") })}`, { bytes: up });
  expect(answer.status).toBe(400);
  expect([existsSync(at("evil")), readdirSync(at("to"))]).toEqual([false, []]);
});

test("what can't be packed, or not like that, is told before anything is sent", async () => {
  writeFileSync(at("file"), "x");
  const of = async (values: Record<string, string>) =>
    codeOf(await agent.call("GET", `/files/archive${query(values)}`));
  expect(await of({ path: at("file") })).toBe("not_a_directory");
  expect(await of({ path: at("none") })).toBe("file_not_found");
  expect(await of({ path: at(""), user: "root" })).toBe("unavailable");
  expect(await of({ path: at(""), gzip: "perhaps" })).toBe("invalid_request");
});

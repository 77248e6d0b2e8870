import { createHash, randomBytes } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { guestLimits } from "../../sdk/contract/guest-limits.ts";
import { FileWritten, Upload } from "../../sdk/contract/guest.ts";
import { codeOf, startAgent, type Agent } from "./agent.ts";

let agent: Agent;
beforeAll(async () => {
  agent = await startAgent();
});
afterAll(async () => {
  await agent.stop();
});

const CHUNK = guestLimits.chunkBytes;
const sha256 = (data: Buffer) => createHash("sha256").update(data).digest("hex");
const data = randomBytes(4 * CHUNK + 12_345);

async function begin(path: string, more: Record<string, unknown> = {}, key?: string) {
  const body = { path, size: data.length, sha256: sha256(data), ...more };
  return agent.call("POST", "/uploads", { body, ...(key === undefined ? {} : { key }) });
}
const idOf = async (path: string, more: Record<string, unknown> = {}) =>
  Upload.parse((await begin(path, more)).body).uploadId;
const chunk = (id: string, offset: number, bytes = data.subarray(offset, offset + CHUNK)) =>
  agent.call("PUT", `/uploads/${id}?offset=${offset}`, { bytes });
const verb = (id: string, name: "commit" | "abort") => agent.call("POST", `/uploads/${id}:${name}`, { body: {} });
const folder = (name: string) => readdir(join(agent.home, name)).catch(() => []);

test("chunks in any order, several at once and repeated, make the file", async () => {
  const answer = await begin("up/file", { mode: "755" });
  const upload = Upload.parse(answer.body);
  expect(upload).toMatchObject({ chunkBytes: CHUNK, mode: "755" });
  const id = upload.uploadId;
  await Promise.all([3, 0, 4, 1, 0].map((i) => chunk(id, i * CHUNK)));
  const before = await chunk(id, 4 * CHUNK);
  expect(before.body).toEqual({ received: data.length - CHUNK });
  expect(await folder("up")).not.toContain("file");
  expect((await chunk(id, 2 * CHUNK)).body).toEqual({ received: data.length });
  const written = FileWritten.parse((await verb(id, "commit")).body);
  expect(written).toEqual({ path: join(agent.home, "up/file"), size: data.length, sha256: sha256(data) });
  expect((await readFile(written.path)).equals(data)).toBe(true);
  expect((await stat(written.path)).mode & 0o777).toBe(0o755);
  expect(await folder("up")).toEqual(["file"]);
});

test("a repeated commit answers the same, and late chunks change nothing", async () => {
  const id = await idOf("again/file");
  for (let at = 0; at < data.length; at += CHUNK) await chunk(id, at);
  const [one, two] = await Promise.all([verb(id, "commit"), verb(id, "commit")]);
  expect(one.body).toEqual(two.body);
  expect((await chunk(id, 0, Buffer.alloc(CHUNK))).status).toBe(200);
  expect((await verb(id, "commit")).body).toEqual(one.body);
  expect((await readFile(join(agent.home, "again/file"))).equals(data)).toBe(true);
});

test("an incomplete upload is not committed, and can go on", async () => {
  const id = await idOf("part/file");
  await chunk(id, 0);
  const early = await verb(id, "commit");
  expect([early.status, codeOf(early)]).toEqual([409, "upload_incomplete"]);
  for (let at = CHUNK; at < data.length; at += CHUNK) await chunk(id, at);
  expect((await verb(id, "commit")).status).toBe(200);
});

test("bytes of another digest leave nothing behind", async () => {
  const id = await idOf("wrong/file", { sha256: sha256(Buffer.from("else")) });
  for (let at = 0; at < data.length; at += CHUNK) await chunk(id, at);
  const answer = await verb(id, "commit");
  expect([answer.status, codeOf(answer)]).toEqual([422, "digest_mismatch"]);
  expect(await folder("wrong")).toEqual([]);
});

test("an aborted upload leaves nothing behind and is not known any more", async () => {
  const id = await idOf("abort/file");
  await chunk(id, 0);
  expect((await verb(id, "abort")).status).toBe(200);
  expect(await folder("abort")).toEqual([]);
  expect(codeOf(await chunk(id, 0))).toBe("upload_not_found");
  expect(codeOf(await verb(id, "commit"))).toBe("upload_not_found");
  expect((await verb(id, "abort")).status).toBe(200);
});

test("an upload that is aborted after its commit leaves the file", async () => {
  const small = Buffer.from("small");
  const id = await idOf("kept/file", { size: small.length, sha256: sha256(small) });
  await chunk(id, 0, small);
  await verb(id, "commit");
  await verb(id, "abort");
  expect(await readFile(join(agent.home, "kept/file"), "utf8")).toBe("small");
});

test("a repeated begin under its key is the same upload; another body is refused", async () => {
  const [one, two] = await Promise.all([begin("key/file", {}, "begin"), begin("key/file", {}, "begin")]);
  const again = await begin("key/file", {}, "begin");
  const ids = [one, two, again].map((answer) => Upload.parse(answer.body).uploadId);
  expect(new Set(ids).size).toBe(1);
  expect(Upload.parse(again.body).replayed).toBe(true);
  expect(await folder("key")).toHaveLength(1);
  const other = await begin("key/other", {}, "begin");
  expect([other.status, codeOf(other)]).toEqual([422, "idempotency_key_reused"]);
});

test("an empty file is committed without chunks", async () => {
  const id = await idOf("empty/file", { size: 0, sha256: sha256(Buffer.alloc(0)) });
  expect((await verb(id, "commit")).status).toBe(200);
  expect((await stat(join(agent.home, "empty/file"))).size).toBe(0);
});

test("chunks of the wrong place or length are refused", async () => {
  const id = await idOf("bad/file");
  for (const [offset, bytes] of [
    ["1", Buffer.alloc(10)],
    ["-1048576", Buffer.alloc(10)],
    ["x", Buffer.alloc(10)],
    ["", Buffer.alloc(10)],
    [String(CHUNK), Buffer.alloc(10)],
    [String(5 * CHUNK), Buffer.alloc(10)],
  ] as const) {
    const answer = await agent.call("PUT", `/uploads/${id}?offset=${offset}`, { bytes });
    expect([answer.status, codeOf(answer)]).toEqual([400, "invalid_request"]);
  }
  expect(codeOf(await chunk(id, 0, Buffer.alloc(CHUNK + 1)))).toBe("payload_too_large");
  expect(codeOf(await verb(id, "commit"))).toBe("upload_incomplete");
  await verb(id, "abort");
});

test("a chunk whose sender breaks off does not count", async () => {
  const id = await idOf("broken/file");
  const req = agent.open("PUT", `/uploads/${id}?offset=0`, { "content-length": String(CHUNK) });
  req.on("error", () => undefined);
  req.write(Buffer.alloc(1000));
  const closed = new Promise((resolve) => req.once("close", resolve));
  req.destroy();
  await closed;
  expect((await chunk(id, CHUNK)).body).toEqual({ received: CHUNK });
  await verb(id, "abort");
});

test("a body that is not valid is refused before anything is made", async () => {
  for (const more of [{ size: -1 }, { size: 1.5 }, { size: "x" }, { sha256: "x" }, { mode: "7" }]) {
    expect(codeOf(await begin("never/file", more))).toBe("invalid_request");
  }
  expect(await folder("never")).toEqual([]);
});

test("an unknown upload is not found", async () => {
  expect([(await chunk("none", 0)).status, codeOf(await verb("none", "commit"))]).toEqual([404, "upload_not_found"]);
});

test("the agent told no fault meanwhile", () => {
  expect(agent.errors).toBe("");
});

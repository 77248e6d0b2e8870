import { createHash } from "node:crypto";
import { mkdtemp, readFile, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Rouse } from "../../sdk/src/index.ts";
import type { Sandbox } from "../../sdk/src/index.ts";
import { SANDBOX, TEST_KEY, WireServer, sandboxInfo } from "./wire-server.ts";

const CONTENT = `${SANDBOX}/files/content`;
const UPLOAD = `${SANDBOX}/uploads/u1`;
const MIB = 1_048_576;

let server: WireServer;
let sandbox: Sandbox;
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rouse-test-"));
  server = await WireServer.start();
  server.on(`GET ${SANDBOX}`, (_request, reply) => reply.json(sandboxInfo()));
  sandbox = await new Rouse({ baseUrl: server.url, apiKey: TEST_KEY }).sandboxes.get("demo~abcdefghijkl");
});
afterEach(async () => {
  await server[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

const sha256 = (bytes: Buffer | Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const bytesOfSize = (size: number): Buffer =>
  Buffer.from(Array.from({ length: size }, (_, index) => (index * 7 + (index >> 11)) % 256));

/** Files as a sandbox keeps them: small ones by PUT, large ones by chunks of which some are dropped. */
function keepFiles(dropEvery = 0): Map<string, { bytes: Buffer; mode: string | null }> {
  const kept = new Map<string, { bytes: Buffer; mode: string | null }>();
  let upload = {
    path: "",
    sha256: "",
    mode: null as string | null,
    bytes: Buffer.alloc(0),
    offsets: new Set<number>(),
  };
  const written = (path: string, bytes: Buffer) => ({ path, size: bytes.length, sha256: sha256(bytes) });
  server.on(`PUT ${CONTENT}`, (request, reply) => {
    if (request.body.length > MIB) return reply.error("payload_too_large");
    const path = request.query.get("path") ?? "";
    kept.set(path, { bytes: request.body, mode: request.query.get("mode") });
    reply.json(written(path, request.body));
  });
  server.on(`POST ${SANDBOX}/uploads`, (request, reply) => {
    const body = request.json() as { path: string; size: number; sha256: string; mode?: string };
    upload = { ...body, mode: body.mode ?? null, bytes: Buffer.alloc(body.size), offsets: new Set() };
    reply.json({ uploadId: "u1", chunkBytes: MIB, ...(body.mode ? { mode: body.mode } : {}) });
  });
  server.on(`PUT ${UPLOAD}`, (request, reply, count) => {
    if (dropEvery > 0 && count % dropEvery === 0) return reply.cut();
    const offset = Number(request.query.get("offset"));
    request.body.copy(upload.bytes, offset);
    upload.offsets.add(offset);
    reply.json({ received: Math.min(upload.bytes.length, upload.offsets.size * MIB) });
  });
  server.on(`POST ${UPLOAD}:commit`, (_request, reply) => {
    if (upload.offsets.size < Math.ceil(upload.bytes.length / MIB)) return reply.error("upload_incomplete");
    if (sha256(upload.bytes) !== upload.sha256) return reply.error("digest_mismatch");
    kept.set(upload.path, { bytes: upload.bytes, mode: upload.mode });
    reply.json(written(upload.path, upload.bytes));
  });
  server.on(`POST ${UPLOAD}:abort`, (_request, reply) => reply.json({}));
  server.on(`POST ${SANDBOX}/files:mkdir`, (_request, reply) => reply.json({}));
  return kept;
}

test("small data is one PUT, up to exactly 1 MiB", async () => {
  const kept = keepFiles();
  await sandbox.files.write("note.md", "žluť", { mode: 0o600 });
  const written = await sandbox.files.write("/tmp/full", bytesOfSize(MIB), { mode: "0755" });
  await sandbox.files.write("empty", new Blob([]));
  expect(kept.get("note.md")).toEqual({ bytes: Buffer.from("žluť"), mode: "600" });
  expect(kept.get("/tmp/full")?.mode).toBe("755");
  expect(kept.get("empty")).toEqual({ bytes: Buffer.alloc(0), mode: null });
  expect(written.sha256).toBe(sha256(bytesOfSize(MIB)));
  expect(server.of(`POST ${SANDBOX}/uploads`)).toHaveLength(0);
  await expect(sandbox.files.chmod("x", "rwx")).rejects.toMatchObject({ code: "invalid_argument" });
});

test("3 MiB and some go in chunks, and dropped ones are sent again", async () => {
  const kept = keepFiles(3);
  const bytes = bytesOfSize(3 * MIB + 5);
  const written = await sandbox.files.write("big", bytes, { mode: "755" });
  expect(written.sha256).toBe(sha256(bytes));
  expect(kept.get("big")?.bytes.equals(bytes)).toBe(true);
  expect(kept.get("big")?.mode).toBe("755");
  expect(server.of(`PUT ${UPLOAD}`).length).toBeGreaterThan(4);
  expect(server.of(`POST ${UPLOAD}:abort`)).toHaveLength(0);
});

test("an upload that fails is aborted and thrown", async () => {
  keepFiles();
  server.on(`PUT ${UPLOAD}`, (_request, reply) => reply.error("disk_full"));
  await expect(sandbox.files.write("big", bytesOfSize(2 * MIB))).rejects.toMatchObject({
    code: "disk_full",
    status: 507,
  });
  expect(server.of(`POST ${UPLOAD}:abort`)).toHaveLength(1);
});

test("a begin that was seen before is committed first", async () => {
  keepFiles();
  const bytes = bytesOfSize(MIB + 1);
  server.on(`POST ${SANDBOX}/uploads`, (_request, reply) =>
    reply.json({ uploadId: "u1", chunkBytes: MIB, replayed: true }),
  );
  server.on(`POST ${UPLOAD}:commit`, (_request, reply) =>
    reply.json({ path: "big", size: bytes.length, sha256: sha256(bytes) }),
  );
  await sandbox.files.write("big", bytes, { idempotencyKey: "again" });
  expect(server.of(`PUT ${UPLOAD}`)).toHaveLength(0);
});

test("the phases of one upload have keys of their own that depend on the caller's", async () => {
  keepFiles();
  const bytes = bytesOfSize(MIB + 1);
  await sandbox.files.write("big", bytes, { idempotencyKey: "k" });
  await sandbox.files.write("big", bytes, { idempotencyKey: "k" });
  const keys = (route: string) => server.of(route).map((request) => request.headers["idempotency-key"]);
  const [begin, beginAgain] = keys(`POST ${SANDBOX}/uploads`);
  const [commit, commitAgain] = keys(`POST ${UPLOAD}:commit`);
  expect([beginAgain, commitAgain]).toEqual([begin, commit]);
  expect(begin).toBe(sha256(Buffer.from(JSON.stringify(["files.write", "k", "begin"]))));
  expect(new Set([begin, commit, "k"]).size).toBe(3);
});

test("streams of unknown length are written whole, small and large", async () => {
  const kept = keepFiles(4);
  const bytes = bytesOfSize(2 * MIB + 77);
  async function* pieces(): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < bytes.length; at += 100_001) yield bytes.subarray(at, at + 100_001);
  }
  await sandbox.files.writeStream("large", pieces());
  await sandbox.files.writeStream("small", new Blob(["abc"]).stream());
  expect(kept.get("large")?.bytes.equals(bytes)).toBe(true);
  expect(kept.get("small")?.bytes.toString()).toBe("abc");
});

test("reads are checked against length and digest, and done again when they are wrong", async () => {
  const bytes = bytesOfSize(1000);
  const headers = { "x-content-length": "1000", "x-content-sha256": sha256(bytes) };
  server.on(`GET ${CONTENT}`, (_request, reply, count) =>
    reply.raw(count === 0 ? bytes.subarray(0, 999) : count === 1 ? Buffer.alloc(1000) : bytes, 200, headers),
  );
  expect(Buffer.from(await sandbox.files.read("x")).equals(bytes)).toBe(true);
  expect(server.of(`GET ${CONTENT}`)).toHaveLength(3);
  server.on(`GET ${CONTENT}`, (_request, reply) => reply.raw("short", 200, { "x-content-length": "6" }));
  await expect(sandbox.files.readText("x")).rejects.toMatchObject({ code: "download_incomplete", retryable: true });
  const stream = await sandbox.files.readStream("x");
  await expect(new Response(stream).text()).rejects.toMatchObject({ code: "download_incomplete" });
});

test("stat, exists, list, glob, mkdir, remove, rename", async () => {
  const entry = {
    name: "a",
    path: "/workspace/a",
    type: "file",
    size: 1,
    mode: "0644",
    modifiedAt: "2031-01-02T03:04:05.000Z",
  };
  server
    .on(`GET ${SANDBOX}/files/stat`, (request, reply) =>
      reply.json(request.query.get("path") === "a" ? { ...entry, exists: true } : { exists: false, path: "b" }),
    )
    .on(`GET ${SANDBOX}/files/list`, (_request, reply) => reply.json({ data: [entry] }))
    .on(`POST ${SANDBOX}/files:mkdir`, (_request, reply) => reply.json({}))
    .on(`POST ${SANDBOX}/files:rename`, (_request, reply) => reply.error("file_exists"))
    .on(`POST ${SANDBOX}/files:remove`, (_request, reply) => reply.json({ removed: false }));
  expect(await sandbox.files.stat("a")).toMatchObject({ exists: true, size: 1 });
  expect(await sandbox.files.exists("b")).toBe(false);
  expect((await sandbox.files.list()).map(({ name }) => name)).toEqual(["a"]);
  await sandbox.files.glob("**/*.py", { hidden: true });
  await sandbox.files.mkdir("x/y");
  expect(await sandbox.files.remove("x", { recursive: true })).toBe(false);
  await expect(sandbox.files.rename("a", "b")).rejects.toMatchObject({ code: "file_exists" });
  const lists = server.of(`GET ${SANDBOX}/files/list`).map(({ query }) => Object.fromEntries(query));
  expect(lists).toEqual([{ path: "/workspace" }, { path: "/workspace", depth: "64", glob: "**/*.py", hidden: "true" }]);
});

test("download writes a file whole or not at all", async () => {
  const bytes = bytesOfSize(5000);
  const entry = {
    name: "a",
    path: "/workspace/a",
    type: "file",
    size: 5000,
    mode: "0640",
    modifiedAt: "2031-01-02T03:04:05.000Z",
    exists: true,
  };
  server.on(`GET ${SANDBOX}/files/stat`, (_request, reply) => reply.json(entry));
  server.on(`GET ${CONTENT}`, (_request, reply, count) =>
    reply.raw(count === 0 ? bytes.subarray(1) : bytes, 200, { "x-content-length": "5000" }),
  );
  await sandbox.files.download("a", join(folder, "new", "a"));
  expect((await readFile(join(folder, "new", "a"))).equals(bytes)).toBe(true);
  expect((await stat(join(folder, "new", "a"))).mode & 0o777).toBe(0o640);
  server.on(`GET ${CONTENT}`, (_request, reply) => reply.raw("x", 200, { "x-content-length": "5000" }));
  await expect(sandbox.files.download("a", join(folder, "new", "b"))).rejects.toMatchObject({
    code: "download_incomplete",
  });
  expect(await readdir(join(folder, "new"))).toEqual(["a"]);
});

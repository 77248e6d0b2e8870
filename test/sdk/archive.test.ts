/** Folders as tar archives, of both SDKs: at a real guest agent, and at a server that loses what it is sent. */
import { createHash, randomBytes } from "node:crypto";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Rouse, type Sandbox } from "../../sdk/src/index.ts";
import { GuestEdge } from "./guest-edge.ts";
import { NO_PYTHON, halves, python, stopPython } from "./python-run.ts";
import { SANDBOX, TEST_KEY, WireServer, sandboxInfo } from "./wire-server.ts";

const MIB = 1_048_576;
const DATA = randomBytes(2 * MIB + 77);

let edge: GuestEdge;
let sandbox: Sandbox;
beforeAll(async () => {
  edge = await GuestEdge.start();
  sandbox = await edge.sandbox;
  const folder = join(edge.agent.home, "src");
  await mkdir(join(folder, "deep"), { recursive: true });
  await writeFile(join(folder, "deep/ü.bin"), DATA, { mode: 0o640 });
  await writeFile(join(folder, "left.tmp"), "out");
  await symlink("deep/ü.bin", join(folder, "link"));
});
afterAll(async () => {
  stopPython();
  await edge[Symbol.asyncDispose]();
});

const inside = (path: string) => join(edge.agent.home, path);

/** The folder's copy is what it should be. */
async function mustBeCopy(folder: string): Promise<void> {
  expect((await readFile(inside(`${folder}/deep/ü.bin`))).equals(DATA)).toBe(true);
  const { stdout } = await edge.agent.exec(`cd ${folder} && find . -mindepth 1 -printf '%p %y %m\\n' | sort`);
  expect(stdout).toBe("./deep d 755\n./deep/ü.bin f 640\n./link l 777\n");
}

describe("TypeScript", () => {
  test.each([true, false])("a folder goes out and in as one archive (gzip: %s)", async (gzip) => {
    const archive = await sandbox.files.readArchive("src", { gzip, exclude: ["*.tmp"] });
    const target = `typescript-${gzip}`;
    const { path, size } = await sandbox.files.writeArchive(target, archive);
    expect([path, size > 2 * MIB]).toEqual([inside(target), true]);
    await mustBeCopy(target);
  });

  test("a small one, in pieces of any size", async () => {
    await mkdir(inside("small"));
    await writeFile(inside("small/one"), "1");
    const pieces: Uint8Array[] = [];
    for await (const piece of await sandbox.files.readArchive("small")) pieces.push(piece);
    const bytes = Buffer.concat(pieces);
    await sandbox.files.writeArchive(
      "small-copy",
      Array.from(bytes, (byte) => Uint8Array.of(byte)),
    );
    expect(await readFile(inside("small-copy/one"), "utf8")).toBe("1");
  });

  test("the same call made again is done once", async () => {
    const pieces: Uint8Array[] = [];
    for await (const piece of await sandbox.files.readArchive("src")) pieces.push(piece);
    const first = await sandbox.files.writeArchive("once", pieces, { idempotencyKey: "once" });
    await writeFile(inside("once/deep/ü.bin"), "changed since");
    expect(await sandbox.files.writeArchive("once", pieces, { idempotencyKey: "once" })).toEqual(first);
    expect(await readFile(inside("once/deep/ü.bin"), "utf8")).toBe("changed since");
  });

  test("what can't be says so", async () => {
    await expect(sandbox.files.readArchive("none")).rejects.toMatchObject({ code: "file_not_found" });
    await expect(sandbox.files.readArchive("src/left.tmp")).rejects.toMatchObject({ code: "not_a_directory" });
    await expect(sandbox.files.writeArchive("bad", ["no archive ".repeat(100)])).rejects.toMatchObject({
      code: "invalid_archive",
    });
    const broken = sandbox.files.writeArchive(
      "broken",
      (function* () {
        yield randomBytes(3 * MIB);
        throw new Error("the source broke");
      })(),
    );
    await expect(broken).rejects.toThrow(/the source broke|unpacked/);
  });
});

describe("Python", () => {
  beforeEach((context) => {
    if (NO_PYTHON !== null) context.skip(NO_PYTHON);
  });

  test.each(halves)(
    "%s: a folder goes out and in as one archive",
    async (half) => {
      const told = await python(
        half,
        edge.url,
        `
from contextlib import aclosing
sandbox = await rouse.sandboxes.get("demo")
with open("${inside(half)}.tar.gz", "wb") as file:
    async with aclosing(sandbox.files.read_archive("src", exclude=["*.tmp"])) as pieces:
        async for piece in pieces:
            file.write(piece)
with open("${inside(half)}.tar.gz", "rb") as file:
    written = await sandbox.files.write_archive("python-${half}", file)
plain = [piece async for piece in sandbox.files.read_archive("src", gzip=False, exclude=["*.tmp"])]
await sandbox.files.write_archive("plain-${half}", plain)
none = await failure(lambda: sandbox.files.write_archive("bad", [b"no archive " * 100]))
return {"path": written["path"], "none": none["code"]}`,
      );
      expect(told).toEqual({ path: inside(`python-${half}`), none: "invalid_archive" });
      await mustBeCopy(`python-${half}`);
      await mustBeCopy(`plain-${half}`);
    },
    60_000,
  );
});

describe("parts", () => {
  let server: WireServer;
  beforeEach(async () => {
    server = await WireServer.start();
    server.on(`GET ${SANDBOX}`, (_request, reply) => reply.json(sandboxInfo()));
    server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()));
  });
  afterEach(() => server[Symbol.asyncDispose]());

  /** Takes parts, of which every second is lost with its answer, and has them in the end. */
  function taking(): { whole: () => Buffer; keys: string[] } {
    const parts = new Map<number, Buffer>();
    const keys: string[] = [];
    const uploads = `${SANDBOX}/files/archive/uploads`;
    server.on(`POST ${uploads}`, ({ headers }, reply) => {
      keys.push(String(headers["idempotency-key"]));
      return reply.json({ uploadId: "u1", chunkBytes: MIB / 2 });
    });
    server.on(`PUT ${uploads}/u1`, ({ query, body }, reply, count) => {
      const offset = Number(query.get("offset"));
      parts.set(offset, body);
      return count % 2 === 1 ? reply.cut() : reply.json({ received: offset + body.length });
    });
    server.on(`POST ${uploads}/u1:commit`, ({ headers }, reply) => {
      keys.push(String(headers["idempotency-key"]));
      return reply.json({ path: "/workspace/x", size: 1 });
    });
    const whole = () => Buffer.concat([...parts].toSorted(([a], [b]) => a - b).map(([, part]) => part));
    return { whole, keys };
  }
  const digest = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

  test("are sent again where their answer was lost, and keep to the server's size", async () => {
    const { whole, keys } = taking();
    const client = await new Rouse({ baseUrl: server.url, apiKey: TEST_KEY }).sandboxes.get("demo");
    await client.files.writeArchive("x", [DATA], { idempotencyKey: "mine" });
    expect(digest(whole())).toBe(digest(DATA));
    expect(new Set(keys).size).toBe(2);
    await client.files.writeArchive("x", [DATA], { idempotencyKey: "mine" });
    expect(new Set(keys).size).toBe(2);
  });

  test.skipIf(NO_PYTHON !== null).each(halves)(
    "%s Python: the same",
    async (half) => {
      const { whole } = taking();
      await python(
        half,
        server.url,
        `
sandbox = await rouse.sandboxes.get("demo")
data = bytes.fromhex("${DATA.subarray(0, 1000).toString("hex")}") * 2000
await sandbox.files.write_archive("x", [data[:700_000], data[700_000:]])`,
      );
      const sent = Buffer.concat(Array.from({ length: 2000 }, () => DATA.subarray(0, 1000)));
      expect(digest(whole())).toBe(digest(sent));
    },
    60_000,
  );
});

/** What must not wake a machine, and what must be refused, with every fault said and nothing changed. */
import { createHash, randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, it } from "vitest";
import type { Sandbox } from "rouse";
import { freshName, named, rouse, serve, COUNTER_SERVER, sha256, system } from "./support.ts";

interface ErrorAnswer {
  error: { code: string; message: string; hint: string; requestId: string; details?: { issues?: { path: string }[] } };
}

async function api(
  method: string,
  path: string,
  body?: unknown,
  key: string | null = system.apiKey,
): Promise<{ status: number; body: ErrorAnswer }> {
  const answer = await fetch(system.url + path, {
    method,
    headers: {
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  return { status: answer.status, body: (await answer.json()) as ErrorAnswer };
}

describe("a sleeping machine", () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await rouse.sandboxes.create({ name: freshName("guarded"), idlePauseSeconds: 0 });
    await serve(sandbox, COUNTER_SERVER);
    await sandbox.pause();
  });
  afterAll(() => sandbox.delete());

  const wrongKey = `rouse_default_aaaaaaaaaaaa_${"a".repeat(32)}`;

  it("is woken by nobody without the right credential, port or name", async ({ expect }) => {
    const before = (await sandbox.refresh()).info;
    expect((await named(sandbox, "/", { key: null })).status).toBe(401);
    expect((await named(sandbox, "/", { key: wrongKey })).status).toBe(401);
    expect((await named(sandbox, "/", { key: null, headers: { "x-runtime-preview-token": "bad.token" } })).status).toBe(
      401,
    );
    expect((await named(sandbox, "/?rouse_token=bad", { key: null })).status).toBe(401);
    expect((await api("POST", `/v1/sandboxes/${sandbox.id}:exec`, { command: "true" }, wrongKey)).status).toBe(401);
    for (const port of ["0", "65536", "10800", "abc"]) {
      const answer = await fetch(`${system.url}/s/${sandbox.info.label}/${port}/`, {
        headers: { authorization: `Bearer ${system.apiKey}` },
      });
      expect([400, 404]).toContain(answer.status);
    }
    expect((await api("GET", "/s/no-such-name/8080/")).body.error.code).toBe("not_found");
    // Bodies that the edge can refuse never reach the machine.
    expect(
      (await api("POST", `/v1/sandboxes/${sandbox.id}:exec`, { command: "true", argv: ["true"] })).body.error.code,
    ).toBe("invalid_request");
    // Looking is not touching.
    await rouse.sandboxes.get(sandbox.id);
    const after = (await sandbox.refresh()).info;
    expect(after.state).toBe("paused");
    expect(after.generation).toBe(before.generation);
  });

  it("opens one port to a token of that port, until it is rotated", async ({ expect }) => {
    const preview = await sandbox.previews.create(8080);
    const token = preview.token ?? "";
    const withToken = { key: null, headers: { "x-runtime-preview-token": token } };
    expect((await named(sandbox, "/", { ...withToken, port: 8081 })).status).toBe(403);
    expect((await sandbox.refresh()).state).toBe("paused");
    expect((await named(sandbox, "/", withToken)).status).toBe(200);
    await sandbox.previews.rotate(8080);
    expect((await named(sandbox, "/", withToken)).status).toBe(401);
  });

  it("says that nothing listens on a port, and names it", async ({ expect }) => {
    const answer = await named(sandbox, "/", { port: 4444 });
    expect(answer.status).toBe(502);
    expect((JSON.parse(answer.text) as ErrorAnswer).error).toMatchObject({
      code: "port_not_listening",
      details: { port: 4444 },
    });
  });
});

describe("bad input", () => {
  it("is refused with every fault at once", async ({ expect }) => {
    const { status, body } = await api("POST", "/v1/sandboxes", {
      vcpu: 0,
      memoryMiB: "much",
      diskMiB: 1,
      colour: "red",
      env: { "1bad": "x" },
    });
    expect(status).toBe(400);
    expect(body.error.code).toBe("invalid_request");
    const paths = body.error.details?.issues?.map((issue) => issue.path) ?? [];
    for (const path of ["vcpu", "memoryMiB", "diskMiB"]) expect(paths).toContain(path);
    expect(body.error.message).toContain("colour");
    expect(body.error.requestId).not.toBe("");
    expect(body.error.hint).not.toBe("");
  });

  it.for([
    ["not json", "{"],
    ["an array", "[]"],
    ["a number", "7"],
  ])("is refused when the body is %s", async ([, text], { expect }) => {
    expect((await api("POST", "/v1/sandboxes", text)).body.error.code).toBe("invalid_request");
  });

  it("does not stop odd names, which get a label", async ({ expect }) => {
    const name = `Ünïcode ${freshName("odd")}: a/b?`;
    const made = await rouse.sandboxes.create({ name, idlePauseSeconds: 0 });
    expect(made.info.label).toMatch(/^0unicode-odd-[a-z0-9-]+$/);
    const again = await rouse.sandboxes.getOrCreate(name);
    expect(again.id).toBe(made.id);
    expect(again.info.reused).toBe(true);
    expect((await rouse.sandboxes.list({ name }).then((page) => page.data)).map((one) => one.id)).toEqual([made.id]);
    await made.delete();
    expect((await api("GET", `/v1/sandboxes/${made.id}`)).status).toBe(410);
  });
});

describe("files", () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await rouse.sandboxes.create({ name: freshName("files"), idlePauseSeconds: 0 });
  });
  afterAll(() => sandbox.delete());

  it.for([0, 1, 18_000, 65_536, 1_048_576, 1_048_577, 10_000_000])(
    "of %i bytes come back as they went",
    async (size, { expect }) => {
      const data = randomBytes(size);
      await sandbox.files.write(`/workspace/f${size}`, data);
      expect((await sandbox.exec(`sha256sum < f${size}`)).stdout.slice(0, 64)).toBe(sha256(data));
      expect(sha256(await sandbox.files.read(`/workspace/f${size}`))).toBe(sha256(data));
    },
  );

  it("of 48 MiB stream in and out", async ({ expect }) => {
    const size = 48 * 1_048_576;
    const sent = createHash("sha256");
    await sandbox.files.writeStream(
      "/workspace/big",
      pieces(size, (piece) => sent.update(piece)),
    );
    const received = createHash("sha256");
    let bytes = 0;
    for await (const chunk of await sandbox.files.readStream("/workspace/big")) {
      received.update(chunk);
      bytes += chunk.length;
    }
    expect(bytes).toBe(size);
    expect(received.digest("hex")).toBe(sent.digest("hex"));
    await sandbox.files.remove("/workspace/big");
  });

  it("stay inside the guest and within its user's rights, whatever the path", async ({ expect }) => {
    await sandbox.exec("ln -s /etc/shadow shadow; ln -s /nowhere dangling; ln -s / root");
    for (const path of ["/etc/shadow", "/workspace/shadow", "/workspace/root/etc/shadow"]) {
      await expect(sandbox.files.read(path)).rejects.toMatchObject({ code: "file_access_denied" });
    }
    for (const path of ["../etc/passwd", "/workspace/../../etc/passwd", "%2e%2e/etc/passwd/..", "a\0b"]) {
      await expect(sandbox.files.read(path)).rejects.toMatchObject({ code: "invalid_request" });
      await expect(sandbox.files.write(path, "no")).rejects.toMatchObject({ code: "invalid_request" });
    }
    expect(await sandbox.files.exists("/workspace/%2e%2e/etc/passwd")).toBe(false);
    await expect(sandbox.files.write("/etc/cron.d/x", "no")).rejects.toMatchObject({ code: "file_access_denied" });
    await expect(sandbox.files.read("/workspace")).rejects.toMatchObject({ code: "is_a_directory" });
    expect(await sandbox.files.exists("/workspace/dangling/x")).toBe(false);
  });

  it("carry output of any bytes", async ({ expect }) => {
    const text = await sandbox.exec(["printf", "héllo → 世界 😀\\n"]);
    expect(text.stdout).toBe("héllo → 世界 😀\n");
    const raw = await sandbox.spawn("head -c 300000 /dev/zero | tr '\\0' '\\377'; printf 'end'", {
      outputEncoding: "base64",
    });
    await raw.wait();
    const parts: Uint8Array[] = [];
    for await (const part of raw.outputBytes()) parts.push(part.bytes);
    const bytes = Buffer.concat(parts);
    expect(bytes.length).toBe(300_003);
    expect(bytes.subarray(0, 300_000).every((byte) => byte === 255)).toBe(true);
  });
});

/** A stream of `size` bytes that never stands in memory whole. */
async function* pieces(size: number, seen: (piece: Uint8Array) => void): AsyncGenerator<Uint8Array> {
  for (let left = size; left > 0; left -= 1_048_576) {
    const piece = randomBytes(Math.min(left, 1_048_576));
    seen(piece);
    yield piece;
  }
}

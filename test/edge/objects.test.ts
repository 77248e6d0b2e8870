/** Objects: bytes, ranges, parts and signed URLs; quotas; and that no crash leaves more than an orphan that is swept. */
import { env } from "cloudflare:workers";
import { runInDurableObject } from "cloudflare:test";
import { createHash } from "node:crypto";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { StateObject } from "../../durable/state/object.ts";
import { objectLimits } from "../../sdk/contract/object.ts";
import { sign, signingKey } from "../../sdk/contract/ticket.ts";
import { edge, heartbeat } from "./client.ts";
import { read, TestState, type Asked } from "./homes.ts";
import { secrets } from "./secrets.ts";
import { shift } from "./volumes.ts";

beforeEach(() => heartbeat());
afterEach(() => {
  vi.useRealTimers();
});

const png = { "content-type": "image/png" };
const codeOf = ({ body }: Asked): string | undefined => body.error?.code;
const sha = (bytes: Uint8Array | string) => createHash("sha256").update(bytes).digest("hex");
const bytesOf = (length: number) => Uint8Array.from({ length }, (_, at) => (at * 7) % 251);

async function got(home: TestState, key: string, headers: Record<string, string> = {}): Promise<Uint8Array> {
  return new Uint8Array(await (await home.fetch("GET", `/objects/${key}`, undefined, headers)).arrayBuffer());
}

async function blobs(home: TestState): Promise<number> {
  return (await env.BLOBS.list({ prefix: `homes/default/${home.id.replace("~", "_")}/` })).objects.length;
}

test("an object comes back as it was put, whole and in part, from outside and inside", async () => {
  const home = await TestState.make();
  const bytes = bytesOf(200_000);
  const put = await home.ask("PUT", "/objects/img/a.png", bytes, png);
  expect(put.body).toMatchObject({
    key: "img/a.png",
    bytes: 200_000,
    sha256: sha(bytes),
    etag: sha(bytes),
    contentType: "image/png",
  });
  expect(await got(home, "img/a.png")).toEqual(bytes);
  const part = await home.fetch("GET", "/objects/img/a.png", undefined, { range: "bytes=100-199" });
  expect([part.status, part.headers.get("content-range")]).toEqual([206, "bytes 100-199/200000"]);
  expect(new Uint8Array(await part.arrayBuffer())).toEqual(bytes.slice(100, 200));
  expect(await got(home, "img/a.png", { range: "bytes=-5" })).toEqual(bytes.slice(-5));
  expect(await got(home, "img/a.png", { range: "bytes=199990-" })).toEqual(bytes.slice(199_990));
  const behind = await home.fetch("GET", "/objects/img/a.png", undefined, { range: "bytes=200000-" });
  expect([behind.status, behind.headers.get("content-range")]).toEqual([416, "bytes */200000"]);
  const head = await home.fetch("HEAD", "/objects/img/a.png");
  expect([head.status, head.headers.get("content-length"), head.headers.get("content-type")]).toEqual([
    200,
    "200000",
    "image/png",
  ]);
  const same = await home.fetch("GET", "/objects/img/a.png", undefined, { "if-none-match": `"${sha(bytes)}"` });
  expect(same.status).toBe(304);
  const inside = await home.inside("PUT", "/objects/note.txt", "from inside");
  expect(inside.body).toMatchObject({ by: `sandbox:${home.name}`, bytes: 11 });
  expect((await home.inside("GET", "/objects/note.txt")).body).toBe("from inside");
  expect((await home.ask("GET", "/state")).body.objects).toMatchObject({ count: 2, bytes: 200_011, reservedBytes: 0 });
  expect((await home.ask("DELETE", "/objects/note.txt")).body).toEqual({ key: "note.txt", deleted: true });
  expect(codeOf(await home.ask("GET", "/objects/note.txt"))).toBe("object_not_found");
  expect(await home.wakes()).toBe(0);
});

test("what a program stores is nothing that a browser runs as the API's", async () => {
  const home = await TestState.make();
  await home.ask("PUT", "/objects/x.html", "<script>alert(1)</script>", { "content-type": "text/html" });
  const { headers } = await home.fetch("GET", "/objects/x.html");
  expect(headers.get("content-security-policy")).toContain("sandbox");
  expect(headers.get("x-content-type-options")).toBe("nosniff");
});

test("empty ones, and bodies that do not say their length", async () => {
  const home = await TestState.make();
  expect((await home.ask("PUT", "/objects/empty", "")).body).toMatchObject({ bytes: 0, sha256: sha("") });
  expect((await got(home, "empty")).length).toBe(0);
  const chunks = new ReadableStream({
    start(controller) {
      for (const text of ["a", "bc"]) controller.enqueue(new TextEncoder().encode(text));
      controller.close();
    },
  });
  expect((await home.ask("PUT", "/objects/streamed", chunks)).body).toMatchObject({ bytes: 3, sha256: sha("abc") });
});

test("other bytes than were said are refused, and leave nothing", async () => {
  const home = await TestState.make();
  const wrong = await home.ask("PUT", `/objects/k?sha256=${sha("other")}`, "bytes");
  expect(codeOf(wrong)).toBe("digest_mismatch");
  expect((await home.ask("PUT", `/objects/k?sha256=${sha("bytes")}`, "bytes")).status).toBe(200);
  await home.alarm();
  expect(await blobs(home)).toBe(1);
  expect((await home.ask("GET", "/state")).body.objects.reservedBytes).toBe(0);
  const large = await home.ask("PUT", "/objects/k", "x", { "content-length": String(objectLimits.putBytesMax + 1) });
  expect(["payload_too_large", undefined]).toContain(codeOf(large));
});

test("of two who store at once one wins where it matters; what is overwritten goes later", async () => {
  const home = await TestState.make();
  const first = await Promise.all(
    ["a", "b"].map((text) => home.ask("PUT", "/objects/k", text, { "if-none-match": "*" })),
  );
  expect(first.map(({ status }) => status).toSorted()).toEqual([200, 409]);
  const etag = first.find(({ status }) => status === 200)?.body.etag;
  const again = await Promise.all(
    ["c", "d"].map((text) => home.ask("PUT", "/objects/k", text, { "if-match": `"${etag}"` })),
  );
  expect(again.map(({ status }) => status).toSorted()).toEqual([200, 409]);
  await home.pass(1_000_000);
  expect(await blobs(home)).toBe(1);
  expect(await got(home, "k")).toHaveLength(1);
});

test("objects are listed like folders, page by page", async () => {
  const home = await TestState.make();
  const keys = ["a", "d/1", "d/2", "d/e/3", "d0", "z/1"];
  for (const key of keys) await home.ask("PUT", `/objects/${key}`, key);
  const all = async (query: string) => {
    const found: string[] = [];
    for (let cursor = ""; ;) {
      const { body } = await home.ask("GET", `/objects?limit=2${query}${cursor}`);
      found.push(...[...body.data.map(({ key }: { key: string }) => key), ...body.prefixes].toSorted());
      if (body.nextCursor === null) return found;
      cursor = `&cursor=${encodeURIComponent(body.nextCursor)}`;
    }
  };
  expect(await all("")).toEqual(keys);
  expect(await all("&delimiter=/")).toEqual(["a", "d/", "d0", "z/"]);
  expect(await all("&delimiter=/&prefix=d/")).toEqual(["d/1", "d/2", "d/e/"]);
  expect(codeOf(await home.ask("GET", "/objects?prefix=d/&cursor=ka"))).toBe("invalid_request");
});

test("an object in parts is read as one, also across them", async () => {
  const home = await TestState.make();
  const { body: upload } = await home.ask("POST", "/object-uploads", { key: "big", contentType: "video/mp4" });
  const parts = [bytesOf(1000), bytesOf(500).reverse(), bytesOf(10)];
  for (const [at, part] of parts.entries()) await home.ask("PUT", `/object-uploads/${upload.id}/parts/${at + 1}`, part);
  await home.inside("PUT", `/object-uploads/${upload.id}/parts/1`, parts[0]);
  expect((await home.ask("GET", `/object-uploads/${upload.id}`)).body.parts).toMatchObject([
    { part: 1, bytes: 1000, sha256: sha(parts[0] ?? "") },
    { part: 2, bytes: 500 },
    { part: 3, bytes: 10 },
  ]);
  expect((await home.ask("GET", "/state")).body.objects.reservedBytes).toBe(1510);
  const early = await home.ask("POST", `/object-uploads/${upload.id}:complete`, { parts: 4 });
  expect(early.body.error).toMatchObject({ code: "upload_incomplete", details: { missing: [4] } });
  const { body } = await home.ask("POST", `/object-uploads/${upload.id}:complete`, { parts: 3 });
  expect(body).toMatchObject({ bytes: 1510, sha256: null, contentType: "video/mp4" });
  expect(body.etag).toMatch(/^[0-9a-f]{64}-3$/);
  const whole = new Uint8Array([...(parts[0] ?? []), ...(parts[1] ?? []), ...(parts[2] ?? [])]);
  expect(await got(home, "big")).toEqual(whole);
  expect(await got(home, "big", { range: "bytes=990-1504" })).toEqual(whole.slice(990, 1505));
  expect(codeOf(await home.ask("GET", `/object-uploads/${upload.id}`))).toBe("upload_not_found");
  expect((await home.ask("GET", "/state")).body.objects).toMatchObject({ bytes: 1510, reservedBytes: 0 });
  await home.pass(1_000_000);
  expect(await blobs(home)).toBe(3);
  await home.ask("DELETE", "/objects/big");
  await home.pass(1_000_000);
  expect(await blobs(home)).toBe(0);
});

test("an upload that is given up, or takes too long, leaves nothing", async () => {
  const home = await TestState.make();
  const begin = async () => (await home.ask("POST", "/object-uploads", { key: "k" })).body.id as string;
  const [one, two] = [await begin(), await begin()];
  for (const id of [one, two]) await home.ask("PUT", `/object-uploads/${id}/parts/1`, "bytes");
  expect((await home.ask("DELETE", `/object-uploads/${one}`)).body).toEqual({ id: one, aborted: true });
  await home.alarm();
  expect(await blobs(home)).toBe(1);
  await home.evict();
  await home.pass(objectLimits.uploadSeconds * 1000 + 1000);
  expect(await blobs(home)).toBe(0);
  expect(codeOf(await home.ask("PUT", `/object-uploads/${two}/parts/1`, "late"))).toBe("upload_not_found");
});

test("a crash between storing and committing leaves an orphan, and the alarm sweeps it", async () => {
  const home = await TestState.make();
  await home.ask("PUT", "/objects/k", "before");
  const asker = { by: "test", sandboxId: home.id, generation: null };
  const stub = () => home.stub as DurableObjectStub<StateObject>;
  const berth = await runInDurableObject(stub(), async (object) => {
    const answer = await object.berthObject(asker, "k", 5, "text/plain", { match: null, absent: false });
    return answer.ok ? answer.berth : null;
  });
  await env.BLOBS.put(berth?.blob ?? "", "after");
  await home.crash();
  expect((await home.ask("GET", "/objects/k")).body).toBe("before");
  expect((await home.ask("GET", "/state")).body.objects).toMatchObject({ bytes: 6, reservedBytes: 5 });
  await home.pass(2_000_000);
  expect(await blobs(home)).toBe(1);
  expect((await home.ask("GET", "/state")).body.objects).toMatchObject({ bytes: 6, reservedBytes: 0 });
  const late = await runInDurableObject(stub(), (object) =>
    object.landObject(asker, berth?.upload ?? "", sha("after"), { match: null, absent: false }),
  );
  expect(late).toMatchObject({ ok: false, failure: { code: "upload_not_found" } });
});

test("blobs that can't be deleted now are deleted later", async () => {
  const home = await TestState.make();
  await home.ask("PUT", "/objects/k", "bytes");
  await home.ask("DELETE", "/objects/k");
  const swap = (fails: boolean) =>
    runInDurableObject(home.stub as DurableObjectStub<StateObject>, (object) => {
      const { blobs: real } = object;
      object.blobs = fails
        ? Object.assign(Object.create(real), { delete: () => Promise.reject(new Error("away")), real })
        : (real as unknown as { real: typeof real }).real;
    });
  await swap(true);
  await home.pass(1_000_000);
  expect(await blobs(home)).toBe(1);
  await swap(false);
  await home.pass(1_000_000);
  expect(await blobs(home)).toBe(0);
});

test("the objects are full at their limit, uploads under way included", async () => {
  const home = await TestState.make();
  await home.ask("PUT", "/objects/k", "12345");
  await runInDurableObject(home.stub, (_object, state) => {
    state.storage.sql.exec("UPDATE totals SET object_bytes = ?", objectLimits.totalBytesMax - 3);
  });
  const full = await home.ask("PUT", "/objects/m", "1234");
  expect(full.status).toBe(507);
  expect(full.body.error).toMatchObject({
    code: "storage_full",
    details: { heldBytes: objectLimits.totalBytesMax - 3, maxBytes: objectLimits.totalBytesMax, neededBytes: 4 },
  });
  expect((await home.ask("PUT", "/objects/m", "123")).status).toBe(200);
  expect((await home.ask("PUT", "/objects/n", "1")).status).toBe(507);
});

test("a signed URL opens what it says until its time, and nothing else", async () => {
  const home = await TestState.make();
  await home.ask("PUT", "/objects/a b.txt", "hello");
  const { body: read1 } = await home.ask("POST", "/objects:sign", { key: "a b.txt", expiresSeconds: 60 });
  const answer = await edge(read1.url);
  expect([answer.status, await answer.text()]).toEqual([200, "hello"]);
  expect((await edge(read1.url, { headers: { range: "bytes=1-2" } })).status).toBe(206);
  expect((await edge(read1.url, { method: "HEAD" })).headers.get("content-length")).toBe("5");
  expect(codeOf(await read(await edge(read1.url, { method: "PUT", body: "x" })))).toBe("method_not_allowed");
  const { body: write } = await home.inside("POST", "/objects:sign", {
    key: "up",
    method: "PUT",
    maxBytes: 4,
    contentType: "text/csv",
  });
  expect(new URL(write.url).host).toBe("rouse.test");
  const path = new URL(write.url).pathname;
  const put = (body: string) => edge(`http://api.test${path}`, { method: "PUT", body }).then(read);
  expect(codeOf(await put("12345"))).toBe("payload_too_large");
  expect((await put("1234")).body).toMatchObject({
    key: "up",
    contentType: "text/csv",
    by: `signed:sandbox:${home.name}`,
  });
  expect(codeOf(await read(await edge(`http://api.test${path}`)))).toBe("method_not_allowed");
  // One letter of what it says is another.
  const [payload = "", mac = ""] = read1.url.split("/").at(-1).split(".");
  const said = JSON.parse(atob(payload.replaceAll("-", "+").replaceAll("_", "/"))) as Record<string, unknown>;
  const forged = btoa(JSON.stringify({ ...said, k: "up" }))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace(/=+$/, "");
  expect(codeOf(await read(await edge(`http://api.test/signed/objects/${forged}.${mac}`)))).toBe("unauthorized");
  const ticket = await sign(await signingKey(secrets.signingSecret, "link"), {
    s: home.id,
    p: 1,
    v: 1,
    e: Date.now() + 1e6,
  });
  expect(codeOf(await read(await edge(`http://api.test/signed/objects/${ticket}`)))).toBe("unauthorized");
  shift(61_000);
  expect(codeOf(await read(await edge(read1.url)))).toBe("unauthorized");
  const both = await home.ask("POST", "/objects:sign", { key: "k", maxBytes: 1, contentType: "a/b" });
  expect(both.body.error.details.issues).toHaveLength(2);
});

test("an older run of the machine neither reads nor writes, and one sandbox sees nothing of another", async () => {
  const [home, other] = [await TestState.make(), await TestState.make()];
  await home.inside("PUT", "/objects/k", "1", 2);
  for (const [method, path, body] of [
    ["GET", "/objects/k"],
    ["PUT", "/objects/k", "2"],
    ["POST", "/objects:sign", { key: "k" }],
    ["POST", "/object-uploads", { key: "k" }],
  ] as const)
    expect(codeOf(await home.inside(method, path, body, 1))).toBe("stale_generation");
  expect((await home.ask("GET", "/objects/k")).body).toBe(1);
  expect(codeOf(await other.inside("GET", "/objects/k"))).toBe("object_not_found");
  await home.alarm();
  expect(await blobs(home)).toBe(1);
});

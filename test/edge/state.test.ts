/** Keys with values: from outside and inside, under races, at the limits, and after everything that can end an object. */
import { env } from "cloudflare:workers";
import { runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { StateObject } from "../../durable/state/object.ts";
import { stateLimits } from "../../sdk/contract/state.ts";
import { FIRST_EPOCH, hostKey } from "../../sdk/contract/host-secrets.ts";
import { openAccount } from "./accounts.ts";
import { ask, call, faultOf, heartbeat } from "./client.ts";
import { inside, TestState } from "./homes.ts";
import { roots } from "./secrets.ts";

beforeEach(() => heartbeat());
afterEach(() => {
  vi.useRealTimers();
});

const json = { "content-type": "application/json" };

test("a value comes back as it was put, from outside and inside, and the machine sleeps on", async () => {
  const home = await TestState.make();
  const put = await home.ask("PUT", "/state/keys/notes/today", '{"a":1}', json);
  expect(put).toMatchObject({ status: 200, body: { key: "notes/today", version: 1, bytes: 7, expiresAt: null } });
  expect(put.headers.get("etag")).toBe('"1"');
  const got = await home.fetch("GET", "/state/keys/notes%2Ftoday");
  expect([got.headers.get("content-type"), got.headers.get("etag"), await got.text()]).toEqual([
    "application/json",
    '"1"',
    '{"a":1}',
  ]);
  expect((await home.inside("GET", "/state/keys/notes/today")).body).toEqual({ a: 1 });
  const bytes = new Uint8Array([0, 255, 10, 13]);
  const written = await home.inside("PUT", "/state/keys/raw:1", bytes);
  expect(written.body).toMatchObject({
    version: 2,
    by: `sandbox:${home.name}`,
    contentType: "application/octet-stream",
  });
  expect(new Uint8Array(await (await home.fetch("GET", "/state/keys/raw:1")).arrayBuffer())).toEqual(bytes);
  expect((await home.ask("DELETE", "/state/keys/raw:1")).body).toEqual({ key: "raw:1", deleted: true });
  expect((await home.ask("DELETE", "/state/keys/raw:1")).body).toEqual({ key: "raw:1", deleted: false });
  expect((await home.ask("GET", "/state/keys/raw:1")).body.error.code).toBe("state_not_found");
  expect(await home.wakes()).toBe(0);
});

test("the machine is told what homes it has", async () => {
  const home = await TestState.make();
  const { body } = await home.inside("GET", "/", undefined, 3);
  expect(body.sandbox).toEqual({ id: home.id, label: home.name, generation: 3 });
  expect(body.homes.map(({ url }: { url: string }) => url)).toEqual(
    expect.arrayContaining([
      "http://rouse.internal/state",
      "http://rouse.internal/queues",
      "http://rouse.internal/objects",
    ]),
  );
});

test("compare and set: of two at once one wins, and what is deleted and made anew is another", async () => {
  const home = await TestState.make();
  const first = await Promise.all(
    ["a", "b"].map((value) => home.ask("PUT", "/state/keys/k", value, { "if-none-match": "*" })),
  );
  expect(first.map(({ status }) => status).toSorted()).toEqual([200, 409]);
  const again = await Promise.all(
    ["c", "d"].map((value) => home.ask("PUT", "/state/keys/k", value, { "if-match": '"1"' })),
  );
  expect(again.map(({ status }) => status).toSorted()).toEqual([200, 409]);
  const refused = again.find(({ status }) => status === 409);
  expect(refused?.body.error).toMatchObject({ code: "version_mismatch", details: { key: "k", version: 2 } });
  await home.ask("DELETE", "/state/keys/k");
  await home.ask("PUT", "/state/keys/k", "e");
  expect((await home.ask("PUT", "/state/keys/k", "f", { "if-match": "2" })).status).toBe(409);
  expect((await home.ask("PUT", "/state/keys/none", "f", { "if-match": "*" })).status).toBe(409);
  expect((await home.ask("DELETE", "/state/keys/k", undefined, { "if-match": "2" })).status).toBe(409);
  await home.evict();
  expect((await home.ask("GET", "/state/keys/k")).headers.get("etag")).toBe('"3"');
});

test("increments from many at once are all there", async () => {
  const home = await TestState.make();
  const add = { writes: [{ op: "add", key: "n", by: 2 }] };
  await Promise.all(
    Array.from({ length: 20 }, (_, at) =>
      at % 2 === 0 ? home.ask("POST", "/state/keys:batch", add) : home.inside("POST", "/state/keys:batch", add),
    ),
  );
  expect((await home.ask("GET", "/state/keys/n")).body).toBe(40);
});

test("a batch is done as a whole or not at all", async () => {
  const home = await TestState.make();
  await home.ask("PUT", "/state/keys/a", "1", json);
  const batch = {
    checks: [
      { key: "a", version: 1 },
      { key: "b", version: null },
    ],
    writes: [
      { op: "put", key: "b", value: { x: [1] } },
      { op: "put", key: "c", base64: "AP8=", contentType: "image/png", ttlSeconds: 60 },
      { op: "add", key: "a", by: 41 },
      { op: "delete", key: "zz" },
    ],
  };
  const done = await home.ask("POST", "/state/keys:batch", batch);
  expect(done.body.data).toEqual([
    { key: "b", version: 2 },
    { key: "c", version: 3 },
    { key: "a", version: 4, value: 42 },
    { key: "zz", version: null },
  ]);
  const again = await home.ask("POST", "/state/keys:batch", batch);
  expect(again.body.error).toMatchObject({
    code: "version_mismatch",
    details: {
      mismatches: [
        { key: "a", expected: 1, version: 4 },
        { key: "b", expected: null, version: 2 },
      ],
    },
  });
  const broken = await home.ask("POST", "/state/keys:batch", {
    writes: [
      { op: "put", key: "d", value: 1 },
      { op: "add", key: "b", by: 1 },
    ],
  });
  expect(broken.body.error).toMatchObject({ code: "invalid_request", details: { issues: [{ path: "writes.1" }] } });
  expect((await home.ask("GET", "/state/keys/d")).status).toBe(404);
  const { body } = await home.ask("GET", "/state");
  expect(body.keys).toMatchObject({ count: 3, bytes: 1 + 2 + 1 + 9 + 1 + 2 });
});

test("keys are listed by prefix, page by page, in order", async () => {
  const home = await TestState.make();
  const keys = ["a", "a/1", "a/2", "a/é", "b", "a0"];
  await home.ask("POST", "/state/keys:batch", { writes: keys.map((key) => ({ op: "put", key, value: null })) });
  const found: string[] = [];
  let cursor = "";
  do {
    const query = `?prefix=a/&limit=2${cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`}`;
    const { body } = await home.ask("GET", `/state/keys${query}`);
    found.push(...body.data.map(({ key }: { key: string }) => key));
    cursor = body.nextCursor ?? "";
  } while (cursor !== "");
  expect(found).toEqual(["a/1", "a/2", "a/é"]);
  expect((await home.ask("GET", "/state/keys?prefix=b&cursor=a")).body.error.code).toBe("invalid_request");
});

test("values end at their time, and leave nothing", async () => {
  const home = await TestState.make();
  await home.ask("PUT", "/state/keys/k?ttlSeconds=10", "x");
  expect((await home.ask("GET", "/state/keys")).body.data).toHaveLength(1);
  await home.pass(11_000);
  expect((await home.ask("GET", "/state/keys/k")).status).toBe(404);
  expect((await home.ask("GET", "/state")).body.keys).toMatchObject({ count: 0, bytes: 0 });
  expect((await home.ask("PUT", "/state/keys/k", "y", { "if-none-match": "*" })).status).toBe(200);
});

test("a full home says so exactly, and nothing is lost by it", async () => {
  const home = await TestState.make();
  const bytes = new Uint8Array(stateLimits.valueBytesMax);
  const writes = stateLimits.bytesMax / stateLimits.valueBytesMax - 1;
  await runInDurableObject(home.stub as DurableObjectStub<StateObject>, async (object) => {
    const asker = { by: "test", sandboxId: home.id, generation: null };
    const put = { value: bytes, contentType: "text/plain", ttlSeconds: null, match: null, absent: false };
    for (let at = 0; at < writes; at += 1) await object.putValue(asker, `k${at}`, put);
  });
  const { keys } = (await home.ask("GET", "/state")).body;
  const left = stateLimits.bytesMax - keys.bytes;
  const fits = new Uint8Array(left - "last".length);
  const over = await home.ask("PUT", "/state/keys/last", new Uint8Array(fits.length + 1));
  expect(over.status).toBe(507);
  expect(over.body.error).toMatchObject({
    code: "storage_full",
    details: { heldBytes: keys.bytes, maxBytes: stateLimits.bytesMax, neededBytes: left + 1 },
  });
  expect((await home.ask("PUT", "/state/keys/last", fits)).status).toBe(200);
  expect((await home.ask("GET", "/state")).body.keys.bytes).toBe(stateLimits.bytesMax);
  // In the place of another there is room.
  expect((await home.ask("PUT", "/state/keys/k0", bytes)).status).toBe(200);
  expect((await home.ask("PUT", "/state/keys/x", "1")).status).toBe(507);
});

test("what can't be is refused, all of it named", async () => {
  const home = await TestState.make();
  const codeOf = async (asked: Promise<{ body: { error: { code: string } } }>) => (await asked).body.error.code;
  expect(await codeOf(home.ask("PUT", "/state/keys/k", "no", json))).toBe("invalid_request");
  expect(await codeOf(home.ask("PUT", `/state/keys/${"k".repeat(513)}`, "x"))).toBe("invalid_request");
  expect(await codeOf(home.ask("PUT", "/state/keys/a%2F..%2Fb", "x"))).toBe("invalid_request");
  expect(await codeOf(home.ask("PUT", "/state/keys/k", new Uint8Array(131_073)))).toBe("payload_too_large");
  expect(await codeOf(home.ask("PUT", "/state/keys/k?ttlSeconds=0", "x"))).toBe("invalid_request");
  expect(await codeOf(home.ask("PUT", "/state/keys/k", "x", { "if-match": "a b" }))).toBe("invalid_request");
  const { body } = await home.ask("POST", "/state/keys:batch", {
    writes: [
      { op: "put", key: "", value: 1 },
      { op: "add", key: "k", by: 1.5 },
    ],
  });
  expect(body.error.details.issues.length).toBeGreaterThan(1);
});

test("a machine reaches its own home alone, and no other does", async () => {
  const [home, other] = [await TestState.make(), await TestState.make()];
  await home.ask("PUT", "/state/keys/k", "mine");
  expect((await other.inside("GET", "/state/keys/k")).status).toBe(404);
  const ticket = await other.ticket();
  for (const path of [`/sandboxes/${home.name}/state/keys/k`, `/../../v1/sandboxes/${home.name}/state/keys/k`])
    expect((await inside("GET", path, ticket)).status).not.toBe(200);
  const codeOf = async (answer: Promise<Response>) => (await faultOf(await answer)).code;
  expect(await codeOf(inside("GET", "/state", null))).toBe("unauthorized");
  expect(await codeOf(inside("GET", "/state", await home.ticket(1, "default", "another secret")))).toBe("unauthorized");
  const forged = `${(await other.ticket()).split(".")[0]}.${(await home.ticket()).split(".")[1]}`;
  expect(await codeOf(inside("GET", "/state", forged))).toBe("unauthorized");
  const wrong = await hostKey("another root", "fake-1", FIRST_EPOCH);
  expect(await codeOf(inside("GET", "/state", await home.ticket(), undefined, wrong))).toBe("unauthorized");
  expect(await hostKey(roots.host, "fake-1", FIRST_EPOCH)).not.toBe(wrong);
  expect(await codeOf(inside("GET", "/files/list", await home.ticket()))).toBe("route_not_found");
});

test("keys of other accounts see nothing, and those that only read see how much there is", async () => {
  const home = await TestState.make();
  await home.ask("PUT", "/state/keys/k", "v");
  const { key: other } = await openAccount();
  const { key: readOnly } = (await ask<{ key: string }>("POST", "/v1/keys", { name: "r", access: "read" })).body;
  const path = `/v1/sandboxes/${home.name}/state`;
  expect((await call("GET", `${path}/keys/k`, undefined, { authorization: `Bearer ${other}` })).status).toBe(404);
  expect((await call("GET", path, undefined, { authorization: `Bearer ${readOnly}` })).status).toBe(200);
  const denied = await call("GET", `${path}/keys/k`, undefined, { authorization: `Bearer ${readOnly}` });
  expect((await faultOf(denied)).code).toBe("permission_denied");
});

test("a run that another has followed writes no more, nor reads", async () => {
  const home = await TestState.make();
  expect((await home.inside("PUT", "/state/keys/k", "1", 1)).status).toBe(200);
  expect((await home.inside("GET", "/state/keys/k", undefined, 2)).status).toBe(200);
  await home.evict();
  const stale = await home.inside("PUT", "/state/keys/k", "2", 1);
  expect([stale.status, stale.body.error.code]).toEqual([409, "stale_generation"]);
  expect((await home.inside("POST", "/queues/q/tasks", { payload: 1 }, 1)).body.error.code).toBe("stale_generation");
  expect((await home.inside("GET", "/state/keys/k", undefined, 2)).body).toBe(1);
});

test("a name that was only asked for leaves nothing behind", async () => {
  const home = await TestState.make();
  expect((await home.ask("GET", "/state/keys")).body.data).toEqual([]);
  expect((await home.ask("GET", "/state")).body.bytes).toBe(0);
  expect(await tablesOf(home.stub)).toEqual([]);
  expect(await tablesOf(home.database)).toEqual([]);
});

test("with the sandbox its homes go for good, and a late machine is told", async () => {
  const home = await TestState.make();
  await home.ask("PUT", "/state/keys/k", "v");
  await home.sql("CREATE TABLE t (a)");
  await home.inside("PUT", "/objects/o", "bytes");
  expect((await call("DELETE", `/v1/sandboxes/${home.name}?graceSeconds=0`)).status).toBe(200);
  await expect.poll(async () => (await home.inside("GET", "/state/keys/k")).body.error?.code).toBe("sandbox_gone");
  await home.alarm();
  await home.evict();
  for (const path of ["/state/keys/k", "/state", "/objects/o", "/queues"])
    expect((await home.inside("GET", path, undefined, 9)).body.error.code).toBe("sandbox_gone");
  const sql = { statements: [{ sql: "SELECT 1" }] };
  expect((await home.inside("POST", "/state/sql", sql, 9)).body.error.code).toBe("sandbox_gone");
  expect((await home.ask("GET", "/state")).status).toBe(410);
  expect(await tablesOf(home.stub)).toEqual([]);
  expect(await tablesOf(home.database)).toEqual([]);
  expect((await env.BLOBS.list({ prefix: `homes/default/${home.id.replace("~", "_")}` })).objects).toEqual([]);
});

/** But the platform's own. */
function tablesOf(stub: DurableObjectStub): Promise<unknown[]> {
  return runInDurableObject(stub, (_object, state) =>
    state.storage.sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'").toArray(),
  );
}

/**
 * Runtime's client, pointed here: its calls of sandboxes, as that client makes them, and what it reads of the answers.
 * docs/migrating.md says what is the same; this says whether it is.
 */
import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { ArchivePermit } from "../../sdk/contract/archive.ts";
import { blobPath, VAULT_TICKET_HEADER } from "../../sdk/contract/archive.ts";
import type { Json } from "../support/runtime-client.ts";
import { codeOf, created, fault, logOf, stage, UUID } from "./runtimes.ts";
import { COMPATIBILITY, eventually, freshBlob, freshName } from "./test-edge.ts";

const on = stage();

describe("a sandbox", () => {
  it("has all that is read of it, under an id that is a UUID", async () => {
    const { id, name, sandbox } = await created(on, { labels: { team: "wire" }, env: { TOKEN: "t" } });
    expect(id).toMatch(UUID);
    expect(sandbox).toMatchObject({
      ...{ kind: "sandbox", name, labels: { team: "wire" }, envNames: ["TOKEN"], status: "active", state: "running" },
      ...{ funding: "paid", cpu: "shared", pausable: true, timeoutSeconds: 0, idlePauseSeconds: 0, autoWake: true },
      ...{ persistent: false, endsAt: null, endedAt: null, stopReason: null, pausedAt: null, pausedExpiresAt: null },
      ...{ chargedMicros: 0, heldMicros: 0, onLeaseEnd: "stop", onTimeout: "stop" },
    });
    for (const field of ["region", "createdAt", "readyAt", "expiresAt"])
      expect(sandbox[field]).toEqual(expect.any(String));
    for (const field of ["vcpu", "memoryMiB", "diskMiB", "cpuFloorMillis"])
      expect(sandbox[field]).toEqual(expect.any(Number));
    expect((await on.runtime.call("GET", on.runtime.path(id)))["id"]).toBe(id);
    // The CLI takes what is no UUID for a name, and looks it up.
    const found = await on.runtime.call<{ data: Json[] }>("GET", "/v1/sandboxes", { query: { name, limit: 2 } });
    expect(found.data.map((one) => one["id"])).toEqual([id]);
  });

  it("is the same by both spellings of its id, in this client and in any other", async () => {
    const { id, name } = await created(on);
    const native = await on.edge.ask<{ id: string; name: string }>("GET", `/v1/sandboxes/${id}`);
    expect(native.body).toMatchObject({ name, id: expect.stringMatching(new RegExp(`^${name}~`)) });
    expect((await on.runtime.call("GET", on.runtime.path(native.body.id)))["id"]).toBe(id);
    expect((await on.edge.ask<Json>("POST", `/v1/sandboxes/${id}:pause`, {})).body["state"]).toBe("paused");
    // One letter off is another's, and there is none.
    const other = id.replace(/.$/, (last) => (last === "0" ? "1" : "0"));
    expect(await fault(on.runtime.call("GET", on.runtime.path(other)))).toMatchObject({
      code: "not_found",
      status: 404,
    });
    expect(await fault(on.runtime.call("GET", on.runtime.path(randomUUID())))).toMatchObject({ code: "not_found" });
  });

  it("leaves a name alone that looks like an id", async () => {
    const name = randomUUID();
    await on.edge.ask("POST", "/v1/sandboxes", { name });
    expect((await on.edge.ask<Json>("GET", `/v1/sandboxes/${name}`)).body["name"]).toBe(name);
    const found = await on.runtime.call<{ data: Json[] }>("GET", "/v1/sandboxes", { query: { name, limit: 2 } });
    expect(found.data).toHaveLength(1);
  });

  it("is made without a wait, and waited for on the server", async () => {
    const name = freshName();
    await on.edge.plan({ label: name, action: "create", hold: true });
    const begun = await on.runtime.call("POST", "/v1/sandboxes", { json: { name } });
    expect(begun).toMatchObject({ state: "starting", status: "pending", readyAt: null });
    const id = String(begun["id"]);
    expect((await on.runtime.waitFor(id, "running", 1))["state"]).toBe("starting");
    const waiting = on.runtime.waitFor(id, "running");
    await on.edge.fake("release", name);
    expect((await waiting)["state"]).toBe("running");
  });

  it("is made once for a key, whatever is sent again", async () => {
    const name = freshName();
    const asked = { json: { name, env: { A: "1" } }, wait: 60, key: randomUUID() };
    const [first, second] = await Promise.all([1, 2].map(() => on.runtime.call("POST", "/v1/sandboxes", asked)));
    expect(first?.["id"]).toBe(second?.["id"]);
    const { message, headers } = await on.runtime.open("POST", "/v1/sandboxes", asked);
    message.resume();
    expect(headers["idempotency-replayed"]).toBe("true");
    expect((await on.runtime.call("POST", "/v1/sandboxes", asked))["replayed"]).toBe(true);
    const other = on.runtime.call("POST", "/v1/sandboxes", { ...asked, json: { name, env: { A: "2" } } });
    expect(await fault(other)).toMatchObject({ status: 422, code: "idempotency_key_reused" });
    expect(await logOf(on, name)).toEqual(["create 1"]);
  });

  it("is found again by getOrCreate, awake", async () => {
    const { id, name } = await created(on);
    await on.runtime.act(id, "pause", {}, 60);
    const again = await on.runtime.create({ name, getOrCreate: true });
    expect(again).toMatchObject({ id, reused: true, state: "running" });
    expect(await fault(on.runtime.create({ name }))).toMatchObject({
      status: 409,
      code: "name_taken",
      details: { sandboxId: id },
    });
  });

  it("waits for room under the same key, for as long as it is told", async () => {
    const name = freshName();
    const fail = { code: "no_capacity", message: "full" } as const;
    await on.edge.plan({ label: name, action: "create", fail });
    const before = on.runtime.sent;
    expect(await on.runtime.create({ name })).toMatchObject({ name, state: "running" });
    expect(on.runtime.sent - before).toBe(2);
    // More than the only host has free.
    const full = await fault(on.runtime.call("POST", "/v1/sandboxes", { json: { memoryMiB: 65_536 }, wait: 60 }));
    expect(full).toMatchObject({ status: 409, code: "no_capacity", retryAfterMs: 5000 });
  });

  it("takes fields of older and newer clients, and leaves out what means nothing here", async () => {
    const old = { funding: "trial", pausable: true, maxCostMicros: 5, cpuFloorMillis: 50, somethingNew: { a: 1 } };
    const both = {
      onLeaseEnd: "pause",
      onTimeout: "pause",
      timeoutSeconds: 3600,
      persistent: true,
      maxTotalCostMicros: 9,
    };
    const { sandbox, id } = await created(on, { ...old, ...both });
    expect(sandbox).toMatchObject({ onLeaseEnd: "pause", onTimeout: "pause", timeoutSeconds: 3600, persistent: true });
    expect(Date.parse(String(sandbox["endsAt"]))).toBeGreaterThan(Date.now());
    const later = await on.runtime.act(id, "extend", { seconds: 7200 });
    expect(Date.parse(String(later["endsAt"]))).toBeGreaterThan(Date.parse(String(sandbox["endsAt"])));
    expect((await created(on, { onTimeout: "delete" })).sandbox).toMatchObject({
      onLeaseEnd: "delete",
      onTimeout: "delete",
    });
    const wrong = await fault(on.runtime.create({ vcpu: "two", memoryMiB: 1 }));
    expect(wrong).toMatchObject({ status: 400, code: "invalid_request" });
    expect(wrong.details?.["issues"]).toHaveLength(2);
  });

  it("sleeps, wakes, stops, starts again, and is deleted as often as that is said", async () => {
    const { id, name } = await created(on);
    expect(await on.runtime.act(id, "pause", {}, 60)).toMatchObject({ id, state: "paused", status: "paused" });
    expect(await on.runtime.act(id, "wake", {}, 60)).toMatchObject({ state: "running", endedAt: null });
    // That client takes it for done, unless a time limit was to be set.
    expect(await fault(on.runtime.act(id, "wake", {}, 60))).toMatchObject({ status: 409, code: "not_paused" });
    await on.runtime.act(id, "pause", {}, 60);
    expect(await on.runtime.act(id, "wake", { timeoutSeconds: 600 }, 60)).toMatchObject({ endsAt: expect.any(String) });
    expect(await on.runtime.act(id, "stop", {}, 60)).toMatchObject({ state: "stopped", stopReason: "requested" });
    expect(await on.runtime.all("/v1/sandboxes", { name })).toHaveLength(1);
    expect(await on.runtime.act(id, "restart", {}, 60)).toMatchObject({ state: "running" });
    expect(await on.runtime.act(id, "retention", { days: 9 })).toMatchObject({ retentionDays: 9 });
    for (const replay of [1, 2, 3]) {
      const gone = await on.runtime.call("DELETE", on.runtime.path(id));
      expect([replay, gone]).toMatchObject([replay, { id, kind: "sandbox", name, labels: {}, status: "deleted" }]);
      expect(gone["deletedAt"]).toEqual(expect.any(String));
    }
    expect((await fault(on.runtime.call("GET", on.runtime.path(id)))).status).toBe(410);
    expect(await on.runtime.all("/v1/sandboxes", { name, includeStopped: true })).toEqual([]);
  });

  it("is changed", async () => {
    const { id, name } = await created(on, { env: { A: "1", B: "2" } });
    const settings = { labels: { a: "b c" }, autoWake: false, idlePauseSeconds: 90 };
    const json = { ...settings, env: { A: null, C: "3" }, persistent: false, maxTotalCostMicros: null };
    expect(await on.runtime.act(id, "update", json)).toMatchObject({ id, ...settings, envNames: ["B", "C"] });
    // Its name is its URL.
    expect(await codeOf(on.runtime.act(id, "update", { name: `${name}-x` }))).toBe("unavailable");
  });

  it("is copied with its memory", async () => {
    const { id, name } = await created(on, { labels: { a: "b" } });
    const forks = await on.runtime.act(id, "fork", { count: 2, name: `${name}-f`, funding: "paid" }, 60);
    const [one, two] = forks["sandboxes"] as Json[];
    expect([one, two]).toMatchObject([{ labels: { a: "b" } }, { state: "running" }]);
    expect(new Set([id, one?.["id"], two?.["id"]].filter((each) => UUID.test(String(each)))).size).toBe(3);
    const single = await on.runtime.act(id, "fork", {}, 60);
    expect(single["sandboxes"]).toHaveLength(1);
  });
});

describe("lists", () => {
  it("go on to a nextCursor of null, with filters in form encoding", async () => {
    const team = `a b&=+ ${randomUUID()}`;
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.push((await created(on, { labels: { team, n: String(n) } })).id);
    await on.runtime.act(ids[4] ?? "", "pause", {}, 60);
    const query = { label: [`team:${team}`], limit: 2 };
    expect((await on.runtime.all("/v1/sandboxes", query)).map((one) => one["id"])).toEqual(ids);
    const narrow = { label: [`team:${team}`, "n:3"] };
    expect((await on.runtime.all("/v1/sandboxes", narrow)).map((one) => one["id"])).toEqual([ids[3]]);
    const asleep = { label: [`team:${team}`], state: ["paused", "stopped"], includeStopped: true };
    expect((await on.runtime.all("/v1/sandboxes", asleep)).map((one) => one["id"])).toEqual([ids[4]]);
    for (const path of ["/v1/snapshots", "/v1/volumes", "/v1/volume-backups"]) await on.runtime.all(path);
    expect(await codeOf(on.runtime.call("GET", "/v1/sandboxes", { query: { cursor: "none" } }))).toBe(
      "invalid_request",
    );
  });
});

describe("snapshots", () => {
  /** What a host does meanwhile. */
  async function store(snapshot: string): Promise<void> {
    const step = <T>(body: object) =>
      on.edge.asHost<T>("POST", `/internal/accounts/default/snapshots/${snapshot}/archive`, {
        body: Buffer.from(JSON.stringify({ generation: 1, ...body })),
      });
    const blobs = [freshBlob(1000), freshBlob(5000)];
    const { body: permit } = await eventually(
      () => step<ArchivePermit>({ step: "begin" }),
      ({ status }) => status === 200,
    );
    const notes = blobs.map(({ id, bytes }) => ({ id, bytes: bytes.length, isNew: true }));
    const facts = { logicalBytes: 1000, diskOnly: false, compatibility: COMPATIBILITY };
    const manifest = blobs[0]?.id;
    await step({ step: "upload", manifest, blobs: notes, ...facts });
    const headers = { [VAULT_TICKET_HEADER]: permit.ticket };
    for (const { id, bytes } of blobs)
      await on.edge.asHost("PUT", blobPath(permit.vault, id), { body: bytes, headers });
    expect((await step({ step: "commit", manifest })).status).toBe(200);
  }

  it("are taken of a sandbox that is put to sleep for it, as that client does", async () => {
    const { id } = await created(on);
    expect((await on.runtime.call("GET", on.runtime.path(id)))["state"]).toBe("running");
    await on.runtime.act(id, "pause", {}, 60);
    const taken = await on.runtime.act(id, "snapshot", { name: "s", labels: { a: "b" }, retentionDays: 3 }, 1);
    expect(taken).toMatchObject({
      ...{ kind: "snapshot", mode: "memory", state: "capturing", status: "capturing", name: "s", sourceSandboxId: id },
      ...{ retentionDays: 3, compressionPending: false, backedUp: false, error: null, readyAt: null },
      durability: { state: expect.any(String), durableAt: null },
      shape: { vcpu: expect.any(Number), memoryMiB: expect.any(Number), diskMiB: expect.any(Number) },
    });
    const path = `/v1/snapshots/${String(taken["id"])}`;
    await store(String(taken["id"]));
    const ready = await eventually(
      () => on.runtime.call("GET", path),
      ({ state }) => state !== "capturing",
    );
    expect(ready).toMatchObject({ state: "ready", sourceSandboxId: id, backedUp: true });
    expect(await on.runtime.act(id, "wake", {}, 60)).toMatchObject({ state: "running" });
    const of = await on.runtime.all("/v1/snapshots", { sandboxId: id, state: "ready" });
    expect(of.map((one) => one["id"])).toEqual([taken["id"]]);
    const renamed = await on.runtime.call("POST", `${path}:update`, { json: { name: null, ifLabels: { a: "b" } } });
    expect(renamed["name"]).toBeNull();
    expect(await on.runtime.call("POST", `${path}:extend`, { json: { retentionDays: 9 } })).toMatchObject({
      retentionDays: 9,
    });
    const child = await on.runtime.create({ snapshot: taken["id"] });
    expect(child).toMatchObject({ state: "running", id: expect.stringMatching(UUID) });
    await on.runtime.call("POST", `${path}:delete`, { json: {} });
    expect(await fault(on.runtime.call("GET", path))).toMatchObject({ status: 404, code: "snapshot_not_found" });
  });

  it("of the disk say so", async () => {
    const { id } = await created(on);
    expect(await on.runtime.act(id, "snapshot", { mode: "disk" })).toMatchObject({ mode: "disk" });
  });
});

describe("previews", () => {
  it("have every key, a token for the header, and calls without bodies", async () => {
    const { id, name } = await created(on);
    const previews = `${on.runtime.path(id)}/previews`;
    const json = { port: 3000, visibility: "private", ttlSeconds: 3600, embedOrigins: null };
    const preview = await on.runtime.call("POST", previews, { json });
    expect(preview).toMatchObject({
      sandboxId: id,
      port: 3000,
      visibility: "private",
      disabled: false,
      embedOrigins: null,
    });
    for (const field of ["id", "url", "token", "tokenExpiresAt", "urlWithToken", "createdAt"])
      expect(preview[field]).toEqual(expect.any(String));
    const visit = async (token: unknown) => {
      const { host } = new URL(String(preview["url"]));
      const headers = { host, "x-runtime-preview-token": String(token) };
      return (await on.edge.send("GET", "/counter", { headers })).status;
    };
    expect([await visit(preview["token"]), await visit("none")]).toEqual([200, 401]);
    const same = await on.runtime.call("GET", `${previews}/3000`, { query: { ttlSeconds: 600 } });
    expect(await visit(same["token"])).toBe(200);
    // No body, no content type.
    const rotated = await on.runtime.call("POST", `${previews}/3000:rotate`);
    expect([await visit(preview["token"]), await visit(rotated["token"])]).toEqual([401, 200]);
    const listed = await on.runtime.call<{ data: Json[] }>("GET", previews);
    expect(listed.data).toMatchObject([{ port: 3000, sandboxId: id }]);
    const closed = await on.runtime.call("DELETE", `${previews}/3000`);
    expect(closed).toMatchObject({ sandboxId: id, port: 3000, deleted: true });
    expect(
      await codeOf(on.runtime.call("POST", previews, { json: { ...json, embedOrigins: ["https://a.test"] } })),
    ).toBe("unavailable");
    expect(name).not.toBe("");
  });
});

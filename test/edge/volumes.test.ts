/** Volumes: made and deleted, given to sandboxes, stored by hosts, and let go of. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import { volumesObject } from "../../durable/volumes/api.ts";
import { attachmentId } from "../../sdk/contract/names.ts";
import type { NewKey } from "../../sdk/contract/account.ts";
import { Attachment, Volume, VolumeList } from "../../sdk/contract/volume.ts";
import { clientOf, openAccount } from "./accounts.ts";
import { ask, freshName, heartbeat, type Fault } from "./client.ts";
import { HOST, stored } from "./vaults.ts";
import { DAY, during, freshSandbox, ok, once, refused, shift, TestVolumes } from "./volumes.ts";

afterEach(() => {
  vi.useRealTimers();
});

type Answer<T> = T & { error: Fault & { details: Record<string, unknown> } };

describe("routes", () => {
  it("make, read, list, rename, enlarge and delete volumes", async () => {
    const account = await openAccount();
    const name = freshName();
    const made = await account.as<Answer<Volume>>("POST", "/v1/volumes", { sizeMiB: 64, name, labels: { a: "b" } });
    expect(Volume.parse(made.body)).toMatchObject({
      ...{ kind: "volume", state: "ready", status: "ready", name, labels: { a: "b" }, sizeMiB: 64, region: "local" },
      ...{ filesystem: "ext4", usedMiB: null, backedUp: false, storedAt: null, storedBytes: 0, attachments: [] },
      ...{ backups: { daily: true, retentionDays: 7, lastReadyAt: null }, restoredFrom: null, error: null },
    });
    const path = `/v1/volumes/${made.body.id}`;
    await evictDurableObject(new TestVolumes(account.name).stub);
    expect((await account.as("GET", path)).body).toEqual(made.body);
    expect((await account.as("GET", `/v1/volumes/${name}`)).body.id).toBe(made.body.id);
    const taken = await account.as<Answer<Volume>>("POST", "/v1/volumes", { sizeMiB: 64, name });
    expect(taken.body.error).toMatchObject({ code: "name_taken", status: 409, details: { volumeId: made.body.id } });
    const second = (await account.as<Answer<Volume>>("POST", "/v1/volumes", { sizeMiB: 100 })).body;
    const list = async (query: string) =>
      VolumeList.parse((await account.as("GET", `/v1/volumes?${query}`)).body).data.map(({ id }) => id);
    expect(await list("")).toEqual([second.id, made.body.id]);
    expect([await list(`name=${name}`), await list("state=failed")]).toEqual([[made.body.id], []]);
    const page = (await account.as<VolumeList>("GET", "/v1/volumes?limit=1")).body;
    expect(await list(`limit=1&cursor=${page.nextCursor}`)).toEqual([made.body.id]);
    expect((await account.as<Answer<Volume>>("GET", "/v1/volumes?cursor=x")).body.error.code).toBe("invalid_request");
    const other = (body: object) => account.as<Answer<Volume>>("POST", `/v1/volumes/${second.id}:update`, body);
    expect((await other({ name })).body.error.code).toBe("name_taken");
    expect((await other({ name: "two: of/2", labels: { x: "" } })).body).toMatchObject({ name: "two: of/2" });
    expect((await account.as("GET", "/v1/volumes/two%3A%20of%2F2")).body.id).toBe(second.id);
    expect((await other({ name: null })).body).toMatchObject({ name: null, labels: { x: "" } });
    const resize = (sizeMiB: number) => account.as<Answer<Volume>>("POST", `${path}:resize`, { sizeMiB });
    expect((await resize(128)).body.sizeMiB).toBe(128);
    expect((await resize(128)).body.sizeMiB).toBe(128);
    expect((await resize(127)).body.error).toMatchObject({ code: "disk_too_small", details: { sizeMiB: 128 } });
    for (const wrong of [{}, { sizeMiB: 63 }, { sizeMiB: 64, extra: 1 }, { sizeMiB: 1.5 }])
      expect((await account.as("POST", "/v1/volumes", wrong)).status).toBe(400);
    const policy = await account.as<Answer<Volume>>("POST", `${path}:backup-policy`, {
      daily: false,
      retentionDays: 3,
    });
    expect(policy.body.backups).toEqual({ daily: false, retentionDays: 3, lastReadyAt: null });
    expect((await account.as<Answer<Volume>>("DELETE", path)).body).toMatchObject({
      state: "deleted",
      status: "deleted",
    });
    expect((await account.as<Answer<Volume>>("POST", `/v1/volumes/${second.id}:delete`, {})).body.state).toBe(
      "deleted",
    );
    for (const [method, gone] of [
      ["GET", path],
      ["DELETE", path],
      ["POST", `${path}:resize`],
      ["POST", `${path}:update`],
      ["POST", `${path}:backup`],
      ["POST", `${path}:backup-policy`],
    ] as const)
      expect((await account.as(method, gone, method === "POST" ? { sizeMiB: 256 } : undefined)).status).toSatisfy(
        (status) => status === 404 || status === 400,
      );
    expect((await account.as<Answer<Volume>>("GET", path)).body.error.code).toBe("volume_not_found");
    expect(await list("")).toEqual([]);
    // The name is free again.
    expect((await account.as("POST", "/v1/volumes", { sizeMiB: 64, name })).status).toBe(200);
  });

  it("make one volume of one Idempotency-Key, also when it comes twice at once, and refuse another body", async () => {
    const headers = { "idempotency-key": crypto.randomUUID() };
    const make = (body: object) => ask<Answer<Volume>>("POST", "/v1/volumes", body, headers);
    const [first, again] = await Promise.all([make({ sizeMiB: 64 }), make({ sizeMiB: 64 })]);
    expect(again.body.id).toBe(first.body.id);
    expect([first.body.replayed, again.body.replayed].filter(Boolean)).toEqual([true]);
    await evictDurableObject(new TestVolumes("default").stub);
    expect((await make({ sizeMiB: 64 })).body).toMatchObject({ id: first.body.id, replayed: true });
    expect((await make({ sizeMiB: 65 })).body.error).toMatchObject({ code: "idempotency_key_reused", status: 422 });
  });

  it("are for keys of the whole account that may use sandboxes, and for reading ones to read", async () => {
    const account = await openAccount();
    const key = async (input: object) =>
      clientOf((await account.as<NewKey>("POST", "/v1/keys", { name: "k", ...input })).body.key);
    const reader = await key({ access: "read" });
    expect((await reader.as("GET", "/v1/volumes")).status).toBe(200);
    expect((await reader.as("POST", "/v1/volumes", { sizeMiB: 64 })).body.error.code).toBe("permission_denied");
    const limited = await key({ namePrefix: "team-" });
    for (const [method, path] of [
      ["GET", "/v1/volumes"],
      ["POST", "/v1/volumes"],
      ["GET", "/v1/volume-backups"],
      ["POST", `/v1/volumes/vol-${"0".repeat(20)}:attach`],
    ] as const) {
      const { body } = await limited.as<Answer<Volume>>(method, path, method === "POST" ? { sizeMiB: 64 } : undefined);
      expect(body.error).toMatchObject({ code: "permission_denied", details: { namePrefix: "team-" } });
    }
  });

  it("read an attachment by the volume that it is of, and say when there is none", async () => {
    const own = new TestVolumes("default");
    const [volume, other] = [await own.make({ name: freshName() }), await own.make()];
    const { id, sandboxId } = await own.attached(volume.id);
    const read = (called: string, attachment: string) =>
      ask<Answer<Attachment>>("GET", `/v1/volumes/${called}/attachments/${attachment}`);
    for (const called of [volume.id, volume.name ?? ""])
      expect(Attachment.parse((await read(called, id)).body)).toMatchObject({
        ...{
          id,
          volumeId: volume.id,
          sandboxId,
          path: "/data",
          mode: "rw",
          state: "active",
          generation: 0,
          error: null,
        },
      });
    expect((await read(other.id, id)).body.error.code).toBe("attachment_not_found");
    expect((await read(volume.id, `att-${"0".repeat(20)}`)).body.error.code).toBe("attachment_not_found");
    expect((await read(`vol-${"0".repeat(20)}`, id)).body.error.code).toBe("volume_not_found");
    // Its sandbox never was: there is nobody to ask.
    const detach = `/v1/volumes/${volume.id}/attachments/${id}:detach`;
    expect((await ask<Answer<Attachment>>("POST", detach, {}, { prefer: "wait=0" })).body.id).toBe(id);
  });
});

describe("a volume", () => {
  it("is given to sandboxes all or none, and the same again when it is asked for again", async () => {
    const own = new TestVolumes();
    const [a, b] = [await own.make(), await own.make()];
    const sandboxId = freshSandbox();
    const [first, second] = [await attachmentId("", null), await attachmentId("", null)];
    const of = (attachment: string, volumeId: string, mode: "rw" | "snapshot" = "rw") => ({
      ...{ attachment, volumeId, path: "/data", mode },
    });
    const attach = (...volumes: ReturnType<typeof of>[]) => own.api.attach({ sandboxId, volumes });
    const missing = `vol-${"0".repeat(20)}`;
    expect(refused(await attach(of(first, a.id), of(second, missing))).code).toBe("volume_not_found");
    expect(refused(await attach(of(first, a.id), of(second, a.id))).code).toBe("conflict");
    const unready = refused(await attach(of(first, a.id), of(second, b.id, "snapshot")));
    expect(unready).toMatchObject({ code: "volume_not_ready", message: expect.stringContaining("backup") });
    expect((await own.read(a.id)).attachments).toEqual([]);
    const both = [of(first, a.id), of(second, b.id)];
    const answers = await Promise.all([attach(...both), attach(...both)]);
    await evictDurableObject(own.stub);
    expect(await attach(...both)).toEqual(answers[0]);
    expect(answers[1]).toEqual(answers[0]);
    const { attached } = ok(answers[0]);
    expect(attached).toMatchObject([
      { attachment: first, volumeId: a.id, path: "/data", mode: "rw", sizeMiB: 1024, manifest: null },
      { attachment: second, volumeId: b.id },
    ]);
    expect(attached[0]?.vault).toMatch(/^vol-[0-9a-z]{24}$/);
    expect(attached[0]?.key).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(new Set(attached.flatMap(({ vault, key }) => [vault, key])).size).toBe(4);
    expect((await own.read(a.id)).attachments).toMatchObject([{ id: first, state: "attaching" }]);
    expect(refused(await attach(of(await attachmentId("", null), a.id))).code).toBe("conflict");
    ok(await own.api.noted(sandboxId, [first]));
    expect((await own.read(a.id)).attachments).toMatchObject([{ id: first, state: "active" }]);
    expect(refused(await own.api.noted(freshSandbox(), [first])).code).toBe("attachment_not_found");
  });

  it("is written by one sandbox, however many ask at once", async () => {
    const own = new TestVolumes();
    const { id: volumeId } = await own.make();
    const ask = async (sandboxId: string) =>
      own.api.attach({
        sandboxId,
        volumes: [{ attachment: await attachmentId("", null), volumeId, path: "/data", mode: "rw" }],
      });
    const [one, two] = [freshSandbox(), freshSandbox()];
    const answers = await Promise.all([ask(one), ask(two)]);
    const loser = answers.find((answer) => !answer.ok);
    const winner = answers[0]?.ok ? one : two;
    expect(refused(loser ?? { ok: true })).toMatchObject({ code: "volume_attached", details: { sandboxId: winner } });
    expect(refused(await own.api.remove(volumeId, once))).toMatchObject({
      code: "volume_attached",
      details: { sandboxId: winner },
    });
    ok(await own.api.arrive(winner, HOST));
    await own.detach(winner, 1);
    for (const answer of [await ask(freshSandbox()), await own.api.remove(volumeId, once)])
      expect(refused(answer)).toMatchObject({ code: "volume_releasing", retryAfterMs: 1000 });
  });

  it("that a sandbox never noted is free after a minute, and one that it holds is not", async () => {
    const own = new TestVolumes();
    const [lost, held] = [await own.make(), await own.make()];
    const [gone, there] = [freshSandbox(), freshSandbox()];
    const give = async (volumeId: string, sandboxId: string) => {
      const attachment = await attachmentId("", null);
      ok(await own.api.attach({ sandboxId, volumes: [{ attachment, volumeId, path: "/data", mode: "rw" }] }));
      return attachment;
    };
    const [first, second] = [await give(lost.id, gone), await give(held.id, there)];
    await own.sandbox(there, { holdsVolumes: async () => [second] });
    await own.pass(50_000);
    expect((await own.read(lost.id)).attachments).toMatchObject([{ state: "attaching" }]);
    await own.pass(11_000);
    expect((await own.read(lost.id)).attachments).toEqual([]);
    expect((await own.read(held.id)).attachments).toMatchObject([{ id: second, state: "active" }]);
    expect(ok(await own.api.attachment(first, 0)).attachment).toMatchObject({ state: "detached" });
    expect(refused(await own.api.noted(gone, [first])).code).toBe("attachment_not_found");
  });
});

describe("what is written", () => {
  it("is stored by the host that has the sandbox, step by step, and nothing older is taken", async () => {
    const own = new TestVolumes();
    const { id: volumeId } = await own.make();
    const { id, sandboxId } = await own.attached(volumeId, { host: null });
    const begin = (generation: number, host?: string) => own.step(id, { step: "begin", generation }, host);
    expect((await begin(1)).body.error.code).toBe("not_found");
    ok(await own.api.arrive(sandboxId, HOST));
    const first = await own.store(id, 1);
    expect(first.permit.previous).toBeNull();
    await evictDurableObject(own.stub);
    const shown = await own.read(volumeId);
    expect(shown).toMatchObject({ storedBytes: 5100, attachments: [{ generation: 1 }] });
    expect(shown.storedAt).not.toBeNull();
    // The pack is named again, the manifest before is not.
    const second = await own.store(id, 3, true, [first.pack]);
    expect(second.permit.previous).toEqual({ manifest: first.manifest, key: first.permit.key });
    const vault = own.vault(first.permit.vault);
    expect(await vault.api.inspect()).toMatchObject({ ok: true, manifests: 1, referenced: { blobs: 3 } });
    // The answer was lost.
    const commit = { step: "commit", generation: 3, manifest: second.manifest };
    const [again, twice] = await Promise.all([own.step(id, commit), own.step(id, commit)]);
    expect([again, twice]).toEqual([again, again]);
    expect(again).toMatchObject({ status: 200, body: { ownedBytes: 10_100 } });
    expect((await own.step(id, { ...commit, generation: 2, manifest: first.manifest })).body.error.code).toBe(
      "conflict",
    );
    expect((await begin(2)).body.error.code).toBe("conflict");
    expect((await own.step(id, { step: "cold", generation: 3 })).body).toEqual({});
    // The sandbox went on elsewhere: the host that had it says what it still has.
    const late = await own.uploaded(id, 3);
    ok(await own.api.arrive(sandboxId, "spare-1"));
    expect((await begin(4)).body.error.code).toBe("not_found");
    expect((await own.step(id, { step: "commit", generation: 3, manifest: late.manifest })).body.error.code).toBe(
      "not_found",
    );
    expect((await begin(4, "spare-1")).status).toBe(200);
    expect((await own.step(id, { step: "begin", generation: 4 }, "rack-9")).body.error.code).toBe("not_found");
  });

  it("is dropped when its sandbox went elsewhere while it was committed", async () => {
    const own = new TestVolumes();
    const { id: volumeId } = await own.make();
    const { id, sandboxId } = await own.attached(volumeId);
    const first = await own.store(id, 1);
    const late = await own.uploaded(id, 2);
    const vault = own.vault(late.permit.vault);
    await during(vault.stub, "commit", () => volumesObject(env.VOLUMES, own.account).arrive(sandboxId, "spare-1"));
    const commit = { step: "commit", generation: 2, manifest: late.manifest };
    expect((await own.step(id, commit)).body.error.code).toBe("conflict");
    expect(ok(await vault.api.manifestsOf(volumeId)).manifests).toEqual([first.manifest]);
    // Back again while the vault does not let go of it, it is not taken either.
    const again = await own.uploaded(id, 2, false, [], "spare-1");
    await during(vault.stub, "commit", () => volumesObject(env.VOLUMES, own.account).arrive(sandboxId, HOST));
    await own.fail(again.permit.vault, true);
    const other = { ...commit, manifest: again.manifest };
    expect((await own.step(id, other, "spare-1")).body.error.code).toBe("conflict");
    ok(await own.api.arrive(sandboxId, "spare-1"));
    await own.fail(again.permit.vault, false);
    expect((await own.step(id, other, "spare-1")).body.error.code).toBe("conflict");
    await own.pass(31_000);
    expect(ok(await vault.api.manifestsOf(volumeId)).manifests).toEqual([first.manifest]);
    expect((await own.read(volumeId)).attachments).toMatchObject([{ generation: 1, state: "active" }]);
  });

  it("twice at once is stored once", async () => {
    const own = new TestVolumes();
    const { id: volumeId } = await own.make();
    const { id } = await own.attached(volumeId);
    const { manifest, permit } = await own.uploaded(id, 1);
    const commit = { step: "commit", generation: 1, manifest };
    const answers = await Promise.all([own.step(id, commit), own.step(id, commit)]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect(await own.vault(permit.vault).api.manifestsOf(volumeId)).toMatchObject({ manifests: [manifest] });
  });

  it("is let go of when it is stored: before it is detached, with that, or while somebody waits", async () => {
    const own = new TestVolumes();
    const { id: volumeId } = await own.make();
    const before = await own.attached(volumeId);
    const kept = await own.store(before.id, 1);
    await own.detach(before.sandboxId, 1);
    expect(ok(await own.api.attachment(before.id, 0)).attachment).toMatchObject({ state: "detached", generation: 1 });
    // A host whose commit was answered and not heard asks again; another manifest comes too late.
    expect((await own.step(before.id, { step: "commit", generation: 1, manifest: kept.manifest })).status).toBe(200);
    expect((await own.step(before.id, { step: "begin", generation: 2 })).body.error.code).toBe("not_found");
    const never = await attachmentId("", null);
    expect(refused(await own.api.attachment(never, 0)).code).toBe("attachment_not_found");

    const after = await own.attached(volumeId);
    const { attached } = ok(
      await own.api.attach({
        sandboxId: after.sandboxId,
        volumes: [{ attachment: after.id, volumeId, path: "/data", mode: "rw" }],
      }),
    );
    expect(attached).toMatchObject([{ manifest: kept.manifest }]);
    await own.store(after.id, 1);
    await own.detach(after.sandboxId, 2);
    await own.detach(after.sandboxId, 2);
    await evictDurableObject(own.stub);
    expect(ok(await own.api.attachment(after.id, 10)).attachment.state).toBe("detaching");
    const { manifest } = await own.uploaded(after.id, 2, true);
    const waited = own.api.attachment(after.id, 20_000);
    await own.step(after.id, { step: "commit", generation: 2, manifest });
    expect(ok(await waited).attachment).toMatchObject({ state: "detached", error: null, generation: 2 });
    expect((await own.step(after.id, { step: "commit", generation: 2, manifest })).status).toBe(200);
    const other = { step: "commit", generation: 2, manifest: kept.manifest };
    expect((await own.step(after.id, other)).body.error.code).toBe("conflict");
    // It is there for another one, and can be read for a day.
    await own.attached(volumeId);
    await own.pass(DAY / 2);
    ok(await own.api.attachment(after.id, 0));
    await own.pass(DAY / 2 + 1000);
    expect(refused(await own.api.attachment(after.id, 0)).code).toBe("attachment_not_found");
  });

  it("is over at once where nothing can be missing", async () => {
    const own = new TestVolumes();
    const { id: volumeId } = await own.make();
    const state = async (id: string) => ok(await own.api.attachment(id, 0)).attachment.state;
    const settled = await own.attached(volumeId);
    await own.detach(settled.sandboxId, 1, true);
    expect(await state(settled.id)).toBe("detached");
    const nowhere = await own.attached(volumeId, { host: null });
    await own.detach(nowhere.sandboxId, 1);
    expect(await state(nowhere.id)).toBe("detached");
    const [kept, other] = [await own.attached(volumeId), await attachmentId("", null)];
    ok(await own.api.detach({ sandboxId: kept.sandboxId, attachments: [other], generation: 1, settled: true }));
    expect(await state(kept.id)).toBe("active");
    // A detaching one stays with its host, wherever the sandbox goes.
    await own.detach(kept.sandboxId, 1);
    ok(await own.api.arrive(kept.sandboxId, "spare-1"));
    await own.store(kept.id, 1);
    expect(await state(kept.id)).toBe("detached");
  });

  it("is given up with its host, and says what is gone", async () => {
    await heartbeat({ hostId: HOST });
    const own = new TestVolumes();
    const [stored, blank] = [await own.make(), await own.make()];
    const first = await own.attached(stored.id);
    await own.store(first.id, 1);
    const { storedAt } = await own.read(stored.id);
    const second = await own.attached(blank.id);
    const { manifest } = await own.uploaded(first.id, 2);
    await own.detach(first.sandboxId, 2);
    await own.detach(second.sandboxId, 1);
    await heartbeat({ hostId: "spare-1" });
    await own.pass(16_000);
    expect(ok(await own.api.attachment(first.id, 0)).attachment.state).toBe("detaching");
    shift(120_000);
    await heartbeat({ hostId: "spare-1" });
    await own.alarm();
    expect(ok(await own.api.attachment(first.id, 0)).attachment).toMatchObject({
      ...{ state: "detached", generation: 1, error: `its host was lost; what was written since ${storedAt} is gone` },
    });
    const { attachment } = ok(await own.api.attachment(second.id, 0));
    expect(attachment.error).toContain(attachment.attachedAt);
    // It was not lost after all: too late.
    expect((await own.step(first.id, { step: "commit", generation: 2, manifest })).body.error.code).toBe("conflict");
    expect((await own.read(stored.id)).attachments).toEqual([]);
    await own.attached(stored.id);
  });
});

describe("a state that mounts as it is", () => {
  it("is read by many, and stays theirs when the volume goes on", async () => {
    const own = new TestVolumes();
    const { id: volumeId } = await own.make();
    const writer = await own.attached(volumeId);
    const clean = await own.store(writer.id, 1, true);
    await own.store(writer.id, 2, false);
    const readers = [
      await own.attached(volumeId, { mode: "snapshot" }),
      await own.attached(volumeId, { mode: "snapshot" }),
    ];
    const givenTo = async ({ id, sandboxId }: { id: string; sandboxId: string }) =>
      ok(
        await own.api.attach({
          sandboxId,
          volumes: [{ attachment: id, volumeId, path: "/data", mode: "snapshot" }],
        }),
      ).attached[0]?.manifest;
    for (const reader of readers) expect(await givenTo(reader)).toBe(clean.manifest);
    const third = await own.store(writer.id, 3, true);
    const vault = own.vault(clean.permit.vault);
    const manifestsOf = async (owner: string) => ok(await vault.api.manifestsOf(owner)).manifests;
    expect(await manifestsOf(volumeId)).toEqual([third.manifest]);
    for (const reader of readers) expect(await manifestsOf(reader.id)).toEqual([clean.manifest]);
    expect(await givenTo(await own.attached(volumeId, { mode: "snapshot" }))).toBe(third.manifest);
    expect((await own.step(readers[0]?.id ?? "", { step: "begin", generation: 1 })).body.error.code).toBe("not_found");
    for (const { sandboxId } of readers) await own.detach(sandboxId, 1);
    await evictDurableObject(own.stub);
    for (const { id } of readers) {
      expect(ok(await own.api.attachment(id, 0)).attachment.state).toBe("detached");
      expect(await manifestsOf(id)).toEqual([]);
    }
    await runDurableObjectAlarm(vault.stub);
    expect((await stored(vault)).has(clean.manifest)).toBe(false);
    await own.pass(DAY + 1000);
    for (const { id } of readers) expect(refused(await own.api.attachment(id, 0)).code).toBe("attachment_not_found");
  });

  it("goes with the volume: nothing of it is left anywhere", async () => {
    const own = new TestVolumes();
    const { id: volumeId } = await own.make();
    const writer = await own.attached(volumeId);
    const first = await own.store(writer.id, 1, true);
    await own.store(writer.id, 2);
    await own.uploaded(writer.id, 3);
    const reader = await own.attached(volumeId, { mode: "snapshot" });
    await own.detach(writer.sandboxId, 2);
    await own.detach(reader.sandboxId, 1);
    const answers = await Promise.all([own.api.remove(volumeId, once), own.api.remove(volumeId, once)]);
    expect(answers.map((answer) => ok(answer).volume.id)).toEqual([volumeId, volumeId]);
    expect(refused(await own.api.get(volumeId)).code).toBe("volume_not_found");
    await own.expectEmpty(first.permit.vault);
  });

  it("is removed later when its vault does not answer now", async () => {
    const own = new TestVolumes();
    const { id: volumeId } = await own.make({ name: "x" });
    const writer = await own.attached(volumeId);
    const { permit } = await own.store(writer.id, 1);
    await own.detach(writer.sandboxId, 1);
    await own.fail(permit.vault, true);
    expect(ok(await own.api.remove(volumeId, once)).volume.state).toBe("deleting");
    expect((await own.read(volumeId)).state).toBe("deleting");
    expect(refused(await own.api.get("x")).code).toBe("volume_not_found");
    await own.pass(31_000);
    expect((await own.read(volumeId)).state).toBe("deleting");
    await own.fail(permit.vault, false);
    await own.pass(31_000);
    expect(refused(await own.api.get(volumeId)).code).toBe("volume_not_found");
    vi.useRealTimers();
    await own.expectEmpty(permit.vault);
  });
});

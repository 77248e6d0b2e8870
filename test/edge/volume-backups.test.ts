/** Backups of volumes: taken by people and every day, of volumes that rest or are written, and with snapshots. */
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import { backupId, snapshotId } from "../../sdk/contract/names.ts";
import { VolumeBackup, VolumeBackupList, type Volume } from "../../sdk/contract/volume.ts";
import { refuse } from "../../durable/result.ts";
import { openAccount } from "./accounts.ts";
import { ask, freshName, type Fault } from "./client.ts";
import { HOST } from "./vaults.ts";
import { DAY, HOUR, freshSandbox, ok, once, refused, shift, TestVolumes } from "./volumes.ts";

afterEach(() => {
  vi.useRealTimers();
});

type Answer<T> = T & { error: Fault & { details: Record<string, unknown> } };

/** A volume with something stored that nobody has any more. */
async function resting(own: TestVolumes, clean = true) {
  const volume = await own.make();
  const { id, sandboxId } = await own.attached(volume.id);
  const stored = await own.store(id, 1, clean);
  await own.detach(sandboxId, 1);
  return { ...volume, ...stored };
}

const backupsOf = async (own: TestVolumes, volumeId: string) => (await own.api.listBackups({ volumeId }))?.data;

describe("routes", () => {
  it("take, list, read and delete backups, and make volumes of them", async () => {
    const account = await openAccount();
    const { id } = (await account.as<Answer<Volume>>("POST", "/v1/volumes", { sizeMiB: 64, name: "data" })).body;
    const take = (body: object = {}) => account.as<Answer<VolumeBackup>>("POST", "/v1/volumes/data:backup", body);
    const { body } = await take({ name: "before", labels: { a: "b" }, retentionDays: 2 });
    expect(VolumeBackup.parse(body)).toMatchObject({
      ...{ kind: "volume-backup", state: "ready", status: "ready", name: "before", labels: { a: "b" }, volumeId: id },
      ...{ sizeMiB: 64, trigger: "manual", retentionDays: 2, logicalBytes: 67_108_864, storedBytes: 0, error: null },
    });
    expect(Date.parse(body.expiresAt ?? "") - Date.parse(body.readyAt ?? "")).toBe(2 * DAY);
    const second = (await take()).body;
    expect(second.retentionDays).toBe(7);
    const read = async (query: string) =>
      VolumeBackupList.parse((await account.as("GET", `/v1/volume-backups?${query}`)).body).data.map((one) => one.id);
    expect(new Set(await read(""))).toEqual(new Set([body.id, second.id]));
    const page = (await account.as<VolumeBackupList>("GET", `/v1/volume-backups?volumeId=${id}&limit=1`)).body;
    expect([page.data[0]?.id, ...(await read(`limit=1&cursor=${page.nextCursor}`))].toSorted()).toEqual(
      [body.id, second.id].toSorted(),
    );
    expect(await read("state=pending")).toEqual([]);
    expect((await account.as("GET", "/v1/volume-backups?volumeId=x")).status).toBe(400);
    const shown = (await account.as<Answer<Volume>>("GET", "/v1/volumes/data")).body;
    expect(shown).toMatchObject({ backedUp: true, backups: { lastReadyAt: second.readyAt } });
    const create = (input: object) =>
      account.as<Answer<Volume>>("POST", "/v1/volumes", { fromBackup: body.id, ...input });
    expect((await create({ sizeMiB: 100 })).body).toMatchObject({
      sizeMiB: 100,
      restoredFrom: body.id,
      state: "ready",
    });
    expect((await create({})).body.sizeMiB).toBe(64);
    expect((await create({ fromBackup: `bak-${"0".repeat(20)}` })).body.error.code).toBe("backup_not_found");
    const path = `/v1/volume-backups/${body.id}`;
    expect((await account.as("GET", path)).body).toEqual(body);
    expect((await account.as<Answer<VolumeBackup>>("POST", `${path}:delete`, {})).body.state).toBe("deleted");
    expect((await account.as<Answer<VolumeBackup>>("DELETE", `/v1/volume-backups/${second.id}`)).body.status).toBe(
      "deleted",
    );
    for (const method of ["GET", "DELETE"])
      expect((await account.as<Answer<VolumeBackup>>(method, path)).body.error.code).toBe("backup_not_found");
    expect((await account.as<Answer<Volume>>("GET", "/v1/volumes/data")).body.backedUp).toBe(false);
  });

  it("take one backup of one Idempotency-Key", async () => {
    const name = freshName();
    await ask("POST", "/v1/volumes", { sizeMiB: 64, name });
    const headers = { "idempotency-key": crypto.randomUUID() };
    const take = (body: object) => ask<Answer<VolumeBackup>>("POST", `/v1/volumes/${name}:backup`, body, headers);
    const [first, again] = await Promise.all([take({}), take({})]);
    expect(again.body.id).toBe(first.body.id);
    await evictDurableObject(new TestVolumes("default").stub);
    expect((await take({})).body).toMatchObject({ id: first.body.id, replayed: true });
    expect((await take({ name: "x" })).body.error.code).toBe("idempotency_key_reused");
  });
});

describe("of a volume that rests", () => {
  it("are ready at once, outlive it, and begin others; in the end nothing is left", async () => {
    const own = new TestVolumes();
    const { id, permit, manifest } = await resting(own);
    const { backup } = ok(await own.api.backup(id, {}, once, 0));
    expect(backup).toMatchObject({ state: "ready", storedBytes: 5100, meteredBytes: 0 });
    expect(ok(await own.api.remove(id, once)).volume.state).toBe("deleted");
    await evictDurableObject(own.stub);
    expect(refused(await own.api.create({ fromBackup: backup.id, sizeMiB: 512 }, once))).toMatchObject({
      code: "disk_too_small",
      details: { sizeMiB: 1024 },
    });
    const restored = await own.make({ fromBackup: backup.id, sizeMiB: 2048 });
    expect(restored).toMatchObject({ sizeMiB: 2048, restoredFrom: backup.id, storedBytes: 5100 });
    expect(ok(await own.api.removeBackup(backup.id)).backup.state).toBe("deleted");
    expect(refused(await own.api.create({ fromBackup: backup.id }, once)).code).toBe("backup_not_found");
    const { id: attachment, sandboxId } = await own.attached(restored.id);
    const { attached } = ok(
      await own.api.attach({ sandboxId, volumes: [{ attachment, volumeId: restored.id, path: "/data", mode: "rw" }] }),
    );
    expect(attached).toMatchObject([{ manifest, vault: permit.vault, key: permit.key, sizeMiB: 2048 }]);
    // What it began as counts as stored before.
    const next = await own.store(attachment, 1);
    expect(next.permit.previous).toEqual({ manifest, key: permit.key });
    await own.detach(sandboxId, 1);
    ok(await own.api.remove(restored.id, once));
    await own.expectEmpty(permit.vault);
  });

  it("go when their time is over, and no sooner", async () => {
    const own = new TestVolumes();
    const { id, permit } = await resting(own);
    ok(await own.api.setPolicy(id, { daily: false }, once));
    const { backup } = ok(await own.api.backup(id, { retentionDays: 2 }, once, 0));
    ok(await own.api.remove(id, once));
    await own.pass(2 * DAY - HOUR);
    ok(await own.api.getBackup(backup.id, 0));
    await own.pass(2 * HOUR);
    expect(refused(await own.api.getBackup(backup.id, 0)).code).toBe("backup_not_found");
    vi.useRealTimers();
    await own.expectEmpty(permit.vault);
  });

  it("are deleted later when the vault does not answer now", async () => {
    const own = new TestVolumes();
    const { id, permit } = await resting(own);
    const { backup } = ok(await own.api.backup(id, {}, once, 0));
    ok(await own.api.remove(id, once));
    await own.fail(permit.vault, true);
    expect(ok(await own.api.removeBackup(backup.id)).backup.state).toBe("deleting");
    await own.pass(31_000);
    await own.fail(permit.vault, false);
    await own.pass(31_000);
    vi.useRealTimers();
    await own.expectEmpty(permit.vault);
  });

  it("are 200 at most", async () => {
    const own = new TestVolumes();
    const { id } = await own.make();
    const { sandboxId } = await own.attached(id);
    await own.sandbox(sandboxId, { copyVolume: async () => refuse("disk_full", "full") });
    // One that failed does not count.
    expect(refused(await own.api.backup(id, {}, once, 0)).code).toBe("disk_full");
    await own.detach(sandboxId, 1, true);
    for (let n = 0; n < 200; n++) ok(await own.api.backup(id, {}, once, 0));
    expect(refused(await own.api.backup(id, {}, once, 0))).toMatchObject({
      code: "quota_exceeded",
      details: { max: 200 },
    });
  });
});

describe("of a volume that a sandbox writes", () => {
  it("are copied by its host, and are ready when that has stored them", async () => {
    const own = new TestVolumes();
    const { id: volumeId } = await own.make();
    const { id, sandboxId } = await own.attached(volumeId);
    const before = await own.store(id, 1);
    const asked: string[][] = [];
    await own.sandbox(sandboxId, {
      copyVolume: async (...args) => {
        asked.push(args);
        return { ok: true, stored: null, copying: true };
      },
    });
    const { backup } = ok(await own.api.backup(volumeId, {}, once, 0));
    expect(asked).toEqual([[sandboxId, id, backup.id]]);
    expect(backup).toMatchObject({ state: "pending", storedBytes: 0, readyAt: null, expiresAt: null });
    expect(refused(await own.api.create({ fromBackup: backup.id }, once))).toMatchObject({
      code: "volume_not_ready",
      details: { state: "pending" },
    });
    await evictDurableObject(own.stub);
    const begin = { step: "begin", generation: 2 };
    expect((await own.step(backup.id, begin, "spare-1")).body.error.code).toBe("not_found");
    const copy = await own.uploaded(backup.id, 2, true, [before.pack]);
    expect(copy.permit).toMatchObject({
      vault: before.permit.vault,
      key: before.permit.key,
      previous: { manifest: before.manifest },
    });
    const waited = own.api.getBackup(backup.id, 20_000);
    const commit = { step: "commit", generation: 2, manifest: copy.manifest };
    const [first, again] = await Promise.all([own.step(backup.id, commit), own.step(backup.id, commit)]);
    expect([first.status, again]).toEqual([200, first]);
    expect(ok(await waited).backup).toMatchObject({ state: "ready", storedBytes: 10_100, meteredBytes: 5100 });
    expect((await own.step(backup.id, commit)).body).toEqual(first.body);
    expect((await own.step(backup.id, { ...commit, manifest: before.manifest })).body.error.code).toBe("not_found");
    expect((await own.step(backup.id, begin)).body.error.code).toBe("not_found");
    // The volume itself has a state that mounts as it is now, and is not behind.
    const reader = await own.attached(volumeId, { mode: "snapshot" });
    const vault = own.vault(before.permit.vault);
    expect(ok(await vault.api.manifestsOf(reader.id)).manifests).toEqual([copy.manifest]);
    expect(new Set(ok(await vault.api.manifestsOf(volumeId)).manifests)).toEqual(
      new Set([before.manifest, copy.manifest]),
    );
    await own.detach(sandboxId, 1, true);
    await own.detach(reader.sandboxId, 1);
    ok(await own.api.remove(volumeId, once));
    ok(await own.api.removeBackup(backup.id));
    await own.expectEmpty(before.permit.vault);
  });

  it("are what its sandbox has stored, when that is all there is", async () => {
    const own = new TestVolumes();
    const { id: volumeId } = await own.make();
    const { id, sandboxId } = await own.attached(volumeId);
    const old = await own.store(id, 1);
    const vault = own.vault(old.permit.vault);
    // The sandbox keeps an older state of its own, which the volume does not need any more.
    ok(await vault.api.share(volumeId, old.manifest, sandboxId));
    await own.store(id, 2);
    await own.sandbox(sandboxId, { copyVolume: async () => ({ ok: true, stored: old.manifest, copying: false }) });
    const { backup } = ok(await own.api.backup(volumeId, {}, once, 0));
    expect(backup).toMatchObject({ state: "ready", storedBytes: 5100 });
    expect(ok(await vault.api.manifestsOf(backup.id)).manifests).toEqual([old.manifest]);
  });

  it("fail as their host does, or when it never stores them", async () => {
    const own = new TestVolumes();
    const { id: volumeId } = await own.make();
    const { sandboxId } = await own.attached(volumeId);
    await own.sandbox(sandboxId, { copyVolume: async () => refuse("disk_full", "the host's disk is full") });
    expect(refused(await own.api.backup(volumeId, {}, once, 0))).toMatchObject({ code: "disk_full" });
    expect(await backupsOf(own, volumeId)).toMatchObject([{ state: "failed", error: "the host's disk is full" }]);
    await own.sandbox(sandboxId, { copyVolume: async () => ({ ok: true, stored: null, copying: true }) });
    const { backup } = ok(await own.api.backup(volumeId, {}, once, 0));
    const { manifest } = await own.uploaded(backup.id, 1);
    await own.pass(31 * 60_000);
    expect(ok(await own.api.getBackup(backup.id, 0)).backup).toMatchObject({
      state: "failed",
      error: expect.any(String),
    });
    const commit = { step: "commit", generation: 1, manifest };
    expect((await own.step(backup.id, commit)).body.error.code).toBe("not_found");
    expect((await own.read(volumeId)).backedUp).toBe(false);
    await own.pass(DAY + HOUR);
    expect(refused(await own.api.getBackup(backup.id, 0)).code).toBe("backup_not_found");
    // While it lets go nothing is copied.
    await own.detach(sandboxId, 1);
    expect(refused(await own.api.backup(volumeId, {}, once, 0)).code).toBe("volume_releasing");
  });

  it("are of what is stored, while its sandbox never ran", async () => {
    const own = new TestVolumes();
    const { id } = await resting(own);
    await own.attached(id, { host: null });
    expect(ok(await own.api.backup(id, {}, once, 0)).backup).toMatchObject({ state: "ready", storedBytes: 5100 });
  });
});

describe("of every day", () => {
  it("are taken an hour after the volume was made and each day then, while something changed", async () => {
    const own = new TestVolumes();
    const { id } = await resting(own);
    await own.pass(50 * 60_000);
    expect(await backupsOf(own, id)).toEqual([]);
    await own.pass(11 * 60_000);
    expect(await backupsOf(own, id)).toMatchObject([{ state: "ready", trigger: "daily", retentionDays: 7 }]);
    expect((await own.read(id)).backups.lastReadyAt).not.toBeNull();
    await own.pass(DAY);
    expect(await backupsOf(own, id)).toHaveLength(1);
    const writer = await own.attached(id);
    await own.store(writer.id, 1);
    await own.detach(writer.sandboxId, 1);
    ok(await own.api.setPolicy(id, { retentionDays: 3 }, once));
    await own.pass(DAY);
    expect(await backupsOf(own, id)).toMatchObject([{ retentionDays: 3 }, { retentionDays: 7 }]);
    ok(await own.api.setPolicy(id, { daily: false }, once));
    await own.pass(4 * DAY);
    expect(await backupsOf(own, id)).toMatchObject([{ retentionDays: 7 }]);
    await own.pass(5 * DAY);
    expect(await backupsOf(own, id)).toEqual([]);
    // Nothing is there any more, so that the next one is taken without a change.
    ok(await own.api.setPolicy(id, { daily: true }, once));
    await own.pass(HOUR + 60_000);
    expect(await backupsOf(own, id)).toHaveLength(1);
  });

  it("are not taken of what was never written", async () => {
    const own = new TestVolumes();
    const { id } = await own.make();
    await own.pass(2 * HOUR);
    expect(await backupsOf(own, id)).toEqual([]);
  });

  it("ask the sandbox that writes, and try again after an hour", async () => {
    const own = new TestVolumes();
    const { id: volumeId } = await own.make();
    const { sandboxId } = await own.attached(volumeId);
    let copies = 0;
    await own.sandbox(sandboxId, {
      copyVolume: async () => {
        copies++;
        return copies === 1 ? refuse("host_unavailable", "away") : { ok: true, stored: null, copying: true };
      },
    });
    await own.pass(HOUR + 1000);
    expect(copies).toBe(1);
    expect(await backupsOf(own, volumeId)).toMatchObject([{ state: "failed", error: "away" }]);
    await own.pass(HOUR + 1000);
    expect(copies).toBe(2);
    const [backup] = (await backupsOf(own, volumeId)) ?? [];
    expect(backup).toMatchObject({ state: "pending", trigger: "daily" });
    await own.store(backup?.id ?? "", 1);
    await own.pass(2 * HOUR);
    expect(copies).toBe(2);
  });
});

describe("of a snapshot", () => {
  it("are hidden, begin new volumes in their order, and go with it", async () => {
    const own = new TestVolumes();
    const [one, two, three] = [await resting(own), await own.make({ sizeMiB: 64 }), await resting(own, false)];
    const sandboxId = freshSandbox();
    const stays = [
      await own.attached(one.id, { sandboxId }),
      await own.attached(two.id, { sandboxId }),
      await own.attached(three.id, { sandboxId, mode: "rw" }),
    ];
    const snapshot = await snapshotId("", null);
    const ids = await Promise.all(stays.map(() => backupId("", null)));
    const ask = (n: number, hostId: string | null, manifest: string | null) => ({
      ...{ backup: ids[n] ?? "", snapshot, attachment: stays[n]?.id ?? "", hostId, manifest },
    });
    const copies = [ask(0, null, one.manifest), ask(1, null, null), ask(2, HOST, null)];
    // All, or none.
    const another = { ...ask(0, null, one.manifest), backup: await backupId("", null) };
    for (const [wrong, code] of [
      [{ attachment: `att-${"0".repeat(20)}` }, "attachment_not_found"],
      [{ manifest: "0".repeat(64) }, "conflict"],
    ] as const)
      expect(refused(await own.api.beginSnapshot([...copies, { ...another, ...wrong }])).code).toBe(code);
    expect(ok(await own.api.restoreSnapshot(snapshot, "k")).volumeIds).toEqual([]);
    await Promise.all([own.api.beginSnapshot(copies), own.api.beginSnapshot(copies)]);
    ok(await own.api.beginSnapshot(copies));
    await evictDurableObject(own.stub);
    expect(await own.api.listBackups({})).toEqual({ data: [], nextCursor: null });
    for (const id of ids) {
      expect(refused(await own.api.getBackup(id, 0)).code).toBe("backup_not_found");
      expect(refused(await own.api.removeBackup(id)).code).toBe("backup_not_found");
    }
    expect(refused(await own.api.create({ fromBackup: ids[0] }, once)).code).toBe("backup_not_found");
    expect(refused(await own.api.restoreSnapshot(snapshot, "k"))).toMatchObject({
      code: "volume_not_ready",
      details: { state: "pending" },
    });
    const copied = await own.store(ids[2] ?? "", 2);
    expect((await own.read(one.id)).backedUp).toBe(false);
    const [first, again] = await Promise.all([
      own.api.restoreSnapshot(snapshot, "k"),
      own.api.restoreSnapshot(snapshot, "k"),
    ]);
    const { volumeIds } = ok(first);
    expect(ok(again).volumeIds).toEqual(volumeIds);
    await evictDurableObject(own.stub);
    expect(ok(await own.api.restoreSnapshot(snapshot, "k")).volumeIds).toEqual(volumeIds);
    const made = await Promise.all(volumeIds.map((id) => own.read(id)));
    expect(made).toMatchObject([
      { sizeMiB: 1024, name: null, labels: {}, storedBytes: 5100, restoredFrom: ids[0], state: "ready" },
      { sizeMiB: 64, storedAt: null, storedBytes: 0 },
      { sizeMiB: 1024, storedBytes: 5100, restoredFrom: ids[2] },
    ]);
    expect(ok(await own.api.restoreSnapshot(snapshot, "other")).volumeIds).not.toEqual(volumeIds);
    // Nothing expires it.
    await own.pass(400 * DAY);
    ok(await own.api.restoreSnapshot(snapshot, "k"));
    ok(await own.api.dropSnapshot(snapshot));
    ok(await own.api.dropSnapshot(snapshot));
    expect(ok(await own.api.restoreSnapshot(snapshot, "k")).volumeIds).toEqual([]);
    const vault = own.vault(copied.permit.vault);
    expect(ok(await vault.api.manifestsOf(ids[2] ?? "")).manifests).toEqual([]);
    expect(ok(await vault.api.manifestsOf(volumeIds[2] ?? "")).manifests).toEqual([copied.manifest]);
    vi.useRealTimers();
    await own.detach(sandboxId, 1, true);
    const { data } = (await own.api.list({})) ?? { data: [] };
    for (const { id } of data) ok(await own.api.remove(id, once));
    for (const { id } of (await own.api.listBackups({}))?.data ?? []) ok(await own.api.removeBackup(id));
    await runDurableObjectAlarm(own.stub);
    for (const { permit } of [one, three, copied]) await own.expectEmpty(permit.vault);
  });
});

it("the newest clean state is that of the volume when it has a newer one than a copy that comes late", async () => {
  const own = new TestVolumes();
  const { id: volumeId } = await own.make();
  const { id, sandboxId } = await own.attached(volumeId);
  await own.sandbox(sandboxId, { copyVolume: async () => ({ ok: true, stored: null, copying: true }) });
  const { backup } = ok(await own.api.backup(volumeId, {}, once, 0));
  const copy = await own.uploaded(backup.id, 1, true);
  shift(5000);
  const newer = await own.store(id, 1, true);
  expect((await own.step(backup.id, { step: "commit", generation: 1, manifest: copy.manifest })).status).toBe(200);
  const vault = own.vault(newer.permit.vault);
  expect(ok(await vault.api.manifestsOf(volumeId)).manifests).toEqual([newer.manifest]);
});

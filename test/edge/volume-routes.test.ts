/** Volumes of real sandboxes' objects: given when they are made, plugged in and out, grown, copied, and left behind. */
import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { NewKey } from "../../sdk/contract/account.ts";
import { attachmentId } from "../../sdk/contract/names.ts";
import type { Sandbox } from "../../sdk/contract/sandbox.ts";
import type { Attachment, Volume, VolumeBackup } from "../../sdk/contract/volume.ts";
import { clientOf } from "./accounts.ts";
import { ask, created, eventually, fake, freshName, heartbeat, paused, type Fault } from "./client.ts";
import { ok, TestVolumes } from "./volumes.ts";

type Answer<T> = T & { error: Fault & { details: Record<string, unknown> } };

const own = new TestVolumes("default");

beforeEach(async () => {
  await heartbeat();
});

afterEach(() => {
  vi.useRealTimers();
});

const attach = async (volume: string, body: object, headers = {}) =>
  (await ask<Answer<Attachment>>("POST", `/v1/volumes/${volume}:attach`, body, headers)).body;
const detach = async ({ volumeId, id }: Pick<Attachment, "volumeId" | "id">, wait = 0) =>
  (
    await ask<Answer<Attachment>>(
      "POST",
      `/v1/volumes/${volumeId}/attachments/${id}:detach`,
      {},
      { prefer: `wait=${wait}` },
    )
  ).body;
const logOf = async (name: string, verb: string) =>
  (await fake.state(name)).log.filter((line) => line.startsWith(verb));

it("are given to a sandbox that is made with them", async () => {
  const { id: volumeId } = await own.make();
  const volumes = [{ volumeId, path: "/data" }];
  const { id, ...sandbox } = await created({ volumes });
  const { attachments } = await own.read(volumeId);
  expect(attachments).toMatchObject([{ sandboxId: id, path: "/data", mode: "rw" }]);
  expect(sandbox.volumes).toMatchObject([{ attachmentId: attachments[0]?.id, volumeId, sizeMiB: 1024 }]);
  await eventually(
    () => own.read(volumeId),
    ({ attachments: [one] }) => one?.state === "active",
  );
  const other = await ask<Answer<Sandbox>>("POST", "/v1/sandboxes", { name: freshName(), volumes });
  expect(other.body.error).toMatchObject({ code: "volume_attached", details: { sandboxId: id } });
  expect((await ask<Answer<Volume>>("DELETE", `/v1/volumes/${volumeId}`)).body.error.code).toBe("volume_attached");
  // Its host stores what is written, and it goes with the sandbox.
  const attachment = attachments[0]?.id ?? "";
  await own.store(attachment, 1);
  await ask("POST", `/v1/sandboxes/${id}:pause`, {});
  await ask("POST", `/v1/sandboxes/${id}:wake`, {});
  await ask("DELETE", `/v1/sandboxes/${id}`);
  await eventually(
    async () => ok(await own.api.attachment(attachment, 0)).attachment.state,
    (state) => state === "detaching",
  );
  const waited = own.api.attachment(attachment, 20_000);
  await own.store(attachment, 2);
  expect(ok(await waited).attachment).toMatchObject({ state: "detached", generation: 2 });
  expect((await ask<Answer<Volume>>("DELETE", `/v1/volumes/${volumeId}`)).body.state).toBe("deleted");
});

it("are plugged into a sandbox that runs, once, and out of it when what was written is stored", async () => {
  const { id, name } = await created();
  const volumeName = freshName();
  const { id: volumeId } = await own.make({ name: volumeName });
  const headers = { "idempotency-key": crypto.randomUUID() };
  const body = { sandboxId: name, path: "/data" };
  const [first, again] = await Promise.all([attach(volumeName, body, headers), attach(volumeName, body, headers)]);
  expect(first).toMatchObject({ volumeId, sandboxId: id, path: "/data", mode: "rw", state: "active" });
  expect(again.id).toBe(first.id);
  expect(await logOf(name, "plug")).toEqual(["plug 1"]);
  await evictDurableObject(env.SANDBOX.getByName(`default/${name}`));
  await evictDurableObject(own.stub);
  expect((await attach(volumeId, { sandboxId: id, path: "/other" })).error.code).toBe("conflict");
  const { id: second } = await created();
  expect((await attach(volumeId, { sandboxId: second, path: "/data" })).error.code).toBe("volume_attached");
  const reader = { sandboxId: second, path: "/data", mode: "snapshot" };
  expect((await attach(volumeId, reader)).error.code).toBe("volume_not_ready");
  expect((await attach(volumeId, { sandboxId: freshName(), path: "/data" })).error.code).toBe("not_found");
  expect((await attach(`vol-${"0".repeat(20)}`, body)).error.code).toBe("volume_not_found");
  for (const path of ["data", "/etc/x", "/a/../b", "/"])
    expect((await attach(volumeId, { sandboxId: id, path })).error.code).toBe("invalid_request");

  expect(await detach(first)).toMatchObject({ id: first.id, state: "detaching" });
  expect(await detach(first)).toMatchObject({ state: "detaching" });
  expect(await logOf(name, "unplug")).toEqual(["unplug 1"]);
  expect((await attach(volumeId, { sandboxId: second, path: "/data" })).error.code).toBe("volume_releasing");
  const waited = detach(first, 20);
  const { manifest } = await own.store(first.id, 1, true);
  expect(await waited).toMatchObject({ state: "detached", generation: 1, error: null });
  const now = await attach(volumeId, reader);
  expect(now).toMatchObject({ sandboxId: second, mode: "snapshot", state: "active" });
  const vault = own.vault(ok(await own.api.attach(await askOf(now))).attached[0]?.vault ?? "");
  expect(ok(await vault.api.manifestsOf(now.id)).manifests).toEqual([manifest]);
  expect(await detach(now)).toMatchObject({ state: "detached" });
});

/** What its sandbox asked for. */
const askOf = async ({ id: attachment, volumeId, sandboxId, path, mode }: Attachment) => ({
  sandboxId,
  volumes: [{ attachment, volumeId, path, mode }],
});

it("that can't be plugged in, or are busy, are as they were", async () => {
  const { id, name } = await created();
  const { id: volumeId } = await own.make();
  await fake.plan({ label: name, action: "plug", fail: { code: "internal_error", message: "no slot" } });
  expect((await attach(volumeId, { sandboxId: id, path: "/data" })).error).toMatchObject({ code: "volume_failed" });
  const attached = await eventually(
    () => own.read(volumeId),
    ({ attachments }) => attachments.every(({ state }) => state === "detaching"),
  );
  for (const { id: attachment } of attached.attachments) await own.store(attachment, 1);
  const good = await attach(volumeId, { sandboxId: id, path: "/data" });
  await fake.plan({ label: name, action: "unplug", fail: { code: "volume_busy", message: "a shell is in it" } });
  expect((await detach(good)).error).toMatchObject({ code: "volume_busy", status: 409 });
  expect((await own.read(volumeId)).attachments).toMatchObject([{ id: good.id, state: "active" }]);
  const { id: sleeper } = await paused();
  const { id: other } = await own.make();
  expect((await attach(other, { sandboxId: sleeper, path: "/data" })).error.code).toBe("conflict");
});

it("grow while a sandbox has them; where its host fails the size stays, and asking again tells it again", async () => {
  const { id, name } = await created();
  const { id: volumeId } = await own.make();
  await attach(volumeId, { sandboxId: id, path: "/data" });
  const resize = (sizeMiB: number) => ask<Answer<Volume>>("POST", `/v1/volumes/${volumeId}:resize`, { sizeMiB });
  expect((await resize(2048)).body.sizeMiB).toBe(2048);
  expect(await logOf(name, "grow")).toEqual(["grow 1"]);
  expect((await resize(1024)).body.error.code).toBe("disk_too_small");
  await fake.plan({ label: name, action: "grow", fail: { code: "internal_error", message: "no" } });
  expect((await resize(4096)).body.error.code).toBe("volume_failed");
  expect((await own.read(volumeId)).sizeMiB).toBe(4096);
  expect((await resize(4096)).body.sizeMiB).toBe(4096);
  expect(await logOf(name, "grow")).toHaveLength(3);
  expect((await ask(`GET`, `/v1/sandboxes/${id}`)).body.volumes).toMatchObject([{ sizeMiB: 4096 }]);
});

it("are copied by the host of the sandbox that has them; a sleeper is not woken", async () => {
  const { id, name } = await created();
  const { id: volumeId } = await own.make();
  await attach(volumeId, { sandboxId: id, path: "/data" });
  const take = async (wait: number) =>
    (await ask<Answer<VolumeBackup>>("POST", `/v1/volumes/${volumeId}:backup`, {}, { prefer: `wait=${wait}` })).body;
  const backup = await take(0);
  expect(backup.state).toBe("pending");
  expect(await logOf(name, "copy")).toEqual(["copy 1"]);
  await own.store(backup.id, 1, true);
  const read = await ask<VolumeBackup>("GET", `/v1/volume-backups/${backup.id}`);
  expect(read.body).toMatchObject({ state: "ready", storedBytes: 5100 });
  await ask("POST", `/v1/sandboxes/${id}:pause`, {});
  expect((await take(0)).state).toBe("pending");
  expect((await ask("GET", `/v1/sandboxes/${id}`)).body.state).toBe("paused");
  expect(await logOf(name, "wake")).toEqual([]);
  await fake.plan({ label: name, action: "copy", fail: { code: "disk_full", message: "full" } });
  expect((await take(0)).error.code).toBe("disk_full");
});

it("that a sandbox never came to hold are free again", async () => {
  const { id: sandboxId } = await created();
  const [lost, held] = [await own.make(), await own.make()];
  const kept = await attach(held.id, { sandboxId, path: "/held" });
  const attachment = await attachmentId("", null);
  ok(await own.api.attach({ sandboxId, volumes: [{ attachment, volumeId: lost.id, path: "/data", mode: "rw" }] }));
  await own.pass(61_000);
  expect((await own.read(lost.id)).attachments).toEqual([]);
  expect((await own.read(held.id)).attachments).toMatchObject([{ id: kept.id, state: "active" }]);
});

it("are not for sandboxes of keys that are limited to a name prefix", async () => {
  const { id: volumeId } = await own.make();
  const { body } = await ask<NewKey>("POST", "/v1/keys", { name: "k", namePrefix: "team-" });
  const limited = clientOf(body.key);
  const make = (input: object) => limited.as("POST", "/v1/sandboxes", { name: `team-${freshName()}`, ...input });
  expect((await make({ volumes: [{ volumeId, path: "/data" }] })).body.error.code).toBe("permission_denied");
  expect((await make({ volumes: [] })).status).toBe(200);
});

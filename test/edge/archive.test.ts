/** Saved states off their host: how safe one is, what of it is kept, and waking where nothing of it was. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { ArchivePermit, ArchiveStored } from "../../sdk/contract/archive.ts";
import type { Sandbox } from "../../sdk/contract/sandbox.ts";
import { archive, ask, call, created, eventually, fake, heartbeat, paused } from "./client.ts";
import { COMPATIBILITY, store, uploadOf } from "./stored.ts";
import { freshBlob, upload, vaultOf } from "./vaults.ts";

beforeEach(async () => {
  await heartbeat({ compatibility: COMPATIBILITY });
  // Hosts of the tests before this one are full, so that placement is certain.
  for (const hostId of ["spare-1", "rack-7"]) await heartbeat({ hostId, freeMemoryMiB: 0 });
});
afterEach(() => {
  vi.useRealTimers();
});

const stubOf = (label: string) => env.SANDBOX.getByName(`default/${label}`);
const get = async (id: string) => (await ask("GET", `/v1/sandboxes/${id}`)).body as Sandbox;

/** The host says nothing for so long. */
async function silence(ms: number, others: readonly string[]): Promise<void> {
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.setSystemTime(Date.now() + ms);
  for (const hostId of others) await heartbeat({ hostId, compatibility: COMPATIBILITY });
}

it("says how safe the state of a sleeper is, step by step", async () => {
  const { id, name } = await paused();
  expect((await get(id)).durability).toMatchObject({ state: "cached", localAt: null, storedBytes: null });
  const { body: permit } = await archive<ArchivePermit>(id, { step: "begin", generation: 1 });
  const [manifest, pack] = await Promise.all([freshBlob(), freshBlob(5000)]);
  const told = uploadOf(1, [manifest, pack]);
  // Twice at once, as a host does that did not hear the answer.
  expect((await Promise.all([archive(id, told), archive(id, told)])).map(({ status }) => status)).toEqual([200, 200]);
  expect((await get(id)).durability).toMatchObject({ state: "local", durableAt: null, logicalBytes: 1000 });
  const commit = { step: "commit", generation: 1, manifest: manifest.id };
  expect((await archive(id, commit)).body.error.code).toBe("conflict");
  for (const blob of [manifest, pack]) await upload(vaultOf(permit.vault), blob, permit.ticket);
  const stored = await Promise.all([archive<ArchiveStored>(id, commit), archive<ArchiveStored>(id, commit)]);
  expect(stored.map(({ body }) => body.ownedBytes)).toEqual([5100, 5100]);
  await evictDurableObject(stubOf(name));
  expect((await get(id)).durability).toMatchObject({ state: "durable", storedBytes: 5100, ownedBytes: 5100 });
  await archive(id, { step: "cold", generation: 1 });
  expect((await get(id)).durability).toMatchObject({ state: "cold" });
  await ask("POST", `/v1/sandboxes/${id}:wake`, {});
  expect((await get(id)).durability).toBeNull();
});

it("lets a host store what the sandbox rests with, and nothing else", async () => {
  const { id } = await created();
  const begin = (generation: number, hostId?: string) => archive(id, { step: "begin", generation }, hostId);
  expect((await begin(1)).body.error.code).toBe("conflict");
  await ask("POST", `/v1/sandboxes/${id}:pause`, {});
  expect((await begin(1, "spare-1")).body.error.code).toBe("conflict");
  expect((await begin(2)).body.error.code).toBe("conflict");
  expect((await begin(1)).status).toBe(200);
  await ask("DELETE", `/v1/sandboxes/${id}`);
  expect((await begin(1)).body.error.code).toBe("sandbox_gone");
});

it("keeps the last state alone, and nothing once the sandbox is deleted", async () => {
  const { id, name } = await paused();
  const first = await store(id, 1);
  const vault = vaultOf(first.permit.vault);
  await ask("POST", `/v1/sandboxes/${id}:wake`, {});
  await ask("POST", `/v1/sandboxes/${id}:pause`, {});
  const { body: permit } = await archive<ArchivePermit>(id, { step: "begin", generation: 2 });
  expect(permit.previous?.manifest).toBe(first.manifest.id);
  expect(permit.key).not.toBe(first.permit.key);
  expect(permit.previous?.key).toBe(first.permit.key);
  // The pack is named again, the manifest before is not.
  await store(id, 2, [first.pack]);
  await runDurableObjectAlarm(vault.stub);
  await runDurableObjectAlarm(vault.stub);
  const facts = await vault.api.inspect();
  expect(facts).toMatchObject({ ok: true, manifests: 1, referenced: { blobs: 3 }, garbage: { blobs: 0 } });
  await ask("DELETE", `/v1/sandboxes/${id}`);
  await runDurableObjectAlarm(stubOf(name));
  await runDurableObjectAlarm(stubOf(name));
  await runDurableObjectAlarm(vault.stub);
  await eventually(
    () => env.BLOBS.list({ prefix: `blobs/${vault.id}/` }),
    ({ objects }) => objects.length === 0,
  );
});

it("wakes a stored sleeper on another host when its own is gone", async () => {
  const { id, name } = await paused();
  const { manifest, permit } = await store(id, 1);
  await fake.away(name, true);
  await silence(46_000, ["spare-1"]);
  await fake.away(name, false);
  const [first, second] = await Promise.all([
    ask("POST", `/v1/sandboxes/${id}:wake`, {}),
    ask("POST", `/v1/sandboxes/${id}:wake`, {}),
  ]);
  expect(first.body).toMatchObject({ state: "running", generation: 2, memoryRestored: true });
  expect([200, 409]).toContain(second.status);
  const arrived = await fake.arrived(name);
  expect(arrived).toHaveLength(1);
  expect(arrived[0]).toMatchObject({ manifest: manifest.id, vault: permit.vault, key: permit.key, diskOnly: false });
  expect((await fake.state(name)).log.filter((line) => line.startsWith("wake"))).toEqual([]);
  // It stays there.
  await evictDurableObject(stubOf(name));
  await ask("POST", `/v1/sandboxes/${id}:pause`, {});
  expect((await archive(id, { step: "begin", generation: 2 }, "fake-1")).body.error.code).toBe("conflict");
  expect((await archive(id, { step: "begin", generation: 2 }, "spare-1")).status).toBe(200);
});

it("moves a stored sleeper off a host that drains or is full, and leaves one that is not stored", async () => {
  const [stored, kept] = [await paused(), await paused()];
  await store(stored.id, 1);
  await fake.plan({ label: stored.name, action: "wake", fail: { code: "no_capacity", message: "full" } });
  await heartbeat({ hostId: "spare-1", compatibility: COMPATIBILITY });
  expect((await ask("POST", `/v1/sandboxes/${stored.id}:wake`, {})).body).toMatchObject({
    state: "running",
    memoryRestored: true,
  });
  expect(await fake.arrived(stored.name)).toHaveLength(1);
  await fake.plan({ label: kept.name, action: "wake", fail: { code: "no_capacity", message: "full" } });
  expect((await ask("POST", `/v1/sandboxes/${kept.id}:wake`, {})).body.error.code).toBe("no_capacity");
  expect(await get(kept.id)).toMatchObject({ state: "paused" });
  expect(await fake.arrived(kept.name)).toHaveLength(0);
});

it("wakes RAM only on a host that is alike, and says so; a boot from disk goes anywhere", async () => {
  const { id, name } = await paused();
  await store(id, 1);
  await fake.away(name, true);
  await silence(46_000, []);
  await fake.away(name, false);
  await heartbeat({ hostId: "spare-1", compatibility: "machine/cpu/tcg" });
  const refused = await ask("POST", `/v1/sandboxes/${id}:wake`, {});
  expect(refused.body.error).toMatchObject({ code: "incompatible_host", details: { compatibility: COMPATIBILITY } });
  expect(await get(id)).toMatchObject({ state: "paused", durability: { state: "durable" } });
  expect((await ask("POST", `/v1/sandboxes/${id}:restart`, {})).body).toMatchObject({
    state: "running",
    memoryRestored: false,
  });
  expect(await fake.arrived(name)).toMatchObject([{ diskOnly: true }]);
});

it("does not wake an older state than the one that its lost host has", async () => {
  const { id, name } = await paused();
  await store(id, 1);
  await ask("POST", `/v1/sandboxes/${id}:wake`, {});
  await fake.away(name, true);
  await silence(46_000, ["spare-1"]);
  expect((await call("POST", `/v1/sandboxes/${id}:exec`, { command: "true" })).status).toBe(503);
  expect(await get(id)).toMatchObject({ state: "paused", stopReason: "host_lost", durability: { state: "cached" } });
  expect((await ask("POST", `/v1/sandboxes/${id}:wake`, {})).body.error.code).toBe("host_unavailable");
  expect(await fake.arrived(name)).toHaveLength(0);
});

it("wakes from what is stored when its host has lost the RAM", async () => {
  const { id, name } = await paused();
  const { manifest } = await store(id, 1);
  const fail = { code: "wake_failed", message: "the state can't be loaded", loseMemory: true } as const;
  await fake.plan({ label: name, action: "wake", fail });
  expect((await ask("POST", `/v1/sandboxes/${id}:wake`, {})).body).toMatchObject({
    state: "running",
    generation: 2,
    memoryRestored: true,
  });
  expect(await fake.arrived(name)).toMatchObject([{ manifest: manifest.id }]);
  expect((await fake.state(name)).machines).toHaveLength(1);
});

it("goes back to where it was when the host it was moved to fails", async () => {
  const { id, name } = await paused();
  await store(id, 1);
  await fake.plan({ label: name, action: "wake", fail: { code: "no_capacity", message: "full" } });
  await fake.plan({ label: name, action: "create", fail: { code: "state_damaged", message: "a blob is missing" } });
  await heartbeat({ hostId: "spare-1", compatibility: COMPATIBILITY });
  expect((await ask("POST", `/v1/sandboxes/${id}:wake`, {})).body.error.code).toBe("state_damaged");
  await evictDurableObject(stubOf(name));
  expect((await ask("POST", `/v1/sandboxes/${id}:wake`, {})).body).toMatchObject({ state: "running" });
  expect(await fake.arrived(name)).toHaveLength(0);
});

/** Copies of sandboxes: snapshots, sandboxes that begin as one, forks, and going back. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { ArchivePermit } from "../../sdk/contract/archive.ts";
import type { Sandbox } from "../../sdk/contract/sandbox.ts";
import type { Forks, History, Snapshot, SnapshotList } from "../../sdk/contract/snapshot.ts";
import { archive, ask, created, eventually, fake, freshName, heartbeat, paused, type Fault } from "./client.ts";
import { COMPATIBILITY, store } from "./stored.ts";
import { vaultOf } from "./vaults.ts";

beforeEach(async () => {
  await heartbeat({ compatibility: COMPATIBILITY });
  for (const hostId of ["spare-1", "rack-7"]) await heartbeat({ hostId, freeMemoryMiB: 0 });
});
afterEach(() => {
  vi.useRealTimers();
});

type Answer<T> = T & { error: Fault };
const snapshotOf = async (id: string, input: object = {}, headers = {}) =>
  ask<Answer<Snapshot>>("POST", `/v1/sandboxes/${id}:snapshot`, input, { prefer: "wait=0", ...headers });
const read = async (id: string) => (await ask<Answer<Snapshot>>("GET", `/v1/snapshots/${id}`)).body;
const snapshots = env.SNAPSHOTS.getByName("default");

/** A snapshot of a running sandbox, stored. */
async function ready(id: string, input: object = {}): Promise<Snapshot> {
  const { body } = await snapshotOf(id, input);
  await store(body.id, 1);
  return read(body.id);
}

it("are taken of a running sandbox, which goes on, and are ready when they are stored", async () => {
  const { id, name } = await created();
  const [{ body: taken }, again] = await Promise.all([
    snapshotOf(id, { name: "before", labels: { a: "b" }, retentionDays: 3 }, { "idempotency-key": "k1" }),
    snapshotOf(id, { name: "before", labels: { a: "b" }, retentionDays: 3 }, { "idempotency-key": "k1" }),
  ]);
  expect(taken).toMatchObject({ state: "capturing", mode: "memory", name: "before", backedUp: false, frozenMs: 7 });
  expect(again.body.id).toBe(taken.id);
  expect((await fake.state(name)).log.filter((line) => line.startsWith("capture"))).toHaveLength(1);
  expect((await ask("GET", `/v1/sandboxes/${id}`)).body.state).toBe("running");
  expect((await ask("POST", "/v1/sandboxes", { snapshot: taken.id })).body.error.code).toBe("snapshot_not_ready");
  await store(taken.id, 1);
  await evictDurableObject(snapshots);
  expect(await read(taken.id)).toMatchObject({ state: "ready", backedUp: true, storedBytes: 5100, meteredBytes: 5100 });
  expect((await archive(taken.id, { step: "begin", generation: 1 }, "spare-1")).body.error.code).toBe(
    "snapshot_not_found",
  );
});

it("of a sleeper that is stored share what it has, and keep it when the sandbox is gone", async () => {
  const { id } = await paused();
  const { manifest, permit } = await store(id, 1);
  const { body } = await snapshotOf(id);
  expect(body).toMatchObject({ state: "ready", frozenMs: null, storedBytes: 5100, meteredBytes: 0 });
  await ask("DELETE", `/v1/sandboxes/${id}`);
  const vault = vaultOf(permit.vault);
  await eventually(
    async () => (await vault.api.owned(body.id)) as { ownedBytes: number },
    ({ ownedBytes }) => ownedBytes === 5100,
  );
  const second = await ask("POST", "/v1/sandboxes", { name: freshName(), snapshot: body.id });
  expect(second.body).toMatchObject({ state: "running", generation: 1 });
  expect(await fake.arrived(second.body.label)).toMatchObject([{ manifest: manifest.id, key: permit.key }]);
});

it("begin sandboxes of the size they have; a disk alone any size but a smaller disk", async () => {
  const { id } = await created({ vcpu: 1, memoryMiB: 512, env: { SECRET: "parent" } });
  const memory = await ready(id);
  const create = (input: object) => ask("POST", "/v1/sandboxes", { name: freshName(), ...input });
  expect((await create({ snapshot: memory.id, vcpu: 4, memoryMiB: 1024 })).body.error).toMatchObject({
    code: "invalid_request",
    details: { issues: [{ path: "vcpu" }, { path: "memoryMiB" }] },
  });
  const child = (await create({ snapshot: memory.id })).body;
  expect(child).toMatchObject({ vcpu: 1, memoryMiB: 512, envNames: [] });
  const { body: disk } = await snapshotOf(id, { mode: "disk" });
  const { body: permit } = await archive<ArchivePermit>(disk.id, { step: "begin", generation: 1 });
  expect(permit.previous).toBeNull();
  await store(disk.id, 1);
  expect((await create({ snapshot: disk.id, diskMiB: 4096 })).body.error.code).toBe("disk_too_small");
  const bigger = (await create({ snapshot: disk.id, vcpu: 4, memoryMiB: 1024, diskMiB: 16_384 })).body;
  expect(bigger).toMatchObject({ state: "running", vcpu: 4, memoryMiB: 1024, diskMiB: 16_384 });
  expect(await fake.arrived(bigger.label)).toMatchObject([{ diskOnly: true }]);
  expect((await create({ snapshot: `snap-${"0".repeat(20)}` })).body.error.code).toBe("snapshot_not_found");
});

it("are listed, renamed, kept longer, and deleted with all that only they had", async () => {
  const { id } = await created();
  const first = await ready(id, { retentionDays: 2 });
  const second = await ready(id, { name: "two" });
  const list = async (query: string) => (await ask<SnapshotList>("GET", `/v1/snapshots?${query}`)).body;
  const page = await list(`sandboxId=${id}&limit=1`);
  expect(page.data.map((one) => one.id)).toEqual([second.id]);
  expect((await list(`sandboxId=${id}&limit=1&cursor=${page.nextCursor}`)).data.map((one) => one.id)).toEqual([
    first.id,
  ]);
  expect((await list(`sandboxId=${id}&name=two`)).data).toHaveLength(1);
  const update = (input: object) => ask<Answer<Snapshot>>("POST", `/v1/snapshots/${first.id}:update`, input);
  expect((await update({ name: "one", labels: { x: "1" } })).body).toMatchObject({ name: "one", labels: { x: "1" } });
  expect((await update({ labels: {}, ifLabels: { x: "2" } })).body.error.code).toBe("conflict");
  const extended = await ask<Snapshot>("POST", `/v1/snapshots/${first.id}:extend`, { retentionDays: 9 });
  const left = Date.parse(extended.body.expiresAt ?? "") - Date.now();
  expect(left).toBeGreaterThan(8.9 * 86_400_000);
  await ask("POST", `/v1/snapshots/${second.id}:delete`, {});
  expect((await read(second.id)).error.code).toBe("snapshot_not_found");
  // The other one goes by itself when its time is over, whatever happens in between.
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.setSystemTime(Date.now() + 9.5 * 86_400_000);
  await runDurableObjectAlarm(snapshots);
  await runDurableObjectAlarm(snapshots);
  expect((await read(first.id)).error.code).toBe("snapshot_not_found");
});

it("that nobody stores are failures that say so", async () => {
  const { id, name } = await created();
  await fake.plan({ label: name, action: "capture", fail: { code: "snapshot_failed", message: "the disk is full" } });
  expect((await snapshotOf(id)).body.error).toMatchObject({ code: "snapshot_failed", message: "the disk is full" });
  const { body } = await snapshotOf(id);
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.setSystemTime(Date.now() + 31 * 60_000);
  await runDurableObjectAlarm(snapshots);
  expect(await read(body.id)).toMatchObject({ state: "failed" });
  expect((await archive(body.id, { step: "begin", generation: 1 })).body.error.code).toBe("snapshot_not_found");
});

it("fork a sandbox: each has what its source had, and the source goes on", async () => {
  const { id, name } = await created({ env: { A: "1" }, labels: { team: "x" } });
  const base = freshName();
  const fork = (input: object, headers = {}) => ask<Answer<Forks>>("POST", `/v1/sandboxes/${id}:fork`, input, headers);
  const headers = { "idempotency-key": "forks" };
  const { body } = await fork({ count: 3, name: base }, headers);
  expect(body.frozenMs).toBe(7);
  expect(body.sandboxes.map((one) => one.name)).toEqual([`${base}-1`, `${base}-2`, `${base}-3`]);
  for (const child of body.sandboxes)
    expect(child).toMatchObject({ state: "running", labels: { team: "x" }, envNames: ["A"], generation: 1 });
  const again = (await fork({ count: 3, name: base }, headers)).body;
  expect(again.replayed).toBe(true);
  expect(again.sandboxes.map((one) => one.id)).toEqual(body.sandboxes.map((one) => one.id));
  expect((await fake.state(name)).log.filter((line) => line.startsWith("capture"))).toHaveLength(1);
  expect((await ask("GET", `/v1/sandboxes/${id}`)).body).toMatchObject({ state: "running", generation: 1 });
  // One name is taken: none of the others stays.
  const taken = freshName();
  await ask("POST", "/v1/sandboxes", { name: `${taken}-2` });
  expect((await fork({ count: 2, name: taken })).body.error.code).toBe("name_taken");
  await eventually(
    async () => (await ask("GET", `/v1/sandboxes/${taken}-1`)).status,
    (status) => status === 410,
  );
  expect((await fork({ count: 17 })).body.error.code).toBe("invalid_request");
});

it("fork a sleeper from what it has stored, on any host, while it sleeps on", async () => {
  const { id, name } = await paused({ env: { A: "1" } });
  const { manifest } = await store(id, 1);
  const { body } = await ask<Answer<Forks>>("POST", `/v1/sandboxes/${id}:fork`, { count: 2 });
  expect(body.frozenMs).toBeNull();
  for (const fork of body.sandboxes) {
    expect(fork).toMatchObject({ state: "running", envNames: ["A"] });
    expect(await fake.arrived(fork.label)).toMatchObject([{ manifest: manifest.id }]);
  }
  expect((await fake.state(name)).log.filter((line) => line.startsWith("capture"))).toEqual([]);
  expect((await ask("GET", `/v1/sandboxes/${id}`)).body.state).toBe("paused");
});

it("go back to a point of a sandbox's history, under its name and id", async () => {
  const { id, name } = await paused({ keepPauses: 2 });
  const first = await store(id, 1);
  for (const generation of [2, 3]) {
    await ask("POST", `/v1/sandboxes/${id}:wake`, {});
    await ask("POST", `/v1/sandboxes/${id}:pause`, {});
    await store(id, generation);
  }
  const history = async () => (await ask<History>("GET", `/v1/sandboxes/${id}/history`)).body.data;
  expect((await history()).map(({ point, current }) => [point, current])).toEqual([
    ["p3", true],
    ["p2", false],
    ["p1", false],
  ]);
  const back = (point: string) => ask("POST", `/v1/sandboxes/${id}:rollback`, { point });
  expect((await back("p9")).body.error.code).toBe("point_not_found");
  expect((await back("p1")).body).toMatchObject({ id, state: "paused", durability: { state: "durable" } });
  await evictDurableObject(env.SANDBOX.getByName(`default/${name}`));
  expect((await ask("POST", `/v1/sandboxes/${id}:wake`, {})).body).toMatchObject({
    id,
    state: "running",
    generation: 4,
    memoryRestored: true,
  });
  expect(await fake.arrived(name)).toMatchObject([{ manifest: first.manifest.id, key: first.permit.key }]);
  // A running one runs again at once.
  expect((await back("p2")).body).toMatchObject({ state: "running", generation: 5 } satisfies Partial<Sandbox>);
  expect(await fake.arrived(name)).toHaveLength(2);
});

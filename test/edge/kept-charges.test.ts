/** What is kept costs: volumes on their full size, backups and snapshots on what they alone store, to the millisecond. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { accountObject } from "../../durable/account/api.ts";
import { migrations } from "../../durable/account/schema.ts";
import { snapshotsObject } from "../../durable/snapshots/api.ts";
import { migrations as volumeMigrations } from "../../durable/volumes/schema.ts";
import { migrate } from "../../durable/migrations.ts";
import { newSandboxId, snapshotId } from "../../sdk/contract/names.ts";
import { usageCsv, type Usage, type UsageLine } from "../../sdk/contract/usage.ts";
import type { Volume } from "../../sdk/contract/volume.ts";
import { openAccount } from "./accounts.ts";
import { freshName, heartbeat } from "./client.ts";
import { DAY, during, HOUR, instead, ok, once, shift, TestVolumes } from "./volumes.ts";

const GIB_HOUR_MICROS = 153;

beforeEach(() => {
  // The clock stands still but for what a test lets pass.
  vi.useFakeTimers({ toFake: ["Date"] });
});
afterEach(() => {
  vi.useRealTimers();
});

async function accountWithVolumes(input: Record<string, unknown> = {}) {
  const account = await openAccount(input);
  const own = new TestVolumes(account.name);
  const usage = async (query = "") => (await account.as<Usage>("GET", `/v1/usage${query}`)).body;
  const lines = async (id: string) => (await usage("?month=all")).lines.filter(({ sandboxId }) => sandboxId === id);
  return { account, own, usage, lines, stub: env.ACCOUNT.getByName(account.name) };
}

const amounts = (lines: readonly UsageLine[]) => lines.map(({ month, volume }) => [month, volume]);

it("a volume is booked each hour, and when it changes and ends, and shown with the volume's name and labels", async () => {
  vi.setSystemTime("2027-01-10T08:00:00.000Z");
  const { account, own, usage, lines, stub } = await accountWithVolumes();
  const { id } = await own.make({ name: "data", labels: { team: "x" } });
  await own.pass(HOUR);
  await evictDurableObject(stub);
  expect(await lines(id)).toEqual([
    {
      ...{ month: "2027-01", kind: "volume", sandboxId: id, name: "data", labels: { team: "x" }, plan: "unmetered" },
      ...{ cpu: "0", memory: "0", stored: "0", volume: String(1024 * HOUR), cpuMicros: 0, memoryMicros: 0 },
      ...{ storedMicros: 0, flatMicros: 0, volumeMicros: GIB_HOUR_MICROS, totalMicros: GIB_HOUR_MICROS },
      ...{ backup: "0", backupMicros: 0 },
    },
  ]);
  shift(20 * 60_000);
  await account.as<Volume>("POST", `/v1/volumes/data:resize`, { sizeMiB: 3072 });
  await own.pass(40 * 60_000 - 1);
  // It was counted when its size changed, which is not an hour ago.
  expect(amounts(await lines(id))).toEqual([["2027-01", String(1024 * (HOUR + 20 * 60_000))]]);
  await own.pass(20 * 60_000 + 1);
  const sum = 1024 * (HOUR + 20 * 60_000) + 3072 * HOUR;
  expect(amounts(await lines(id))).toEqual([["2027-01", String(sum)]]);
  shift(1234);
  expect((await account.as<Volume>("DELETE", `/v1/volumes/${id}`)).body.state).toBe("deleted");
  await own.alarm();
  const [line] = await lines(id);
  expect(line).toMatchObject({ volume: String(sum + 3072 * 1234), name: "data" });
  await own.pass(3 * HOUR);
  expect(await lines(id)).toEqual([line]);
  const all = await usage("?by=label:team");
  expect(all).toMatchObject({
    spent: String(line?.totalMicros),
    groups: [{ key: "x", sandboxes: 0, totalMicros: line?.totalMicros }],
  });
  expect(usageCsv(all.lines)).toContain(`,volume,${line?.volume},${line?.volumeMicros},0,0\n`);
});

it("falls into the months that it lies in", async () => {
  vi.setSystemTime("2027-01-31T23:30:00.000Z");
  const { own, lines } = await accountWithVolumes();
  const { id } = await own.make({ sizeMiB: 64 });
  await own.pass(HOUR + 1000);
  expect(amounts(await lines(id))).toEqual([
    ["2027-01", String(64 * (HOUR / 2))],
    ["2027-02", String(64 * (HOUR / 2 + 1000))],
  ]);
  // Nobody looked for more than a month.
  await own.pass(40 * DAY);
  expect(amounts(await lines(id))).toEqual([
    ["2027-01", String(64 * (HOUR / 2))],
    ["2027-02", String(64 * 28 * DAY)],
    ["2027-03", String(64 * (12 * DAY + HOUR / 2 + 1000))],
  ]);
});

it("is told again until the account has booked it, and once, also of what is deleted", async () => {
  vi.setSystemTime("2027-02-27T00:00:00.000Z");
  const { own, lines, stub } = await accountWithVolumes();
  const [first, second] = [await own.make(), await own.make()];
  const fail = () => instead(stub, { recordKept: () => Promise.reject(new Error("away")) });
  await fail();
  await own.pass(HOUR);
  ok(await own.api.remove(first.id, once));
  await evictDurableObject(stub);
  expect([await lines(first.id), await lines(second.id)]).toEqual([[], []]);
  await own.pass(61_000);
  expect(amounts(await lines(first.id))).toEqual([["2027-02", String(1024 * HOUR)]]);
  expect(amounts(await lines(second.id))).toEqual([["2027-02", String(1024 * HOUR)]]);
  // It books and its answer is lost, over the end of a month.
  await during(stub, "recordKept", () => Promise.reject(new Error("lost")));
  await own.pass(2 * DAY);
  await evictDurableObject(stub);
  await own.pass(61_000);
  expect(amounts(await lines(second.id))).toEqual([
    ["2027-02", String(1024 * 2 * DAY)],
    ["2027-03", String(1024 * (HOUR + 61_000))],
  ]);
});

it("is what an independent model says, whatever happens to the reports", async () => {
  for (const seed of [1, 2, 3]) {
    let random = seed * 7919;
    const next = (n: number) => (random = (random * 48_271) % 2_147_483_647) % n;
    vi.setSystemTime(Date.parse("2027-03-30T00:00:00.000Z") + seed * 1_234_567);
    const { own, usage, stub } = await accountWithVolumes({ plan: "metered", creditMicros: 1_000_000_000 });
    /** Sizes of each volume, and since when; 0: deleted. */
    const sizes = new Map<string, [at: number, sizeMiB: number][]>();
    for (let step = 0; step < 40; step++) {
      const alive = [...sizes].filter(([, changes]) => changes.at(-1)?.[1] !== 0);
      const [id, changes] = alive[next(Math.max(1, alive.length))] ?? [];
      const what = next(6);
      if (what === 0 || !id || !changes) {
        const sizeMiB = 64 + next(5000);
        sizes.set((await own.make({ sizeMiB })).id, [[Date.now(), sizeMiB]]);
      } else if (what === 1) {
        const sizeMiB = (changes.at(-1)?.[1] ?? 0) + next(3000);
        ok(await own.api.resize(id, sizeMiB, once));
        changes.push([Date.now(), sizeMiB]);
      } else if (what === 2 && next(2) === 0) {
        ok(await own.api.remove(id, once));
        changes.push([Date.now(), 0]);
      } else {
        if (next(4) === 0) await instead(stub, { recordKept: () => Promise.reject(new Error("away")) });
        await own.pass(next(4 * HOUR));
        // Nothing may have woken it.
        await evictDurableObject(stub).catch(() => undefined);
      }
    }
    await own.pass(HOUR);
    await own.pass(61_000);
    // Whatever was not an hour old then is not told yet.
    for (const [id, changes] of sizes) {
      if (changes.at(-1)?.[1] === 0) continue;
      ok(await own.api.remove(id, once));
      changes.push([Date.now(), 0]);
    }
    await own.alarm();
    let expected = 0n;
    const april = Date.parse("2027-04-01T00:00:00.000Z");
    const rounded = (amount: bigint) => (2n * amount * 153n + 1024n * 3_600_000n) / (2n * 1024n * 3_600_000n);
    for (const changes of sizes.values()) {
      let [march, later] = [0n, 0n];
      for (const [n, [at, sizeMiB]] of changes.entries()) {
        const until = changes[n + 1]?.[0] ?? at;
        const before = Math.max(0, Math.min(until, april) - Math.min(at, april));
        march += BigInt(sizeMiB) * BigInt(before);
        later += BigInt(sizeMiB) * BigInt(until - at - before);
      }
      expected += rounded(march) + rounded(later);
    }
    const { spent, totalMicros } = await usage("?month=all");
    expect([seed, spent, String(totalMicros)]).toEqual([seed, String(expected), String(expected)]);
  }
});

it("draws on credit, on every plan, and what is not covered lets nothing new run", async () => {
  await heartbeat();
  const { account, own, usage } = await accountWithVolumes({ plan: "metered", creditMicros: 1_000_000 });
  await own.make({ sizeMiB: 1_048_576 });
  await own.pass(HOUR);
  expect(await usage()).toMatchObject({ spent: String(1024 * GIB_HOUR_MICROS), available: "843328" });
  await own.pass(6 * HOUR);
  await heartbeat();
  const refusal = await account.as("POST", "/v1/sandboxes", { name: freshName() });
  expect([refusal.status, refusal.body.error.code]).toEqual([402, "insufficient_funds"]);
  const flat = await accountWithVolumes({ plan: "flat", flatMicrosPerMonth: 1000, creditMicros: 1_000_000 });
  await flat.own.make();
  await flat.own.pass(HOUR);
  expect((await flat.usage()).spent).toBe(String(GIB_HOUR_MICROS));
});

it("is booked in books from before there were volumes", async () => {
  const name = `old${crypto.randomUUID().slice(0, 6)}`;
  const stub = env.ACCOUNT.getByName(name) as DurableObjectStub;
  const sandboxId = newSandboxId(freshName());
  await runInDurableObject(stub, (_object: object, { storage }) => {
    migrate(storage, migrations.slice(0, 3));
    storage.sql.exec("INSERT INTO booked VALUES (?, 1, 1, '1000', '0', '0')", sandboxId);
    storage.sql.exec("INSERT INTO lines VALUES (?, ?, 'unmetered', '1000', '0', '0', 0)", "2027-01", sandboxId);
  });
  await evictDurableObject(stub);
  const object = accountObject(env.ACCOUNT, name);
  const report = { account: name, id: sandboxId, generation: 1, sequence: 2, cpu: "1500", memory: "0", stored: "0" };
  expect(await object.recordUsage([report], "fake-1")).toBe(0);
  const volumeId = `vol-${"0".repeat(20)}`;
  const thing = { id: volumeId, name: null, labels: {}, createdAt: 0, meter: "volume" } as const;
  const told = { ...thing, month: "2027-01", sequence: 1, amount: "7" };
  await Promise.all([object.recordKept([told]), object.recordKept([told, { ...told, sequence: 2, amount: "9" }])]);
  const { lines } = await object.usage({ month: "all" });
  expect(lines.filter((line) => line.sandboxId === volumeId)).toMatchObject([{ kind: "volume", volume: "9" }]);
  const of = lines.filter((line) => line.sandboxId === sandboxId);
  expect(of.reduce((sum, { cpu }) => sum + Number(cpu), 0)).toBe(1500);
  expect(of.every(({ kind, volume }) => kind === "sandbox" && volume === "0")).toBe(true);
});

/** A volume with 5,100 bytes stored, and nothing that changes by itself. */
async function resting(own: TestVolumes) {
  const volume = await own.make();
  ok(await own.api.setPolicy(volume.id, { daily: false }, once));
  const { id, sandboxId } = await own.attached(volume.id);
  const stored = await own.store(id, 1);
  await own.detach(sandboxId, 1);
  return { volume, manifest: stored.manifest, vault: stored.permit.vault, key: stored.permit.key };
}

/** A ready snapshot that shares what a vault has. */
async function snapshotOf(account: string, { volume, manifest, vault, key }: Awaited<ReturnType<typeof resting>>) {
  const id = await snapshotId(account, null);
  const object = snapshotsObject(env.SNAPSHOTS, account);
  const stub = env.SNAPSHOTS.getByName(account) as DurableObjectStub;
  const source = { id: volume.id, name: "source" };
  const shape = { image: "base", vcpu: 1, memoryMiB: 512, diskMiB: 4096 };
  const terms = { mode: "memory", name: "before", labels: { team: "x" }, retentionDays: 30 } as const;
  ok(await object.begin({ id, ...terms, source, shape, vault, previous: null, hostId: null }));
  ok(await object.stored(id, { manifest, key, compatibility: "any" }));
  const pass = async (ms: number) => {
    shift(ms);
    await runDurableObjectAlarm(stub);
    await runDurableObjectAlarm(stub);
    await evictDurableObject(stub);
  };
  return { id, object, pass, read: async () => ok(await object.get(id, null, 0)).snapshot };
}

it("backups and snapshots are booked on what they alone store, as that changes", async () => {
  vi.setSystemTime("2027-05-10T08:00:00.000Z");
  const { account, own, lines } = await accountWithVolumes();
  const kept = await resting(own);
  const { backup } = ok(await own.api.backup(kept.volume.id, { name: "copy" }, once, 0));
  const snapshot = await snapshotOf(account.name, kept);
  await own.pass(HOUR);
  await snapshot.pass(0);
  // The volume has it all.
  expect([await lines(backup.id), await lines(snapshot.id)]).toEqual([[], []]);
  ok(await own.api.remove(kept.volume.id, once));
  await own.pass(HOUR);
  await snapshot.pass(0);
  // Of those who are left, the one that had it first has it; before it was looked at nothing was known of that.
  expect([await lines(backup.id), await lines(snapshot.id)]).toEqual([[], []]);
  expect(ok(await own.api.getBackup(backup.id, 0)).backup.meteredBytes).toBe(5100);
  await own.pass(HOUR);
  const [line] = await lines(backup.id);
  expect(line).toMatchObject({ kind: "backup", name: "copy", backup: String(5100 * HOUR), stored: "0" });
  shift(1234);
  ok(await own.api.removeBackup(backup.id));
  await own.alarm();
  expect((await lines(backup.id))[0]?.backup).toBe(String(5100 * (HOUR + 1234)));
  await snapshot.pass(0);
  expect((await snapshot.read()).meteredBytes).toBe(5100);
  await snapshot.pass(HOUR);
  expect(await lines(snapshot.id)).toMatchObject([
    { kind: "snapshot", name: "before", labels: { team: "x" }, stored: String(5100 * HOUR), backup: "0" },
  ]);
  shift(4321);
  ok(await snapshot.object.remove(snapshot.id, null));
  await snapshot.pass(3 * HOUR);
  expect((await lines(snapshot.id))[0]?.stored).toBe(String(5100 * (HOUR + 4321)));
});

it("a snapshot that nobody pays for is kept as long as a sleeper, at no cost, and goes", async () => {
  vi.setSystemTime("2027-06-10T08:00:00.000Z");
  const { account, own, usage, lines, stub } = await accountWithVolumes({ plan: "metered", creditMicros: 1000 });
  const kept = await resting(own);
  const snapshot = await snapshotOf(account.name, kept);
  ok(await own.api.remove(kept.volume.id, once));
  await snapshot.pass(HOUR);
  const other = await own.make({ sizeMiB: 65_536 });
  await own.pass(HOUR);
  const { spent } = await usage();
  expect(Number(spent)).toBeGreaterThan(1000);
  await snapshot.pass(2 * HOUR);
  expect((await lines(snapshot.id)).every(({ stored }) => stored === "0")).toBe(true);
  ok(await own.api.remove(other.id, once));
  shift(7 * DAY);
  for (let n = 0; n < 2; n++) await runDurableObjectAlarm(stub as DurableObjectStub);
  await vi.waitFor(async () => expect((await snapshot.object.get(snapshot.id, null, 0)).ok).toBe(false));
  await snapshot.pass(31_000);
  await vi.waitFor(() => own.expectEmpty(kept.vault));
});

it("counts on for what was kept before, when its tables are those of a version before", async () => {
  vi.setSystemTime("2027-07-10T08:00:00.000Z");
  const { account, own, lines } = await accountWithVolumes();
  const id = `vol-${"1".repeat(20)}`;
  const at = Date.now();
  const body = { id, state: "ready", name: "old", labels: {}, sizeMiB: 64, vault: "v", key: "k", latest: null };
  const rest = { clean: null, dropped: [], daily: false, backupDays: 7, nextDailyAt: at, restoredFrom: null };
  const record = { ...body, ...rest, chargedTo: at - 1000, createdAt: at - HOUR, readyAt: at - HOUR };
  await runInDurableObject(own.stub, (_object: object, { storage }) => {
    migrate(storage, volumeMigrations.slice(0, 1));
    storage.sql.exec("INSERT INTO account VALUES (1, ?)", account.name);
    storage.sql.exec("INSERT INTO volumes VALUES (?, 'old', ?, NULL, ?)", id, at - HOUR, JSON.stringify(record));
    storage.sql.exec("INSERT INTO charges VALUES (?, '2027-07', '1000', 3, 3, NULL, '{}')", id);
  });
  await evictDurableObject(own.stub);
  await own.api.list({});
  ok(await own.api.update("old", { labels: { a: "b" } }, once));
  await own.pass(HOUR);
  expect(await lines(id)).toMatchObject([{ labels: { a: "b" }, volume: String(1000 + 64 * (HOUR + 1000)) }]);
});

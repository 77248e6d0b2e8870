/** What volumes cost: their full size for all the time that they are there, to the millisecond. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { accountObject } from "../../durable/account/api.ts";
import { migrations } from "../../durable/account/schema.ts";
import { migrate } from "../../durable/migrations.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";
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

it("is booked each hour, and when it changes and ends, and shown with the volume's name and labels", async () => {
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
  const [line] = await lines(id);
  expect(line).toMatchObject({ volume: String(sum + 3072 * 1234), name: "data" });
  await own.pass(3 * HOUR);
  expect(await lines(id)).toEqual([line]);
  const all = await usage("?by=label:team");
  expect(all).toMatchObject({
    spent: String(line?.totalMicros),
    groups: [{ key: "x", sandboxes: 0, totalMicros: line?.totalMicros }],
  });
  expect(usageCsv(all.lines)).toContain(`,volume,${line?.volume},${line?.volumeMicros}\n`);
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
  const fail = () => instead(stub, { recordVolumes: () => Promise.reject(new Error("away")) });
  await fail();
  await own.pass(HOUR);
  ok(await own.api.remove(first.id, once));
  await evictDurableObject(stub);
  expect([await lines(first.id), await lines(second.id)]).toEqual([[], []]);
  await own.pass(61_000);
  expect(amounts(await lines(first.id))).toEqual([["2027-02", String(1024 * HOUR)]]);
  expect(amounts(await lines(second.id))).toEqual([["2027-02", String(1024 * HOUR)]]);
  // It books and its answer is lost, over the end of a month.
  await during(stub, "recordVolumes", () => Promise.reject(new Error("lost")));
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
        if (next(4) === 0) await instead(stub, { recordVolumes: () => Promise.reject(new Error("away")) });
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
  const told = { volumeId, name: null, labels: {}, createdAt: 0, month: "2027-01", sequence: 1, amount: "7" };
  await Promise.all([
    object.recordVolumes([told]),
    object.recordVolumes([told, { ...told, sequence: 2, amount: "9" }]),
  ]);
  const { lines } = await object.usage({ month: "all" });
  expect(lines.filter((line) => line.sandboxId === volumeId)).toMatchObject([{ kind: "volume", volume: "9" }]);
  const of = lines.filter((line) => line.sandboxId === sandboxId);
  expect(of.reduce((sum, { cpu }) => sum + Number(cpu), 0)).toBe(1500);
  expect(of.every(({ kind, volume }) => kind === "sandbox" && volume === "0")).toBe(true);
});

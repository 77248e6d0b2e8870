/** Prepaid credit and limits: nothing runs that is not paid for, nothing is charged twice, and a balance stays above 0. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Account, NewAccount, Notice } from "../../sdk/contract/account.ts";
import { Meter } from "../../backend-pool/report/meter.ts";
import type { JournalRow } from "../../backend-pool/store/journal.ts";
import type { UsageRow } from "../../backend-pool/store/usage.ts";
import { FIRST_EPOCH, hostKey } from "../../sdk/contract/host-secrets.ts";
import type { Sandbox } from "../../sdk/contract/sandbox.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";
import { defaultRates, dollars, priceOf } from "../../sdk/contract/pricing.ts";
import { toDigits, type Usage } from "../../sdk/contract/usage.ts";
import { openAccount } from "./accounts.ts";
import { API, ask, call, edge, eventually, fake, freshName, heartbeat } from "./client.ts";
import { roots } from "./secrets.ts";

beforeEach(async () => {
  await heartbeat();
});
afterEach(() => {
  vi.useRealTimers();
});

const HOUR_NS = 3_600_000_000_000;
const MIB_HOUR = 3_600_000;

async function report(
  account: string,
  id: string,
  sequence: number,
  amounts: { cpu?: number; memory?: number; stored?: number },
  generation = 1,
): Promise<void> {
  const { cpu = 0, memory = 0, stored = 0 } = amounts;
  const one = { account, id, generation, sequence, cpu: String(cpu), memory: String(memory), stored: String(stored) };
  const answer = await edge(`${API}/internal/usage`, {
    method: "POST",
    headers: { authorization: `Bearer ${await hostKey(roots.host, "fake-1", FIRST_EPOCH)}` },
    body: JSON.stringify({ reports: [one] }),
  });
  expect(await answer.json()).toEqual({ ok: true, refused: 0 });
}

type Opened = Awaited<ReturnType<typeof openAccount>>;
const accountOf = async ({ as }: Opened) => (await as<Account>("GET", "/v1/account")).body;
const make = async ({ as }: Opened, input: object = {}) =>
  (await as("POST", "/v1/sandboxes", { name: freshName(), ...input })).body;
const settled = (account: Opened, id: string, state: Sandbox["state"]) =>
  eventually(
    async () => (await account.as("GET", `/v1/sandboxes/${id}`)).body,
    (sandbox) => sandbox.state === state,
  );

describe("prepaid credit", () => {
  it("is needed before anything runs, and the refusal says how much is missing", async () => {
    const account = await openAccount({ plan: "metered" });
    const refused = await account.as("POST", "/v1/sandboxes", { name: freshName() });
    expect([refused.status, refused.body.error.code]).toEqual([402, "insufficient_funds"]);
    const { neededMicros, availableMicros, missingMicros } = refused.body.error.details;
    // Ten minutes of 2 virtual CPUs and 2 GiB at full load: 8,333.3 and 2,500 microdollars.
    expect({ neededMicros, availableMicros, missingMicros }).toEqual({
      neededMicros: 10_833,
      availableMicros: 0,
      missingMicros: 10_833,
    });
    await ask("POST", `/v1/accounts/${account.name}:credit`, { micros: 10_833, note: "just enough" });
    const sandbox = await make(account);
    expect(sandbox.state).toBe("running");
    expect(await accountOf(account)).toMatchObject({ heldMicros: 10_833, availableMicros: 0, creditedMicros: 10_833 });
    expect((await account.as("POST", "/v1/sandboxes", { name: freshName() })).body.error.code).toBe(
      "insufficient_funds",
    );
    await account.as("POST", `/v1/sandboxes/${sandbox.id}:pause`, {});
    expect(await accountOf(account)).toMatchObject({ heldMicros: 0, availableMicros: 10_833 });
  });

  it("is added once per Idempotency-Key", async () => {
    const { name } = await openAccount({ plan: "metered" });
    const headers = { "idempotency-key": `credit-${name}` };
    const add = (micros: number) => ask<Account>("POST", `/v1/accounts/${name}:credit`, { micros }, headers);
    await Promise.all([add(500), add(500), add(500)]);
    expect((await add(500)).body.creditedMicros).toBe(500);
    expect((await add(501)).status).toBe(422);
  });

  it("that runs out puts what runs to sleep, above 0, and more of it wakes it again", async () => {
    const account = await openAccount({ plan: "metered", creditMicros: 40_000 });
    const sandbox = await make(account);
    // One vCPU-hour: 25,000; what is left does not cover ten minutes more.
    await report(account.name, sandbox.id, 1, { cpu: HOUR_NS, memory: 2048 * MIB_HOUR * 0.4 });
    const asleep = await settled(account, sandbox.id, "paused");
    expect(asleep).toMatchObject({ stopReason: "insufficient_funds", chargedMicros: 31_000 });
    const after = await accountOf(account);
    expect(after).toMatchObject({ spentMicros: 31_000, availableMicros: 9000, heldMicros: 0 });
    const woken = await account.as("POST", `/v1/sandboxes/${sandbox.id}:exec`, { command: "true" });
    expect([woken.status, woken.body.error.code]).toEqual([402, "insufficient_funds"]);
    expect((await fake.state(sandbox.name ?? "")).log.filter((line) => line.startsWith("wake"))).toEqual([]);
    // The same report again, and after the object forgot what it held in memory.
    await evictDurableObject(env.ACCOUNT.getByName(account.name));
    await report(account.name, sandbox.id, 1, { cpu: HOUR_NS, memory: 2048 * MIB_HOUR * 0.4 });
    expect(await accountOf(account)).toMatchObject({ spentMicros: 31_000 });
    await ask("POST", `/v1/accounts/${account.name}:credit`, { micros: 100_000 });
    expect((await account.as("POST", `/v1/sandboxes/${sandbox.id}:wake`, {})).body.state).toBe("running");
  });

  it("that is gone keeps what sleeps for a week at no cost, announces its end, and then lets go", async () => {
    const account = await openAccount({ plan: "metered", creditMicros: 20_000 });
    const sandbox = await make(account);
    await account.as("POST", `/v1/sandboxes/${sandbox.id}:pause`, {});
    await report(account.name, sandbox.id, 1, { cpu: HOUR_NS });
    const gone = await accountOf(account);
    expect(gone.unpaidSince).not.toBeNull();
    const notices = (await account.as<{ data: Notice[] }>("GET", "/v1/notices")).body.data;
    expect(notices).toMatchObject([{ kind: "credit_gone", at: gone.unpaidDeletesAt }]);
    await report(account.name, sandbox.id, 2, { cpu: HOUR_NS, stored: 1e9 * 86_400_000 * 30 });
    expect((await accountOf(account)).spentMicros).toBe(25_000);
    const stub = env.ACCOUNT.getByName(account.name);
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(Date.now() + 6.9 * 86_400_000);
    await runDurableObjectAlarm(stub);
    expect((await account.as("GET", `/v1/sandboxes/${sandbox.id}`)).body.state).toBe("paused");
    vi.setSystemTime(Date.now() + 0.2 * 86_400_000);
    await heartbeat();
    await runDurableObjectAlarm(stub);
    await runDurableObjectAlarm(stub);
    await eventually(
      () => account.as("GET", `/v1/sandboxes/${sandbox.id}`),
      ({ status }) => status === 410,
    );
  });

  it("added in time keeps what sleeps", async () => {
    const account = await openAccount({ plan: "metered", creditMicros: 20_000 });
    const sandbox = await make(account);
    await account.as("POST", `/v1/sandboxes/${sandbox.id}:pause`, {});
    await report(account.name, sandbox.id, 1, { cpu: HOUR_NS });
    await ask("POST", `/v1/accounts/${account.name}:credit`, { micros: 100_000 });
    expect((await accountOf(account)).unpaidSince).toBeNull();
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(Date.now() + 8 * 86_400_000);
    await runDurableObjectAlarm(env.ACCOUNT.getByName(account.name));
    expect((await account.as("GET", `/v1/sandboxes/${sandbox.id}`)).body.state).toBe("paused");
  });
});

describe("limits on spending", () => {
  it("of a sandbox's life end its run and keep it asleep", async () => {
    const account = await openAccount();
    const sandbox = await make(account, { maxTotalCostMicros: 20_000 });
    await report(account.name, sandbox.id, 1, { cpu: HOUR_NS });
    expect(await settled(account, sandbox.id, "paused")).toMatchObject({
      stopReason: "lifetime_cap",
      maxTotalCostMicros: 20_000,
      chargedMicros: 25_000,
    });
    expect((await account.as("POST", `/v1/sandboxes/${sandbox.id}:wake`, {})).body.error).toMatchObject({
      code: "spending_limit_reached",
      details: { limits: [{ of: "sandbox", spentMicros: 25_000, limitMicros: 20_000 }] },
    });
    await account.as("POST", `/v1/sandboxes/${sandbox.id}:update`, { maxTotalCostMicros: null });
    expect((await account.as("POST", `/v1/sandboxes/${sandbox.id}:wake`, {})).body.state).toBe("running");
  });

  it("of a key's day end what it made, and nothing else, until the next day", async () => {
    const account = await openAccount();
    const other = await make(account);
    const made = (await account.as<NewAccount>("POST", "/v1/keys", { dailyLimitMicros: 10_000 })).body;
    const theirs = await ask("POST", "/v1/sandboxes", { name: freshName() }, { authorization: `Bearer ${made.key}` });
    await report(account.name, theirs.body.id, 1, { cpu: HOUR_NS / 2 });
    await report(account.name, other.id, 1, { cpu: HOUR_NS });
    expect(await settled(account, theirs.body.id, "paused")).toMatchObject({ stopReason: "spending_limit" });
    expect((await account.as("GET", `/v1/sandboxes/${other.id}`)).body.state).toBe("running");
    expect((await account.as("POST", `/v1/sandboxes/${theirs.body.id}:wake`, {})).body.error.details).toMatchObject({
      limits: [{ of: "key", spentMicros: 12_500, limitMicros: 10_000 }],
    });
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(Date.now() + 86_400_000);
    await heartbeat();
    expect((await account.as("POST", `/v1/sandboxes/${theirs.body.id}:wake`, {})).body.state).toBe("running");
  });

  it("of the account's day hold for all, to the microdollar", async () => {
    const account = await openAccount({ dailyLimitMicros: 25_000 });
    const one = await make(account);
    await report(account.name, one.id, 1, { cpu: HOUR_NS - 200_000_000 });
    expect(await accountOf(account)).toMatchObject({ spentTodayMicros: 24_999 });
    expect((await make(account)).state).toBe("running");
    await report(account.name, one.id, 2, { cpu: HOUR_NS });
    await settled(account, one.id, "paused");
    expect((await account.as("POST", "/v1/sandboxes", { name: freshName() })).body.error.code).toBe(
      "spending_limit_reached",
    );
  });
});

describe("plans", () => {
  it("a flat price counts existence by the millisecond, and nothing else", async () => {
    const account = await openAccount({ plan: "flat", flatMicrosPerMonth: 12_000_000, creditMicros: 50_000_000 });
    const sandbox = await make(account, { labels: { team: "blue" } });
    await account.as("POST", `/v1/sandboxes/${sandbox.id}:pause`, {});
    const bornAt = Date.parse(sandbox.createdAt);
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(bornAt + 15 * 86_400_000);
    await heartbeat();
    await report(account.name, sandbox.id, 1, { cpu: 100 * HOUR_NS, memory: 1e15 });
    const stub = env.ACCOUNT.getByName(account.name);
    await runDurableObjectAlarm(stub);
    await runDurableObjectAlarm(stub);
    await evictDurableObject(stub);
    const usage = async () => (await account.as<Usage>("GET", "/v1/usage?month=all&by=label:team")).body;
    expect(await usage()).toMatchObject({ totalMicros: 6_000_000, groups: [{ key: "blue", totalMicros: 6_000_000 }] });
    await account.as("DELETE", `/v1/sandboxes/${sandbox.id}`);
    vi.setSystemTime(bornAt + 25 * 86_400_000);
    await runDurableObjectAlarm(stub);
    expect((await usage()).totalMicros).toBe(6_000_000);
    expect(await accountOf(account)).toMatchObject({ spentMicros: 6_000_000, availableMicros: 44_000_000 });
  });

  it("a trial keeps what sleeps for 7 days, free", async () => {
    const account = await openAccount({ plan: "trial", creditMicros: 100_000 });
    const sandbox = await make(account);
    expect(sandbox.retentionDays).toBe(7);
    await report(account.name, sandbox.id, 1, { stored: 1e9 * 86_400_000 * 30 });
    expect(await accountOf(account)).toMatchObject({ spentMicros: 0 });
  });
});

it("shows what a month cost by sandbox, by label, by month and as CSV, also of what is deleted", async () => {
  const account = await openAccount();
  const red = await make(account, { labels: { team: "red", note: '"=1", x' } });
  const blue = await make(account, { labels: { team: "blue" } });
  await report(account.name, red.id, 1, { cpu: HOUR_NS });
  await report(account.name, blue.id, 1, { cpu: 2 * HOUR_NS });
  await account.as("DELETE", `/v1/sandboxes/${red.id}`);
  const usage = (await account.as<Usage>("GET", "/v1/usage?by=label:team")).body;
  expect(usage).toMatchObject({
    totalMicros: 75_000,
    spent: "75000",
    available: "0",
    groups: [
      { key: "blue", totalMicros: 50_000, sandboxes: 1 },
      { key: "red", totalMicros: 25_000, sandboxes: 1 },
    ],
  });
  expect(usage.lines.find(({ sandboxId }) => sandboxId === red.id)).toMatchObject({
    name: red.name,
    plan: "unmetered",
  });
  const month = new Date().toISOString().slice(0, 7);
  expect((await account.as<Usage>("GET", "/v1/usage?month=all&by=month")).body.groups).toEqual([
    { key: month, totalMicros: 75_000, sandboxes: 2 },
  ]);
  const csv = await call("GET", "/v1/usage?format=csv", undefined, { authorization: `Bearer ${account.key}` });
  expect(csv.headers.get("content-type")).toBe("text/csv; charset=utf-8");
  const text = await csv.text();
  expect(text.split("\n")[0]).toBe(
    "month,sandboxId,name,labels,plan,cpu,memory,stored,cpuMicros,memoryMicros,storedMicros,flatMicros,totalMicros,kind,volume,volumeMicros,backup,backupMicros",
  );
  expect(text).toContain(`${month},${red.id},${red.name},"team=red note=""=1"", x",unmetered,${HOUR_NS}`);
  for (const wrong of ["by=color", "by=label:", "format=xml", "month=13"])
    expect((await account.as("GET", `/v1/usage?${wrong}`)).status).toBe(400);
});

it("spends what an independent model spends, to the microdollar, under repeats, reorder, loss and eviction", async () => {
  for (const seed of [1, 2, 3]) {
    let random = seed * 7919;
    const next = (n: number) => (random = (random * 48_271) % 2_147_483_647) % n;
    const account = await openAccount({ plan: "metered", creditMicros: 1_000_000_000 });
    const machines = Array.from({ length: 4 }, () => ({ id: newSandboxId(freshName()), generation: 1, sequence: 0 }));
    /** Newest totals of each generation that arrived. */
    const arrived = new Map<string, { sequence: number; amounts: bigint[] }>();
    const totals = new Map<string, bigint[]>();
    const sent: { key: string; report: Record<string, unknown>; amounts: bigint[]; sequence: number }[] = [];
    for (let step = 0; step < 60; step++) {
      const machine = machines[next(4)];
      if (!machine) continue;
      if (next(8) === 0) Object.assign(machine, { generation: machine.generation + 1, sequence: 0 });
      const { id, generation } = machine;
      const key = `${id} ${generation}`;
      const before = totals.get(key) ?? [0n, 0n, 0n];
      // Up to some minutes of four CPUs, of GiBs, of GBs.
      const amounts = before.map(
        (sum, at) => sum + BigInt(next(1_000_000)) * ([720_000n, 700n, 60_000_000n][at] ?? 1n),
      );
      totals.set(key, amounts);
      const sequence = ++machine.sequence;
      const [cpu, memory, stored] = amounts.map(String);
      sent.push({
        ...{ key, amounts, sequence },
        report: { account: account.name, id, generation, sequence, cpu, memory, stored },
      });
      // Some never arrive, some twice, some late.
      if (next(5) === 0) continue;
      const batch = [sent.length - 1, ...(next(3) === 0 ? [next(sent.length)] : [])].map((at) => sent[at]);
      for (const one of batch) {
        if (!one) continue;
        const known = arrived.get(one.key);
        if (!known || known.sequence < one.sequence) arrived.set(one.key, one);
      }
      const answer = await edge(`${API}/internal/usage`, {
        method: "POST",
        headers: { authorization: `Bearer ${await hostKey(roots.host, "fake-1", FIRST_EPOCH)}` },
        body: JSON.stringify({ reports: batch.map((one) => one?.report) }),
      });
      expect(await answer.json()).toEqual({ ok: true, refused: 0 });
      if (next(15) === 0) await evictDurableObject(env.ACCOUNT.getByName(account.name));
    }
    // By sandbox and meter, each rounded once, half up: written out, not with the code under test.
    let expected = 0n;
    for (const { id } of machines) {
      const sums = [...arrived].filter(([key]) => key.startsWith(`${id} `)).map(([, { amounts }]) => amounts);
      const total = (at: number) => sums.reduce((sum, amounts) => sum + (amounts[at] ?? 0n), 0n);
      const rounded = (amount: bigint, rate: bigint, unit: bigint) => (amount * rate + unit / 2n) / unit;
      expected += rounded(total(0), 25_000n, 3_600_000_000_000n);
      expected += rounded(total(1), 7500n, 1024n * 3_600_000n);
      expected += rounded(total(2), 80_000n, 1_000_000_000n * 2_592_000_000n);
    }
    const usage = (await account.as<Usage>("GET", "/v1/usage")).body;
    expect([usage.spent, String(usage.totalMicros)]).toEqual([String(expected), String(expected)]);
    expect(await accountOf(account)).toMatchObject({ spentMicros: Number(expected), heldMicros: 0 });
  }
});

it("plays the example of 1,000 users through a real meter and the real books: $25.00, $300.00, $39.44, $364.44", async () => {
  // One agent's month on its host: 10 hours awake at a tenth of a vCPU with 4 GiB, 710 hours asleep with 0.5 GB.
  let now = 0;
  const rows = new Map<string, UsageRow>();
  const store = {
    put: (row: UsageRow) => void rows.set(String(row.generation), row),
    remove: () => undefined,
    all: () => [],
  };
  const meter = new Meter(store, () => now);
  const row = (state: "running" | "paused") =>
    ({ id: "agent", account: "seed", generation: 1, state, shape: { memoryMiB: 4096 } }) as unknown as JournalRow;
  const HOUR = 3_600_000;
  let cpuNs = 0n;
  meter.observe(row("running"));
  meter.sample("agent", { cpuNs, storedBytes: 0 });
  for (; now < 10 * HOUR;) {
    now += 10_000;
    cpuNs += 1_000_000_000n;
    meter.sample("agent", { cpuNs, storedBytes: 500_000_000 });
    meter.answered();
  }
  meter.observe(row("paused"));
  for (; now < 720 * HOUR;) {
    now += 10_000;
    meter.answered();
  }
  const [measured] = meter.pending();
  expect(measured?.amounts).toEqual({
    cpu: 3_600_000_000_000n,
    memory: 4096n * 10n * BigInt(HOUR),
    stored: 500_000_000n * 710n * BigInt(HOUR),
    volume: 0n,
    backup: 0n,
  });
  const account = await openAccount();
  const amounts = measured && toDigits(measured.amounts);
  const reports = Array.from({ length: 1000 }, () => ({
    ...{ account: account.name, id: newSandboxId(freshName()), generation: 1, sequence: 1 },
    ...amounts,
  }));
  // Some twice, in another order, and over an eviction.
  const send = async (batch: object[]) => {
    const answer = await edge(`${API}/internal/usage`, {
      method: "POST",
      headers: { authorization: `Bearer ${await hostKey(roots.host, "fake-1", FIRST_EPOCH)}` },
      body: JSON.stringify({ reports: batch }),
    });
    expect(await answer.json()).toEqual({ ok: true, refused: 0 });
  };
  await send(reports.slice(0, 500));
  await evictDurableObject(env.ACCOUNT.getByName(account.name));
  await send(reports.slice(400, 900).toReversed());
  await send(reports.slice(800));
  const usage = (await account.as<Usage>("GET", "/v1/usage")).body;
  const sum = (field: "cpuMicros" | "memoryMicros" | "storedMicros") =>
    dollars(BigInt(usage.lines.reduce((total, line) => total + line[field], 0)));
  expect([sum("cpuMicros"), sum("memoryMicros"), sum("storedMicros")]).toEqual(["$25.00", "$300.00", "$39.44"]);
  expect(dollars(BigInt(usage.totalMicros))).toBe("$364.44");
  expect(usage.spent).toBe(String(usage.totalMicros));
  // A memory volume of 1 GiB for each user and month.
  expect(dollars(priceOf("volume", 1024n * 720n * BigInt(HOUR), defaultRates))).toBe("$0.11");
});

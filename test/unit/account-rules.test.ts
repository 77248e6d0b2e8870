/** What accounts, keys and money allow: the rules, without an object around them. */
import { describe, expect, it } from "vitest";
import { endOf, flatPrice, holdOf, isReached, MONTH_MS, overLimit, shortOf } from "../../durable/account/funds.ts";
import { excess, isLive, may, type StoredKey } from "../../durable/account/key.ts";
import { byMonth, groupsOf, priceOfLine } from "../../durable/account/ledger.ts";
import { noticesOf } from "../../durable/account/notices.ts";
import { NO_QUOTAS, overQuota } from "../../durable/account/quota.ts";
import type { Account, AccountPlan } from "../../sdk/contract/account.ts";
import { defaultRates, NOTHING } from "../../sdk/contract/pricing.ts";
import type { Sandbox } from "../../sdk/contract/sandbox.ts";
import type { UsageLine } from "../../sdk/contract/usage.ts";
import { limitRate, take, type Bucket } from "../../worker/middleware/rate-limit.ts";

const used = { running: 3, vcpus: 6, memoryMiB: 6144, kept: 5, createdToday: 9 };
const wanted = { vcpu: 2, memoryMiB: 2048, isNew: true };

describe("quotas", () => {
  it("allow up to the limit and not one more, each of them", () => {
    for (const [name, max] of [
      ["running", 4],
      ["vcpus", 8],
      ["memoryMiB", 8192],
      ["kept", 6],
      ["createdPerDay", 10],
    ] as const) {
      expect(overQuota({ ...NO_QUOTAS, [name]: max }, used, wanted)).toBeNull();
      expect(overQuota({ ...NO_QUOTAS, [name]: max - 1 }, used, wanted)).toMatchObject({
        code: "quota_exceeded",
        details: { limits: { [name]: { max: max - 1, wouldBe: max } } },
      });
    }
  });

  it("let what exists run on, however low what may be kept was set", () => {
    expect(overQuota({ ...NO_QUOTAS, kept: 0, createdPerDay: 0 }, used, { ...wanted, isNew: false })).toBeNull();
    expect(overQuota(NO_QUOTAS, used, wanted)).toBeNull();
  });
});

describe("money", () => {
  const amounts = { ...NOTHING, cpu: 3_600_000_000_000n, stored: 10n ** 9n * BigInt(MONTH_MS) };

  it("is set aside for ten minutes at full load, on plans that are paid by use", () => {
    const shape = { vcpu: 6, memoryMiB: 6144 };
    expect(holdOf("metered", shape, defaultRates)).toBe(25_000 + 7500);
    expect(holdOf("trial", shape, defaultRates)).toBe(25_000 + 7500);
    expect([holdOf("flat", shape, defaultRates), holdOf("unmetered", shape, defaultRates)]).toEqual([0, 0]);
  });

  it("missing is said to the microdollar, and held money counts as gone", () => {
    const balance = { plan: "metered" as const, credited: 1000, spent: 300, held: 200 };
    expect(shortOf(balance, 500)).toBeNull();
    expect(shortOf(balance, 501)).toMatchObject({
      details: { availableMicros: 500, neededMicros: 501, missingMicros: 1 },
    });
    expect(shortOf({ ...balance, plan: "unmetered", credited: 0 }, 501)).toBeNull();
    expect(shortOf({ ...balance, plan: "flat", credited: 500 }, 0)).toMatchObject({ details: { missingMicros: 1 } });
  });

  it("ends runs for the first reason that holds", () => {
    const rich = { plan: "metered" as const, credited: 100, spent: 0, held: 0 };
    const cap = { of: "sandbox" as const, spent: 5, limit: 5 };
    const day = { of: "account" as const, spent: 5, limit: 5 };
    expect(
      endOf(false, rich, [
        { ...cap, limit: 6 },
        { ...day, limit: null },
      ]),
    ).toBeNull();
    expect(endOf(false, rich, [cap])).toBe("lifetime_cap");
    expect(endOf(false, rich, [day, cap])).toBe("spending_limit");
    expect(endOf(false, { ...rich, spent: 60, held: 41 }, [cap])).toBe("insufficient_funds");
    expect(endOf(true, rich, [])).toBe("operator_stopped");
    expect(isReached({ ...cap, limit: 0, spent: 0 })).toBe(true);
    expect(overLimit([cap, day])?.message).toContain("sandbox and the account");
  });

  it("depends on the plan: use, use without sleep, or existence alone", () => {
    const line = { month: "2026-11", sandboxId: "s", amounts, existedMs: MONTH_MS / 2 };
    const on = (plan: AccountPlan) => priceOfLine({ ...line, plan }, defaultRates, 12_000_001);
    expect([on("metered").totalMicros, on("unmetered").totalMicros]).toEqual([105_000, 105_000]);
    expect(on("trial")).toMatchObject({ cpuMicros: 25_000, storedMicros: 0, totalMicros: 25_000 });
    expect(on("flat")).toMatchObject({ cpuMicros: 0, flatMicros: 6_000_001 });
    // A volume costs what it costs on every plan.
    const volume = { ...line, amounts: { ...NOTHING, volume: 1024n * 3_600_000n }, existedMs: 0 };
    for (const plan of ["metered", "unmetered", "trial", "flat"] as const)
      expect(priceOfLine({ ...volume, plan }, defaultRates, 12_000_001)).toMatchObject({
        volumeMicros: 153,
        totalMicros: 153,
      });
    expect(flatPrice(1, 12_000_000)).toBe(0);
    expect(flatPrice(MONTH_MS, 12_000_000)).toBe(12_000_000);
  });

  it("of a time span falls into the months that it lies in", () => {
    const from = Date.parse("2026-11-30T23:00:00Z");
    expect(byMonth(from, Date.parse("2027-01-01T01:00:00Z"))).toEqual([
      { month: "2026-11", ms: 3_600_000 },
      { month: "2026-12", ms: 31 * 86_400_000 },
      { month: "2027-01", ms: 3_600_000 },
    ]);
    expect(byMonth(from, from)).toEqual([]);
  });

  it("is summed by label, and what has none is a group of its own", () => {
    const line = (sandboxId: string, labels: Record<string, string>, totalMicros: number) =>
      ({ month: "2026-11", kind: "sandbox", sandboxId, labels, totalMicros }) as unknown as UsageLine;
    const lines = [
      line("a", { team: "x" }, 1),
      line("b", { team: "y" }, 2),
      line("a", { team: "x" }, 4),
      line("c", {}, 8),
      { ...line("vol-1", {}, 16), kind: "volume" as const },
    ];
    expect(groupsOf(lines, "label:team")).toEqual([
      { key: null, totalMicros: 24, sandboxes: 1 },
      { key: "x", totalMicros: 5, sandboxes: 1 },
      { key: "y", totalMicros: 2, sandboxes: 1 },
    ]);
  });
});

describe("keys", () => {
  const full: StoredKey = {
    id: "k",
    hash: "h",
    name: "n",
    access: "full",
    namePrefix: null,
    maxSandboxes: null,
    dailyLimitMicros: null,
    memberId: null,
    createdAt: 0,
    expiresAt: null,
    revokedAt: null,
  };

  it("may do what their access lists", () => {
    expect([may("full", "administer"), may("sandboxes", "administer"), may("read", "use_sandboxes")]).toEqual([
      true,
      false,
      false,
    ]);
    expect([may("billing", "read_money"), may("billing", "read"), may("sandboxes", "use_sandboxes")]).toEqual([
      true,
      false,
      true,
    ]);
  });

  it("are over at their end, to the millisecond, or when revoked", () => {
    expect(isLive({ expiresAt: 100, revokedAt: null }, 99)).toBe(true);
    expect(isLive({ expiresAt: 100, revokedAt: null }, 100)).toBe(false);
    expect(isLive({ expiresAt: null, revokedAt: 5 }, 1)).toBe(false);
  });

  it("make none that is more than they are", () => {
    expect(excess(full, full)).toEqual([]);
    expect(excess({ ...full, access: "sandboxes" }, full)).toEqual(["access"]);
    expect(excess({ ...full, access: "read" }, { ...full, access: "billing" })).toEqual([]);
    expect(excess({ ...full, namePrefix: "a-" }, { ...full, namePrefix: "a-b" })).toEqual([]);
    expect(excess({ ...full, namePrefix: "a-" }, { ...full, namePrefix: "b" })).toEqual(["namePrefix"]);
    expect(excess({ ...full, maxSandboxes: 2, expiresAt: 9 }, { ...full, maxSandboxes: 3 })).toEqual([
      "maxSandboxes",
      "expiresAt",
    ]);
  });
});

it("announces what ends: sleepers a week before, or at half of a short retention; keys; credit", () => {
  const now = Date.parse("2026-11-29T00:00:00Z");
  const day = 86_400_000;
  const account = { availableMicros: null, spentTodayMicros: 0, unpaidSince: null } as unknown as Account;
  const sleeper = (days: number, retentionDays: number) =>
    ({
      id: `s${days}`,
      name: null,
      retentionDays,
      pausedExpiresAt: new Date(now + days * day).toISOString(),
    }) as Sandbox;
  const awake = { id: "awake", pausedExpiresAt: null } as Sandbox;
  const notices = noticesOf(account, [sleeper(8, 30), sleeper(6, 30), sleeper(4, 7), sleeper(3, 7), awake], [], now);
  expect(notices.map(({ sandboxId }) => sandboxId)).toEqual(["s3", "s6"]);
  const low = { ...account, availableMicros: 50, spentTodayMicros: 20 };
  expect(noticesOf(low, [], [], now)).toMatchObject([{ kind: "credit_low", at: "2026-12-01T12:00:00.000Z" }]);
  expect(noticesOf({ ...low, availableMicros: 61 }, [], [], now)).toEqual([]);
});

describe("the rate of calls", () => {
  it("is a burst, then so many a second, and tells how long to wait", () => {
    const rate = { perSecond: 10, burst: 3 };
    let bucket: Bucket | undefined;
    const call = (at: number) => {
      const taken = take(bucket, rate, at);
      bucket = taken.bucket;
      return taken.waitMs;
    };
    expect([call(0), call(0), call(0), call(0)]).toEqual([0, 0, 0, 100]);
    expect([call(100), call(100)]).toEqual([0, 100]);
    // A clock that steps back gives nothing away.
    expect(call(50)).toBe(100);
    expect([call(10_000), call(10_000), call(10_000), call(10_000)]).toEqual([0, 0, 0, 100]);
  });

  it("is kept for each key apart", () => {
    const now = Date.now();
    limitRate("one", "1:1", now);
    expect(() => limitRate("one", "1:1", now)).toThrow("More than 1 calls");
    limitRate("two", "1:1", now);
  });
});

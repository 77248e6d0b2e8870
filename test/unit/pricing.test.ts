/** Prices: the published example to the cent, and the arithmetic against an independent one. */
import { describe, expect, it, test } from "vitest";
import {
  add,
  amountsOf,
  defaultRates,
  dollars,
  meters,
  NOTHING,
  priceOf,
  Rates,
  ratesAt,
  totalOf,
} from "../../sdk/contract/pricing.ts";

describe("the published example of 1,000 users", () => {
  const amounts = amountsOf({
    users: 1000,
    awakeHours: 10,
    cpu: 0.1,
    memoryGib: 4,
    storedGb: 0.5,
    volumeGib: 0,
    monthHours: 720,
  });

  it("comes to what was published", () => {
    const lines = meters.map((meter) => dollars(priceOf(meter, amounts[meter], defaultRates)));
    expect(lines).toEqual(["$25.00", "$300.00", "$39.44", "$0.00", "$0.00"]);
    expect(dollars(totalOf(amounts, defaultRates))).toBe("$364.44");
  });

  it("has a volume of 1 GiB at eleven cents a month", () => {
    const plan = { users: 1, awakeHours: 0, cpu: 0, memoryGib: 0, storedGb: 0, volumeGib: 1, monthHours: 720 };
    expect(priceOf("volume", amountsOf(plan).volume, defaultRates)).toBe(110_160n);
    expect(dollars(110_160n)).toBe("$0.11");
  });
});

test("a line is rounded once, half up, and never by floating point", () => {
  // Half a microdollar of CPU: 3.6e12 ns are 25,000, so 72,000,000 ns are half of one.
  expect(priceOf("cpu", 72_000_000n, defaultRates)).toBe(1n);
  expect(priceOf("cpu", 71_999_999n, defaultRates)).toBe(0n);
  const amount = 123_456_789_012_345_678_901n;
  const exactly = (amount * 25_000n * 10n) / 3_600_000_000_000n;
  expect(priceOf("cpu", amount, defaultRates)).toBe((exactly + 5n) / 10n);
});

test("readings add up to the price of their sum when they are priced late", () => {
  let seed = 42;
  const random = () => (seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648);
  let sum = NOTHING;
  const parts = Array.from({ length: 500 }, () => ({
    cpu: BigInt(random()),
    memory: BigInt(random()),
    stored: BigInt(random()),
    volume: BigInt(random()),
    backup: BigInt(random()),
  }));
  for (const part of parts) sum = add(sum, part);
  for (const meter of meters) expect(sum[meter]).toBe(parts.reduce((all, part) => all + part[meter], 0n));
  const early = parts.reduce((all, part) => all + totalOf(part, defaultRates), 0n);
  // Rounding each reading would be off by up to half a microdollar each; that is why prices are applied late.
  expect(Math.abs(Number(early - totalOf(sum, defaultRates)))).toBeLessThan(parts.length * 2);
});

test("rates hold from their day on, and the first ones before it, too", () => {
  const dearer = { ...defaultRates, from: "2026-06-01T00:00:00.000Z", cpuPerVcpuHour: 30_000 };
  const at = (day: string) => ratesAt([defaultRates, dearer], Date.parse(day)).cpuPerVcpuHour;
  expect([at("2020-01-01"), at("2026-05-31T23:59:59.999Z"), at("2026-06-01"), at("2027-01-01")]).toEqual([
    25_000, 25_000, 30_000, 30_000,
  ]);
});

test("money is written as people write it", () => {
  expect([0n, 4999n, 5000n, 1_234_567n, 364_440_000n, 1_234_567_890_000n, -39_444_444n].map(dollars)).toEqual([
    "$0.00",
    "$0.00",
    "$0.01",
    "$1.23",
    "$364.44",
    "$1,234,567.89",
    "-$39.44",
  ]);
});

test("rates that nobody can mean are refused", () => {
  for (const wrong of [{ cpuPerVcpuHour: -1 }, { memoryPerGibHour: 0.5 }, { storedPerGbMonth: 1e18 }, { extra: 1 }])
    expect(Rates.safeParse({ ...defaultRates, ...wrong }).success).toBe(false);
});

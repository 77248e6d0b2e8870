/** Amounts and times as people write them on the command line. */
import { describe, expect, test } from "vitest";
import { UsageError } from "../../sdk/cli/args.ts";
import { openerOf } from "../../sdk/cli/browser.ts";
import { microsOf, usd } from "../../sdk/cli/money.ts";
import { endOf } from "../../sdk/cli/time.ts";

describe("an amount in dollars", () => {
  test.each([
    ["0", 0],
    ["1", 1_000_000],
    ["12.5", 12_500_000],
    ["0.000001", 1],
    ["0.1", 100_000],
    ["4.35", 4_350_000],
    ["1.005", 1_005_000],
    ["1.1", 1_100_000],
    ["0.29", 290_000],
    ["9007199.254741", 9_007_199_254_741],
    ["999999999.999999", 999_999_999_999_999],
    ["1000000000", 1_000_000_000_000_000],
    ["007", 7_000_000],
  ])("%s is read to the microdollar", (text, micros) => {
    expect(microsOf("--x", text)).toBe(micros);
  });

  test.each([
    "",
    " ",
    "-1",
    "+1",
    "1e3",
    "0x10",
    "1.",
    ".5",
    "1.0000001",
    "1,000",
    "$1",
    "NaN",
    "Infinity",
    "٣",
    "1 2",
  ])("%j is refused", (text) => {
    expect(() => microsOf("--x", text)).toThrow(UsageError);
    expect(() => microsOf("--x", text)).toThrow("--x");
  });

  test("beyond what makes sense is refused", () => {
    for (const text of ["1000000000.000001", "999999999999", "1".repeat(40)])
      expect(() => microsOf("--x", text)).toThrow(UsageError);
    expect(microsOf("--x", "5", 5_000_000n)).toBe(5_000_000);
    expect(() => microsOf("--x", "5.000001", 5_000_000n)).toThrow("more than $5.00");
    expect(microsOf("--x", undefined)).toBeUndefined();
  });

  test.each([
    [0, "$0.00"],
    [1, "$0.000001"],
    [10_833, "$0.010833"],
    [12_500_000, "$12.50"],
    [-1_234_567_800_000, "-$1,234,567.80"],
    [1_000_000_000_000_000, "$1,000,000,000.00"],
  ])("%d is shown to its last digit", (micros, text) => {
    expect(usd(micros)).toBe(text);
  });
});

test("an end is a day or a time with its zone", () => {
  expect(endOf("--x", "2026-12-31").toISOString()).toBe("2026-12-31T00:00:00.000Z");
  expect(endOf("--x", "2026-12-31T18:00:00+02:00").toISOString()).toBe("2026-12-31T16:00:00.000Z");
  for (const text of ["tomorrow", "2026-02-30", "2026-12-31T18:00:00", "1", ""])
    expect(() => endOf("--x", text)).toThrow(UsageError);
});

test("a browser is opened only where somebody would see it", () => {
  expect(openerOf("linux", {})).toEqual([]);
  expect(openerOf("linux", { DISPLAY: ":0" })).toEqual(["xdg-open"]);
  expect(openerOf("linux", { WAYLAND_DISPLAY: "wayland-0" })).toEqual(["xdg-open"]);
  expect(openerOf("darwin", {})).toEqual(["open"]);
  expect(openerOf("darwin", { SSH_CONNECTION: "10.0.0.1 1 10.0.0.2 22" })).toEqual([]);
});

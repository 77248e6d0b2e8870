import { describe, expect, it } from "vitest";
import { countLine, type Exit, isGreen, outcomeOf, parseRecords, report, type TestRecord } from "./test-record.ts";

const clean: Exit = { code: 0, signal: null };
const end: TestRecord = { type: "end" };
const passed: TestRecord = { type: "test", state: "passed", file: "a.test.ts", name: "works" };
const failed: TestRecord = {
  type: "test",
  state: "failed",
  file: "a.test.ts",
  name: "adds",
  message: "no",
  at: "a.test.ts:3",
};
const skipped: TestRecord = { type: "test", state: "skipped", file: "a.test.ts", name: "kvm", reason: "no /dev/kvm" };

const summary = (records: TestRecord[], exit: Exit) => {
  const outcome = outcomeOf("unit", records, exit);
  return { line: countLine([outcome]), green: isGreen([outcome]) };
};

describe("outcomeOf", () => {
  it("counts a clean run", () => {
    expect(summary([passed, passed, end], clean)).toEqual({ line: "2 passed, 0 failed", green: true });
  });

  it("counts skips apart", () => {
    expect(summary([passed, skipped, end], clean)).toEqual({ line: "1 passed, 0 failed, 1 skipped", green: true });
  });

  it("counts a failed test once", () => {
    expect(summary([passed, failed, end], { code: 1, signal: null })).toEqual({
      line: "1 passed, 1 failed",
      green: false,
    });
  });

  it("is red for failures outside of tests", () => {
    const error: TestRecord = { type: "error", file: "b.test.ts", name: "the file", message: "cannot load" };
    expect(summary([passed, error, end], { code: 1, signal: null }).line).toBe("1 passed, 1 failed");
  });

  it.each<[string, TestRecord[], Exit]>([
    ["a killed process", [passed], { code: null, signal: "SIGKILL" }],
    ["an early exit with code 0", [passed], clean],
    ["a bad exit without a reason", [passed, end], { code: 1, signal: null }],
    ["a hang", [passed], { code: null, signal: "SIGTERM", stopped: "hangs" }],
  ])("counts %s as one more failure", (_what, records, exit) => {
    expect(summary(records, exit)).toEqual({ line: "1 passed, 1 failed", green: false });
  });

  it("keeps the failures that came before a crash", () => {
    expect(summary([failed], { code: null, signal: "SIGSEGV" }).line).toBe("0 passed, 2 failed");
  });
});

describe("isGreen", () => {
  it("is not for nothing", () => {
    expect(isGreen([])).toBe(false);
    expect(summary([end], clean).green).toBe(false);
    expect(summary([skipped, end], clean).green).toBe(false);
  });
});

describe("report", () => {
  it("names failures with file and message, skips with their reason, and ends with the count", () => {
    const text = report([outcomeOf("unit", [passed, failed, skipped, end], { code: 1, signal: null })]);
    expect(text).toContain("unit > a.test.ts > adds\n      no\n      at a.test.ts:3");
    expect(text).toContain("unit > a.test.ts > kvm: no /dev/kvm");
    expect(text.split("\n").at(-1)).toBe("1 passed, 1 failed, 1 skipped");
  });

  it("says when no test ran", () => {
    expect(report([]).split("\n")).toEqual(["", "No test ran.", "", "0 passed, 0 failed"]);
  });
});

describe("parseRecords", () => {
  it("drops the line that a killed process left unfinished", () => {
    expect(parseRecords(`${JSON.stringify(passed)}\n{"type":"te`)).toEqual([passed]);
  });
});

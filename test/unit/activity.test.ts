import { describe, it } from "vitest";
import {
  Activity,
  CPU_WINDOW_MS,
  IDLE_CPU_EMULATED,
  isCpuIdle,
  untilMeasure,
} from "../../backend-pool/machine/activity.ts";

describe("activity", () => {
  it("lasts to the end of what is under way, and counts each end once", ({ expect }) => {
    let now = 1000;
    const activity = new Activity(500, () => now);
    expect(activity.lastMs).toBe(500);
    const first = activity.begin();
    const second = activity.begin();
    now = 2000;
    expect(activity.lastMs).toBe(2000);
    first();
    first();
    expect(activity.open).toBe(1);
    now = 3000;
    second();
    now = 9000;
    expect(activity.open).toBe(0);
    expect(activity.lastMs).toBe(3000);
    activity.touch();
    expect(activity.lastMs).toBe(9000);
  });

  it("is idle below a fortieth of one CPU, and only then", ({ expect }) => {
    // 5 s hold 500 ticks of 1/100 s; a fortieth is 12.5.
    expect(isCpuIdle(100, 112, 5000)).toBe(true);
    expect(isCpuIdle(100, 113, 5000)).toBe(false);
    expect(isCpuIdle(100, 100, 0)).toBe(false);
    // Of an emulated one, a twentieth.
    expect(isCpuIdle(100, 124, 5000, IDLE_CPU_EMULATED)).toBe(true);
    expect(isCpuIdle(100, 125, 5000, IDLE_CPU_EMULATED)).toBe(false);
  });

  it("measures so that the measurement ends with the idle time", ({ expect }) => {
    expect(untilMeasure(10_000, 60, 10_000)).toBe(60_000 - CPU_WINDOW_MS);
    expect(untilMeasure(10_000, 60, 69_000)).toBe(0);
    expect(untilMeasure(10_000, 60, 999_000)).toBe(0);
  });
});

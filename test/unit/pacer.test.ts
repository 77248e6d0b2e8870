import { afterEach, beforeEach, describe, it, vi } from "vitest";
import { Pacer } from "../../backend-pool/http/pacer.ts";

describe("new connections into a guest", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  /** Enter `count` times; answers the ways out of those that are in. */
  function enterAll(pacer: Pacer, count: number): ((answered: boolean) => void)[] {
    const inside: ((answered: boolean) => void)[] = [];
    for (let i = 0; i < count; i++) void pacer.enter().then((leave) => inside.push(leave));
    return inside;
  }

  it("are never more at once than a small backlog holds", async ({ expect }) => {
    const inside = enterAll(new Pacer(), 50);
    await vi.advanceTimersByTimeAsync(0);
    expect(inside).toHaveLength(4);
    inside[0]?.(true);
    inside[0]?.(true);
    await vi.advanceTimersByTimeAsync(0);
    expect(inside).toHaveLength(5);
  });

  it("all get in, also when none is answered", async ({ expect }) => {
    const inside = enterAll(new Pacer(), 50);
    await vi.advanceTimersByTimeAsync(499);
    expect(inside).toHaveLength(4);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(inside).toHaveLength(50);
  });

  it("find all places free again when everybody left", async ({ expect }) => {
    const pacer = new Pacer();
    const first = enterAll(pacer, 9);
    await vi.advanceTimersByTimeAsync(1000);
    for (const leave of first) leave(false);
    const second = enterAll(pacer, 9);
    await vi.advanceTimersByTimeAsync(0);
    expect(second).toHaveLength(4);
  });
});

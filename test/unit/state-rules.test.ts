import { describe, expect, it } from "vitest";
import * as rules from "../../durable/state/queue-rules.ts";
import { within } from "../../durable/state/parts.ts";
import { StateBatch, StateKey } from "../../sdk/contract/state.ts";
import { byteRange } from "../../worker/byte-range.ts";

const ready: rules.TaskFacts = {
  ...{ state: "ready", attempts: 0, maxAttempts: 2, readyAt: 100 },
  ...{ lease: null, leaseUntil: null, lastError: null },
};

describe("a task", () => {
  it("is taken when it is due, and held until its lease ends", () => {
    expect([rules.shownState(ready, 99), rules.shownState(ready, 100)]).toEqual(["delayed", "ready"]);
    expect([rules.canBeTaken(ready, 99), rules.canBeTaken(ready, 100)]).toEqual([false, true]);
    const held = rules.taken(ready, "a", 200);
    expect([rules.holds(held, "a", 199), rules.holds(held, "b", 199), rules.holds(held, "a", 200)]).toEqual([
      true,
      false,
      false,
    ]);
    expect([rules.isExpired(held, 199), rules.isExpired(held, 200)]).toEqual([false, true]);
  });

  it("comes again until its attempts are used up, and then is dead, until it is revived", () => {
    const once = rules.returned(rules.taken(ready, "a", 200), 300, null);
    expect(once).toMatchObject({ state: "ready", attempts: 1, readyAt: 300, lease: null });
    const twice = rules.returned(rules.taken(once, "b", 400), 400, "no");
    expect(twice).toMatchObject({ state: "dead", attempts: 2, lastError: "no" });
    expect(rules.revived(twice, 500)).toMatchObject({ state: "ready", attempts: 0, readyAt: 500, lastError: "no" });
  });

  it("that is done keeps its lease, so that the same is known when it is said again", () => {
    const done = rules.done(rules.taken(ready, "a", 200));
    expect(done).toMatchObject({ state: "done", lease: "a", leaseUntil: null });
    expect(rules.holds(done, "a", 150)).toBe(false);
  });
});

describe("a range of bytes", () => {
  it.each([
    ["bytes=0-9", { offset: 0, length: 10 }],
    ["bytes=90-", { offset: 90, length: 10 }],
    ["bytes=90-1000", { offset: 90, length: 10 }],
    ["bytes=-10", { offset: 90, length: 10 }],
    ["bytes=-1000", { offset: 0, length: 100 }],
    ["bytes=100-", "unsatisfiable"],
    ["bytes=-0", "unsatisfiable"],
    ["bytes=5-4", null],
    ["bytes=0-1,3-4", null],
    ["bytes=-", null],
    ["items=0-1", null],
    [null, null],
  ] as const)("%s", (header, range) => {
    expect(byteRange(header, 100)).toEqual(range);
  });

  it("is found in parts", () => {
    const parts = [
      ["a", 10],
      ["b", 5],
      ["c", 10],
    ] as const;
    const found = (offset: number, length: number) =>
      within(parts, { offset, length }).map(({ blob, range }) => [blob, range.offset, range.length]);
    expect(found(0, 25)).toEqual([
      ["a", 0, 10],
      ["b", 0, 5],
      ["c", 0, 10],
    ]);
    expect(found(9, 7)).toEqual([
      ["a", 9, 1],
      ["b", 0, 5],
      ["c", 0, 1],
    ]);
    expect(found(15, 1)).toEqual([["c", 0, 1]]);
  });
});

describe("the contract", () => {
  it.each(["a", "a/b", "a:b", "é", "...", ".a/b.", "a".repeat(512)])("a key may be %s", (key) => {
    expect(StateKey.safeParse(key).success).toBe(true);
  });
  it.each(["", ".", "..", "a/../b", "./a", "a\nb", "\ud800", "é".repeat(257)])("and may not be %j", (key) => {
    expect(StateKey.safeParse(key).success).toBe(false);
  });
  it("a put has a value or bytes", () => {
    const isGood = (more: object) => StateBatch.safeParse({ writes: [{ op: "put", key: "k", ...more }] }).success;
    expect([isGood({ value: null }), isGood({ base64: "AA==" }), isGood({}), isGood({ value: 1, base64: "" })]).toEqual(
      [true, true, false, false],
    );
  });
});

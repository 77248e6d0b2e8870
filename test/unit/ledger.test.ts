/** The books against an independent model, under repeats, reorder and loss. */
import { describe, expect, it } from "vitest";
import { addedBy, monthOf, priceOfLine, type Booked } from "../../durable/account/ledger.ts";
import { add, defaultRates, NOTHING, totalOf, type Amounts } from "../../sdk/contract/pricing.ts";

const amounts = (cpu: number, memory = 0, stored = 0): Amounts => ({
  ...NOTHING,
  cpu: BigInt(cpu),
  memory: BigInt(memory),
  stored: BigInt(stored),
});

describe("a report", () => {
  const booked: Booked = { sequence: 3, amounts: amounts(100, 50, 10) };

  it("adds what has come since the newest that was booked", () => {
    expect(addedBy(null, booked)).toEqual(booked.amounts);
    expect(addedBy(booked, { sequence: 7, amounts: amounts(130, 50, 25) })).toEqual(amounts(30, 0, 15));
  });

  it("adds nothing when it comes again, or late", () => {
    expect(addedBy(booked, booked)).toBe("nothing");
    expect(addedBy(booked, { sequence: 2, amounts: amounts(90, 40, 5) })).toBe("nothing");
  });

  it("is refused when an amount went down", () => {
    expect(addedBy(booked, { sequence: 4, amounts: amounts(99, 60, 20) })).toBeNull();
  });
});

it("books to the unit what meters measured, whatever happens to the reports", () => {
  for (let seed = 1; seed <= 300; seed++) {
    let random = seed;
    const next = (n: number) => (random = (random * 48_271) % 2_147_483_647) % n;
    const books = new Map<number, Booked>();
    let sum = NOTHING;
    const book = (generation: number, report: Booked) => {
      const added = addedBy(books.get(generation) ?? null, report);
      if (added === null) throw new Error("an honest report was refused");
      if (added === "nothing") return;
      books.set(generation, report);
      sum = add(sum, added);
    };
    let truth = NOTHING;
    const sent: [number, Booked][] = [];
    for (let generation = 1; generation <= 4; generation++) {
      let total = NOTHING;
      for (let sequence = 1; sequence <= 6; sequence++) {
        const more = amounts(next(1e6), next(1e6), next(1e6));
        total = add(total, more);
        truth = add(truth, more);
        sent.push([generation, { sequence, amounts: total }]);
      }
    }
    // Some come at once, some twice, some late; the newest of each generation is repeated until it is taken.
    for (const [generation, report] of sent) {
      if (next(3) > 0) book(generation, report);
      const [lateGeneration, late] = sent[next(sent.length)] ?? [generation, report];
      if (next(2) === 0) book(lateGeneration, late);
    }
    for (const [generation, report] of sent.filter(([, { sequence }]) => sequence === 6)) book(generation, report);
    expect([seed, sum]).toEqual([seed, truth]);
    const line = { month: "2026-11", sandboxId: "s", plan: "unmetered" as const, amounts: sum, existedMs: 0 };
    expect(priceOfLine(line, defaultRates, 0).totalMicros).toBe(Number(totalOf(truth, defaultRates)));
  }
});

it("knows the month in UTC", () => {
  expect(monthOf(Date.parse("2026-11-30T23:59:59.999Z"))).toBe("2026-11");
  expect(monthOf(Date.parse("2026-12-01T00:00:00.000Z"))).toBe("2026-12");
});

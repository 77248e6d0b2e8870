/** When an event that was not taken is sent again, and when it is given up. */
import { describe, expect, it } from "vitest";
import { judge, type Outcome } from "../../durable/inbox/retry.ts";

const HOUR = 3_600_000;

describe("rules of retrying", () => {
  const answered = (status: number, retryAfter: string | null = null): Outcome => ({ status, retryAfter });
  const fresh = { attempts: 0, settling: 0 };
  it.each([
    [answered(200), "delivered"],
    [answered(204), "delivered"],
    [answered(302), "retry"],
    [answered(404), "retry"],
    [answered(410), "dead"],
  ])("%j: %s", (outcome, next) => {
    expect(judge(fresh, outcome, 0, 0.5).next).toBe(next);
  });
  it.each([
    [fresh, answered(503, "7200"), HOUR],
    [fresh, answered(503, new Date(60_000).toUTCString()), 60_000],
    [fresh, answered(503, "soon"), 5000],
    [fresh, answered(500, "60"), 5000],
    [{ attempts: 1, settling: 0 }, answered(429, "1"), 300_000],
    [fresh, { status: null, reason: "no_capacity", retryAfterMs: 9000, settling: false } as const, 9000],
    [{ attempts: 0, settling: 5 }, { status: null, reason: "port_not_listening", settling: true } as const, 30_000],
    [{ attempts: 0, settling: 6 }, { status: null, reason: "port_not_listening", settling: true } as const, 5000],
  ])("%j %j waits %d ms", (before, outcome, at) => {
    expect(judge(before, outcome, 0, 0.5)).toMatchObject({ next: "retry", at });
  });
});

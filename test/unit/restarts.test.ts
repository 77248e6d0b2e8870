/** When a service is started again, and which list means what for those that run. */
import { describe, expect, it } from "vitest";
import { afterExit, compared, nextLookMs, type RestartPolicy } from "../../backend-pool/guest/restarts.ts";

const ended = (policy: RestartPolicy, code: number | null, more: { ranMs?: number; failures?: number } = {}) =>
  afterExit({ policy, exit: { code, signal: null }, ranMs: 0, failures: 0, ...more });

describe("a service that ended", () => {
  it.for<[RestartPolicy, number | null, string]>([
    ["always", 0, "again"],
    ["always", 3, "again"],
    ["on-failure", 0, "ended"],
    ["on-failure", 1, "again"],
    ["on-failure", null, "again"],
    ["never", 0, "ended"],
    ["never", 1, "failed"],
    ["never", null, "failed"],
  ])("with %s and exit %s is %s", ([policy, code, next]) => {
    expect(ended(policy, code).next).toBe(next);
  });

  it("waits twice as long each time, from a second to a minute, and a second again after it ran well", () => {
    const waits: number[] = [];
    for (let failures = 0; waits.length < 9;) {
      const verdict = ended("always", 1, { failures });
      if (verdict.next !== "again") throw new Error("it is not started again");
      waits.push(verdict.afterMs);
      ({ failures } = verdict);
    }
    expect(waits).toEqual([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]);
    expect(ended("always", 1, { failures: 9, ranMs: 60_000 })).toEqual({ next: "again", afterMs: 1000, failures: 1 });
    expect(ended("always", 1, { failures: 9, ranMs: 59_999 })).toMatchObject({ afterMs: 60_000 });
    expect(ended("always", 1, { failures: 1e9 })).toMatchObject({ afterMs: 60_000 });
  });
});

it("is looked at often at first", () => {
  expect([0, 400, 5000, 60_000].map(nextLookMs)).toEqual([50, 50, 500, 1000]);
});

describe("another list", () => {
  const web = { name: "web", command: "serve", env: { A: "1" } };
  const work = { name: "work", command: "work" };

  it("names what went, what is another now and what is new", () => {
    const other = { ...web, env: { A: "2" } };
    const db = { name: "db", command: "db" };
    expect(compared([web, work], [db, other])).toEqual({ gone: [work], changed: [other], added: [db] });
    expect(compared([web, work], [work, web])).toEqual({ gone: [], changed: [], added: [] });
  });

  it("is the same list in whatever order its fields are told", () => {
    const [one, other] = [
      { ...web, ready: { port: 1, path: "/" } },
      { ready: { path: "/", port: 1 }, ...web },
    ];
    expect(compared([one], [other]).changed).toEqual([]);
  });

  it("starts nothing anew for what counts only later", () => {
    const later = { ...web, freeze: { command: "x" }, stopSignal: "SIGINT", stopSeconds: 3, restart: "never" };
    expect(compared([web], [later]).changed).toEqual([]);
  });
});

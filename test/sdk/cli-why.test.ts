/** The verbs that say what keeps a sandbox awake, and what wakes it. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Why } from "../../sdk/contract/timeline.ts";
import { CliBench } from "./cli-bench.ts";
import { sandboxInfo } from "./wire-server.ts";

let bench: CliBench;

beforeEach(async () => {
  bench = await CliBench.start();
  bench.server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()));
});
afterEach(() => bench[Symbol.asyncDispose]());

const cause = { kind: "request", keyId: "k1", request: "GET /page", port: 8080, requestId: "r1" } as const;
const woke = {
  at: "2031-01-02T03:04:05.000Z",
  event: "woke",
  generation: 2,
  tookMs: 210,
  reason: null,
  cause,
} as const;
const answer: Why = {
  ...{ state: "running", generation: 2, since: woke.at, hostAnswered: true, lastRun: woke },
  awake: [
    { because: "hold", name: "deploy", until: "2031-01-02T04:00:00.000Z" },
    { because: "connections", count: 3 },
    { because: "cpu", lastActiveAt: woke.at },
    { because: "no_idle_pause" },
  ],
  ...{ runsToday: 4, chargedMicros: 12 },
  timeline: [
    woke,
    { at: woke.at, event: "paused", generation: 1, tookMs: null, reason: "idle", cause: null },
    ...Array.from({ length: 20 }, () => woke),
  ],
};

test("why says when a sleeper wakes by itself", async () => {
  const asleep: Why = { ...answer, state: "paused", awake: [], wakesAt: "2031-01-03T00:00:00.000Z" };
  bench.server.on("GET /v1/sandboxes/demo~abcdefghijkl:why", (_request, reply) => reply.json(asleep));
  const { stdout } = await bench.run(["why", "demo"]);
  expect(stdout.split("\n")[1]).toBe("  wakes by itself at 2031-01-03T00:00:00.000Z, for a program in it");
});

test("why says what keeps it awake, who had it wake, and its last days", async () => {
  bench.server.on("GET /v1/sandboxes/demo~abcdefghijkl:why", (_request, reply) => reply.json(answer));
  const { code, stdout } = await bench.run(["why", "demo"]);
  expect(code).toBe(0);
  const lines = stdout.trimEnd().split("\n");
  expect(lines[0]).toMatch(/^demo is running, for /);
  expect(lines.slice(1, 7)).toEqual([
    "  awake: held by deploy until 2031-01-02T04:00:00.000Z",
    "  awake: 3 requests or connections are under way",
    "  awake: its CPU is at work",
    "  awake: it never pauses by itself (idlePauseSeconds is 0)",
    "  last run: GET /page, with the key k1",
    "  runs in the last 24 hours: 4",
  ]);
  expect(lines[8]).toMatch(/^WHEN +WHAT +TOOK +WHY$/);
  expect(lines[9]).toMatch(/ woke +210 ms +GET \/page$/);
  expect(lines[10]).toMatch(/ paused +idle$/);
  expect(lines).toHaveLength(19);
  expect(JSON.parse((await bench.run(["why", "demo", "--json"])).stdout)).toEqual(answer);
});

test("rules shows them, and sets those of a file", async () => {
  const wakeRules = [
    { match: { methods: ["GET"], path: "/health" }, action: "answer", status: 203 },
    { match: { userAgent: "bot", port: 3000 }, action: "no_wake" },
  ] as const;
  bench.server.on("POST /v1/sandboxes/demo~abcdefghijkl:update", (request, reply) =>
    reply.json(sandboxInfo(request.json() as object)),
  );
  const file = join(bench.folder, "rules.json");
  await writeFile(file, JSON.stringify(wakeRules));
  const set = await bench.run(["rules", "demo", file, "--max-wakes-per-hour", "20"]);
  expect(bench.server.requests.at(-1)?.json()).toEqual({ wakeRules, maxWakesPerHour: 20 });
  const lines = set.stdout.trimEnd().split("\n");
  expect(lines[1]).toMatch(/^GET \/health +answer +203$/);
  expect(lines[2]).toMatch(/^agent "bot" port 3000 +no_wake$/);
  expect(lines[3]).toBe("Requests wake demo 20 times an hour at most.");
  expect((await bench.run(["rules", "demo"])).stdout).toBe("Requests wake demo as often as they like.\n");
  await writeFile(file, JSON.stringify([{ match: {}, action: "explode" }]));
  const asked = bench.server.requests.length;
  expect((await bench.refusal(["rules", "demo", file]))?.message).toMatch(/0\.match: .*; 0\.action: /);
  expect(await bench.refusal(["rules", "demo", "--max-wakes-per-hour", "0"])).not.toBeNull();
  expect(bench.server.requests).toHaveLength(asked);
});

/** Verbs for snapshots, forks and history. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Durability } from "../../sdk/contract/sandbox.ts";
import { sizeOf } from "../../sdk/cli/output.ts";
import { CliBench } from "./cli-bench.ts";
import {
  SNAPSHOT,
  SNAPSHOT_ID,
  diffAnswer,
  durabilityAnswer,
  pointAnswer,
  snapshotAnswer,
} from "./snapshot-answers.ts";
import { SANDBOX, sandboxInfo, type WireServer } from "./wire-server.ts";

let bench: CliBench;
let server: WireServer;
const rouse: CliBench["run"] = (words, env, input) => bench.run(words, env, input);

beforeEach(async () => {
  bench = await CliBench.start();
  ({ server } = bench);
  server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()));
});
afterEach(() => bench[Symbol.asyncDispose]());

const CAPTURE = "POST /v1/sandboxes/demo:snapshot";

test("snapshot prints the id, in its short form and its long one", async () => {
  server.on(CAPTURE, (_request, reply) => reply.json(snapshotAnswer({ mode: "disk" })));
  const words = ["--name", "nightly", "--mode", "disk", "--label", "by=cron", "--retention", "7"];
  const short = await rouse(["snapshot", "demo", ...words]);
  expect([short.code, short.stdout]).toEqual([0, `${SNAPSHOT_ID}\n`]);
  expect(short.stderr).toContain("demo stood still for 42 ms");
  expect(short.stderr).toContain(`rouse create --snapshot ${SNAPSHOT_ID}`);
  const long = await rouse(["snapshot", "create", "demo", "--json"]);
  expect([JSON.parse(long.stdout), long.stderr]).toEqual([snapshotAnswer({ mode: "disk" }), ""]);
  expect(server.requests.map((request) => request.json())).toEqual([
    { mode: "disk", name: "nightly", labels: { by: "cron" }, retentionDays: 7 },
    {},
  ]);
});

test("a snapshot that fails is exit code 1, with the reason", async () => {
  server.on(CAPTURE, (_request, reply) => reply.json(snapshotAnswer({ state: "failed", error: "the store is full" })));
  const run = await rouse(["snapshot", "demo"]);
  expect([run.code, run.stdout]).toEqual([1, ""]);
  expect(run.stderr).toContain("the store is full");
});

test("snapshot lists, and finds the id of a sandbox that it is given by name", async () => {
  server.on("GET /v1/snapshots", (request, reply) =>
    reply.json(
      request.query.has("cursor")
        ? { data: [snapshotAnswer({ name: "b", state: "capturing" })], nextCursor: null }
        : { data: [snapshotAnswer()], nextCursor: "2" },
    ),
  );
  const rows = (await rouse(["snapshot", "ls", "--sandbox", "demo", "--state", "ready"])).stdout.trimEnd().split("\n");
  expect(rows[0]).toMatch(/^SNAPSHOT +NAME +SANDBOX +MODE +STATE +SIZE +AGE +KEPT UNTIL$/);
  expect(rows[1]).toMatch(/^snap-\S+ +- +demo~abcdefghijkl +memory +ready +700\.0 MiB +\S+ +2032-01-02$/);
  expect(rows[2]).toMatch(/^snap-\S+ +b +demo~abcdefghijkl +memory +capturing +- /);
  expect(server.of("GET /v1/snapshots")[0]?.query.get("sandboxId")).toBe("demo~abcdefghijkl");
  server.requests.length = 0;
  // A sandbox that is deleted has no name any more, and its snapshots are still there.
  const json = await rouse(["snapshot", "ls", "--sandbox", "gone~abcdefghijkl", "--name", "b", "--json"]);
  expect(JSON.parse(json.stdout)).toMatchObject({ data: [{ id: SNAPSHOT_ID }, { name: "b" }] });
  expect(server.requests[0]?.query.toString()).toBe("sandboxId=gone%7Eabcdefghijkl&name=b&limit=100");
});

test("snapshot shows, keeps longer and deletes", async () => {
  server
    .on(`GET ${SNAPSHOT}`, (_request, reply) => reply.json(snapshotAnswer()))
    .on(`POST ${SNAPSHOT}:extend`, (_request, reply) => reply.json(snapshotAnswer()))
    .on(`POST ${SNAPSHOT}:delete`, (_request, reply) => reply.json(snapshotAnswer({ state: "deleting" })));
  expect((await rouse(["snapshot", "get", SNAPSHOT_ID])).stdout).toMatch(/^sourceSandboxId +demo~abcdefghijkl$/m);
  expect((await rouse(["snapshot", "extend", SNAPSHOT_ID, "30"])).stdout).toBe(
    `${SNAPSHOT_ID}: kept until 2032-01-02T03:05:00.000Z\n`,
  );
  expect(server.of(`POST ${SNAPSHOT}:extend`)[0]?.json()).toEqual({ retentionDays: 30 });
  expect((await rouse(["snapshot", "rm", SNAPSHOT_ID])).stdout).toBe(`${SNAPSHOT_ID}: deleted\n`);
  server.on(`GET ${SNAPSHOT}`, (_request, reply) => reply.error("snapshot_not_found"));
  expect((await rouse(["snapshot", "get", SNAPSHOT_ID])).code).toBe(3);
  const wrong = await rouse(["snapshot", "rm", "demo", "--json"]);
  expect(wrong.code).toBe(2);
  expect(JSON.parse(wrong.stderr)).toMatchObject({ error: { code: "invalid_argument" } });
});

test("fork prints an id for each copy", async () => {
  server.on(`POST ${SANDBOX}:fork`, (request, reply) => {
    const { count = 0 } = request.json() as { count?: number };
    const sandboxes = Array.from({ length: count }, (_, at) => sandboxInfo({ id: `try-${at + 1}~abcdefghijkl` }));
    reply.json({ sandboxes, frozenMs: 38 });
  });
  const run = await rouse(["fork", "demo", "--count", "2", "--name", "try", "--label", "a=b", "--keep-snapshot"]);
  expect(run).toEqual({ code: 0, stdout: "try-1~abcdefghijkl\ntry-2~abcdefghijkl\n", stderr: "" });
  const one = await rouse(["fork", "demo", "--json"]);
  expect(JSON.parse(one.stdout)).toMatchObject({ data: [{ id: "try-1~abcdefghijkl" }] });
  expect(server.of(`POST ${SANDBOX}:fork`).map((request) => request.json())).toEqual([
    { count: 2, name: "try", labels: { a: "b" }, keepSnapshot: true },
    { count: 1 },
  ]);
});

test("history lists points, and rollback goes back to one", async () => {
  const points = [pointAnswer({ durableAt: null }), pointAnswer({ point: "p-6", mode: "disk", current: false })];
  server
    .on(`GET ${SANDBOX}/history`, (_request, reply, count) => reply.json({ data: count === 0 ? points : [] }))
    .on(`POST ${SANDBOX}:rollback`, (_request, reply) => reply.json(sandboxInfo({ state: "paused" })));
  const rows = (await rouse(["history", "demo"])).stdout.trimEnd().split("\n");
  expect(rows[0]).toMatch(/^POINT +MODE +SAVED +OFF ITS HOST +SIZE$/);
  expect(rows[1]).toMatch(/^p-7 +memory +\S+ +not yet +50\.0 MiB +rests with it$/);
  expect(rows[2]).toMatch(/^p-6 +disk +\S+ +\S+ +50\.0 MiB$/);
  expect((await rouse(["history", "demo"])).stdout).toBe("demo: nothing is stored yet\n");
  expect((await rouse(["rollback", "demo", "p-6"])).stdout).toBe("demo: paused, as it was at p-6\n");
  expect(server.of(`POST ${SANDBOX}:rollback`)[0]?.json()).toEqual({ point: "p-6" });
  server.on(`POST ${SANDBOX}:rollback`, (_request, reply) => reply.error("point_not_found"));
  expect((await rouse(["rollback", "demo", "p-1"])).code).toBe(3);
});

test("diff lists files that differ, and no name of one steers the terminal", async () => {
  const answers = [diffAnswer({ data: [] }), diffAnswer(), diffAnswer({ truncated: true }), diffAnswer()];
  server.on(`GET ${SANDBOX}/diff`, (_request, reply, count) => reply.json(answers[count]));
  expect((await rouse(["diff", "demo"])).stdout).toBe("demo: no file differs between p6 and p7\n");
  const { stdout } = await rouse(["diff", "demo", "p6"]);
  expect(stdout.trimEnd().split("\n")).toEqual([
    "CHANGE    SIZE            PATH",
    "added     10 B            /workspace/a\\u001b[2J",
    "modified  1.0 KiB -> 0 B  /workspace/b",
    "removed   3 B             /workspace/c",
    "added     directory       /workspace/d",
    "modified  5 B -> -        /workspace/e",
  ]);
  expect((await rouse(["diff", "demo", "p6", "p7"])).stderr).toBe("There are more than these 5.\n");
  expect(JSON.parse((await rouse(["diff", "demo", "--json"])).stdout)).toEqual(diffAnswer());
  expect(server.of(`GET ${SANDBOX}/diff`).map(({ query }) => String(query))).toEqual([
    "",
    "from=p6",
    "from=p6&to=p7",
    "",
  ]);
  server.on(`GET ${SANDBOX}/diff`, (_request, reply) => reply.error("point_not_found"));
  expect((await rouse(["diff", "demo", "p1"])).code).toBe(3);
});

test("create starts from a snapshot, and says how many states are kept", async () => {
  server.on("POST /v1/sandboxes", (_request, reply) => reply.json(sandboxInfo()));
  expect((await rouse(["create", "--snapshot", SNAPSHOT_ID, "--keep-pauses", "5"])).code).toBe(0);
  expect(server.requests[0]?.json()).toEqual({ snapshot: SNAPSHOT_ID, keepPauses: 5 });
});

test.each<[Durability["state"] | null, string]>([
  ["cached", "cached: on its host, not yet on its disk for sure"],
  ["local", "local: on its host's disk, not yet off it"],
  ["durable", "durable: off its host too since 2031-01-02T03:05:02.000Z, so that it can wake elsewhere, 50.0 MiB"],
  ["cold", "cold: only off its host since 2031-01-02T03:05:03.000Z, 50.0 MiB"],
  [null, "-"],
])("get says in words that a sandbox is %s", async (state, words) => {
  const durability = state === null ? null : durabilityAnswer(state);
  server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo({ durability })));
  const rows = (await rouse(["get", "demo"])).stdout.split("\n");
  expect(rows.find((row) => row.startsWith("durability"))?.replace(/^durability +/, "")).toBe(words);
});

test("sizes are in their largest unit", () => {
  expect([0, 1023, 1024, 1_572_864, 21_474_836_480, 2 ** 50].map(sizeOf)).toEqual([
    "0 B",
    "1023 B",
    "1.0 KiB",
    "1.5 MiB",
    "20.0 GiB",
    "1024.0 TiB",
  ]);
});

describe("refuses before any request", () => {
  test.each([
    [["snapshot", "demo", "--mode", "ram"], "--mode"],
    [["snapshot", "demo", "--retention", "0"], "--retention"],
    [["snapshot", "demo", "--retention", "366"], "--retention"],
    [["snapshot", "demo", "--state", "ready"], "no option --state"],
    [["snapshot", "demo", "other"], "one word too many"],
    [["snapshot", "create"], "needs <name>"],
    [["snapshot", "ls", "--mode", "disk"], "no option --mode"],
    [["snapshot", "ls", "--state", "deleted"], "--state"],
    [["snapshot", "get"], "needs <id>"],
    [["snapshot", "extend", SNAPSHOT_ID], "needs <id> <days>"],
    [["snapshot", "extend", SNAPSHOT_ID, "0"], "not a number of days"],
    [["snapshot", "extend", SNAPSHOT_ID, "366"], "not a number of days"],
    [["snapshot", "extend", SNAPSHOT_ID, "soon"], "not a number of days"],
    [["fork", "demo", "--count", "0"], "--count"],
    [["fork", "demo", "--count", "17"], "--count"],
    [["fork", "demo", "--count", "1.5"], "whole number"],
    [["create", "--snapshot", SNAPSHOT_ID, "--image", "default"], "not both"],
    [["create", "--keep-pauses", "65"], "--keep-pauses"],
  ])("%j", async (words, says) => {
    expect((await bench.refusal(words))?.message).toContain(says);
    expect(server.requests).toEqual([]);
  });

  test("a word too few, with exit code 2", async () => {
    const run = await rouse(["rollback", "demo"]);
    expect([run.code, run.stdout]).toEqual([2, ""]);
    expect(run.stderr).toContain("needs <name> <point>");
    const bare = await rouse(["snapshot", "--json"]);
    expect([bare.code, JSON.parse(bare.stderr)]).toMatchObject([2, { error: { code: "usage" } }]);
  });
});

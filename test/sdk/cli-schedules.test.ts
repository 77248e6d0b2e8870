/** Verbs for schedules, and the SDK that they go by. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Rouse } from "../../sdk/src/index.ts";
import { CliBench } from "./cli-bench.ts";
import { RUN_ID, runAnswer, SCHEDULE_ID, scheduleAnswer, SCHEDULES } from "./schedule-answers.ts";
import { sandboxInfo, TEST_KEY, type WireServer } from "./wire-server.ts";

let bench: CliBench;
let server: WireServer;
const rouse: CliBench["run"] = (words, env, input) => bench.run(words, env, input);

beforeEach(async () => {
  bench = await CliBench.start();
  ({ server } = bench);
  server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()));
});
afterEach(() => bench[Symbol.asyncDispose]());

/** Bodies of the requests that are not reads. */
function sent(): unknown[] {
  return server.requests.filter(({ method }) => method === "POST").map((request) => request.json());
}

test("create takes a command, a request or a wake, and prints the id", async () => {
  server.on(`POST ${SCHEDULES}`, (_request, reply) => reply.json(scheduleAnswer()));
  const create = (...words: string[]) => rouse(["schedule", "create", "demo", ...words], { TOKEN: "t" });
  const weekdays = ["0 9 * * mon-fri", "--zone", "Europe/Berlin", "--name", "report"];
  const made = await create(...weekdays, "--env", "TOKEN", "--timeout", "60", "--", "python3", "report.py", "--json");
  expect([made.code, made.stdout]).toEqual([0, `${SCHEDULE_ID}\n`]);
  expect(made.stderr).toContain("2031-01-02T09:00:00.000Z");
  await create("--at", "2026-12-01T09:00+01:00", "--", "make all");
  const request = ["--request", "PUT:/jobs?a=1", "--port", "3000", "--header", "x-a=b", "--data", "{}"];
  await create("@daily", ...request, "--catch-up", "off");
  await create("@daily", "--wake");
  expect(sent()).toEqual([
    {
      ...{ cron: "0 9 * * mon-fri", zone: "Europe/Berlin", name: "report" },
      action: { kind: "command", argv: ["python3", "report.py", "--json"], env: { TOKEN: "t" }, timeoutSeconds: 60 },
    },
    { at: "2026-12-01T09:00:00+01:00", action: { kind: "command", command: "make all" } },
    {
      ...{ cron: "@daily", catchUp: false },
      action: { kind: "request", method: "PUT", path: "/jobs?a=1", port: 3000, headers: { "x-a": "b" }, body: "{}" },
    },
    { cron: "@daily", action: { kind: "wake" } },
  ]);
});

test("ls, show, update, pause, resume and rm", async () => {
  const once = scheduleAnswer({ name: null, cron: null, zone: "UTC", at: "2031-01-02T09:00:00.000Z", enabled: false });
  const lastRun = runAnswer({ state: "failed", reason: "exit_code", exitCode: 3 });
  server
    .on(`GET ${SCHEDULES}`, (_request, reply) => reply.json({ data: [scheduleAnswer({ lastRun }), once] }))
    .on(`GET ${SCHEDULES}/report`, (_request, reply) => reply.json(scheduleAnswer({ lastRun })))
    .on(`POST ${SCHEDULES}/report:update`, (request, reply) => reply.json(scheduleAnswer(request.json() as object)))
    .on(`DELETE ${SCHEDULES}/report`, (_request, reply) =>
      reply.json({ id: SCHEDULE_ID, sandboxId: "demo~abcdefghijkl", deleted: true }),
    );
  const rows = (await rouse(["schedule", "ls", "demo"])).stdout.trimEnd().split("\n");
  expect(rows[0]).toMatch(/^SCHEDULE +NAME +WHEN +DOES +STATE +NEXT +LAST$/);
  expect(rows[1]).toMatch(/ report +0 9 \* \* \* \(Europe\/Berlin\) +date +on +2031\S+ +failed: exit 3, /);
  expect(rows[2]).toMatch(/ at 2031-01-02T09:00:00.000Z +date +off /);
  const shown = await rouse(["schedule", "show", "demo", "report"]);
  expect(shown.stdout).toContain("  next: 2031-01-02T09:00:00.000Z\n  then: 2031-01-03");
  expect((await rouse(["schedule", "pause", "demo", "report"])).stdout).toBe("report: off\n");
  expect((await rouse(["schedule", "resume", "demo", "report"])).stdout).toContain("report: on, next at 2031");
  await rouse(["schedule", "update", "demo", "report", "@weekly", "--zone", "UTC", "--", "ls"]);
  expect(sent()).toEqual([
    { enabled: false },
    { enabled: true },
    { cron: "@weekly", zone: "UTC", action: { kind: "command", command: "ls" } },
  ]);
  expect((await rouse(["schedule", "rm", "demo", "report"])).stdout).toBe("report: deleted\n");
});

test("runs lists them; run waits for the end, passes its output on, and fails as it did", async () => {
  const output = {
    ...{ stdout: { encoding: "text", data: "one\n" } as const, stderr: { encoding: "base64", data: "AP8=" } as const },
    ...{ body: null, bytes: 70_000, truncated: true },
  };
  const failed = runAnswer({ manual: true, state: "failed", reason: "exit_code", exitCode: 2, output });
  let looks = 0;
  server
    .on(`GET ${SCHEDULES}/report/runs`, (_request, reply) =>
      reply.json({
        data: [runAnswer(), runAnswer({ state: "skipped", reason: "overlap", wakeMs: null })],
        nextCursor: null,
      }),
    )
    .on(`POST ${SCHEDULES}/report:run`, (_request, reply) =>
      reply.json(runAnswer({ manual: true, state: "running", exitCode: null, endedAt: null })),
    )
    .on(`GET ${SCHEDULES}/report/runs/${RUN_ID}`, (_request, reply) =>
      reply.json(++looks < 3 ? { ...failed, state: "running", output: null } : failed),
    );
  const rows = (await rouse(["schedule", "runs", "demo", "report", "--state", "skipped"])).stdout.split("\n");
  expect(rows[1]).toMatch(/^run-\S+ +2031\S+ +on time +succeeded +1 +40 ms +1500 ms$/);
  expect(rows[2]).toMatch(/ skipped: overlap +1 +- /);
  expect(server.of(`GET ${SCHEDULES}/report/runs`)[0]?.query.toString()).toBe("state=skipped&limit=50");
  const ran = await rouse(["schedule", "run", "demo", "report"]);
  expect([ran.code, ran.stdout, looks]).toEqual([1, "one\n", 3]);
  expect(ran.stderr).toContain("failed: exit 2");
  expect(ran.stderr).toContain("70000 bytes in all");
  expect((await rouse(["schedule", "run", "demo", "report", "--no-wait"])).stdout).toBe(`${RUN_ID}\n`);
  const json = await rouse(["schedule", "show", "demo", "report", "--run", RUN_ID, "--json"]);
  expect(JSON.parse(json.stdout)).toMatchObject({ id: RUN_ID, output });
});

test("the SDK pages through runs, takes a Date, and refuses names that make another path", async () => {
  server
    .on(`POST ${SCHEDULES}`, (_request, reply) => reply.json(scheduleAnswer()))
    .on(`GET ${SCHEDULES}/report/runs`, (request, reply) =>
      reply.json({ data: [runAnswer()], nextCursor: request.query.has("cursor") ? null : "2.x" }),
    )
    .on(`GET ${SCHEDULES}/report`, (_request, reply) => reply.error("schedule_not_found"));
  const { schedules } = await new Rouse({ baseUrl: server.url, apiKey: TEST_KEY }).sandboxes.get("demo");
  await schedules.create({ at: new Date(0), action: { kind: "wake" } });
  expect(sent()).toEqual([{ at: "1970-01-01T00:00:00.000Z", action: { kind: "wake" } }]);
  expect(await (await schedules.runs("report", { state: "succeeded" })).toArray()).toHaveLength(2);
  await expect(schedules.get("report")).rejects.toMatchObject({ code: "schedule_not_found", status: 404 });
  await expect(schedules.get("..")).rejects.toMatchObject({ code: "invalid_argument" });
  await expect(schedules.getRun("report", "x")).rejects.toMatchObject({ code: "invalid_argument" });
});

describe("refuses before any request", () => {
  test.each([
    [["schedule", "create", "demo", "--", "ls"], "needs an expression, or --at"],
    [["schedule", "create", "demo", "@daily"], "needs something to do"],
    [["schedule", "create", "demo", "@daily", "--at", "2026-12-01T09:00Z", "--wake"], "both an expression and --at"],
    [["schedule", "create", "demo", "--at", "2026-12-01T09:00", "--wake"], "not a time with an offset"],
    [["schedule", "create", "demo", "@daily", "--wake", "--", "ls"], "more than one thing to do"],
    [["schedule", "create", "demo", "@daily", "--wake", "--cwd", "/x"], "--cwd without what it is for"],
    [["schedule", "create", "demo", "@daily", "--request", "jobs"], "--request is"],
    [["schedule", "create", "demo", "@daily", "--request", "/", "--timeout", "0"], "--timeout"],
    [["schedule", "update", "demo", "report"], "something to change"],
    [["schedule", "runs", "demo", "report", "--state", "lost"], "--state"],
    [["schedule", "ls", "demo", "--", "x"], "takes nothing after --"],
    [["hook", "ls", "demo", "--", "x"], "takes nothing after --"],
  ])("%j", async (words, says) => {
    expect((await bench.refusal(words))?.message).toContain(says);
    expect(server.requests).toEqual([]);
  });
});

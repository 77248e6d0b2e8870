/** Verbs for the webhook inbox, and the SDK that they go by. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Rouse } from "../../sdk/src/index.ts";
import { CliBench } from "./cli-bench.ts";
import { EVENT_ID, EVENTS, eventAnswer, HOOK_ID, hookAnswer, HOOKS } from "./hook-answers.ts";
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

test("create prints the URL first, then what is shown once", async () => {
  const url = "http://localhost:8787/hooks/default.demo.x";
  server.on(`POST ${HOOKS}`, (_request, reply) =>
    reply.json(hookAnswer({ url, secret: "s3", deliverySecret: "whsec_d" })),
  );
  const words = ["--provider", "github", "--port", "3000", "--path", "/in", "--filter", "push", "--filter", "ping"];
  const made = await rouse(["hook", "create", "demo", "github", ...words, "--mode", "sync", "--timeout", "5"]);
  expect([made.code, made.stdout]).toEqual([0, `${url}\nsecret s3\ndeliverySecret whsec_d\n`]);
  expect(made.stderr).toContain("not shown again");
  const slack = ["hook", "create", "demo", "slack", "--provider", "slack", "--port", "80", "--secret", "-", "--json"];
  const json = await rouse(slack, { ROUSE_HOOK_SECRET: "from-the-environment" });
  expect(JSON.parse(json.stdout)).toMatchObject({ id: HOOK_ID, url });
  expect(sent()).toEqual([
    {
      ...{ name: "github", provider: "github", port: 3000, path: "/in", mode: "sync", filters: ["push", "ping"] },
      timeoutSeconds: 5,
    },
    { name: "slack", provider: "slack", port: 80, secret: "from-the-environment" },
  ]);
});

test("ls, update, rotate and rm", async () => {
  const gone = hookAnswer({ name: "old", enabled: false, disabledReason: "gone" });
  server
    .on(`GET ${HOOKS}`, (_request, reply) => reply.json({ data: [hookAnswer(), gone] }))
    .on(`POST ${HOOKS}/github:update`, (request, reply) => reply.json(hookAnswer(request.json() as object)))
    .on(`POST ${HOOKS}/github:rotate`, (request, reply) => {
      const { what = "secret" } = request.json() as { what?: string };
      reply.json(hookAnswer({ [what]: "fresh" }));
    })
    .on(`DELETE ${HOOKS}/github`, (_request, reply) =>
      reply.json({ id: HOOK_ID, sandboxId: "demo~abcdefghijkl", deleted: true }),
    );
  const rows = (await rouse(["hook", "ls", "demo"])).stdout.trimEnd().split("\n");
  expect(rows[0]).toMatch(/^HOOK +NAME +PROVIDER +TO +MODE +STATE +WAITING +DEAD +LAST$/);
  expect(rows[1]).toMatch(/^hook-\S+ +github +github +3000\/in +async +on +2 +1 +-$/);
  expect(rows[2]).toMatch(/ old .* gone /);
  const off = await rouse(["hook", "update", "demo", "github", "--enabled", "off", "--port", "80"]);
  expect(off.stdout).toBe("github: off, to 80/in\n");
  expect((await rouse(["hook", "rotate", "demo", "github", "--overlap", "0"])).stdout).toBe("secret fresh\n");
  expect((await rouse(["hook", "rotate", "demo", "github", "--what", "url"])).stdout).toBe("fresh\n");
  expect((await rouse(["hook", "rm", "demo", "github"])).stdout).toBe("github: deleted\n");
  expect(sent()).toEqual([{ port: 80, enabled: false }, { overlapSeconds: 0 }, { what: "url" }]);
});

test("events are listed, one is shown with its timeline or its body, and replayed", async () => {
  server
    .on(`GET ${HOOKS}/github`, (_request, reply) => reply.json(hookAnswer()))
    .on(`GET ${EVENTS}`, (_request, reply) =>
      reply.json({ data: [eventAnswer(), eventAnswer({ type: null, timeline: [] })], nextCursor: null }),
    )
    .on(`GET ${EVENTS}/${EVENT_ID}`, (request, reply) => {
      const body = { encoding: "base64", data: "/wA=" } as const;
      reply.json(eventAnswer(request.query.has("body") ? { body } : {}));
    })
    .on(`POST ${EVENTS}/${EVENT_ID}:replay`, (_request, reply) => reply.json(eventAnswer()))
    .on(`POST ${HOOKS}/github:replay-dead`, (_request, reply) => reply.json({ replayed: 3 }));
  const rows = (await rouse(["hook", "events", "demo", "--hook", "github", "--state", "dead"])).stdout.split("\n");
  expect(rows[0]).toMatch(/^EVENT +TYPE +STATE +TRIES +SIZE +AGE +LAST$/);
  expect(rows[1]).toMatch(/^evt-\S+ +push +waiting +1 +2\.0 KiB +\S+ +answered 500$/);
  expect(rows[2]).toMatch(/^evt-\S+ +- +waiting .* -$/);
  expect(server.of(`GET ${EVENTS}`)[0]?.query.toString()).toBe(`state=dead&hookId=${HOOK_ID}&limit=50`);
  const shown = await rouse(["hook", "events", "demo", EVENT_ID]);
  expect(shown.stdout).toMatch(/attempt +500, 12 ms, woke it, answered 500, next 2031-/);
  expect((await rouse(["hook", "events", "demo", EVENT_ID, "--body"])).stdout).toBe("\ufffd\0");
  expect((await rouse(["hook", "replay", "demo", EVENT_ID])).stdout).toBe(`${EVENT_ID}: waiting\n`);
  expect((await rouse(["hook", "replay", "demo", "--dead", "github"])).stdout).toBe("3 events wait again\n");
});

test("the SDK pages through events", async () => {
  server
    .on(`GET ${EVENTS}`, (request, reply) =>
      reply.json({ data: [eventAnswer()], nextCursor: request.query.has("cursor") ? null : "2.x" }),
    )
    .on(`GET ${HOOKS}/github`, (_request, reply) => reply.error("hook_not_found"));
  const { hooks } = await new Rouse({ baseUrl: server.url, apiKey: TEST_KEY }).sandboxes.get("demo");
  const page = await hooks.events.list({ state: "waiting" });
  expect(await page.toArray()).toHaveLength(2);
  expect(server.of(`GET ${EVENTS}`)[1]?.query.toString()).toBe("state=waiting&cursor=2.x");
  await expect(hooks.get("github")).rejects.toMatchObject({ code: "hook_not_found", status: 404 });
  await expect(hooks.events.get("x")).rejects.toMatchObject({ code: "invalid_argument" });
  await expect(hooks.get("..")).rejects.toMatchObject({ code: "invalid_argument" });
});

describe("refuses before any request", () => {
  test.each([
    [["hook", "create", "demo"], "needs <sandbox> <name>"],
    [["hook", "create", "demo", "x", "--port", "80"], "needs --provider"],
    [["hook", "create", "demo", "x", "--provider", "gitlab", "--port", "80"], "--provider"],
    [["hook", "create", "demo", "x", "--provider", "none", "--port", "0"], "--port"],
    [["hook", "create", "demo", "x", "--provider", "none", "--port", "80", "--timeout", "301"], "--timeout"],
    [["hook", "create", "demo", "x", "--provider", "slack", "--port", "80", "--secret", "-"], "ROUSE_HOOK_SECRET"],
    [["hook", "update", "demo", "x"], "something to change"],
    [["hook", "rotate", "demo", "x", "--what", "all"], "--what"],
    [["hook", "events", "demo", "--body"], "--body is for one event"],
    [["hook", "events", "demo", "--state", "lost"], "--state"],
    [["hook", "replay", "demo"], "needs an event"],
    [["hook", "replay", "demo", EVENT_ID, "--dead", "x"], "needs an event"],
  ])("%j", async (words, says) => {
    expect((await bench.refusal(words))?.message).toContain(says);
    expect(server.requests).toEqual([]);
  });
});

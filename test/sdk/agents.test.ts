/** Agents by SDK and command line, against a server that answers as the API does. */
import { writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DELIVERY_SECRET_FILE, servicesOf } from "../../sdk/contract/agent-preset.ts";
import { openclaw } from "../../sdk/contract/presets/openclaw.ts";
import { AGENT_LABEL, planAgent, SETUP_LABEL, type CreateAgent } from "../../sdk/src/agent-plan.ts";
import { InvalidRequestError, Rouse } from "../../sdk/src/index.ts";
import { CliBench } from "./cli-bench.ts";
import { hookAnswer } from "./hook-answers.ts";
import { sandboxInfo, TEST_KEY, type WireServer } from "./wire-server.ts";

const KEY = "sk-ant-canary-5b1d";
const ID = "demo~abcdefghijkl";
const AT = "2031-01-02T03:05:00.000Z";

let bench: CliBench;
let server: WireServer;
let labels: Record<string, string>;

function secretAnswer(name: string) {
  return {
    ...{ name, kind: "secret", sandboxId: ID, mode: "broker", hosts: ["api.anthropic.com"], header: "x-api-key" },
    ...{ format: "{value}", rules: [], envName: "ANTHROPIC_API_KEY", placeholder: null, version: 1, valueBytes: 18 },
    ...{ createdAt: AT, updatedAt: AT, lastUsedAt: null, enforced: true },
  };
}

beforeEach(async () => {
  bench = await CliBench.start();
  ({ server } = bench);
  labels = {};
  const info = () => sandboxInfo({ labels });
  server
    .on("POST /v1/sandboxes", (request, reply) => {
      ({ labels } = request.json() as { labels: Record<string, string> });
      reply.json(info());
    })
    .on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(info()))
    .on(`PUT /v1/sandboxes/${ID}/secrets/anthropic`, (_request, reply) => reply.json(secretAnswer("anthropic")))
    .on(`GET /v1/sandboxes/${ID}/hooks`, (_request, reply) => reply.json({ data: [] }))
    .on(`POST /v1/sandboxes/${ID}/hooks`, (_request, reply) =>
      reply.json(hookAnswer({ name: "agent", url: "http://x/hooks/t", secret: "whsec_s", deliverySecret: "whsec_d" })),
    )
    .on(`POST /v1/sandboxes/${ID}/files:mkdir`, (_request, reply) => reply.json({}))
    .on(`PUT /v1/sandboxes/${ID}/files/content`, (_request, reply) =>
      reply.json({ path: DELIVERY_SECRET_FILE, size: 7, sha256: "0".repeat(64) }),
    )
    .on(`POST /v1/sandboxes/${ID}:update`, (request, reply) => {
      ({ labels } = request.json() as { labels: Record<string, string> });
      reply.json(info());
    });
});
afterEach(() => bench[Symbol.asyncDispose]());

const calls = () =>
  server.requests.filter(({ method }) => method !== "GET").map(({ method, path }) => `${method} ${path.split("?")[0]}`);
const client = () => new Rouse({ baseUrl: server.url, apiKey: TEST_KEY, maxRetries: 0 });

test("create makes the sandbox, the keys, the hook, and marks it whole last", async () => {
  const made = await bench.run(["agent", "create", "demo", "--runtime", "openclaw", "--key", "anthropic=-"], {}, KEY);
  expect(made.stderr).toContain("not shown again");
  expect(made.code).toBe(0);
  expect(made.stdout).toContain("messages http://x/hooks/t\nsecret whsec_s");
  expect(calls()).toEqual([
    "POST /v1/sandboxes",
    `PUT /v1/sandboxes/${ID}/secrets/anthropic`,
    `POST /v1/sandboxes/${ID}/hooks`,
    `POST /v1/sandboxes/${ID}/files:mkdir`,
    `PUT /v1/sandboxes/${ID}/files/content`,
    `POST /v1/sandboxes/${ID}:update`,
  ]);
  const [create] = server.requests.filter(({ method }) => method === "POST");
  expect(create?.json()).toMatchObject({
    ...{ name: "demo", image: "agent-openclaw", memoryMiB: 2048, services: servicesOf(openclaw) },
    ...{ labels: { [AGENT_LABEL]: "openclaw", [SETUP_LABEL]: "pending" } },
    onBoot: { env: { ROUSE_AGENT_MODEL: "anthropic/claude-sonnet-4-6" } },
  });
  expect(labels).toEqual({ [AGENT_LABEL]: "openclaw" });
  // The key is in the one request that stores it, and nowhere else.
  const holders = server.requests.filter((request) => request.body.toString().includes(KEY));
  expect(holders.map(({ path }) => path)).toEqual([`/v1/sandboxes/${ID}/secrets/anthropic`]);
  expect(made.stdout + made.stderr).not.toContain(KEY);
});

test("what broke off is gone on with; what is whole, or no agent, is not touched", async () => {
  server.on("POST /v1/sandboxes", (_request, reply) =>
    reply.json({ error: { code: "name_taken", status: 409, message: "taken" } }, 409),
  );
  const again = () => client().agents.create({ name: "demo", runtime: "openclaw", keys: { anthropic: KEY } });
  labels = { [AGENT_LABEL]: "openclaw", [SETUP_LABEL]: "pending" };
  server.on(`GET /v1/sandboxes/${ID}/hooks`, (_request, reply) =>
    reply.json({ data: [hookAnswer({ name: "agent" })] }),
  );
  server.on(`DELETE /v1/sandboxes/${ID}/hooks/${hookAnswer().id}`, (_request, reply) =>
    reply.json({ id: hookAnswer().id, sandboxId: ID, deleted: true }),
  );
  await expect(again()).resolves.toMatchObject({ hook: { secret: "whsec_s" } });
  await expect(again()).rejects.toMatchObject({ code: "name_taken" });
  labels = {};
  await expect(again()).rejects.toMatchObject({ code: "name_taken" });
});

test("an image that no host has yet comes with what makes it", async () => {
  server.on("POST /v1/sandboxes", (_request, reply) =>
    reply.json(
      { error: { code: "invalid_image", status: 400, message: "none", details: { images: ["default"] } } },
      400,
    ),
  );
  const made = await bench.run(["agent", "create", "demo", "--runtime", "openclaw"]);
  expect(made.code).not.toBe(0);
  expect(made.stderr).toContain("npm start -- --agents openclaw");
});

describe("bad input makes nothing", () => {
  const plan = (changes: Partial<CreateAgent>) => () => planAgent({ name: "demo", runtime: "openclaw", ...changes });
  const codeOf = (work: () => unknown) => {
    try {
      work();
    } catch (error) {
      if (error instanceof InvalidRequestError) return { code: error.code, text: JSON.stringify(error) };
    }
    return null;
  };

  test.each([
    ["no such preset", { runtime: "clawbot" }, "unknown_preset"],
    ["a word of every object", { runtime: "constructor" }, "unknown_preset"],
    ["a provider that it takes no key of", { keys: { github: "ghp_x" } }, "wrong_provider"],
    ["a provider that there is not", { keys: { acme: "x" } }, "wrong_provider"],
    ["a key of another provider", { keys: { openai: KEY } }, "invalid_request"],
    ["a key that is too long", { keys: { anthropic: `sk-ant-${"x".repeat(9000)}` } }, "invalid_request"],
    ["a key with a line break", { keys: { anthropic: "sk-ant-x\r\nhost: evil" } }, "invalid_request"],
    ["a name with a path in it", { name: "a/../b\0" }, "invalid_request"],
    ["a model that is a command", { model: "$(id) x" }, "invalid_request"],
    ["less memory than it needs", { memoryMiB: 512 }, "invalid_request"],
    ["both kinds of preset", { preset: openclaw }, "invalid_request"],
  ] as const)("%s", (_, changes, code) => {
    const answer = codeOf(plan(changes as Partial<CreateAgent>));
    expect(answer?.code).toBe(code);
    expect(answer?.text).not.toContain("sk-ant-");
  });

  test("the presets there are, and the providers it takes, are in the error", () => {
    expect(codeOf(plan({ runtime: "clawbot" }))?.text).toContain(
      '"presets":["openclaw","hermes","paperclip","opensre"]',
    );
    expect(codeOf(plan({ keys: { github: "x" } }))?.text).toContain('"providers":["anthropic","openai","gemini"]');
  });

  test("by the command line", async () => {
    const run = (...words: string[]) => bench.run(["agent", "create", "demo", ...words]);
    expect((await run()).code).toBe(2);
    expect((await run("--runtime", "openclaw", "--key", "anthropic")).stderr).toContain("P=SOURCE");
    expect((await run("--runtime", "openclaw", "--key", "anthropic=env:NOT_THERE")).stderr).toContain("NOT_THERE");
    expect((await run("--json", "--runtime", "clawbot")).stderr).toContain("unknown_preset");
    expect((await run("--json", "--runtime", "openclaw", "--key", "acme=env:HOME")).stderr).toContain("wrong_provider");
    const file = join(tmpdir(), `preset-${process.pid}.json`);
    await writeFile(file, JSON.stringify({ ...openclaw, id: "Bad Id", start: [] }));
    const own = await run("--preset", file);
    expect(own.stderr).toContain("id:");
    expect(own.stderr).toContain("start");
    expect(calls()).toEqual([]);
  });
});

test("a key in the command line is warned of", async () => {
  const made = await bench.run(["agent", "create", "demo", "--runtime", "openclaw", "--key", `anthropic=${KEY}`]);
  expect(made.code).toBe(0);
  expect(made.stderr).toContain("seen by everybody");
  expect(made.stderr).not.toContain(KEY);
});

test("a message is given to the agent inside, by stdin; a runtime without a trigger says so", async () => {
  labels = { [AGENT_LABEL]: "openclaw" };
  server.on(`POST /v1/sandboxes/${ID}:exec`, (_request, reply) =>
    reply.json({
      ...{ exitCode: 0, stdout: '{"ok":true}', stderr: "", timedOut: false, stdoutTruncated: false },
      ...{ stderrTruncated: false, durationMs: 5, processId: "p" },
    }),
  );
  const told = await bench.run(["agent", "trigger", "demo", "hello; rm -rf /", "--id", "m-1", "--timeout", "30"]);
  expect([told.code, told.stdout.trim()]).toEqual([0, '{"ok":true}']);
  const exec = server.requests.find(({ path }) => path.endsWith(":exec"))?.json() as Record<string, unknown>;
  expect(exec["argv"]).toEqual(["node", "/usr/lib/rouse/agent-trigger.ts", "send", "m-1"]);
  expect(exec["stdin"]).toBe('{"message":"hello; rm -rf /"}');
  labels = { [AGENT_LABEL]: "paperclip" };
  await expect(client().agents.trigger("demo", "x")).rejects.toMatchObject({ code: "invalid_argument" });
  labels = {};
  await expect(client().agents.trigger("demo", "x")).rejects.toMatchObject({ code: "not_found" });
});

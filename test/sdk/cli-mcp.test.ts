/** Verbs for MCP servers, and the SDK that they go by. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { Rouse, type McpGateway } from "../../sdk/src/index.ts";
import { shownCatalog } from "../../sdk/contract/mcp-catalog.ts";
import { CliBench } from "./cli-bench.ts";
import { SANDBOX, sandboxInfo, TEST_KEY } from "./wire-server.ts";

let bench: CliBench;

const url = "http://8765-demo.example.com/";
const server = (name: string, change: Partial<McpGateway["servers"][number]> = {}): McpGateway["servers"][number] => ({
  ...{ name, id: name, status: "ready", message: null, url: `${url}${name}/mcp`, restarts: 0, envNames: [] },
  ...{ secrets: {}, ...change },
});
const gateway = (...servers: McpGateway["servers"]): McpGateway => ({
  ...{ running: true, port: 8765, url: `${url}mcp`, token: "rl_x", headers: { Authorization: "Bearer rl_x" } },
  ...{ urlExpiresAt: "2031-01-02T03:04:05.000Z", servers, warnings: [] },
});

beforeEach(async () => {
  bench = await CliBench.start();
  bench.server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()));
});
afterEach(() => bench[Symbol.asyncDispose]());

const sent = () => bench.server.requests.filter(({ method }) => method === "POST").map((request) => request.json());

test("mcp start sends servers with their options, variables and secrets, and prints where they are", async () => {
  bench.server.on(`POST ${SANDBOX}/mcp`, (_request, reply) => reply.json(gateway(server("memory"), server("mine"))));
  const ran = await bench.run([
    ...["mcp", "start", "demo", "git", "mine", "--option", "git.repository=/workspace/a=b", "--env", "mine.LEVEL=low"],
    ...["--secret", "mine.API_KEY=my-secret", "--replace", "--port", "9000", "--", "my-server", "--stdio"],
  ]);
  expect(sent()).toEqual([
    {
      servers: [
        { id: "git", options: { repository: "/workspace/a=b" } },
        { name: "mine", command: ["my-server", "--stdio"], env: { LEVEL: "low" }, secrets: { API_KEY: "my-secret" } },
      ],
      ...{ port: 9000, replace: true },
    },
  ]);
  expect(ran.stdout).toContain(`${url}memory/mcp`);
  expect(ran.stdout).toContain(`All of them: ${url}mcp\nAuthorization: Bearer rl_x\n`);
  const bad = await bench.run(["mcp", "start", "demo", "git", "--option", "other.x=y"]);
  expect([bad.code, bad.stderr]).toEqual([2, expect.stringContaining("of a server that is started")]);
});

test("mcp status and stop", async () => {
  const failed = server("mine", { status: "failed", message: "ended with code 3\nno configuration" });
  bench.server.on(`GET ${SANDBOX}/mcp`, (_request, reply) => reply.json(gateway(failed)));
  bench.server.on(`DELETE ${SANDBOX}/mcp`, (_request, reply) => reply.json({ stopped: true }));
  const shown = (await bench.run(["mcp", "status", "demo"])).stdout;
  expect(shown).toMatch(/mine +failed +http:\/\/8765-demo.example.com\/mine\/mcp +ended with code 3\n/);
  expect(JSON.parse((await bench.run(["mcp", "status", "demo", "--json"])).stdout)).toEqual(gateway(failed));
  expect((await bench.run(["mcp", "stop", "demo"])).stdout).toBe("No MCP servers.\n");
});

test("mcp catalog lists what there is", async () => {
  bench.server.on("GET /v1/mcp/catalog", (_request, reply) => reply.json({ data: shownCatalog() }));
  expect((await bench.run(["mcp", "catalog"])).stdout).toMatch(/filesystem +paths=\/workspace +Read, write/);
});

test("ready waits until nothing is installing any more", async () => {
  const rouse = new Rouse({ baseUrl: bench.server.url, apiKey: TEST_KEY });
  const states = ["installing", "ready"] as const;
  let asked = 0;
  bench.server.on(`GET ${SANDBOX}/mcp`, (_request, reply) =>
    reply.json(gateway(server("memory", { status: states[asked++] ?? "ready" }))),
  );
  const sandbox = await rouse.sandboxes.get("demo");
  expect((await sandbox.mcp.ready()).servers[0]?.status).toBe("ready");
  expect(asked).toBe(2);
});

/** Verbs for what a sandbox starts with. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Resume, ServiceStatus } from "../../sdk/contract/boot.ts";
import { CliBench } from "./cli-bench.ts";
import { SANDBOX, sandboxInfo } from "./wire-server.ts";

let bench: CliBench;

beforeEach(async () => {
  bench = await CliBench.start();
  bench.server.on("GET /v1/sandboxes/demo", (_request, reply) => reply.json(sandboxInfo()));
});
afterEach(() => bench[Symbol.asyncDispose]());

const at = "2031-01-02T03:04:05.000Z";
const web: ServiceStatus = {
  ...{ name: "web", state: "ready", pid: 7, port: 8080, restarts: 2, startedAt: at, readyAt: at, late: false },
  lastExit: { at, exitCode: null, signal: "SIGKILL" },
};
const answer: Resume = {
  ...{ bootKind: "booted", generation: 3, memoryRestored: false, bootedAt: at, onWake: null, services: [web] },
  onBoot: {
    generation: 3,
    startedAt: at,
    endedAt: at,
    exitCode: 3,
    timedOut: false,
    stdout: "",
    stderr: "a\nno notes\n",
  },
  checkpoint: { name: "job", version: 7, step: 7, savedAt: at },
  queue: { waiting: 2, leased: 1, dead: 0 },
  unfinished: true,
};

test("services lists them, starts one anew and shows what it wrote", async () => {
  bench.server.on(`GET ${SANDBOX}:resume`, (_request, reply) => reply.json(answer));
  bench.server.on(`POST ${SANDBOX}/services/web:restart`, (_request, reply) => reply.json(web));
  const chunks = [
    { stream: "stdout", text: "listening\n" },
    { stream: "stderr", text: "oops\n" },
  ];
  bench.server.on(`GET ${SANDBOX}/services/web/logs`, (_request, reply) =>
    reply.json({ name: "web", chunks, truncated: false }),
  );
  const rows = (await bench.run(["services", "demo"])).stdout.trimEnd().split("\n");
  expect(rows[0]).toMatch(/^SERVICE +STATE +PORT +RESTARTS +STARTED +LAST EXIT$/);
  expect(rows[1]).toMatch(/^web +ready +8080 +2 .* SIGKILL$/);
  expect(JSON.parse((await bench.run(["services", "demo", "--json"])).stdout)).toEqual({ data: [web] });
  expect((await bench.run(["services", "restart", "demo", "web"])).stdout).toBe("web: ready\n");
  expect((await bench.run(["services", "logs", "demo", "web"])).stdout).toBe("listening\noops\n");
  bench.server.on(`GET ${SANDBOX}:resume`, (_request, reply) => reply.json({ ...answer, services: [] }));
  expect((await bench.run(["services", "demo"])).stdout).toBe("No services.\n");
});

test("services set takes all of a file, and says everything that is wrong with them", async () => {
  bench.server.on(`POST ${SANDBOX}:update`, (request, reply) => {
    const { services } = request.json() as { services: { name: string }[] };
    reply.json(sandboxInfo({ services: services.map((one) => ({ ...one, envNames: [] })) } as object));
  });
  const file = join(bench.folder, "services.json");
  const services = [{ name: "web", command: ["node", "server.js"], ready: { port: 8080, path: "/health" } }];
  await writeFile(file, JSON.stringify(services));
  expect((await bench.run(["services", "set", "demo", file])).stdout).toBe("Services: web\n");
  expect(bench.server.requests.at(-1)?.json()).toEqual({ services });
  await writeFile(file, JSON.stringify([{ name: "A", command: "x" }, { name: "b" }]));
  expect((await bench.refusal(["services", "set", "demo", file]))?.message).toMatch(/0\.name: .*1\.command: /);
});

test("resume says in words how it began and what is left to do", async () => {
  bench.server.on(`GET ${SANDBOX}:resume`, (_request, reply) => reply.json(answer));
  const lines = (await bench.run(["resume", "demo"])).stdout.trimEnd().split("\n");
  expect(lines.slice(0, 5)).toEqual([
    expect.stringMatching(/^demo booted from its disk; what was in RAM is gone, .* ago$/),
    "  onBoot: ended with 3: no notes",
    expect.stringMatching(/^ {2}checkpoint: job version 7, step 7, .* ago$/),
    "  tasks: 2 wait, 1 are worked on, 0 were given up",
    "  there is something to go on with",
  ]);
  expect(lines.at(-1)).toMatch(/^web +ready/);
  expect(JSON.parse((await bench.run(["resume", "demo", "--json"])).stdout)).toEqual(answer);
});

test("create takes services and commands", async () => {
  bench.server.on("POST /v1/sandboxes", (_request, reply) => reply.json(sandboxInfo()));
  const options = ["--service", "web:8080=node server.js --a=b", "--service", "work=python3 work.py"];
  await bench.run(["create", ...options, "--on-boot", "cat notes.md", "--on-wake", "date"]);
  expect(bench.server.requests.at(-1)?.json()).toMatchObject({
    services: [
      { name: "web", port: 8080, command: "node server.js --a=b" },
      { name: "work", command: "python3 work.py" },
    ],
    ...{ onBoot: { command: "cat notes.md" }, onWake: { command: "date" } },
  });
  expect((await bench.refusal(["create", "--service", "web"]))?.message).toContain("NAME[:PORT]=COMMAND");
  expect((await bench.refusal(["create", "--service", "web:0=x"]))?.message).toContain("port");
});

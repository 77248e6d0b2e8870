/**
 * The package in the JavaScript runtimes that it is for. Those that are not on the PATH are looked for in the folder
 * ROUSE_RUNTIMES, a project with `npm install node@22 bun deno`; what is not there is skipped, and says so.
 */
import { execFile } from "node:child_process";
import { copyFile, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";
import { afterAll, beforeAll, beforeEach, afterEach, expect, test } from "vitest";
import { cleanProject } from "./clean-project.ts";
import { SANDBOX, TEST_KEY, WireServer, sandboxInfo } from "./wire-server.ts";

const run = promisify(execFile);
const LIMIT_MS = 600_000;

let folder: string;
let app: string;
let server: WireServer;

beforeAll(async () => {
  folder = await cleanProject();
  app = join(folder, "app");
  await copyFile(join(import.meta.dirname, "runtime-tour.mjs"), join(app, "tour.mjs"));
  await writeFile(
    join(app, "main.mjs"),
    `import process from "node:process";
     import { tour } from "./tour.mjs";
     const [baseUrl, apiKey] = process.argv.slice(2);
     console.log(JSON.stringify(await tour({ baseUrl, apiKey })));`,
  );
  await writeFile(
    join(app, "worker.mjs"),
    `import { tour } from "./tour.mjs";
     export default { fetch: async (request) => Response.json(await tour(await request.json())) };`,
  );
}, LIMIT_MS);
afterAll(() => rm(folder, { recursive: true, force: true }));

beforeEach(async () => {
  server = await WireServer.start();
  server.credentials.add(SESSION.token);
  const result = { exitCode: 0, stdout: "hi\n", stderr: "", timedOut: false, durationMs: 3, processId: "p1" };
  const output = (data: string, offset: number) => ({ type: "stdout", data, offset });
  const execution = {
    ...{ id: "e1", contextId: "python", language: "python", executionCount: 1, status: "ok", stdout: "", stderr: "" },
    ...{ error: null, overflow: [], durationMs: 1, contextStarted: false, lostBytes: 0 },
    results: [{ main: true, data: { "text/plain": "['weekly']" }, refs: {} }],
  };
  server
    .on("POST /v1/sandboxes", (_request, reply) => reply.json(sandboxInfo({ reused: true })))
    .on("GET /v1/sandboxes/nobody", (_request, reply) => reply.error("not_found"))
    .on(`POST ${SANDBOX}:exec`, async (request, reply) => {
      if (!(request.json() as { stream?: boolean }).stream)
        return reply.json({ ...result, stdoutTruncated: false, stderrTruncated: false });
      // The connection is cut in the middle of a line, and the rest is asked for where it was.
      await reply.lines([{ type: "start", processId: "p1" }, output("one ", 0), output("two ", 4)], { cutAfter: 100 });
    })
    .on(`GET ${SANDBOX}/processes/p1/output`, (request, reply) => {
      const from = Number(request.query.get("cursor"));
      const rest = [output("one ", 0), output("two ", 4), output("three", 8)].filter(({ offset }) => offset >= from);
      return reply.lines([...rest, { type: "exit", exitCode: 0, state: "exited", timedOut: false, durationMs: 5 }]);
    })
    .on(`GET ${SANDBOX}/files/content`, (_request, reply) => reply.raw(Buffer.from([0, 255, 10])))
    .on(`POST ${SANDBOX}/interpreter:run`, (_request, reply) => reply.lines([{ k: "execution", execution }]))
    .on(`POST ${SANDBOX}/sessions`, (_request, reply) => reply.json({ ...SESSION, apiUrl: server.url }))
    .on(`POST ${SANDBOX}:stop`, (_request, reply) => reply.json(sandboxInfo({ state: "stopped" })));
});
afterEach(() => server[Symbol.asyncDispose]());

const SESSION = {
  ...{ id: `ses-${"0".repeat(20)}`, sandboxId: "demo~abcdefghijkl", name: null, scopes: ["exec"], origins: [] },
  ...{ servers: true, state: "active", createdBy: "k1", createdAt: "2031-01-02T03:04:05.000Z", revokedAt: null },
  ...{ expiresAt: "2031-01-02T03:19:05.000Z", lastUsedAt: null, token: `rs_default_${"A".repeat(43)}` },
  url: "http://demo.localhost:8787/",
};
const SEEN = {
  name: "demo",
  exec: "hi\n",
  streamed: "one two three",
  bytes: [0, 255, 10],
  recall: "['weekly']",
  session: ["hi\n", 0],
  missing: [true, "not_found"],
  webhook: 2_432_232_314,
  forged: "signature_invalid",
};
/** What the server has seen: the stream was gone on with, and the sandbox was let go of. */
const asked = () => ({
  resumed: server.of(`GET ${SANDBOX}/processes/p1/output`).length > 0,
  stops: server.of(`POST ${SANDBOX}:stop`).length,
});
const ASKED = { resumed: true, stops: 1 };

/** Where a program is: in the folder of runtimes, or on the PATH; with its version as it says it. */
async function found(name: string, packed: string): Promise<{ path: string; version: string } | null> {
  const own = process.env["ROUSE_RUNTIMES"];
  const places = [
    ...(own === undefined ? [] : [join(own, packed)]),
    ...(process.env["PATH"] ?? "").split(":").map((part) => join(part, name)),
  ];
  for (const path of places) {
    if (!(await stat(path).catch(() => null))?.isFile()) continue;
    const version = await run(path, ["--version"]).catch(() => null);
    if (version !== null) return { path, version: version.stdout.trim() };
  }
  return null;
}

async function toured(path: string, ...flags: string[]): Promise<unknown> {
  const home = await mkdtemp(join(tmpdir(), "rouse-home-"));
  try {
    const env = { PATH: process.env["PATH"], HOME: home, DENO_DIR: home, NO_COLOR: "1" };
    const { stdout } = await run(path, [...flags, join(app, "main.mjs"), server.url, TEST_KEY], { cwd: app, env });
    return JSON.parse(stdout);
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}

test(
  "Node.js 24",
  async () => {
    expect(process.version).toMatch(/^v24\./);
    expect(await toured(process.execPath)).toEqual(SEEN);
    expect(asked()).toEqual(ASKED);
  },
  LIMIT_MS,
);

test.for([
  { title: "Node.js 22", name: "node", packed: "node_modules/node/bin/node", is: /^v22\./, flags: [] },
  { title: "Bun", name: "bun", packed: "node_modules/.bin/bun", is: /^1\./, flags: [] },
  { title: "Deno", name: "deno", packed: "node_modules/.bin/deno", is: /^deno 2/, flags: ["run", "--allow-all"] },
])("$title", { timeout: LIMIT_MS }, async ({ title, name, packed, is, flags }, ctx) => {
  const runtime = await found(name, packed);
  if (runtime === null || !is.test(runtime.version)) return ctx.skip(`no ${title} here`);
  expect(await toured(runtime.path, ...flags)).toEqual(SEEN);
  expect(asked()).toEqual(ASKED);
});

test(
  "workerd, as in Cloudflare Workers",
  async () => {
    const { outputFiles } = await build({
      ...{ entryPoints: [join(app, "worker.mjs")], bundle: true, write: false, format: "esm", target: "es2022" },
      ...{ conditions: ["workerd", "worker", "browser"], external: ["node:*"] },
    });
    const script = outputFiles[0]?.text ?? "";
    const edge = new Miniflare(
      convertV4MiniflareOptions({ name: "tour", modules: true, script, compatibilityDate: "2026-11-01", cf: false }),
    );
    try {
      const body = JSON.stringify({ baseUrl: server.url, apiKey: TEST_KEY });
      const answer = await edge.dispatchFetch("http://worker/", { method: "POST", body });
      expect(await answer.json()).toEqual(SEEN);
    } finally {
      await edge.dispose();
    }
    expect(asked()).toEqual(ASKED);
  },
  LIMIT_MS,
);

/** The package as its users get it: built, packed, installed, and run by the oldest Node on this machine. */
import { execFile } from "node:child_process";
import { readFile, realpath, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { VERSION } from "../../sdk/src/index.ts";
import { cleanProject } from "./clean-project.ts";
import { TEST_KEY, WireServer, sandboxInfo } from "./wire-server.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const bin = (name: string): string => join(root, "node_modules/.bin", name);

let folder: string;
let node: string;

beforeAll(async () => {
  folder = await cleanProject();
  node = await oldestNode();
}, 600_000);
afterAll(() => rm(folder, { recursive: true }));

/** The lowest version among the Nodes on the PATH. */
async function oldestNode(): Promise<string> {
  const found = new Set<string>([process.execPath]);
  for (const part of (process.env["PATH"] ?? "").split(":")) {
    const path = await realpath(join(part, "node")).catch(() => null);
    if (path !== null) found.add(path);
  }
  const versions = await Promise.all(
    [...found].map(async (path) => ({
      path,
      major: Number((await run(path, ["-p", "process.versions.node.split('.')[0]"])).stdout),
    })),
  );
  const oldest = versions.filter(({ major }) => major >= 20).toSorted((a, b) => a.major - b.major)[0];
  return oldest?.path ?? process.execPath;
}

async function runScript(code: string, env: Record<string, string> = {}): Promise<string> {
  const file = join(folder, "app", "script.mjs");
  await writeFile(file, code);
  return (await run(node, [file], { env: { PATH: process.env["PATH"], HOME: folder, ...env } })).stdout;
}

test("version and package.json agree", async () => {
  const { version } = JSON.parse(await readFile(join(root, "sdk/package.json"), "utf8")) as { version: string };
  expect(VERSION).toBe(version);
});

test("the seed's example runs against the packed package with only the module's name changed", async () => {
  await using server = await WireServer.start();
  const results = [{ main: true, data: { "text/plain": "['prefers weekly summaries']" }, refs: {} }];
  const execution = {
    id: "e1",
    contextId: "python",
    language: "python",
    executionCount: 1,
    status: "ok",
    stdout: "",
    stderr: "",
    results,
    error: null,
    overflow: [],
    durationMs: 1,
    contextStarted: false,
    lostBytes: 0,
  };
  server
    .on("POST /v1/sandboxes", (_request, reply, count) =>
      reply.json(sandboxInfo({ name: "agent-u-42", reused: count > 0 })),
    )
    .on("POST /v1/sandboxes/demo~abcdefghijkl/interpreter:run", (_request, reply) =>
      reply.lines([{ k: "execution", execution }]),
    );
  const output = await runScript(
    `import { Sandbox } from "rouse";
     async function agentFor(userId) {
       return Sandbox.getOrCreate(\`agent-\${userId}\`, { idlePauseSeconds: 600, labels: { kind: "assistant", user: userId } });
     }
     const monday = await agentFor("u-42");
     await monday.interpreter.run("import pandas as pd\\nnotes = ['prefers weekly summaries']");
     const thursday = await agentFor("u-42");
     const recall = await thursday.interpreter.run("notes");
     console.log(thursday.info.reused, recall.results[0]?.data["text/plain"]);`,
    { ROUSE_API_KEY: TEST_KEY, ROUSE_API_URL: server.url },
  );
  expect(output).toBe("true ['prefers weekly summaries']\n");
});

test("both names of the client and of the base error, the contract, and disposal are there", async () => {
  const output = await runScript(
    `import { Rouse, Runtime, RouseError, RuntimeError, Sandbox } from "rouse";
     import { hintOf } from "rouse/contract";
     console.log(Rouse === Runtime, RouseError === RuntimeError, typeof Sandbox.prototype[Symbol.asyncDispose], hintOf("name_taken").length > 0);`,
  );
  expect(output).toBe("true true function true\n");
});

test("a runtime without Symbol.asyncDispose gets one", async () => {
  const output = await runScript(
    `const { asyncDispose, ...others } = Object.getOwnPropertyDescriptors(Symbol);
     const Old = Object.defineProperties(function () {}, { for: others.for, iterator: others.iterator, asyncIterator: others.asyncIterator, toStringTag: others.toStringTag });
     const modern = globalThis.Symbol;
     await import("zod");
     globalThis.Symbol = Old;
     const { Sandbox } = await import("rouse");
     globalThis.Symbol = modern;
     console.log(typeof Sandbox.prototype[Symbol.for("Symbol.asyncDispose")]);`,
  );
  expect(output).toBe("function\n");
});

test("the packed types serve a strict program", async () => {
  const program = join(folder, "app/program.mts");
  await writeFile(
    program,
    `import { Sandbox, RouseError, type ExecResult, type SandboxInfo } from "rouse";
     import { statusOf } from "rouse/contract";
     export async function run(): Promise<ExecResult> {
       const sandbox = await Sandbox.getOrCreate("x", { idlePauseSeconds: 600 });
       const info: SandboxInfo = sandbox.info;
       // @ts-expect-error a number is no command
       await sandbox.exec(info.vcpu);
       return await sandbox.exec(["ls"], { check: true });
     }
     export const status: number = statusOf("conflict") + new RouseError({ code: "x", message: "y" }).status;`,
  );
  const strict = [
    "--ignoreConfig",
    "--noEmit",
    "--strict",
    "--skipLibCheck",
    "false",
    "--exactOptionalPropertyTypes",
    "--module",
    "nodenext",
    "--target",
    "es2024",
  ];
  const types = [
    "--lib",
    "es2024,esnext.disposable,dom,dom.asynciterable",
    "--types",
    "node",
    "--typeRoots",
    join(root, "node_modules/@types"),
  ];
  const { stdout } = await run(bin("tsc"), [...strict, ...types, program]).catch(
    (error: unknown) => error as { stdout: string },
  );
  expect(stdout).toBe("");
});

test("the packed command runs", async () => {
  const main = join(folder, "app/node_modules/rouse/dist/cli/main.js");
  const installed = join(folder, "app/node_modules/.bin/rouse");
  expect((await run(node, [await realpath(installed), "version"])).stdout).toBe(`rouse ${VERSION}\n`);
  expect((await run(node, [main, "version"])).stdout).toBe(`rouse ${VERSION}\n`);
  expect((await readFile(main, "utf8")).startsWith("#!/usr/bin/env node\n")).toBe(true);
});

/**
 * The guides, done as their readers do them: each program and command in order, against an edge as a process and a guest
 * agent that is the real one; only the machine around it is none. What a guide says is printed is what is printed.
 */
import { spawn, spawnSync } from "node:child_process";
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort } from "../../backend-pool/local/launcher.ts";
import { startAgent, type Agent } from "../guest/agent.ts";
import { TestEdge } from "../serve/test-edge.ts";
import { allPages, root, type Block } from "./markdown.ts";

const guides = allPages().filter(({ path }) => path.startsWith("docs/guides/"));
const NODE = [process.execPath, "--disable-warning=ExperimentalWarning", "--conditions=rouse-source"];

const PYTHON = "/usr/bin/python3";
/** What readers of the guides have, and this machine has not. */
const missing = [PYTHON, "python3", "curl"].filter((command) => spawnSync(command, ["--version"]).status !== 0);
/** Whether the interpreter can run here. */
const hasKernel = spawnSync(PYTHON, ["-c", "import ipykernel, zmq, numpy, pandas, matplotlib"]).status === 0;

let folder: string;
let agent: Agent;
let edge: TestEdge;
let port: number;

beforeAll(async () => {
  if (missing.length > 0) return;
  folder = await mkdtemp(join(tmpdir(), "rouse-guides-"));
  await mkdir(join(folder, "bin"));
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
  await writeFile(join(folder, "package.json"), '{"type":"module"}');
  await program(join(folder, "bin/rouse"), `exec ${NODE.join(" ")} ${join(root, "sdk/cli/main.ts")} "$@"`);
  agent = await startAgent("--python", PYTHON);
  // What every machine has. There is no way out of this one, so no mirror.
  await mkdir(join(agent.home, ".local/bin"), { recursive: true });
  const settings = `ROUSE_CHECKPOINT_DIR=${join(folder, "checkpoints")} ROUSE_CHECKPOINT_MIRROR=off`;
  const checkpoint = `${settings} exec ${PYTHON} ${join(root, "sdk/python/rouse/checkpoint.py")} "$@"`;
  await program(join(agent.home, ".local/bin/rouse-checkpoint"), checkpoint);
  port = await freePort();
  edge = await TestEdge.begin("miniflare", {}, agent.port, true);
}, 600_000);
afterAll(async () => {
  await edge?.end();
  await agent?.stop();
  if (missing.length === 0) await rm(folder, { recursive: true, force: true });
});

async function program(path: string, script: string): Promise<void> {
  await writeFile(path, `#!/bin/sh\n${script}\n`);
  await chmod(path, 0o755);
}

/** What a block prints when it is run in the reader's folder. */
async function ran({ at, language, text }: Block): Promise<string> {
  const suffix = { ts: "ts", python: "py", sh: "sh" }[language];
  if (suffix === undefined) throw new Error(`${at}: nothing runs ${language}`);
  const file = join(folder, `${basename(at).replaceAll(/\W/g, "-")}.${suffix}`);
  // The port of the guides may be somebody else's here.
  await writeFile(file, text.replaceAll("3000", String(port)));
  const [command = "", ...args] = { ts: NODE, py: ["python3"], sh: ["bash", "-e"] }[suffix] ?? [];
  const child = spawn(command, [...args, file], {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      ...{ PATH: `${join(folder, "bin")}:${process.env["PATH"]}`, HOME: folder, PYTHONPATH: join(root, "sdk/python") },
      ...{ ROUSE_API_KEY: edge.apiKey, ROUSE_API_URL: `http://localhost:${edge.port}`, ROUSE_NO_LOGIN: "1" },
    },
  });
  const said = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk: Buffer) => (said.stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (said.stderr += chunk.toString()));
  const code = await new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", resolve);
  });
  if (code !== 0) throw new Error(`${at}: exit code ${String(code)}\n${said.stdout}${said.stderr}`);
  return said.stdout;
}

/** Lines that are not empty; `...` stands for anything. */
const linesOf = (text: string): string[] => text.split("\n").filter((line) => line.trim() !== "");
const patternOf = (line: string): RegExp =>
  new RegExp(
    `^${line
      .split("...")
      .map((part) => part.replaceAll(/[.*+?^$()|[\]{}\\]/g, "\\$&"))
      .join(".*")}$`,
  );

test.for(guides.map((guide) => [guide.path, guide] as const))(
  "%s does what it says",
  { timeout: 600_000 },
  async ([_path, { blocks }], { skip }) => {
    if (missing.length > 0) return skip(`no ${missing.join(", ")} here`);
    const faults: string[] = [];
    let compared = 0;
    for (const [index, block] of blocks.entries()) {
      if (block.language === "" || block.before.startsWith("<!-- not run: ")) continue;
      if (block.before === "<!-- runs where the tests have a kernel -->" && !hasKernel) continue;
      const printed = linesOf(await ran(block));
      const next = blocks[index + 1];
      if (next?.language !== "") continue;
      const expected = linesOf(next.text).map(patternOf);
      const isSaid = printed.length === expected.length && expected.every((one, at) => one.test(printed[at] ?? ""));
      if (!isSaid) faults.push(`${next.at}: ${printed.join("\n")}`);
      compared += 1;
    }
    expect(faults).toEqual([]);
    expect(compared).toBeGreaterThan(1);
  },
);

test("few blocks of guides are not run", () => {
  const skipped = guides.flatMap(({ blocks }) => blocks).filter(({ before }) => before.startsWith("<!-- not run: "));
  expect(skipped.length).toBeLessThanOrEqual(3);
});

test("what is printed must be what is said", () => {
  expect("report~q3v7").toMatch(patternOf("report~..."));
  expect("reports~q3v7").not.toMatch(patternOf("report~..."));
  expect("true [1]").not.toMatch(patternOf("true 1"));
});

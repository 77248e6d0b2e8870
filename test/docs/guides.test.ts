/**
 * The guides, done as their readers do them: each program and command in order, against an edge as a process and a guest
 * agent that is the real one; only the machine around it is none. What a guide says is printed is what is printed. The
 * one that needs hosts is done by `test/e2e/guide.test.ts`.
 */
import { spawnSync } from "node:child_process";
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort } from "../../backend-pool/local/launcher.ts";
import { startAgent, type Agent } from "../guest/agent.ts";
import { TestEdge } from "../serve/test-edge.ts";
import { doGuide, NODE, patternOf, SKIP } from "../support/guide.ts";
import { KERNEL_PYTHON, NO_KERNEL } from "../support/kernel-python.ts";
import { allPages, root, type Block } from "../support/markdown.ts";

const guides = allPages().filter(({ path }) => path.startsWith("docs/guides/"));
const here = guides.filter(({ path }) => path !== "docs/guides/a-pool-of-your-own.md");

const PYTHON = "/usr/bin/python3";
/** What readers of the guides have, and this machine has not. */
const missing = [PYTHON, "python3", "curl"].filter((command) => spawnSync(command, ["--version"]).status !== 0);

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
  agent = await startAgent("--python", KERNEL_PYTHON);
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

test.for(here.map((guide) => [guide.path, guide] as const))(
  "%s does what it says",
  { timeout: 600_000 },
  async ([_path, { blocks }], { skip }) => {
    if (missing.length > 0) return skip(`no ${missing.join(", ")} here`);
    const env = {
      ...{ PATH: `${join(folder, "bin")}:${process.env["PATH"]}`, HOME: folder, PYTHONPATH: join(root, "sdk/python") },
      ...{ ROUSE_API_KEY: edge.apiKey, ROUSE_API_URL: `http://localhost:${edge.port}`, ROUSE_NO_LOGIN: "1" },
    };
    // The port of the guides may be somebody else's here.
    const change = (text: string) => text.replaceAll("3000", String(port));
    const can = ({ before }: Block) => NO_KERNEL === null || before !== "<!-- runs where the tests have a kernel -->";
    const { faults, compared } = await doGuide(blocks, { folder, scripts: folder, env, change, can });
    expect(faults).toEqual([]);
    expect(compared).toBeGreaterThan(1);
  },
);

test("few blocks of guides are not run", () => {
  const skipped = guides.flatMap(({ blocks }) => blocks).filter(({ before }) => before.startsWith(SKIP));
  expect(skipped.length).toBeLessThanOrEqual(3);
});

test("what is printed must be what is said", () => {
  expect("report~q3v7").toMatch(patternOf("report~..."));
  expect("reports~q3v7").not.toMatch(patternOf("report~..."));
  expect("true [1]").not.toMatch(patternOf("true 1"));
});

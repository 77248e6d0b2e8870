import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, expect, it, vi } from "vitest";
import { endGroup, groupRuns, leftovers, spawnGroup, sweep } from "./process-tree.ts";

const MARK = "ROUSE_PROCESS_TREE_TEST";
const folder = mkdtempSync(join(tmpdir(), "tree-"));

afterEach(async () => {
  await sweep(MARK, folder, folder);
  rmSync(folder, { recursive: true, force: true });
});

/** A leader that runs a shell script, of which some process must say "ready". */
async function start(script: string, env: NodeJS.ProcessEnv): Promise<number> {
  const child = spawnGroup("/bin/bash", ["-c", `${script} & wait`], { PATH: process.env["PATH"], ...env }, "/");
  if (!child.stdout || child.pid === undefined) throw new Error("did not start");
  for await (const line of createInterface({ input: child.stdout })) if (line === "ready") break;
  return child.pid;
}

it("ends a whole group, also members that ignore the polite signal", async () => {
  const leader = await start("(trap '' TERM; echo ready; while :; do sleep 1; done)", { [MARK]: folder });
  expect(leftovers(MARK, folder, folder).length).toBeGreaterThanOrEqual(2);
  expect(groupRuns(leader)).toBe(true);
  await endGroup(leader, 100);
  expect(groupRuns(leader)).toBe(false);
  expect(leftovers(MARK, folder, folder)).toEqual([]);
});

it("finds what left the group by its environment", async () => {
  const leader = await start("setsid bash -c 'echo ready; exec sleep 1001'", { [MARK]: folder });
  // It says so before it becomes what it runs.
  await vi.waitFor(() => expect(leftovers(MARK, folder, folder).map(({ command }) => command)).toContain("sleep 1001"));
  await endGroup(leader);
  const found = await sweep(MARK, folder, folder);
  expect(found.map(({ command }) => command)).toContain("sleep 1001");
  expect(leftovers(MARK, folder, folder)).toEqual([]);
});

it("finds what left the group by a path in its command line", async () => {
  const leader = await start(`setsid bash -c 'echo ready; read -r < <(sleep 1002)' ${folder}/state`, {});
  await endGroup(leader);
  const found = await sweep(MARK, folder, folder);
  expect(found.every(({ command }) => command.endsWith(`${folder}/state`))).toBe(true);
  expect(found.length).toBeGreaterThanOrEqual(1);
  expect(leftovers(MARK, folder, folder)).toEqual([]);
});

it("leaves others alone", () => {
  expect(leftovers(MARK, `${folder}-other`, `${folder}-other`)).toEqual([]);
});

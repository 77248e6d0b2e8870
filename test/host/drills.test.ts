/** What a host ends for a drill: once, only where it is allowed, and of another process never. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { HostDrills } from "../../backend-pool/http/drills.ts";
import { isProcess, markOf } from "../../backend-pool/process-mark.ts";

const first = `drl-${"1".repeat(20)}`;
const second = `drl-${"2".repeat(20)}`;
let stateDir: string;
let child: ChildProcess | null = null;
let killed: number[];

beforeEach(async () => {
  killed = [];
  stateDir = await mkdtemp(join(tmpdir(), "rouse-drills-"));
});
afterEach(async () => {
  child?.kill("SIGKILL");
  child = null;
  await rm(stateDir, { recursive: true, force: true });
});

function drills(allowed: "own" | "all" = "all", edgePidFile: string | null = null): HostDrills {
  return new HostDrills({ stateDir, allowed, edgePidFile, kill: (pid) => killed.push(pid) });
}

/** When the kills that were ordered are done. */
async function until(count: number): Promise<void> {
  while (killed.length < count) await new Promise((resolve) => setTimeout(resolve, 10));
}

it("the agent ends once for a drill, and the next one knows for which", async () => {
  const host = drills();
  expect(host.state).toEqual({ survived: null });
  expect([host.take({ drill: first, part: "host" }), host.take({ drill: first, part: "host" })]).toHaveLength(2);
  // It is the one before still.
  expect(host.state).toEqual({ survived: null });
  await until(1);
  const next = drills();
  expect(next.take({ drill: first, part: "host" })).toEqual({ survived: first });
  next.take({ drill: second, part: "host" });
  await until(2);
  expect(killed).toEqual([process.pid, process.pid]);
  expect(drills().state).toEqual({ survived: second });
});

it("nothing but machines ends where that is not allowed, and no edge that is elsewhere", async () => {
  for (const part of ["host", "edge"] as const)
    expect(() => drills("own").take({ drill: first, part })).toThrow(/ROUSE_DRILLS/);
  expect(() => drills().take({ drill: first, part: "edge" })).toThrow(/beside/);
  const file = join(stateDir, "edge.pid");
  expect(() => drills("all", file).take({ drill: first, part: "edge" })).toThrow(/beside/);
  // The number is another process's by now.
  await writeFile(file, `${process.pid}:1`);
  expect(() => drills("all", file).take({ drill: first, part: "edge" })).toThrow(/beside/);
  expect(drills().state).toEqual({ survived: null });
});

it("an edge beside it ends with all that it started", async () => {
  child = spawn("sleep", ["60"], { detached: true, stdio: "ignore" });
  await once(child, "spawn");
  const pid = child.pid ?? 0;
  const mark = markOf(pid) ?? "";
  expect(isProcess(mark)).toBe(pid);
  const file = join(stateDir, "edge.pid");
  await writeFile(file, mark);
  drills("all", file).take({ drill: first, part: "edge" });
  await until(1);
  expect(killed).toEqual([-pid]);
  const gone = once(child, "exit");
  child.kill("SIGKILL");
  await gone;
  expect([isProcess(mark), isProcess("1:1"), isProcess("x")]).toEqual([null, null, null]);
});

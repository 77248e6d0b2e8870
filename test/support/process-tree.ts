/** Child processes that can't outlive their starter: process groups, and a sweep of what left its group. Linux only. */
import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** Time between the polite and the final signal, milliseconds. */
const GRACE_MS = 5000;
/** Time the kernel gets for the final one, milliseconds. */
const KILL_MS = 1000;

/** Start a program as the leader of its own process group; its output is piped, its input empty. */
export function spawnGroup(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  cwd: string,
): ChildProcess {
  return spawn(command, args, { cwd, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
}

/** Send a signal to every process of a group; false when there is no such group. */
export function signalGroup(leader: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-leader, signal);
    return true;
  } catch {
    return false;
  }
}

/** Whether a group has a member that still runs; the dead that nobody has collected don't count. */
export function groupRuns(leader: number): boolean {
  return readdirSync("/proc").some((entry) => {
    if (!/^\d+$/.test(entry)) return false;
    // After the name, which may hold anything up to the last ")": state, parent, group.
    const facts = readProc(Number(entry), "stat")
      .join("")
      .replace(/^.*\) /s, "")
      .split(" ");
    return Number(facts[2]) === leader && facts[0] !== "Z" && facts[0] !== "X";
  });
}

/** End a whole group: politely, then for good. */
export async function endGroup(leader: number, graceMs = GRACE_MS): Promise<void> {
  if (!signalGroup(leader, "SIGTERM")) return;
  await until(() => !groupRuns(leader), graceMs);
  signalGroup(leader, "SIGKILL");
  await until(() => !groupRuns(leader), KILL_MS);
}

export interface Leftover {
  readonly pid: number;
  readonly command: string;
}

/**
 * Processes that carry `NAME=value` in their environment or `path` in their command line: children that made a session
 * of their own, as virtual machines do, are found by what they inherited.
 */
export function leftovers(name: string, value: string, path: string): Leftover[] {
  const found: Leftover[] = [];
  for (const entry of readdirSync("/proc")) {
    const pid = Number(entry);
    if (!Number.isInteger(pid) || pid === process.pid) continue;
    const args = readProc(pid, "cmdline");
    // A zombie has no command line, and nothing to end.
    if (args.length === 0) continue;
    const inherited = readProc(pid, "environ").includes(`${name}=${value}`);
    if (inherited || args.some((arg) => arg.includes(`${path}/`))) found.push({ pid, command: args.join(" ") });
  }
  return found;
}

/** End what `leftovers` finds, with the groups they lead; answers what was there. */
export async function sweep(name: string, value: string, path: string): Promise<Leftover[]> {
  const found = leftovers(name, value, path);
  signalAll(found, "SIGTERM");
  await until(() => leftovers(name, value, path).length === 0, GRACE_MS);
  signalAll([...found, ...leftovers(name, value, path)], "SIGKILL");
  return found;
}

export function signalAll(processes: readonly Leftover[], signal: NodeJS.Signals): void {
  for (const { pid } of processes) {
    if (signalGroup(pid, signal)) continue;
    try {
      process.kill(pid, signal);
    } catch {
      // It ended meanwhile.
    }
  }
}

function readProc(pid: number, file: "cmdline" | "environ" | "stat"): string[] {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8").split("\0").filter(Boolean);
  } catch {
    // It ended meanwhile, or belongs to another user.
    return [];
  }
}

async function until(done: () => boolean, limitMs: number): Promise<void> {
  const end = performance.now() + limitMs;
  while (!done() && performance.now() < end) await sleep(20);
}

/** One edge for each folder: two would each have objects of their own in memory. */
import { join } from "node:path";

const FLOCK = "/usr/bin/flock";
/** What it exits with when another process has the folder. */
const TAKEN = 75;

/** The command, as one that holds the folder's lock for as long as it runs, and does not begin without it. */
export function underLock(dir: string, command: readonly string[]): string[] {
  return [FLOCK, "--nonblock", "--no-fork", "--conflict-exit-code", String(TAKEN), join(dir, "lock"), ...command];
}

/** This process goes on as another program, under its number: whoever started it ends that one. */
export function become(command: readonly string[], env: NodeJS.ProcessEnv): never {
  const [program = ""] = command;
  process.execve?.(program, [...command], env);
  throw new Error(`this process can't become ${program}`);
}

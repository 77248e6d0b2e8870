/** A process as it is noted in a file: a number alone may be another process's by now. */
import { readFileSync } from "node:fs";

/** `<pid>:<when it began, in ticks since the system's start>`; null when it is not there. */
export function markOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name, in parentheses, may hold anything.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" ? null : `${pid}:${fields[19] ?? ""}`;
  } catch {
    return null;
  }
}

/** The process of a mark; null when it has ended. */
export function isProcess(mark: string): number | null {
  const pid = Number(/^\d{1,10}(?=:)/.exec(mark)?.[0] ?? 0);
  return pid > 1 && markOf(pid) === mark ? pid : null;
}

/** What this guest knows of itself. */
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";

/** The same for as long as the RAM lives; a copy of a machine is given its own while the agent runs. */
export function bootId(): string {
  return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
}

/** TCP ports with a listener, in order. */
export async function listeningPorts(): Promise<number[]> {
  const tables = ["/proc/net/tcp", "/proc/net/tcp6"].map((table) => readFile(table, "utf8").catch(() => ""));
  return portsOf(await Promise.all(tables));
}

/** Listeners in the kernel's tables: each line has the local address and port in hex, and state 0A for listening. */
export function portsOf(tables: readonly string[]): number[] {
  const ports = new Set<number>();
  for (const line of tables.flatMap((table) => table.split("\n").slice(1))) {
    const [, local, , state] = line.trim().split(/\s+/);
    if (state === "0A" && local) ports.add(Number.parseInt(local.slice(local.lastIndexOf(":") + 1), 16));
  }
  return [...ports].toSorted((a, b) => a - b);
}

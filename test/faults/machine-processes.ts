/** The QEMU processes of one system, read from /proc, so that one that nobody knows of is seen too. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

export interface MachineProcess {
  readonly pid: number;
  /** The sandbox whose RAM file it has open; null for any other use. */
  readonly id: string | null;
  /** A file in the run folder names it, so that the next host agent finds it. */
  readonly known: boolean;
}

export async function machineProcesses(stateDir: string): Promise<MachineProcess[]> {
  const runDir = join(stateDir, "run");
  const files = (await readdir(runDir).catch(() => [])).filter((name) => name.endsWith(".pid"));
  const known = new Set(
    await Promise.all(files.map(async (name) => Number(await readFile(join(runDir, name), "utf8").catch(() => "0")))),
  );
  const machines = `mem-path=${join(stateDir, "machines")}/`;
  const found = await Promise.all(
    (await readdir("/proc")).filter(isNumber).map(async (entry): Promise<MachineProcess | null> => {
      const args = (await readFile(`/proc/${entry}/cmdline`, "utf8").catch(() => "")).split("\0");
      const pid = Number(entry);
      if (!args[0]?.includes("qemu-system") || !args.some((arg) => arg.includes(`${stateDir}/`))) return null;
      const ram = args.find((arg) => arg.includes(machines));
      const id = ram?.slice(ram.indexOf(machines) + machines.length).split("/")[0] ?? null;
      return { pid, id, known: known.has(pid) };
    }),
  );
  return found.filter((one) => one !== null);
}

/** What is wrong with the processes for the states that the sandboxes are in; nothing when all is well. */
export function processFaults(processes: readonly MachineProcess[], states: ReadonlyMap<string, string>): string[] {
  const faults: string[] = [];
  for (const [id, state] of states) {
    const count = processes.filter((one) => one.id === id).length;
    const [least, most] = state === "running" ? [1, 1] : state === "paused" ? [0, 1] : [0, 0];
    if (count < least || count > most) faults.push(`${id} is ${state} and has ${count} QEMU processes`);
  }
  for (const { pid, id, known } of processes) {
    if (id === null || !states.has(id)) faults.push(`QEMU process ${pid} belongs to no sandbox`);
    else if (!known) faults.push(`QEMU process ${pid} of ${id} is in no pid file`);
  }
  return faults;
}

function isNumber(entry: string): boolean {
  return /^\d+$/.test(entry);
}

/** What this host has and has free. */
import { readFile, statfs } from "node:fs/promises";
import { cpus, loadavg, totalmem } from "node:os";

const MIB = 1_048_576;

export interface Capacity {
  readonly vcpus: number;
  readonly memoryMiB: number;
  readonly freeMemoryMiB: number;
  readonly freeDiskMiB: number;
  /** Processes that run or wait to, on average over a minute. */
  readonly loadAverage: number;
}

export async function capacity(stateDir: string): Promise<Capacity> {
  const [meminfo, disk] = await Promise.all([readFile("/proc/meminfo", "utf8"), statfs(stateDir)]);
  const available = /^MemAvailable:\s+(\d+) kB/m.exec(meminfo)?.[1];
  return {
    vcpus: cpus().length,
    memoryMiB: Math.floor(totalmem() / MIB),
    freeMemoryMiB: Math.floor(Number(available ?? 0) / 1024),
    freeDiskMiB: Math.floor((disk.bavail * disk.bsize) / MIB),
    loadAverage: loadavg()[0] ?? 0,
  };
}

/** Whether a host has room for one more machine to run: what the board was told may be seconds old. */
import { capacity, type Capacity } from "../report/capacity.ts";

/** Memory and disk that are left to the host itself, MiB. */
const MEMORY_RESERVE_MIB = 512;
const DISK_RESERVE_MIB = 1024;

export interface Room {
  /** Why there is none, or null. `isNew`: the machine's files are only being made. */
  lack(memoryMiB: number, runningMiB: number, isNew: boolean): Promise<string | null>;
}

/** A room that is read anew with each heartbeat, so that a wake finds a reading. */
export interface ReadRoom extends Room {
  read(): Promise<Capacity>;
}

/** A reading is good for so long; an older one is used once more while the next is taken, as a wake can't wait for it. */
const FRESH_MS = 1000;
const STALE_MS = 10_000;

/** @param limitMiB memory that all running machines may have together; null: as long as the kernel has some to give */
export function roomBelow(stateDir: string, limitMiB: number | null): ReadRoom {
  let latest: { readonly at: number; readonly read: Capacity } | null = null;
  const read = async () => {
    const reading = await capacity(stateDir);
    latest = { at: performance.now(), read: reading };
    return reading;
  };
  const lately = async () => {
    const age = latest ? performance.now() - latest.at : Infinity;
    if (!latest || age > STALE_MS) return read();
    if (age > FRESH_MS) read().catch(() => undefined);
    return latest.read;
  };
  return {
    read,
    async lack(memoryMiB, runningMiB, isNew) {
      const { freeMemoryMiB, freeDiskMiB } = await lately();
      const diskMiB = DISK_RESERVE_MIB + (isNew ? memoryMiB : 0);
      if (limitMiB !== null && runningMiB + memoryMiB > limitMiB)
        return `its machines run with ${runningMiB} of ${limitMiB} MiB of memory`;
      if (freeMemoryMiB < MEMORY_RESERVE_MIB) return `${freeMemoryMiB} MiB of memory are free`;
      return freeDiskMiB < diskMiB ? `${freeDiskMiB} MiB of disk are free, and ${diskMiB} are needed` : null;
    },
  };
}

/** Whether a host has room for one more machine to run: what the board was told may be seconds old. */
import { capacity } from "../report/capacity.ts";

/** Memory and disk that are left to the host itself, MiB. */
const MEMORY_RESERVE_MIB = 512;
const DISK_RESERVE_MIB = 1024;

export interface Room {
  /** Why there is none, or null. `isNew`: the machine's files are only being made. */
  lack(memoryMiB: number, runningMiB: number, isNew: boolean): Promise<string | null>;
}

/** @param limitMiB memory that all running machines may have together; null: as long as the kernel has some to give */
export function roomBelow(stateDir: string, limitMiB: number | null): Room {
  return {
    async lack(memoryMiB, runningMiB, isNew) {
      const { freeMemoryMiB, freeDiskMiB } = await capacity(stateDir);
      const diskMiB = DISK_RESERVE_MIB + (isNew ? memoryMiB : 0);
      if (limitMiB !== null && runningMiB + memoryMiB > limitMiB)
        return `its machines run with ${runningMiB} of ${limitMiB} MiB of memory`;
      if (freeMemoryMiB < MEMORY_RESERVE_MIB) return `${freeMemoryMiB} MiB of memory are free`;
      return freeDiskMiB < diskMiB ? `${freeDiskMiB} MiB of disk are free, and ${diskMiB} are needed` : null;
    },
  };
}

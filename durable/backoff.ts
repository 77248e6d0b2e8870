/** When something that failed is tried again. Pure. */

const LONGEST_MS = 3_600_000;

/** Twice as late each time, an hour at most. @param attempts tries before this one */
export function backoffMs(firstMs: number, attempts: number): number {
  return Math.min(LONGEST_MS, firstMs * 2 ** Math.min(attempts, 20));
}

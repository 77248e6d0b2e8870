/** A bar of how far something is. Pure. */
import { sizeOf } from "./output.ts";

const CELLS = 24;
/** Before that nobody can tell how fast it is, milliseconds. */
const RATE_AFTER_MS = 1000;

/**
 * Such as `[========        ]  52%  13.7 MiB of 26.4 MiB  3.2 MiB/s  4 s left`.
 * @param about `total` 0: not known, so that there is no bar to it
 */
export function barOf(about: { done: number; total: number; ms: number }): string {
  const { done, total, ms } = about;
  if (total <= 0) {
    const rate = ms < RATE_AFTER_MS ? "" : `  ${sizeOf(Math.round((done / ms) * 1000))}/s`;
    return `${sizeOf(done)}${rate}`;
  }
  const part = Math.min(1, done / total);
  const full = Math.floor(part * CELLS);
  const bar = `[${"=".repeat(full)}${" ".repeat(CELLS - full)}] ${String(Math.floor(part * 100)).padStart(3)}%`;
  const size = `${sizeOf(done)} of ${sizeOf(Math.max(total, done))}`;
  if (ms < RATE_AFTER_MS || done === 0) return `${bar}  ${size}`;
  const perSecond = (done / ms) * 1000;
  const left = Math.ceil((total - done) / perSecond);
  return `${bar}  ${size}  ${sizeOf(Math.round(perSecond))}/s${left > 0 ? `  ${durationOf(left)} left` : ""}`;
}

function durationOf(seconds: number): string {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

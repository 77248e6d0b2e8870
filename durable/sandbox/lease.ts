/** The time limit of a sandbox's runs, and what comes at its end. Pure. */
import { limits, type OnLeaseEnd } from "../../sdk/contract/sandbox.ts";

export interface Lease {
  /** Seconds that a run may last, busy or not; 0: no limit. */
  readonly seconds: number;
  readonly onEnd: OnLeaseEnd;
  /** What the wake under way asked for instead of `seconds`; null for nothing. */
  readonly asked: number | null;
  /** When the run ends, Unix milliseconds; kept over a pause, in which nothing ends. null: never. */
  readonly endsAt: number | null;
}

export function newLease(seconds: number, onEnd: OnLeaseEnd): Lease {
  return { seconds, onEnd, asked: null, endsAt: null };
}

/** A run begins: its own limit counts from now, and an end that was set later stays. */
export function begun(lease: Lease, now: number): Lease {
  const seconds = lease.asked ?? lease.seconds;
  if (seconds === 0) return { ...lease, asked: null, endsAt: null };
  return { ...lease, asked: null, endsAt: later(lease.endsAt, now, seconds) };
}

/** The end moves to `seconds` from now, unless it is later already. Without a limit nothing changes. */
export function extended(lease: Lease, seconds: number, now: number): Lease {
  return lease.endsAt === null ? lease : { ...lease, endsAt: later(lease.endsAt, now, seconds) };
}

function later(endsAt: number | null, now: number, seconds: number): number {
  const cap = now + limits.leaseSecondsMax * 1000;
  return Math.min(cap, Math.max(endsAt ?? 0, now + seconds * 1000));
}

/** When a failed request is sent again, and after how long. No I/O: the transport asks, this answers. */
import type { RouseError } from "./errors.ts";

/** Answers that stand whatever the status: sending the same again gives the same. */
const FINAL_CODES = new Set([
  "unavailable",
  "guest_failed",
  "port_not_listening",
  "start_failed",
  "wake_failed",
  "pause_failed",
  "snapshot_failed",
  "volume_failed",
  "state_damaged",
  "interpreter_failed",
  "mcp_failed",
]);

/** Answers that promise that nothing ran, so that resending is safe for as long as the caller is willing to wait. */
const NOTHING_RAN_CODES = new Set(["guest_busy", "busy", "rate_limited", "sandbox_waking"]);

const RETRIED_STATUSES = new Set([429, 502, 503, 504]);

/** Longest time of resending when nothing ran and the call has no time limit of its own, milliseconds. */
export const NOTHING_RAN_MS = 300_000;
/** Longest wait before one retry, milliseconds. */
const WAIT_MAX_MS = 30_000;
const CAPACITY_WAITS_MS = [500, 1000, 2000, 4000, 8000] as const;

/** Refusals that end by themselves: a machine ends, or a volume is let go. */
const ROOM_CODES = new Set(["no_capacity", "volume_releasing"]);

/** Whether sending the same request again may help. */
export function isRetryable(error: { code: string; status: number }): boolean {
  return RETRIED_STATUSES.has(error.status) && !FINAL_CODES.has(error.code);
}

/** Whether it is worth waiting for others. */
export function mayComeFree(code: string): boolean {
  return ROOM_CODES.has(code);
}

/** What has happened so far in one call. */
export interface RetryState {
  /** Retries done for failures that may have had an effect. */
  retries: number;
  /** Resends done after answers that promise that nothing ran. */
  resends: number;
  /** Resends done because there was no room, or a volume was not free yet. */
  capacityWaits: number;
  /** Milliseconds since the call began. */
  elapsedMs: number;
}

export interface RetryPolicy {
  /** Retries after the first try. */
  maxRetries: number;
  /** Milliseconds that the call waits for room or for a volume; 0 for calls that don't. */
  waitForCapacityMs: number;
  /** A random number from 0 to 1. */
  random: () => number;
}

export type RetryDecision =
  | { kind: "retry"; counter: "retries" | "resends" | "capacityWaits"; waitMs: number }
  | { kind: "give-up" };

/** Decide about one failure. A failure without an answer has status 0. */
export function decideRetry(error: RouseError, state: RetryState, policy: RetryPolicy): RetryDecision {
  const jitter = (ms: number): number => Math.min(WAIT_MAX_MS, ms) * (0.9 + 0.2 * policy.random());
  if (mayComeFree(error.code) && policy.waitForCapacityMs > state.elapsedMs) {
    const step = CAPACITY_WAITS_MS[Math.min(state.capacityWaits, CAPACITY_WAITS_MS.length - 1)] ?? 8000;
    const left = policy.waitForCapacityMs - state.elapsedMs;
    return { kind: "retry", counter: "capacityWaits", waitMs: Math.min(left, jitter(error.retryAfterMs ?? step)) };
  }
  if ((error.status === 429 || error.status === 503) && NOTHING_RAN_CODES.has(error.code)) {
    if (policy.maxRetries === 0 || state.elapsedMs >= NOTHING_RAN_MS) return { kind: "give-up" };
    const waitMs = jitter((error.retryAfterMs ?? 250) * 2 ** Math.min(state.resends, 3));
    return { kind: "retry", counter: "resends", waitMs };
  }
  if (state.retries >= policy.maxRetries) return { kind: "give-up" };
  const backoffMs = Math.min(8000, 250 * 2 ** state.retries) * (0.5 + policy.random());
  if (error.code === "connection_error") return { kind: "retry", counter: "retries", waitMs: backoffMs };
  if (!isRetryable(error)) return { kind: "give-up" };
  const waitMs = error.retryAfterMs === undefined ? backoffMs : jitter(error.retryAfterMs);
  return { kind: "retry", counter: "retries", waitMs };
}

/** What follows a try to deliver an event: done, another try, or the end. Pure. */
import type { ErrorCode } from "../../sdk/contract/error-codes.ts";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** Waits between tries, milliseconds: what Standard Webhooks asks of senders. After the last one it is given up. */
export const SCHEDULE_MS: readonly number[] = [
  5 * SECOND,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  14 * HOUR,
  20 * HOUR,
  24 * HOUR,
];
/** Later events of the hook wait for an event until it failed as often as this; then they go on without it. */
export const IN_ORDER_TRIES = 4;
/** Waits after a wake until its port listens, milliseconds; only after the last does a try count. */
export const SETTLING_MS: readonly number[] = [1, 2, 4, 8, 16, 30].map((seconds) => seconds * SECOND);
const RETRY_AFTER_MAX_MS = HOUR;
const JITTER = 0.2;

/** `reason`: an error code, `timeout`, or `broke_off`: nobody knows how it ended. */
export type Outcome =
  | { readonly status: number; readonly retryAfter: string | null }
  | {
      readonly status: null;
      readonly reason: ErrorCode | "timeout" | "broke_off";
      readonly retryAfterMs?: number | undefined;
      /** The sandbox woke a moment ago: its programs need one. */
      readonly settling: boolean;
    };

export interface Progress {
  /** Tries that count. */
  readonly attempts: number;
  /** Tries in a row that did not count. */
  readonly settling: number;
}

export type Next =
  | { readonly next: "delivered" }
  | { readonly next: "dead"; readonly reason: string; readonly attempts: number; readonly disable: boolean }
  | ({ readonly next: "retry"; readonly at: number; readonly late: boolean; readonly reason: string } & Progress);

/** @param random from 0 to 1, for the jitter */
export function judge(before: Progress, outcome: Outcome, now: number, random: number): Next {
  if (outcome.status !== null && outcome.status >= 200 && outcome.status < 300) return { next: "delivered" };
  const attempts = before.attempts + 1;
  if (outcome.status === 410) return { next: "dead", reason: "gone", attempts, disable: true };
  const reason = outcome.status === null ? outcome.reason : `answered ${outcome.status}`;
  if (outcome.status === null && outcome.settling) {
    const wait = SETTLING_MS[before.settling];
    if (wait !== undefined)
      return {
        ...{ next: "retry", reason, attempts: before.attempts, settling: before.settling + 1 },
        ...{ at: now + wait, late: before.attempts >= IN_ORDER_TRIES },
      };
  }
  const wait = SCHEDULE_MS[before.attempts];
  if (wait === undefined) return { next: "dead", reason, attempts, disable: false };
  const jittered = wait * (1 - JITTER + 2 * JITTER * random);
  const asked = askedMs(outcome, now);
  return {
    ...{ next: "retry", reason, attempts, settling: 0 },
    // Not sooner than it asks for. It can't make all tries pass within minutes, either.
    ...{ at: now + Math.round(Math.max(jittered, asked)), late: attempts >= IN_ORDER_TRIES },
  };
}

function askedMs(outcome: Outcome, now: number): number {
  if (outcome.status === null) return Math.min(outcome.retryAfterMs ?? 0, RETRY_AFTER_MAX_MS);
  if (outcome.status !== 429 && outcome.status !== 503) return 0;
  const text = outcome.retryAfter?.trim() ?? "";
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * SECOND : Date.parse(text) - now;
  return Number.isFinite(ms) ? Math.min(Math.max(ms, 0), RETRY_AFTER_MAX_MS) : 0;
}

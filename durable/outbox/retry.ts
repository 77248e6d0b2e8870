/** What follows a try to deliver an event: done, another try, or the end. Pure. */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** Waits between tries, milliseconds; after the last one it is given up. Together just under three days. */
export const SCHEDULE_MS: readonly number[] = [
  5 * SECOND,
  30 * SECOND,
  2 * MINUTE,
  10 * MINUTE,
  30 * MINUTE,
  1 * HOUR,
  3 * HOUR,
  6 * HOUR,
  12 * HOUR,
  24 * HOUR,
  24 * HOUR,
];
/** Tries end so long after the first one, whatever receivers ask for, milliseconds. */
export const GIVEN_UP_MS = 72 * HOUR;
/** An endpoint that took nothing for so long is turned off, milliseconds, after at least so many tries. */
export const FAILING_MS = 120 * HOUR;
export const FAILING_TRIES = 5;
const RETRY_AFTER_MAX_MS = 6 * HOUR;
/** Waits are shorter by up to this part: together they stay within the time. */
const JITTER = 0.2;

export type FailedReason = "timeout" | "unreachable" | "url_not_allowed" | "broke_off" | "internal_error";
export type Outcome =
  | { readonly status: number; readonly retryAfter: string | null }
  | { readonly status: null; readonly reason: FailedReason };

export type Next =
  | { readonly next: "delivered" }
  | { readonly next: "dead"; readonly reason: string; readonly gone: boolean }
  | { readonly next: "retry"; readonly reason: string; readonly at: number };

/**
 * @param attempts tries before this one
 * @param since when the first one began, Unix milliseconds
 * @param random from 0 to 1, for the jitter
 */
export function judge(attempts: number, since: number, outcome: Outcome, now: number, random: number): Next {
  const { status } = outcome;
  if (status !== null && status >= 200 && status < 300) return { next: "delivered" };
  const reason = status === null ? outcome.reason : `answered ${status}`;
  if (status === 410) return { next: "dead", reason, gone: true };
  const wait = SCHEDULE_MS[attempts];
  const endsAt = since + GIVEN_UP_MS;
  if (wait === undefined || now >= endsAt) return { next: "dead", reason, gone: false };
  const asked = outcome.status === null ? 0 : askedMs(outcome.retryAfter, now);
  const at = now + Math.round(Math.max(wait * (1 - JITTER * random), asked));
  return { next: "retry", reason, at: Math.min(at, endsAt) };
}

function askedMs(retryAfter: string | null, now: number): number {
  const text = retryAfter?.trim() ?? "";
  // Seconds, or a date as HTTP writes it; much else is a date to this platform.
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * SECOND : text.endsWith(" GMT") ? Date.parse(text) - now : 0;
  return Number.isFinite(ms) ? Math.min(Math.max(ms, 0), RETRY_AFTER_MAX_MS) : 0;
}

/** Whether an endpoint is to be turned off. @param since when it began to fail. @param tries that failed since */
export function isHopeless(since: number | null, tries: number, now: number): boolean {
  return since !== null && now - since >= FAILING_MS && tries >= FAILING_TRIES;
}

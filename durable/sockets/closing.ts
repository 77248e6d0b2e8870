/** How the end of one side of a held socket ends the other, and what becomes of one that can't be opened anew. Pure. */
import type { ErrorCode } from "../../sdk/contract/error-codes.ts";

/** Code and reason of a close frame; without a code, one that says nothing. */
export interface Closing {
  readonly code: number | null;
  readonly reason: string;
}

const GOING_AWAY = 1001;
const NO_CODE = 1005;
/** Never in a frame: the connection broke. */
const BROKEN: ReadonlySet<number> = new Set([1006, 1015]);
/** A reason is no longer than this in UTF-8, bytes. */
const REASON_MAX = 123;

/** How the client's side ends after the program's did; null when that only broke, and the socket stays open. */
export function afterProgram(event: { code: number; reason: string; wasClean: boolean }): Closing | null {
  if (!event.wasClean || BROKEN.has(event.code)) return null;
  return { code: event.code === NO_CODE ? null : event.code, reason: event.reason };
}

/** How the program's side ends after the client's did. */
export function afterClient(code: number, reason: string): Closing {
  if (BROKEN.has(code)) return { code: GOING_AWAY, reason: "" };
  return { code: code === NO_CODE ? null : code, reason };
}

/** `retry`: soon. `later`: for some minutes. `asleep`: when the sandbox runs, by whatever wakes it. */
export type Verdict = "retry" | "later" | "asleep" | { readonly end: number };

/** What follows when the program can't have its connection, for that reason. */
export function verdictOn(code: ErrorCode): Verdict {
  switch (code) {
    case "sandbox_paused":
      return "asleep";
    case "sandbox_gone":
    case "not_found":
      return { end: GOING_AWAY };
    case "unauthorized":
    case "forbidden":
    case "permission_denied":
      return { end: 1008 };
    case "sandbox_waking":
    case "host_unavailable":
    case "no_host":
    case "no_capacity":
    case "wake_limit_reached":
    case "misdirected":
    case "wake_failed":
    case "unavailable":
    case "internal_error":
      return "later";
    case "port_not_listening":
    case "upstream_closed":
    case "guest_busy":
    case "guest_failed":
    case "service_not_ready":
    case "service_failed":
    case "boot_failed":
      return "retry";
    default:
      return { end: 1011 };
  }
}

/** Waits between tries that may help soon, milliseconds. */
const RETRY_MS = [200, 400, 800, 1600] as const;
/** Then the program is taken to refuse. */
export const RETRIES: number = RETRY_MS.length;
/** Waits between tries that may take longer, milliseconds, and after how long there are no more. */
const LATER_FIRST_MS = 1000;
const LATER_MOST_MS = 30_000;
export const GIVE_UP_MS = 900_000;

/** null: no more tries. @param tries that failed before */
export function retryMs(tries: number): number | null {
  return RETRY_MS[tries] ?? null;
}

export function laterMs(tries: number): number {
  return Math.min(LATER_MOST_MS, LATER_FIRST_MS * 2 ** Math.min(tries, 10));
}

/** Why a socket is given up, for its client: an error code, or what the program answered. */
export function giveUpReason(why: string, pending: number): string {
  return cut(pending === 0 ? why : `${why}; ${pending} ${pending === 1 ? "message" : "messages"} not delivered`);
}

/** A reason that fits a close frame. */
export function cut(reason: string): string {
  let text = reason;
  while (new TextEncoder().encode(text).length > REASON_MAX) text = text.slice(0, -1);
  return text;
}

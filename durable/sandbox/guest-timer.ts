/** When a sleeper is woken because a program in it said so. A guest is hostile: nothing of what it says is trusted. Pure. */
import type { GuestTimer } from "../../sdk/contract/guest-timer.ts";
import { guestLimits } from "../../sdk/contract/guest-limits.ts";
import type { Cause } from "../../sdk/contract/timeline.ts";
import { backoffMs } from "../backoff.ts";
import { iso } from "../time.ts";

/** A wake begins so long before the time of its timer, milliseconds: that is what nearly all wakes take, and some more. */
export const LEAD_MS = 2000;
/** However soon its timer is, a sandbox that went to sleep sleeps for so long, milliseconds. */
export const SLEEP_MIN_MS = 5000;
const RETRY_MS = 5000;
const DAY_MS = 86_400_000;

/** What a sleeper is woken for. Times are Unix milliseconds. */
export interface WakeTimer {
  readonly name: string;
  /** When the program is to run. */
  readonly at: number;
  /** When the sandbox is woken for it, at first or again. */
  readonly nextAt: number;
  /** Wakes that were begun for it. */
  readonly tries: number;
}

/** @param said by a guest, of which `now` a pause is known */
export function wakeTimer(said: GuestTimer | null | undefined, now: number): WakeTimer | null {
  const told = said ? Date.parse(said.at) : Number.NaN;
  if (!said || Number.isNaN(told)) return null;
  const at = Math.min(Math.max(told, now + 1000), now + guestLimits.timerDays * DAY_MS);
  return { name: said.name, at, nextAt: Math.max(at - LEAD_MS, now + SLEEP_MIN_MS), tries: 0 };
}

/** A wake for it is begun: if nothing comes of that, there is another later. null: it is a day late, and given up. */
export function triedTimer(timer: WakeTimer, now: number): WakeTimer | null {
  if (now - timer.at > DAY_MS) return null;
  return { ...timer, tries: timer.tries + 1, nextAt: now + backoffMs(RETRY_MS, timer.tries) };
}

/** When the sandbox will be awake for it, as people are told. */
export function awakeAt(timer: WakeTimer | null): number | null {
  return timer && Math.max(timer.at, timer.nextAt);
}

export function causeOfTimer({ name, at }: WakeTimer): Cause {
  return { kind: "timer", keyId: null, request: name, port: null, requestId: iso(at) };
}

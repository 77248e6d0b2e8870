/** What becomes of a task. Pure. */
import { queueLimits, type TaskState } from "../../sdk/contract/queue.ts";

export interface TaskFacts {
  readonly state: "ready" | "leased" | "dead" | "done";
  readonly attempts: number;
  readonly maxAttempts: number;
  /** When it can be taken, Unix milliseconds. */
  readonly readyAt: number;
  /** Of `leased`. */
  readonly lease: string | null;
  readonly leaseUntil: number | null;
  readonly lastError: string | null;
}

/** Said of a worker that did not say anything. */
export const EXPIRED = "lease expired";

export function shownState({ state, readyAt }: TaskFacts, now: number): TaskState {
  return state === "ready" && readyAt > now ? "delayed" : state;
}

export function canBeTaken({ state, readyAt }: TaskFacts, now: number): boolean {
  return state === "ready" && readyAt <= now;
}

/** It counts as tried from here on, whatever its worker does. */
export function taken<T extends TaskFacts>(task: T, lease: string, leaseUntil: number): T {
  return { ...task, state: "leased", attempts: task.attempts + 1, lease, leaseUntil };
}

/** Its worker gave it back, or is not heard of any more. */
export function returned<T extends TaskFacts>(task: T, readyAt: number, lastError: string | null): T {
  const state = task.attempts >= task.maxAttempts ? "dead" : "ready";
  return { ...task, state, readyAt, lease: null, leaseUntil: null, lastError: lastError ?? task.lastError };
}

export function isExpired({ state, leaseUntil }: TaskFacts, now: number): boolean {
  return state === "leased" && leaseUntil !== null && leaseUntil <= now;
}

/** Whether who shows that lease has the task now. */
export function holds({ state, lease, leaseUntil }: TaskFacts, shown: string, now: number): boolean {
  return state === "leased" && lease === shown && leaseUntil !== null && leaseUntil > now;
}

/** By its worker; the lease stays, so that the same said again is known. */
export function done<T extends TaskFacts>(task: T): T {
  return { ...task, state: "done", leaseUntil: null };
}

/** As if it had never been taken. */
export function revived<T extends TaskFacts>(task: T, now: number): T {
  return { ...task, state: "ready", attempts: 0, readyAt: now, lease: null, leaseUntil: null };
}

/** How long a task that is done is remembered, milliseconds. */
export function rememberedMs(hasKey: boolean): number {
  return hasKey ? queueLimits.keySeconds * 1000 : 3_600_000;
}

/** Named reasons to stay awake, each with an end. Pure. */

/** End of each hold by its name, Unix milliseconds. */
export type Holds = Readonly<Record<string, number>>;

export function activeHolds(holds: Holds, now: number): Holds {
  return Object.fromEntries(Object.entries(holds).filter(([, endsAt]) => endsAt > now));
}

/** When the last hold ends; null when none holds. */
export function heldUntil(holds: Holds, now: number): number | null {
  const ends = Object.values(activeHolds(holds, now));
  return ends.length === 0 ? null : Math.max(...ends);
}

/** Idle time after which the host may propose a pause; 0, never, while something holds. */
export function idleSeconds(record: { idlePauseSeconds: number; holds: Holds }, now: number): number {
  return heldUntil(record.holds, now) === null ? record.idlePauseSeconds : 0;
}

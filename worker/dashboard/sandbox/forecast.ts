/** What a sandbox comes to in a month, when it goes on as so far. Pure. */

const MONTH_MS = 30 * 86_400_000;
/** What is younger says nothing of a month. */
const LEAST_MS = 600_000;

/** @returns microdollars of 30 days; null where that can't be said yet */
export function monthlyMicros(chargedMicros: number, createdAt: string, now: number): number | null {
  const age = now - Date.parse(createdAt);
  return age < LEAST_MS ? null : Math.round((chargedMicros / age) * MONTH_MS);
}

/** Times as the API shows them (ISO 8601, UTC), and which of several comes first. Pure. */

/** @param ms Unix milliseconds */
export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

export function isoOrNull(ms: number | null): string | null {
  return ms === null ? null : iso(ms);
}

/** null: none of them is set. */
export function earliest(...times: (number | null)[]): number | null {
  const set = times.filter((time) => time !== null);
  return set.length === 0 ? null : Math.min(...set);
}

/** Times as the API shows them: ISO 8601, UTC. Pure. */

/** @param ms Unix milliseconds */
export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

export function isoOrNull(ms: number | null): string | null {
  return ms === null ? null : iso(ms);
}

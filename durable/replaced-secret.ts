/** A secret that is replaced counts on for a while, so that both sides need not change at once. Pure. */

/** A secret, sealed, that was replaced and counts until then, Unix milliseconds. */
export interface Previous {
  readonly sealed: string;
  readonly until: number;
}

/** What is replaced still counts for a while. @param before sealed */
export function previousOf(before: string | null, overlapSeconds: number, now: number): Previous | null {
  return before === null || overlapSeconds === 0 ? null : { sealed: before, until: now + overlapSeconds * 1000 };
}

/** Those that count now, sealed. */
export function secretsOf(current: string | null, previous: Previous | null, now: number): string[] {
  return [...(current === null ? [] : [current]), ...(previous && previous.until > now ? [previous.sealed] : [])];
}

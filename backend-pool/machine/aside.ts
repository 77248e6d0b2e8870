/** Something that is done beside something else, and must not hold it up. */

/** How long a pause waits for what the guest is asked beside it, milliseconds. */
export const ASIDE_LIMIT_MS = 200;

/** Resolves when the work is over, well or not, or the time is. */
export async function within(work: Promise<unknown> | undefined, limitMs: number): Promise<void> {
  if (!work) return;
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(late.resolve, limitMs);
  await Promise.race([work.catch(() => undefined), late.promise]);
  clearTimeout(timer);
}

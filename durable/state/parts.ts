/** An object of several parts, each a blob of its own. Pure. */

/** Bytes. */
interface Span {
  readonly offset: number;
  readonly length: number;
}

/** Which parts hold a range, and what of each. */
export function within(
  parts: readonly (readonly [blob: string, bytes: number])[],
  { offset, length }: Span,
): { blob: string; range: Span }[] {
  const wanted: { blob: string; range: Span }[] = [];
  let at = 0;
  for (const [blob, bytes] of parts) {
    const from = Math.max(offset, at);
    const to = Math.min(offset + length, at + bytes);
    if (from < to) wanted.push({ blob, range: { offset: from - at, length: to - from } });
    at += bytes;
  }
  return wanted;
}

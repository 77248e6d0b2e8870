/** Pages of lists. Pure. */

/** Things of a page unless the query says. */
const PAGE = 50;

/** One page of a list, the newest first. null when the cursor is not one of ours. */
export function page<R extends { readonly id: string; readonly createdAt: number }, T>(
  { limit = PAGE, cursor }: { readonly limit?: number | undefined; readonly cursor?: string | undefined },
  cursors: RegExp,
  before: (createdAt: number, id: string) => Iterable<R>,
  isWanted: (record: R) => boolean,
  shown: (record: R) => T,
): { data: T[]; nextCursor: string | null } | null {
  const from = cursor === undefined ? null : cursors.exec(cursor);
  if (cursor !== undefined && !from) return null;
  const found: R[] = [];
  for (const record of before(from ? Number(from[1]) : Number.MAX_SAFE_INTEGER, from?.[2] ?? "")) {
    if (!isWanted(record)) continue;
    found.push(record);
    if (found.length > limit) break;
  }
  const last = found.length > limit ? found[limit - 1] : undefined;
  return {
    data: found.slice(0, limit).map(shown),
    nextCursor: last ? `${last.createdAt}.${last.id}` : null,
  };
}

/**
 * Work through items, some at a time. The first failure, or the abort, ends it; it is told when nothing is under way any
 * more, so the caller may then close and remove what the work used.
 */
export async function inParallel<T>(
  items: readonly T[],
  atOnce: number,
  signal: AbortSignal | undefined,
  work: (item: T, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const failed = new AbortController();
  const stop = signal ? AbortSignal.any([signal, failed.signal]) : failed.signal;
  const left = items.values();
  const worker = async () => {
    for (const item of left) {
      stop.throwIfAborted();
      await work(item, stop);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, () => worker().catch((fault: unknown) => failed.abort(fault))));
  stop.throwIfAborted();
}

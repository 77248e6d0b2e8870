/** The lines of a followed watch on their way through the edge. */

const LF = 10;
/** A line is held until its end is here, so one may have no more, bytes. */
const LINE_MAX = 16_777_216;
/** Of the newest lines so much is looked at, bytes; those that say that nothing follows are shorter. */
const TAIL = 4096;
/** A stream that breaks at once is not asked for again at once: readers do so when they are told to go on, milliseconds. */
const REST_MS = 1000;
const LAST = /^\{"k":"(?:continue|paused|end|failure)"/;
const CURSOR = /"cursor":(\d{1,16})\}$/;

/**
 * The same lines, and always a last one: where they break off, as they do when the machine goes to sleep, it says
 * `continue`, from what its reader has. A stream that only ends would look like the end of the watch.
 * @param from where the reader began
 */
export function toItsLastLine(
  body: ReadableStream<Uint8Array>,
  from: number,
  restMs: number = REST_MS,
): ReadableStream<Uint8Array> {
  const startedAt = Date.now();
  const reader = body.getReader();
  let begun: Uint8Array[] = [];
  let size = 0;
  let cursor = from;
  let isOver = false;
  const look = (whole: readonly Uint8Array[]): void => {
    const line = tailOf(whole).trimEnd().split("\n").at(-1) ?? "";
    isOver = LAST.test(line);
    cursor = Number(CURSOR.exec(line)?.[1] ?? cursor);
  };
  return new ReadableStream({
    async pull(controller) {
      for (;;) {
        const chunk = await reader.read().then(
          ({ value }) => value,
          () => undefined,
        );
        if (chunk === undefined) {
          if (isOver) return controller.close();
          if (Date.now() - startedAt < restMs) await new Promise((resolve) => setTimeout(resolve, restMs));
          // Of a line that is not whole, all comes again.
          controller.enqueue(new TextEncoder().encode(`${JSON.stringify({ k: "continue", cursor })}\n`));
          return controller.close();
        }
        const end = chunk.lastIndexOf(LF) + 1;
        if (end > 0) {
          const whole = [...begun, chunk.subarray(0, end)];
          begun = end < chunk.length ? [chunk.subarray(end)] : [];
          size = chunk.length - end;
          look(whole);
          for (const part of whole) controller.enqueue(part);
          return;
        }
        begun.push(chunk);
        size += chunk.length;
        if (size > LINE_MAX) {
          await reader.cancel().catch(() => undefined);
          throw new Error("a line of a watch has no end");
        }
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

function tailOf(parts: readonly Uint8Array[]): string {
  let text = new Uint8Array();
  for (const part of parts.toReversed()) {
    if (text.length >= TAIL) break;
    const more = part.subarray(-(TAIL - text.length));
    const both = new Uint8Array(more.length + text.length);
    both.set(more);
    both.set(text, more.length);
    text = both;
  }
  return new TextDecoder().decode(text);
}

/** Reading `application/x-ndjson` from a body that arrives in any pieces. */

/** Longest line accepted, in characters: what a server sends in one event is far below. */
const LINE_MAX = 64 * 1024 * 1024;

/**
 * The JSON values of a body, one per line. Lines and multi-byte characters may be split anywhere; blank lines are
 * skipped. Cancels the body when the reader stops early.
 *
 * @throws what reading the body throws; SyntaxError for a line that is not JSON, such as the last one of a cut body
 */
export async function* ndjson(body: ReadableStream<Uint8Array>): AsyncGenerator<unknown, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const pending: string[] = [];
  let pendingLength = 0;
  let finished = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      const text = done ? decoder.decode() : decoder.decode(value, { stream: true });
      const lines = text.split("\n");
      const rest = lines.pop() ?? "";
      for (const line of lines) {
        pending.push(line);
        const whole = pending.join("").trim();
        pending.length = 0;
        pendingLength = 0;
        if (whole !== "") yield JSON.parse(whole) as unknown;
      }
      pending.push(rest);
      pendingLength += rest.length;
      if (pendingLength > LINE_MAX) throw new SyntaxError("a line of the stream is too long");
      if (done) {
        finished = true;
        const last = pending.join("").trim();
        if (last !== "") yield JSON.parse(last) as unknown;
        return;
      }
    }
  } finally {
    if (!finished) await reader.cancel().catch(() => undefined);
    reader.releaseLock();
  }
}

/** Answers that take longer than a client waits for headers: they begin in time, and say later how it went. */
import { errorBody } from "../../sdk/contract/error-codes.ts";
import type { Failure } from "../../sdk/contract/error-codes.ts";

/** Runtime's clients drop a call whose headers are not there after 125 seconds. */
export const LATE_MS = 90_000;

/**
 * The answer itself where it is there in time; else 200 with `runtime-late-answer`, and its body, or that of the
 * failure, once it is. @param failureOf what is told of a fault
 */
export async function inTime(
  answer: Promise<Response>,
  requestId: string,
  failureOf: (fault: unknown) => Failure,
  lateMs = LATE_MS,
): Promise<Response> {
  const late = Promise.withResolvers<null>();
  const timer = setTimeout(() => late.resolve(null), lateMs);
  try {
    const first = await Promise.race([answer, late.promise]);
    if (first) return first;
  } finally {
    clearTimeout(timer);
  }
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const told = answer.then(
    (response) => response.text(),
    (fault: unknown) => JSON.stringify(errorBody(failureOf(fault), requestId)),
  );
  void told
    .then(async (text) => {
      const writer = writable.getWriter();
      await writer.write(new TextEncoder().encode(text));
      await writer.close();
    })
    .catch((fault: unknown) => writable.abort(fault).catch(() => undefined));
  const headers = { "content-type": "application/json; charset=utf-8", "runtime-late-answer": "true" };
  return new Response(readable, { headers: { ...headers, "x-request-id": requestId } });
}

/** A body as it came, no longer than is allowed and no slower. */
import { RouseFailure } from "../sdk/contract/error-codes.ts";

/** @throws RouseFailure `payload_too_large` without reading on, `body_too_slow` */
export async function readBytes(request: Request, maxBytes: number, limitMs: number): Promise<Uint8Array<ArrayBuffer>> {
  const tooLarge = () =>
    new RouseFailure("payload_too_large", `The body has more than ${maxBytes} bytes.`, { details: { maxBytes } });
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) throw tooLarge();
  if (!request.body) return new Uint8Array();
  const reader = (request.body as ReadableStream<Uint8Array>).getReader();
  const chunks: Uint8Array[] = [];
  const tooSlow = () => new RouseFailure("body_too_slow", `The body did not arrive within ${limitMs / 1000} s.`);
  let length = 0;
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    reader.cancel().catch(() => undefined);
  }, limitMs);
  try {
    for (;;) {
      // What came by the network answers a read that is cancelled with an error.
      const { done, value } = await reader.read().catch((fault: unknown) => {
        throw late ? tooSlow() : fault;
      });
      if (late) throw tooSlow();
      if (done) break;
      length += value.byteLength;
      if (length > maxBytes) {
        reader.cancel().catch(() => undefined);
        throw tooLarge();
      }
      chunks.push(value);
    }
  } finally {
    clearTimeout(timer);
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes;
}

/**
 * Blobs in a folder of this machine, through workerd's own disk service. It writes to a file beside and renames it, so
 * that a blob is there whole or not at all. It does not ask the disk to keep it at once (docs/self-hosting-edge.md).
 */
import { hex } from "../hash.ts";
import type { Announced, BlobStore, Range, StoredBlob } from "./blob-store.ts";

/** Neither a dot, which hides files and leads upwards, nor anything that a URL changes. */
const KEY = /^[A-Za-z0-9_-]{1,128}(?:\/[A-Za-z0-9_-]{1,128})+$/;
/** Files end so, and folders can't: the service deletes a folder with all that is in it. */
const SUFFIX = ".blob";

/** Where a blob is below the folder. @throws Error for what is no key of a blob */
export function blobFile(key: string): string {
  if (!KEY.test(key)) throw new Error("that is no key of a blob");
  return `/${key}${SUFFIX}`;
}

export class DiskBlobStore implements BlobStore {
  readonly #disk: Fetcher;

  constructor(disk: Fetcher) {
    this.#disk = disk;
  }

  async put(key: string, body: ReadableStream<Uint8Array>, announced: Announced): Promise<boolean> {
    const path = blobFile(key);
    // Of a body of unknown length the service takes a failure for the end, and keeps what came before it.
    const whole = new FixedLengthStream(announced.bytes);
    const sink = whole.writable.getWriter();
    const stored = this.#ask("PUT", path, whole.readable).then(async (response) => {
      await response.body?.cancel();
      if (!response.ok) throw failed("PUT", response.status);
    });
    // Nobody reads on: whoever writes must not wait.
    stored.catch((fault: unknown) => sink.abort(fault).catch(() => undefined));
    const [answer, sent] = await Promise.allSettled([stored, send(body, sink, announced)]);
    if (sent.status === "fulfilled" && !sent.value) return false;
    for (const one of [answer, sent]) if (one.status === "rejected") throw one.reason;
    return true;
  }

  async get(key: string, range?: Range): Promise<StoredBlob | null> {
    const response = await this.#found("GET", key);
    if (range) return response?.body ? { bytes: range.length, body: partOf(response.body, range) } : null;
    return response?.body ? { bytes: Number(response.headers.get("content-length")), body: response.body } : null;
  }

  async head(key: string): Promise<number | null> {
    const response = await this.#found("HEAD", key);
    return response && Number(response.headers.get("content-length"));
  }

  async delete(keys: readonly string[]): Promise<void> {
    await Promise.all(keys.map((key) => this.#found("DELETE", key)));
  }

  /** null: it is not there. */
  async #found(method: string, key: string): Promise<Response | null> {
    const response = await this.#ask(method, blobFile(key), null);
    if (response.ok) return response;
    await response.body?.cancel();
    if (response.status === 404) return null;
    throw failed(method, response.status);
  }

  #ask(method: string, path: string, body: ReadableStream | null): Promise<Response> {
    return this.#disk.fetch(`http://disk${path}`, { method, body });
  }
}

/**
 * Send a body on, its last piece only when all is what was announced: a body that is too short is not stored.
 * false: it is not, and was broken off.
 */
async function send(
  body: ReadableStream<Uint8Array>,
  sink: WritableStreamDefaultWriter<Uint8Array>,
  { bytes, sha256 }: Announced,
): Promise<boolean> {
  const digest = new crypto.DigestStream("SHA-256");
  const hashed = digest.getWriter();
  let seen = 0;
  let last: Uint8Array | null = null;
  try {
    for await (const chunk of body) {
      if (chunk.byteLength === 0) continue;
      seen += chunk.byteLength;
      if (seen > bytes) break;
      // Before it is sent: whoever takes it may keep its memory.
      if (sha256 !== null) await hashed.write(chunk);
      if (last) await sink.write(last);
      last = chunk;
    }
    await hashed.close();
    const isRight = sha256 === null || hex(new Uint8Array(await digest.digest)) === sha256;
    if (last && seen === bytes && isRight) {
      await sink.write(last);
      await sink.close();
      return true;
    }
    await sink.abort(new Error("these are not the bytes that were announced"));
    return false;
  } catch (fault) {
    await sink.abort(fault).catch(() => undefined);
    throw fault;
  }
}

/** The service knows no ranges. */
function partOf(body: ReadableStream<Uint8Array>, { offset, length }: Range): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  let skip = offset;
  let left = length;
  return new ReadableStream({
    async pull(controller) {
      while (left > 0) {
        const { done, value } = await reader.read();
        if (done) throw new Error("the blob ended early");
        const piece = value.subarray(Math.min(skip, value.length)).subarray(0, left);
        skip = Math.max(0, skip - value.length);
        if (piece.length === 0) continue;
        left -= piece.length;
        controller.enqueue(piece);
        if (left > 0) return;
      }
      controller.close();
      await reader.cancel();
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

function failed(method: string, status: number): Error {
  return new Error(`the disk answered ${method} with ${status}`);
}

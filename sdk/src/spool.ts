/**
 * A stream of unknown length on its way into a sandbox. The wire wants size and digest first, so what is larger than
 * one PUT waits in a temporary file, or in memory where there are no files.
 */
import type { FileHandle } from "node:fs/promises";
import { guestLimits } from "../contract/guest.ts";
import { concat } from "./bytes.ts";
import { nodeModule } from "./node.ts";
import { memorySource } from "./upload.ts";
import type { UploadSource } from "./upload.ts";

/** What can be streamed into a file. */
export type StreamSource =
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array | string>
  | Iterable<Uint8Array | string>;

/** Take in a stream, and give its source to `use`; nothing is left behind afterwards. */
export async function withSpooled<T>(stream: StreamSource, use: (source: UploadSource) => Promise<T>): Promise<T> {
  const encoder = new TextEncoder();
  const head: Uint8Array[] = [];
  let headBytes = 0;
  let file: TemporaryFile | null = null;
  try {
    for await (const piece of chunksOf(stream)) {
      // The producer may use its buffer again.
      const bytes = typeof piece === "string" ? encoder.encode(piece) : Uint8Array.from(piece);
      if (file !== null) {
        await file.append(bytes);
        continue;
      }
      head.push(bytes);
      headBytes += bytes.length;
      if (headBytes > guestLimits.chunkBytes) {
        file = await TemporaryFile.open();
        if (file === null) continue;
        for (const early of head.splice(0)) await file.append(early);
      }
    }
    return await use(file === null ? memorySource(concat(head)) : file.source());
  } finally {
    await file?.close();
  }
}

export async function* chunksOf(stream: StreamSource): AsyncGenerator<Uint8Array | string, void, undefined> {
  if (!(stream instanceof ReadableStream)) {
    yield* stream;
    return;
  }
  // Not every platform's streams can be iterated.
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.releaseLock();
  }
}

class TemporaryFile {
  readonly #handle: FileHandle;
  readonly #hash: ReturnType<typeof import("node:crypto").createHash>;
  readonly #remove: () => Promise<void>;
  #size = 0;

  private constructor(
    handle: FileHandle,
    hash: ReturnType<typeof import("node:crypto").createHash>,
    remove: () => Promise<void>,
  ) {
    this.#handle = handle;
    this.#hash = hash;
    this.#remove = remove;
  }

  static async open(): Promise<TemporaryFile | null> {
    const [fs, os, path, crypto] = await Promise.all([
      nodeModule("node:fs/promises"),
      nodeModule("node:os"),
      nodeModule("node:path"),
      nodeModule("node:crypto"),
    ]);
    if (fs === null || os === null || path === null || crypto === null) return null;
    const folder = await fs.mkdtemp(path.join(os.tmpdir(), "rouse-"));
    const remove = (): Promise<void> => fs.rm(folder, { recursive: true, force: true });
    try {
      const handle = await fs.open(path.join(folder, "spool"), "wx+", 0o600);
      return new TemporaryFile(handle, crypto.createHash("sha256"), remove);
    } catch (error) {
      await remove();
      throw error;
    }
  }

  async append(bytes: Uint8Array): Promise<void> {
    this.#hash.update(bytes);
    for (let at = 0; at < bytes.length;) {
      const { bytesWritten } = await this.#handle.write(bytes, at, bytes.length - at, this.#size);
      at += bytesWritten;
      this.#size += bytesWritten;
    }
  }

  source(): UploadSource {
    const sha256 = this.#hash.digest("hex");
    return {
      size: this.#size,
      sha256: () => Promise.resolve(sha256),
      read: (at, length) => readExactly(this.#handle, at, length),
    };
  }

  async close(): Promise<void> {
    await this.#handle.close();
    await this.#remove();
  }
}

/** Bytes of an open file. @throws Error when it has become shorter */
export async function readExactly(
  handle: FileHandle,
  offset: number,
  length: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length;) {
    const { bytesRead } = await handle.read(bytes, at, length - at, offset + at);
    if (bytesRead === 0) throw new Error("the file became shorter while it was read");
    at += bytesRead;
  }
  return bytes;
}

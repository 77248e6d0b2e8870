/** What a process wrote: the newest bytes of both streams in the order they came, read by any number of cursors. */
import { guestLimits } from "../../sdk/contract/guest-limits.ts";

export type Stream = "stdout" | "stderr";

interface Chunk {
  readonly stream: Stream;
  readonly offset: number;
  readonly data: Buffer;
}

/** One piece as the wire has it; `base64` where the bytes are no text. */
export interface Piece {
  readonly stream: Stream;
  readonly data: string;
  readonly offset: number;
  readonly bytes: number;
  readonly base64?: string;
}

/** Bytes of one event; a line of a stream stays a size that proxies like. */
const PIECE_BYTES = 65_536;

export class OutputLog {
  readonly #chunks: Chunk[] = [];
  readonly #limit: number;
  /** The start of a character whose rest has not come, by stream. */
  readonly #partial: Record<Stream, Buffer> = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };
  readonly #waiting = new Set<() => void>();
  #kept = 0;
  /** Bytes written so far, both streams. */
  total = 0;
  ended = false;

  constructor(limit: number = guestLimits.outputBytes) {
    this.#limit = limit;
  }

  /** Offset of the oldest byte that is still kept. */
  get first(): number {
    return this.#chunks[0]?.offset ?? this.total;
  }

  append(stream: Stream, data: Buffer): void {
    const whole = this.#partial[stream].length > 0 ? Buffer.concat([this.#partial[stream], data]) : data;
    const end = lastBoundary(whole);
    this.#partial[stream] = Buffer.from(whole.subarray(end));
    this.#push(stream, whole.subarray(0, end));
  }

  /** Nothing more comes; half characters are given as they are. */
  end(): void {
    if (this.ended) return;
    for (const stream of ["stdout", "stderr"] as const) {
      this.#push(stream, this.#partial[stream]);
      this.#partial[stream] = Buffer.alloc(0);
    }
    this.ended = true;
    this.#wake();
  }

  /** Pieces from a cursor on, up to `maxBytes`; a cursor before the oldest byte starts there. */
  read(cursor: number, maxBytes: number, forceBase64 = false): Piece[] {
    const pieces: Piece[] = [];
    let left = maxBytes;
    for (const chunk of this.#chunks) {
      const skip = Math.max(0, cursor - chunk.offset);
      if (skip >= chunk.data.length) continue;
      if (left <= 0) break;
      let data = chunk.data.subarray(skip, skip + left);
      // A cut inside a character would turn it into two that are none.
      if (skip + data.length < chunk.data.length) data = data.subarray(0, lastBoundary(data) || data.length);
      left -= data.length;
      pieces.push(pieceOf(chunk.stream, chunk.offset + skip, data, forceBase64));
    }
    return pieces;
  }

  /** Resolves when something was written or all has been; at once when that is so for the cursor already. */
  change(cursor: number, signal: AbortSignal): Promise<void> {
    if (this.total > cursor || this.ended || signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        this.#waiting.delete(done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      this.#waiting.add(done);
      signal.addEventListener("abort", done);
    });
  }

  #push(stream: Stream, data: Buffer): void {
    for (let at = 0; at < data.length;) {
      let end = Math.min(at + PIECE_BYTES, data.length);
      if (end < data.length) end = at + (lastBoundary(data.subarray(at, end)) || end - at);
      this.#chunks.push({ stream, offset: this.total, data: data.subarray(at, end) });
      this.total += end - at;
      this.#kept += end - at;
      at = end;
    }
    while (this.#kept > this.#limit && this.#chunks.length > 1) this.#kept -= this.#chunks.shift()?.data.length ?? 0;
    if (data.length > 0) this.#wake();
  }

  #wake(): void {
    for (const resolve of [...this.#waiting]) resolve();
  }
}

/** Length of the longest beginning that ends between two UTF-8 characters. */
export function lastBoundary(data: Buffer): number {
  // A character has at most four bytes: look back for a lead byte that promises more than there is.
  for (let back = 1; back <= Math.min(3, data.length); back++) {
    const byte = data[data.length - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const need = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return need > back ? data.length - back : data.length;
  }
  return data.length;
}

function pieceOf(stream: Stream, offset: number, data: Buffer, forceBase64: boolean): Piece {
  const text = data.toString("utf8");
  const isText = !text.includes("\ufffd") || Buffer.from(text, "utf8").equals(data);
  return {
    stream,
    data: text,
    offset,
    bytes: data.length,
    ...(forceBase64 || !isText ? { base64: data.toString("base64") } : {}),
  };
}

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
/** Small writes of one stream are joined up to this size, so that a log of single bytes stays small in memory. */
const JOIN_BYTES = 2048;
/** Both streams in turns can't be joined: then the number of chunks is the limit. */
const CHUNKS = 16_384;
const DROP_BATCH = 1024;
const EMPTY = Buffer.alloc(0);

export class OutputLog {
  #chunks: Chunk[] = [];
  readonly #limit: number;
  readonly #headLimit: number;
  /** The start of a character whose rest has not come, by stream. */
  readonly #partial: Record<Stream, Buffer> = { stdout: EMPTY, stderr: EMPTY };
  /** The first bytes of each stream that the log no longer holds. */
  readonly #head: Record<Stream, Buffer[]> = { stdout: [], stderr: [] };
  readonly #headBytes: Record<Stream, number> = { stdout: 0, stderr: 0 };
  readonly #written: Record<Stream, number> = { stdout: 0, stderr: 0 };
  readonly #waiting = new Set<() => void>();
  #kept = 0;
  /** Bytes written so far, both streams. */
  total = 0;
  ended = false;

  /** `headLimit`: bytes of the beginning of each stream that are kept besides the newest `limit` bytes. */
  constructor(limit: number = guestLimits.outputBytes, headLimit = 0) {
    this.#limit = limit;
    this.#headLimit = headLimit;
  }

  /** Offset of the oldest byte that is still kept. */
  get first(): number {
    return this.#chunks[0]?.offset ?? this.total;
  }

  /** Bytes in memory. */
  get bytes(): number {
    return this.#kept + this.#headBytes.stdout + this.#headBytes.stderr;
  }

  append(stream: Stream, data: Buffer): void {
    if (this.ended) return;
    const whole = this.#partial[stream].length > 0 ? Buffer.concat([this.#partial[stream], data]) : data;
    const end = lastBoundary(whole);
    this.#partial[stream] = end === whole.length ? EMPTY : Buffer.from(whole.subarray(end));
    this.#push(stream, whole.subarray(0, end));
  }

  /** Nothing more comes; half characters are given as they are. */
  end(): void {
    if (this.ended) return;
    for (const stream of ["stdout", "stderr"] as const) this.#push(stream, this.#partial[stream]);
    this.ended = true;
    this.#wake();
  }

  /** Give the memory back; to readers all of it is dropped output. */
  forget(): void {
    this.#chunks = [];
    this.#kept = 0;
    for (const stream of ["stdout", "stderr"] as const) {
      this.#head[stream] = [];
      this.#headBytes[stream] = 0;
    }
  }

  /** The first bytes of one stream, cut between characters. `truncated`: the stream has more, or was forgotten. */
  head(stream: Stream, limit: number): { data: Buffer; truncated: boolean } {
    const parts = [...this.#head[stream]];
    let size = this.#headBytes[stream];
    for (const chunk of this.#chunks) {
      if (size >= limit) break;
      if (chunk.stream !== stream) continue;
      parts.push(chunk.data);
      size += chunk.data.length;
    }
    const only = parts.length === 1 ? parts[0] : undefined;
    const all = (only ?? Buffer.concat(parts)).subarray(0, limit);
    const data = all.length < this.#written[stream] ? all.subarray(0, lastBoundary(all)) : all;
    return { data, truncated: data.length < this.#written[stream] };
  }

  /** Pieces from a cursor on, up to `maxBytes`; a cursor before the oldest byte starts there. */
  read(cursor: number, maxBytes: number, forceBase64 = false): Piece[] {
    const pieces: Piece[] = [];
    let left = maxBytes;
    for (let at = this.#chunkAt(cursor); at < this.#chunks.length && left > 0; at++) {
      const chunk = this.#chunks[at];
      if (!chunk) break;
      const skip = Math.max(0, cursor - chunk.offset);
      let data = chunk.data.subarray(skip, skip + left);
      // A cut inside a character would turn it into two that are none.
      if (skip + data.length < chunk.data.length) data = data.subarray(0, lastBoundary(data) || data.length);
      left -= data.length;
      if (data.length > 0) pieces.push(pieceOf(chunk.stream, chunk.offset + skip, data, forceBase64));
      if (skip + data.length < chunk.data.length) break;
    }
    return pieces;
  }

  /** The bytes from a cursor on as they were written, up to `maxBytes`; a cursor before the oldest byte starts there. */
  raw(cursor: number, maxBytes: number): Buffer {
    const parts: Buffer[] = [];
    let left = maxBytes;
    for (let at = this.#chunkAt(cursor); at < this.#chunks.length && left > 0; at++) {
      const chunk = this.#chunks[at];
      if (!chunk) break;
      const skip = Math.max(0, cursor - chunk.offset);
      const data = chunk.data.subarray(skip, skip + left);
      parts.push(data);
      left -= data.length;
    }
    return Buffer.concat(parts);
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
    if (data.length === 0) return;
    this.#written[stream] += data.length;
    const last = this.#chunks.at(-1);
    if (last?.stream === stream && last.data.length + data.length <= JOIN_BYTES) {
      this.#chunks[this.#chunks.length - 1] = { ...last, data: Buffer.concat([last.data, data]) };
      this.total += data.length;
      this.#kept += data.length;
    } else {
      for (let at = 0; at < data.length;) {
        let end = Math.min(at + PIECE_BYTES, data.length);
        if (end < data.length) end = at + (lastBoundary(data.subarray(at, end)) || end - at);
        this.#chunks.push({ stream, offset: this.total, data: data.subarray(at, end) });
        this.total += end - at;
        this.#kept += end - at;
        at = end;
      }
    }
    this.#dropOldest();
    this.#wake();
  }

  #dropOldest(): void {
    if (this.#kept <= this.#limit && this.#chunks.length <= CHUNKS) return;
    let gone = 0;
    // Moving a long list costs as much for one chunk as for many: when there are too many, a batch goes at once.
    const most = this.#chunks.length > CHUNKS ? CHUNKS - DROP_BATCH : CHUNKS;
    while ((this.#kept > this.#limit || this.#chunks.length - gone > most) && gone < this.#chunks.length - 1) {
      const chunk = this.#chunks[gone++];
      if (!chunk) break;
      this.#kept -= chunk.data.length;
      const room = this.#headLimit - this.#headBytes[chunk.stream];
      if (room <= 0) continue;
      const start = Buffer.from(chunk.data.subarray(0, room));
      this.#head[chunk.stream].push(start);
      this.#headBytes[chunk.stream] += start.length;
    }
    if (gone > 0) this.#chunks.splice(0, gone);
  }

  /** Index of the first chunk that ends after the cursor. */
  #chunkAt(cursor: number): number {
    let low = 0;
    let high = this.#chunks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const chunk = this.#chunks[middle];
      if (chunk && chunk.offset + chunk.data.length <= cursor) low = middle + 1;
      else high = middle;
    }
    return low;
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

/** Where a reader of a process's output stands, so that no byte is lost or seen twice over any number of connections. */
import type { OutputEvent } from "../contract/guest.ts";
import { concat, fromBase64, toBase64, utf8 } from "./bytes.ts";

type Chunk = Extract<OutputEvent, { type: "stdout" | "stderr" }>;

export class OutputCursor {
  /** Raw bytes of stdout and stderr together that the reader has seen. */
  position: number;
  #joining = false;

  constructor(position = 0) {
    this.position = position;
  }

  /** A new connection begins; what it repeats of the old one is cut off. */
  join(): void {
    this.#joining = true;
  }

  /** The server moved on by itself. */
  skipTo(position: number): void {
    this.position = Math.max(this.position, position);
  }

  /** The server's own count, where text that stands for other bytes made ours too high. */
  rewindTo(position: number): void {
    this.position = Math.min(this.position, position);
  }

  /** The events that a chunk stands for: none for a repeated one, a `truncated` before one that comes too late. */
  accept(chunk: Chunk): OutputEvent[] {
    const bytes = bytesOfChunk(chunk);
    const end = chunk.offset + bytes.length;
    if (chunk.offset > this.position) {
      const gap: OutputEvent = {
        type: "truncated",
        droppedBytes: chunk.offset - this.position,
        resumeAt: chunk.offset,
      };
      this.position = end;
      this.#joining = false;
      return [gap, chunk];
    }
    const repeated = this.position - chunk.offset;
    // On a running connection a lower offset is no repetition: bytes that are no UTF-8 made the chunk before it longer
    // as text than it is.
    if (!this.#joining || repeated === 0) {
      this.#joining = false;
      this.position = end;
      return [chunk];
    }
    if (end <= this.position) return [];
    this.#joining = false;
    const offset = this.position;
    this.position = end;
    const rest = bytes.subarray(repeated);
    return [
      {
        ...chunk,
        offset,
        data: new TextDecoder().decode(rest),
        ...(chunk.base64 === undefined ? {} : { base64: toBase64(rest) }),
      },
    ];
  }
}

/** The first bytes of a stream, up to a limit, as text. */
export class OutputBuffer {
  readonly #chunks: Uint8Array[] = [];
  readonly #limit: number;
  #length = 0;
  truncated = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  add(chunk: Pick<Chunk, "data" | "base64">): void {
    const bytes = bytesOfChunk(chunk);
    const room = this.#limit - this.#length;
    if (bytes.length > room) this.truncated = true;
    if (room <= 0) return;
    this.#chunks.push(bytes.subarray(0, room));
    this.#length += Math.min(room, bytes.length);
  }

  toString(): string {
    // A character cut by the limit is left out, not shown as a fault of the output.
    return new TextDecoder().decode(concat(this.#chunks), { stream: true });
  }
}

function bytesOfChunk({ data, base64 }: Pick<Chunk, "data" | "base64">): Uint8Array<ArrayBuffer> {
  return base64 === undefined ? utf8(data) : fromBase64(base64);
}

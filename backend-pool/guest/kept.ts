/** What an answer holds of a run: the beginning of each stream, and results up to a limit. */
import type { Execution } from "../../sdk/contract/guest.ts";
import { lastBoundary } from "./output.ts";

/** Bytes of text of one stream that an answer holds. */
const STREAM_BYTES = 1_048_576;
/** An image may be large by itself; what must not grow without end is their number. */
const RESULT_BYTES = 16 * 1_048_576;

type Stream = "stdout" | "stderr";

export class Kept {
  readonly #parts: Record<Stream, string[]> = { stdout: [], stderr: [] };
  readonly #bytes = { stdout: 0, stderr: 0, results: 0 };
  readonly #dropped = { stdout: 0, stderr: 0, results: 0 };
  readonly #results: Execution["results"] = [];

  write(stream: Stream, text: string): void {
    const size = Buffer.byteLength(text);
    const room = STREAM_BYTES - this.#bytes[stream];
    // Once something was cut, nothing that comes later is joined to what came before.
    if (this.#dropped[stream] > 0) this.#dropped[stream] += size;
    else if (size <= room) this.#keep(stream, text, size);
    else {
      const data = Buffer.from(text).subarray(0, room);
      const fits = data.subarray(0, lastBoundary(data));
      this.#keep(stream, fits.toString(), fits.length);
      this.#dropped[stream] += size - fits.length;
    }
  }

  result({ main, data, refs }: Execution["results"][number]): void {
    const size = Buffer.byteLength(JSON.stringify(data));
    if (this.#bytes.results + size > RESULT_BYTES) {
      this.#dropped.results += size;
      return;
    }
    this.#bytes.results += size;
    this.#results.push({ main, data, refs });
  }

  parts(): Pick<Execution, "stdout" | "stderr" | "results" | "overflow"> {
    const overflow = (["stdout", "stderr", "results"] as const)
      .filter((stream) => this.#dropped[stream] > 0)
      .map((stream) => {
        const dropped = this.#dropped[stream];
        return { stream, path: null, bytes: this.#bytes[stream] + dropped, dropped };
      });
    return {
      stdout: this.#parts.stdout.join(""),
      stderr: this.#parts.stderr.join(""),
      results: this.#results,
      overflow,
    };
  }

  #keep(stream: Stream, text: string, size: number): void {
    this.#parts[stream].push(text);
    this.#bytes[stream] += size;
  }
}

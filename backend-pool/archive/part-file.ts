/** A file that a part of a saved state is restored to. */
import { writeSync } from "node:fs";
import { open, rm, type FileHandle } from "node:fs/promises";
import type { Part } from "./manifest.ts";
import type { Run } from "./restore-plan.ts";

const zeros = Buffer.alloc(1_048_576);

export class PartFile {
  writtenBytes = 0;
  readonly #part: Part;
  readonly #path: string;
  readonly #handle: FileHandle;
  /** It was made here, so it may be removed here. */
  readonly #isOurs: boolean;

  private constructor(part: Part, path: string, handle: FileHandle, isOurs: boolean) {
    this.#part = part;
    this.#path = path;
    this.#handle = handle;
    this.#isOurs = isOurs;
  }

  /** @param ready it is there, as a clone of the part's base */
  static async open(part: Part, path: string, ready: boolean): Promise<PartFile> {
    const file = new PartFile(part, path, await open(path, ready ? "r+" : "wx", 0o600), !ready);
    try {
      // Without a base all that is not written must be zero, whatever was there.
      if (part.base === null) await file.#handle.truncate(0);
      await file.#handle.truncate(part.size);
      return file;
    } catch (fault) {
      await file.discard();
      await file.close();
      throw fault;
    }
  }

  /** Write zeros where the base has something else. */
  async clear(signal: AbortSignal): Promise<void> {
    const { zeros: runs, unit, size } = this.#part;
    for (const [at, start] of runs.start.entries()) {
      const end = Math.min((start + (runs.count[at] ?? 0)) * unit, size);
      for (let position = start * unit; position < end;) {
        signal.throwIfAborted();
        const { bytesWritten } = await this.#handle.write(zeros, 0, Math.min(zeros.length, end - position), position);
        position += bytesWritten;
        this.writtenBytes += bytesWritten;
      }
    }
  }

  /**
   * Write chunks out of a frame's plaintext. Synchronously: into the page cache a page takes some microseconds, and a way
   * through the thread pool costs several times that; a frame's runs take half a millisecond at most.
   */
  write({ index, slots }: Run, plain: Buffer): void {
    const { unit, size } = this.#part;
    const first = slots[0] ?? 0;
    const isOnePiece = slots.every((slot, at) => slot === first + at);
    const bytes = isOnePiece
      ? plain.subarray(first * unit, (first + slots.length) * unit)
      : Buffer.concat(slots.map((slot) => plain.subarray(slot * unit, (slot + 1) * unit)));
    const position = index * unit;
    const length = Math.min(bytes.length, size - position);
    for (let done = 0; done < length;) {
      done += writeSync(this.#handle.fd, bytes, done, length - done, position + done);
    }
    this.writtenBytes += length;
  }

  /** Remove it, if it was made here. */
  async discard(): Promise<void> {
    if (this.#isOurs) await rm(this.#path, { force: true });
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

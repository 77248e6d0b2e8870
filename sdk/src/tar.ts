/** Tar archives: what copies of folders need of them, written as GNU tar does and read from it. Pure. */
import { concat } from "./bytes.ts";
import { RouseError } from "./errors.ts";

const BLOCK = 512;
const NAME_BYTES = 100;
/** A name is no longer than this, bytes. */
const NAME_MAX = 65_536;
/** What eleven octal digits hold, bytes; more is written in binary. */
const OCTAL_MAX = 8_589_934_591;

export interface TarEntry {
  /** Below the folder that was packed, without a slash at its end. */
  readonly path: string;
  readonly type: "file" | "folder" | "other";
  /** Permission bits. */
  readonly mode: number;
  /** Bytes; 0 of what is no file. */
  readonly size: number;
  /** When it was changed, Unix seconds. */
  readonly modifiedAt: number;
}

export interface ReadEntry extends TarEntry {
  /** Of a file: its bytes, once. */
  content(): AsyncGenerator<Uint8Array, void, undefined>;
}

/** An entry's head, behind which its bytes go, and then {@link paddingOf} of them. */
export function headOf({ path, type, mode, size, modifiedAt }: TarEntry): Uint8Array<ArrayBuffer> {
  const name = new TextEncoder().encode(type === "folder" ? `${path}/` : path);
  const own = block(name.subarray(0, NAME_BYTES), type === "folder" ? "5" : "0", { mode, size, modifiedAt });
  if (name.length <= NAME_BYTES) return own;
  const long = concat([name, new Uint8Array(1)]);
  const before = block(new TextEncoder().encode("././@LongLink"), "L", {
    ...{ mode: 0o644, size: long.length, modifiedAt: 0 },
  });
  return concat([before, long, paddingOf(long.length), own]);
}

/** Zeros behind so many bytes. */
export function paddingOf(size: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK);
}

/** What ends an archive. */
export const tarEnd: Uint8Array<ArrayBuffer> = new Uint8Array(2 * BLOCK);

function block(
  name: Uint8Array,
  type: string,
  { mode, size, modifiedAt }: Pick<TarEntry, "mode" | "size" | "modifiedAt">,
): Uint8Array<ArrayBuffer> {
  const head = new Uint8Array(BLOCK);
  const put = (at: number, text: string): void => head.set(new TextEncoder().encode(text), at);
  head.set(name);
  put(100, `${mode.toString(8).padStart(7, "0")}\0`);
  put(108, "0000000\0");
  put(116, "0000000\0");
  if (size <= OCTAL_MAX) put(124, `${size.toString(8).padStart(11, "0")}\0`);
  else {
    head[124] = 0x80;
    new DataView(head.buffer).setBigUint64(128, BigInt(size));
  }
  put(136, `${Math.max(0, Math.floor(modifiedAt)).toString(8).padStart(11, "0")}\0`);
  put(156, type);
  put(257, "ustar  \0");
  put(148, `${sumOf(head).toString(8).padStart(6, "0")}\0 `);
  return head;
}

/** The sum of a head's bytes, with its own field as spaces. */
function sumOf(head: Uint8Array): number {
  return head.reduce((sum, byte, at) => sum + (at >= 148 && at < 156 ? 0x20 : byte), 0);
}

/**
 * The entries of an archive; of a file `content` is to be read before the next.
 * @throws RouseError `invalid_archive`
 */
export async function* entriesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<ReadEntry, void, undefined> {
  const bytes = new Bytes(chunks);
  let longName: string | null = null;
  for (;;) {
    const head = await bytes.take(BLOCK);
    if (head.every((byte) => byte === 0)) return bytes.rest();
    if (Number.parseInt(text(head, 148, 8), 8) !== sumOf(head)) throw invalid("a head is damaged");
    const kind = text(head, 156, 1);
    const size = numberAt(head, 124, 12);
    if (kind === "L" || kind === "K") {
      if (size > NAME_MAX) throw invalid("a name is too long");
      const name = text(await bytes.take(size), 0, size);
      await bytes.take(paddingOf(size).length);
      if (kind === "L") longName = name;
      continue;
    }
    const isFile = kind === "0" || kind === "" || kind === "7";
    const path: string = longName ?? text(head, 0, NAME_BYTES);
    longName = null;
    let left = isFile || kind === "x" || kind === "g" ? size : 0;
    const content = async function* (): AsyncGenerator<Uint8Array, void, undefined> {
      while (left > 0) {
        const piece = await bytes.some(left);
        left -= piece.length;
        yield piece;
      }
    };
    const rest = paddingOf(left).length;
    if (kind !== "x" && kind !== "g")
      yield {
        path: path.replace(/^\.\//, "").replace(/\/+$/, ""),
        type: isFile ? "file" : kind === "5" ? "folder" : "other",
        mode: numberAt(head, 100, 8) & 0o777,
        modifiedAt: numberAt(head, 136, 12),
        size: isFile ? size : 0,
        content,
      };
    // What its reader left.
    for await (const _ of content());
    await bytes.take(rest);
  }
}

function text(bytes: Uint8Array, from: number, length: number): string {
  const part = bytes.subarray(from, from + length);
  const end = part.indexOf(0);
  return new TextDecoder().decode(end === -1 ? part : part.subarray(0, end));
}

function numberAt(head: Uint8Array, from: number, length: number): number {
  const first = head[from] ?? 0;
  const value =
    first & 0x80
      ? head.subarray(from + 1, from + length).reduce((sum, byte) => sum * 256 + byte, first & 0x7f)
      : Number.parseInt(text(head, from, length).trim() || "0", 8);
  if (!Number.isSafeInteger(value)) throw invalid("a number is none");
  return value;
}

/** A stream of bytes, taken in the amounts that are asked for. */
class Bytes {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #here: Uint8Array = new Uint8Array();

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** At least one byte, and no more than so many. */
  async some(most: number): Promise<Uint8Array> {
    while (this.#here.length === 0) {
      const { done, value } = await this.#chunks.next();
      if (done === true) throw invalid("it ends early");
      this.#here = value;
    }
    const piece = this.#here.subarray(0, most);
    this.#here = this.#here.subarray(piece.length);
    return piece;
  }

  /** What follows an archive's end is read, so that what packed it can say that all is well. */
  async rest(): Promise<void> {
    while ((await this.#chunks.next()).done !== true);
  }

  async take(count: number): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    for (let left = count; left > 0;) {
      const piece = await this.some(left);
      pieces.push(piece);
      left -= piece.length;
    }
    return pieces.length === 1 && pieces[0] ? pieces[0] : concat(pieces);
  }
}

/** What a sandbox sent is no archive. */
export function invalid(why: string): RouseError {
  return new RouseError({ code: "invalid_archive", message: `The sandbox sent an archive that is none: ${why}.` });
}

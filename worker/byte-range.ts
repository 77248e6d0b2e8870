/** The one range of a `Range` header. Pure. */

export interface ByteRange {
  readonly offset: number;
  readonly length: number;
}

/** null: all of it, as for what is no range of bytes, or several. `unsatisfiable`: it begins behind the end. */
export function byteRange(header: string | null, bytes: number): ByteRange | "unsatisfiable" | null {
  const match = /^bytes=(\d{0,15})-(\d{0,15})$/i.exec(header?.trim() ?? "");
  if (!match) return null;
  const [, first = "", last = ""] = match;
  if (first === "") {
    if (last === "") return null;
    const length = Math.min(Number(last), bytes);
    return length === 0 ? "unsatisfiable" : { offset: bytes - length, length };
  }
  const offset = Number(first);
  const end = last === "" ? bytes - 1 : Math.min(Number(last), bytes - 1);
  if (last !== "" && Number(last) < offset) return null;
  return offset >= bytes ? "unsatisfiable" : { offset, length: end - offset + 1 };
}

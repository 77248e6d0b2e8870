/** Distinguished encoding (X.690), as far as certificates need it. Pure. */

export function tlv(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(parts);
  if (body.length < 0x80) return Buffer.concat([Buffer.from([tag, body.length]), body]);
  const size = Buffer.from(
    body.length.toString(16).padStart(body.length > 0xffff ? 6 : body.length > 0xff ? 4 : 2, "0"),
    "hex",
  );
  return Buffer.concat([Buffer.from([tag, 0x80 | size.length]), size, body]);
}

export const sequence = (...parts: readonly Uint8Array[]): Buffer => tlv(0x30, ...parts);
export const set = (...parts: readonly Uint8Array[]): Buffer => tlv(0x31, ...parts);
export const octets = (bytes: Uint8Array): Buffer => tlv(0x04, bytes);
export const yes: Buffer = tlv(0x01, Buffer.from([0xff]));
export const text = (value: string): Buffer => tlv(0x0c, Buffer.from(value));

/** @param unused how many bits at the end do not count */
export const bits = (bytes: Uint8Array, unused = 0): Buffer => tlv(0x03, Buffer.from([unused]), bytes);

/** A positive number. @param bytes big-endian */
export function integer(bytes: Uint8Array): Buffer {
  let from = 0;
  while (from < bytes.length - 1 && bytes[from] === 0) from++;
  const short = bytes.subarray(from);
  return (short[0] ?? 0) >= 0x80 ? tlv(0x02, Buffer.from([0]), short) : tlv(0x02, short);
}

/** @param dotted `1.2.840.10045.4.3.2` */
export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  const bytes = [first * 40 + second, ...rest].flatMap((arc) => {
    const out = [arc & 0x7f];
    for (let left = Math.floor(arc / 128); left > 0; left = Math.floor(left / 128)) out.unshift(0x80 | (left & 0x7f));
    return out;
  });
  return tlv(0x06, Buffer.from(bytes));
}

/** @param at Unix milliseconds; years from 2050 on have a form of their own */
export function time(at: number): Buffer {
  const digits = new Date(at)
    .toISOString()
    .replace(/\.\d+Z$/, "Z")
    .replace(/[-:T]/g, "");
  return Number(digits.slice(0, 4)) < 2050 ? tlv(0x17, Buffer.from(digits.slice(2))) : tlv(0x18, Buffer.from(digits));
}

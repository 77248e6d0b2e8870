/** The greeting of a TLS client, made by hand: also such as no library sends. */

const uint = (value: number, size: number): Buffer => {
  const out = Buffer.alloc(size);
  out.writeUIntBE(value, 0, size);
  return out;
};
const block = (size: number, ...parts: readonly Buffer[]): Buffer => {
  const body = Buffer.concat(parts);
  return Buffer.concat([uint(body.length, size), body]);
};

/** @param names what it asks for @param recordBytes into how large records it is cut; none: one */
export function clientHello(names: readonly string[], recordBytes = 16_384): Buffer {
  const list = names.map((name) => Buffer.concat([uint(0, 1), block(2, Buffer.from(name))]));
  const serverName = names.length > 0 ? [uint(0, 2), block(2, block(2, ...list))] : [];
  const versions = [uint(43, 2), block(2, Buffer.from([2, 3, 4]))];
  const hello = Buffer.concat([
    uint(0x0303, 2),
    Buffer.alloc(32, 7),
    block(1, Buffer.alloc(32, 9)),
    block(2, uint(0x1301, 2)),
    block(1, Buffer.from([0])),
    block(2, ...versions, ...serverName),
  ]);
  const message = Buffer.concat([uint(1, 1), block(3, hello)]);
  const records: Buffer[] = [];
  for (let at = 0; at < message.length; at += recordBytes)
    records.push(uint(22, 1), uint(0x0301, 2), block(2, message.subarray(at, at + recordBytes)));
  return Buffer.concat(records);
}

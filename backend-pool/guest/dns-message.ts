/** DNS messages (RFC 1035), as far as the guest's resolver must read and write them. Pure. */

export const dnsTypes = { A: 1, AAAA: 28, OPT: 41, SVCB: 64, HTTPS: 65 } as const;
export const dnsCodes = { ok: 0, malformed: 1, failed: 2, noName: 3, refused: 5 } as const;

const HEADER = 12;
const CLASS_IN = 1;
/** What a client takes by UDP that says nothing else, bytes. */
const UDP_BYTES = 512;
const UDP_BYTES_MOST = 4096;

export interface DnsQuery {
  /** Lower case, no dot at the end. */
  readonly name: string;
  readonly type: number;
  /** Bytes that an answer by UDP may have. */
  readonly udpBytes: number;
  /** Where the question ends. */
  readonly end: number;
}

/** null: not a query with one question of the class IN, and names of plain labels. */
export function readQuery(message: Buffer): DnsQuery | null {
  if (message.length < HEADER + 5) return null;
  const flags = message.readUInt16BE(2);
  const isQuery = (flags & 0xf800) === 0;
  if (!isQuery || message.readUInt16BE(4) !== 1) return null;
  const name = readName(message, HEADER);
  if (!name || name.end + 4 > message.length) return null;
  const type = message.readUInt16BE(name.end);
  if (message.readUInt16BE(name.end + 2) !== CLASS_IN) return null;
  const end = name.end + 4;
  return { name: name.text, type, udpBytes: udpBytesOf(message, end), end };
}

/** The same question for another type. */
export function withType(query: Buffer, { end }: DnsQuery, type: number): Buffer {
  const asked = Buffer.from(query);
  asked.writeUInt16BE(type, end - 4);
  return asked;
}

export function codeOf(answer: Buffer): number {
  return answer.length < HEADER ? dnsCodes.failed : (answer[3] ?? 0) & 0xf;
}

/** Whether an answer holds a record of that type. */
export function hasRecord(answer: Buffer, type: number): boolean {
  if (answer.length < HEADER) return false;
  let at = HEADER;
  for (let questions = answer.readUInt16BE(4); questions > 0; questions--) {
    const end = skipName(answer, at);
    if (end === null) return false;
    at = end + 4;
  }
  for (let records = answer.readUInt16BE(6); records > 0; records--) {
    const end = skipName(answer, at);
    if (end === null || end + 10 > answer.length) return false;
    if (answer.readUInt16BE(end) === type) return true;
    at = end + 10 + answer.readUInt16BE(end + 8);
  }
  return false;
}

/** An answer to the query with these addresses (records of its type), or with none. */
export function writeAnswer(
  query: Buffer,
  read: DnsQuery | null,
  { code = dnsCodes.ok, addresses = [], ttl = 60 }: { code?: number; addresses?: readonly Buffer[]; ttl?: number },
): Buffer {
  const header = Buffer.alloc(HEADER);
  query.copy(header, 0, 0, 4);
  header[2] = 0x80 | ((query[2] ?? 0) & 0x79);
  header[3] = 0x80 | code;
  if (!read) return header;
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(addresses.length, 6);
  const records = addresses.map((address) => {
    const record = Buffer.alloc(12);
    record.writeUInt16BE(0xc000 | HEADER, 0); // the name of the question
    record.writeUInt16BE(read.type, 2);
    record.writeUInt16BE(CLASS_IN, 4);
    record.writeUInt32BE(ttl, 6);
    record.writeUInt16BE(address.length, 10);
    return Buffer.concat([record, address]);
  });
  return Buffer.concat([header, query.subarray(HEADER, read.end), ...records]);
}

/** The answer, or where it has more than a client takes, one that says to ask by TCP. */
export function fitUdp(answer: Buffer, query: Buffer, read: DnsQuery | null): Buffer {
  if (answer.length <= (read?.udpBytes ?? UDP_BYTES)) return answer;
  const short = writeAnswer(query, read, { code: codeOf(answer) });
  short[2] = (short[2] ?? 0) | 0x02;
  return short;
}

export function ipv4Bytes(address: string): Buffer {
  return Buffer.from(address.split(".").map(Number));
}

function readName(message: Buffer, from: number): { text: string; end: number } | null {
  const labels: string[] = [];
  let at = from;
  for (;;) {
    const size = message[at];
    if (size === undefined || size > 63) return null;
    at++;
    if (size === 0) break;
    if (at + size > message.length || at + size - from > 255) return null;
    const label = message.toString("latin1", at, at + size);
    // Whatever else a label may hold is no name of a host.
    if (!/^[\x21-\x2d\x2f-\x7e]+$/.test(label)) return null;
    labels.push(label.toLowerCase());
    at += size;
  }
  return { text: labels.join("."), end: at };
}

function skipName(message: Buffer, from: number): number | null {
  let at = from;
  for (;;) {
    const size = message[at];
    if (size === undefined) return null;
    if (size === 0) return at + 1;
    if (size >= 0xc0) return at + 2;
    at += 1 + size;
  }
}

/** What the client says of itself in an OPT record (RFC 6891), which comes first in plain queries. */
function udpBytesOf(message: Buffer, end: number): number {
  const isPlain = message.readUInt16BE(6) === 0 && message.readUInt16BE(8) === 0 && message.readUInt16BE(10) > 0;
  if (!isPlain || end + 5 > message.length || message[end] !== 0) return UDP_BYTES;
  if (message.readUInt16BE(end + 1) !== dnsTypes.OPT) return UDP_BYTES;
  return Math.min(Math.max(message.readUInt16BE(end + 3), UDP_BYTES), UDP_BYTES_MOST);
}

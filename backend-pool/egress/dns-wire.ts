/** Messages of DNS (RFC 1035) as a resolver between a machine and the host's nameservers needs them. Pure. */
import type { Address } from "./addresses.ts";

export const types = { A: 1, PTR: 12, AAAA: 28, SVCB: 64, HTTPS: 65, AXFR: 252, IXFR: 251, ANY: 255 } as const;
export const codes = { NOERROR: 0, FORMERR: 1, SERVFAIL: 2, NXDOMAIN: 3, NOTIMP: 4, REFUSED: 5 } as const;
const OPT = 41;
const IN = 1;
const HEADER = 12;
const NAME_MAX = 255;
const JUMPS_MAX = 128;
/** What we take by UDP; longer answers come by TCP. */
const UDP_BYTES = 1232;

export interface Query {
  readonly id: number;
  /** Lower case, without a dot at the end; "" is the root. */
  readonly name: string;
  readonly type: number;
  /** Where the question ends in the message. */
  readonly end: number;
}

export interface Message {
  readonly id: number;
  readonly code: number;
  /** More than fits; to be asked again by TCP. */
  readonly truncated: boolean;
  readonly name: string;
  readonly type: number;
  readonly addresses: readonly Address[];
  /** Smallest of its records, seconds; null without records. */
  readonly ttl: number | null;
  /** Where the additional records begin. */
  readonly additional: number;
}

/** A query that is none, and the code to say so with. */
export class BadQuery extends Error {
  readonly code: number;
  constructor(code: number) {
    super("not a query that can be asked");
    this.code = code;
  }
}

/** @throws BadQuery */
export function readQuery(bytes: Buffer): Query {
  if (bytes.length < HEADER) throw new BadQuery(codes.FORMERR);
  const flags = bytes.readUInt16BE(2);
  if ((flags & 0x8000) !== 0) throw new BadQuery(codes.FORMERR);
  if ((flags & 0x7800) !== 0) throw new BadQuery(codes.NOTIMP);
  if (bytes.readUInt16BE(4) !== 1 || bytes.readUInt16BE(6) !== 0 || bytes.readUInt16BE(8) !== 0)
    throw new BadQuery(codes.FORMERR);
  const name = nameAt(bytes, HEADER, false);
  if (!name || name.end + 4 > bytes.length) throw new BadQuery(codes.FORMERR);
  if (bytes.readUInt16BE(name.end + 2) !== IN) throw new BadQuery(codes.NOTIMP);
  return { id: bytes.readUInt16BE(0), name: name.text, type: bytes.readUInt16BE(name.end), end: name.end + 4 };
}

export function writeQuery(id: number, name: string, type: number): Buffer {
  const head = Buffer.alloc(HEADER);
  head.writeUInt16BE(id, 0);
  head.writeUInt16BE(0x0100, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(1, 10);
  const kind = Buffer.alloc(4);
  kind.writeUInt16BE(type, 0);
  kind.writeUInt16BE(IN, 2);
  // The root as owner, type OPT, our size, no extended flags, no data.
  const opt = Buffer.from([0, 0, OPT, UDP_BYTES >> 8, UDP_BYTES & 0xff, 0, 0, 0, 0, 0, 0]);
  return Buffer.concat([head, nameBytes(name), kind, opt]);
}

/** An answer without records. @param query what was asked, whatever it is */
export function emptyAnswer(query: Buffer, code: number, questionEnd: number | null): Buffer {
  const head = Buffer.alloc(HEADER);
  query.copy(head, 0, 0, 2);
  head.writeUInt16BE(0x8080 | (query.length > 2 ? ((query[2] ?? 0) & 0x79) << 8 : 0) | code, 2);
  if (questionEnd === null) return head;
  head.writeUInt16BE(1, 4);
  return Buffer.concat([head, query.subarray(HEADER, questionEnd)]);
}

/** An answer with addresses of our own making. @param ttl seconds */
export function addressAnswer(query: Buffer, { end, type }: Query, addresses: readonly Address[], ttl: number): Buffer {
  const fitting = addresses.filter(({ family }) => type === (family === 4 ? types.A : types.AAAA));
  const records = fitting.map((address) => {
    const data = bytesOf(address);
    const head = Buffer.alloc(12);
    head.writeUInt16BE(0xc000 | HEADER, 0);
    head.writeUInt16BE(type, 2);
    head.writeUInt16BE(IN, 4);
    head.writeUInt32BE(ttl, 6);
    head.writeUInt16BE(data.length, 10);
    return Buffer.concat([head, data]);
  });
  const answer = Buffer.concat([emptyAnswer(query, codes.NOERROR, end), ...records]);
  answer.writeUInt16BE(records.length, 6);
  return answer;
}

/** Null for what is no whole answer: who sends it may be anybody. */
export function readMessage(bytes: Buffer): Message | null {
  if (bytes.length < HEADER) return null;
  const flags = bytes.readUInt16BE(2);
  if ((flags & 0x8000) === 0 || bytes.readUInt16BE(4) !== 1) return null;
  const asked = nameAt(bytes, HEADER, true);
  if (!asked || asked.end + 4 > bytes.length) return null;
  const addresses: Address[] = [];
  let ttl: number | null = null;
  let at = asked.end + 4;
  const truncated = (flags & 0x0200) !== 0;
  const said = {
    ...{ id: bytes.readUInt16BE(0), code: flags & 0x000f, truncated },
    ...{ name: asked.text, type: bytes.readUInt16BE(asked.end) },
  };
  if (truncated) return { ...said, addresses, ttl, additional: at };
  const answers = bytes.readUInt16BE(6);
  for (let left = answers + bytes.readUInt16BE(8); left > 0; left--) {
    const owner = nameAt(bytes, at, true);
    if (!owner || owner.end + 10 > bytes.length) return null;
    const data = owner.end + 10;
    const length = bytes.readUInt16BE(owner.end + 8);
    if (data + length > bytes.length) return null;
    const seconds = bytes.readUInt32BE(owner.end + 4);
    ttl = ttl === null ? seconds : Math.min(ttl, seconds);
    const type = bytes.readUInt16BE(owner.end);
    if (bytes.readUInt16BE(owner.end + 2) === IN && (type === types.A || type === types.AAAA)) {
      if (length !== (type === types.A ? 4 : 16)) return null;
      addresses.push(addressOf(bytes.subarray(data, data + length)));
    }
    at = data + length;
  }
  return { ...said, addresses, ttl, additional: at };
}

/** An answer as who asked gets it: by its own id, without records that were for us alone. */
export function answerFor({ id }: Query, answer: Buffer, { additional }: Message): Buffer {
  const out = Buffer.from(answer.subarray(0, additional));
  out.writeUInt16BE(id, 0);
  out.writeUInt16BE(0, 10);
  return out;
}

function addressOf(data: Buffer): Address {
  const bits = data.reduce((all, byte) => (all << 8n) | BigInt(byte), 0n);
  if (data.length === 4) return { family: 4, bits };
  return bits >> 32n === 0xffffn ? { family: 4, bits: bits & 0xffff_ffffn } : { family: 6, bits };
}

function bytesOf({ family, bits }: Address): Buffer {
  const size = family === 4 ? 4 : 16;
  return Buffer.from(bits.toString(16).padStart(size * 2, "0"), "hex");
}

export function nameBytes(name: string): Buffer {
  const labels = name === "" ? [] : name.split(".");
  return Buffer.concat([
    ...labels.map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label, "latin1")])),
    Buffer.from([0]),
  ]);
}

/** Pointers only lead back, so that they end. Null for what is no name. */
function nameAt(bytes: Buffer, from: number, pointers: boolean): { text: string; end: number } | null {
  const labels: string[] = [];
  let at = from;
  let end: number | null = null;
  let size = 0;
  for (let jumps = 0; jumps < JUMPS_MAX;) {
    const length = bytes[at];
    if (length === undefined) return null;
    if (length === 0) return { text: labels.join("."), end: end ?? at + 1 };
    if (length >= 0xc0) {
      const next = bytes[at + 1];
      if (!pointers || next === undefined) return null;
      const to = ((length & 0x3f) << 8) | next;
      if (to >= at || to < HEADER) return null;
      end ??= at + 2;
      at = to;
      jumps++;
      continue;
    }
    size += length + 1;
    if (length > 63 || size > NAME_MAX || at + 1 + length > bytes.length) return null;
    const label = bytes.toString("latin1", at + 1, at + 1 + length);
    // A dot within a part must not pass for another name.
    if (/[^\x21-\x7e]|\./.test(label)) return null;
    labels.push(label.toLowerCase());
    at += length + 1;
  }
  return null;
}

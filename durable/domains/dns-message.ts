/** Messages of DNS (RFC 1035): a question as bytes, and what an answer says of it, whoever wrote that. Pure. */

export const recordTypes = { A: 1, CNAME: 5, TXT: 16, AAAA: 28 } as const;
export type RecordType = keyof typeof recordTypes;

/** What is known of a name. An answer that says neither is a fault, and never "there is none". */
export type DnsAnswer =
  | {
      readonly ok: true;
      /** What the name is another name of, in the order in which they lead on. */
      readonly cnames: readonly string[];
      /** Of that type: texts with their strings joined, addresses as they are written. */
      readonly values: readonly string[];
    }
  | { readonly ok: false; readonly fault: string };

/** Longest answer that is read, bytes. */
export const MESSAGE_MAX = 65_535;
const HEADER = 12;
const IN = 1;
/** A name of 255 bytes has no more parts than that, and takes no more jumps. */
const STEPS_MAX = 128;
const NAME_MAX = 255;
/** Aliases in a row. */
const CNAMES_MAX = 16;
const NXDOMAIN = 3;

/** A question with the id 0, as RFC 8484 wants it. @param name in ASCII, without a dot at the end */
export function encodeQuery(name: string, type: RecordType): Uint8Array<ArrayBuffer> {
  const labels = name.split(".");
  const out: number[] = [0, 0, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0];
  for (const label of labels) {
    if (label === "" || label.length > 63) throw new Error("not a name of DNS");
    out.push(label.length, ...new TextEncoder().encode(label));
  }
  out.push(0, 0, recordTypes[type], 0, IN);
  return new Uint8Array(out);
}

/** What a message says about what was asked. Never throws: who answers may be hostile. */
export function readAnswer(bytes: Uint8Array, name: string, type: RecordType): DnsAnswer {
  try {
    return read(new Reader(bytes), name.toLowerCase(), recordTypes[type]);
  } catch (fault) {
    return { ok: false, fault: fault instanceof Malformed ? fault.message : "malformed" };
  }
}

class Malformed extends Error {}

interface Answer {
  readonly owner: string;
  readonly type: number;
  readonly at: number;
  readonly length: number;
}

function read(reader: Reader, name: string, type: number): DnsAnswer {
  if (reader.length > MESSAGE_MAX) throw new Malformed("too long");
  const flags = reader.uint16(2);
  if ((flags & 0x8000) === 0) throw new Malformed("not an answer");
  if ((flags & 0x0200) !== 0) throw new Malformed("cut short");
  const code = flags & 0x000f;
  if (code !== 0 && code !== NXDOMAIN) return { ok: false, fault: `response code ${code}` };
  if (reader.uint16(4) !== 1) throw new Malformed("not one question");
  const asked = reader.name(HEADER);
  if (asked.name !== name || reader.uint16(asked.end) !== type) throw new Malformed("an answer to something else");
  let at = asked.end + 4;
  const answers: Answer[] = [];
  for (let left = reader.uint16(6); left > 0; left--) {
    const owner = reader.name(at);
    const length = reader.uint16(owner.end + 8);
    const data = owner.end + 10;
    if (data + length > reader.length) throw new Malformed("cut short");
    if (reader.uint16(owner.end + 2) === IN)
      answers.push({ owner: owner.name, type: reader.uint16(owner.end), at: data, length });
    at = data + length;
  }
  const cnames: string[] = [];
  let owner = name;
  for (;;) {
    const alias = answers.find((one) => one.owner === owner && one.type === recordTypes.CNAME);
    if (!alias) break;
    owner = reader.name(alias.at).name;
    if (cnames.includes(owner) || owner === name || cnames.length >= CNAMES_MAX)
      throw new Malformed("aliases in a circle");
    cnames.push(owner);
  }
  const values = answers.filter((one) => one.owner === owner && one.type === type).map((one) => reader.value(one));
  return { ok: true, cnames, values };
}

class Reader {
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get length(): number {
    return this.#bytes.length;
  }

  byte(at: number): number {
    const byte = this.#bytes[at];
    if (byte === undefined) throw new Malformed("cut short");
    return byte;
  }

  uint16(at: number): number {
    return (this.byte(at) << 8) | this.byte(at + 1);
  }

  /** A name in lower case, and where what follows it begins. Pointers only lead back, so that they end. */
  name(from: number): { name: string; end: number } {
    const labels: string[] = [];
    let at = from;
    let end: number | null = null;
    let bytes = 0;
    for (let steps = 0; steps < STEPS_MAX; steps++) {
      const length = this.byte(at);
      if (length === 0) return { name: labels.join("."), end: end ?? at + 1 };
      if (length >= 0xc0) {
        const to = this.uint16(at) & 0x3fff;
        if (to >= at) throw new Malformed("a pointer that leads on");
        end ??= at + 2;
        at = to;
        continue;
      }
      if (length > 63) throw new Malformed("a part of a name of an unknown kind");
      bytes += length + 1;
      if (bytes > NAME_MAX) throw new Malformed("a name that is too long");
      labels.push(this.#label(at + 1, length));
      at += length + 1;
    }
    throw new Malformed("a name without an end");
  }

  value({ type, at, length }: Answer): string {
    switch (type) {
      case recordTypes.A:
        if (length !== 4) throw new Malformed("an address of another length");
        return [0, 1, 2, 3].map((offset) => this.byte(at + offset)).join(".");
      case recordTypes.AAAA:
        if (length !== 16) throw new Malformed("an address of another length");
        return addressOf(Array.from({ length: 8 }, (_, group) => this.uint16(at + 2 * group)));
      case recordTypes.TXT:
        return this.#text(at, length);
      default:
        return this.name(at).name;
    }
  }

  #text(from: number, length: number): string {
    const parts: Uint8Array[] = [];
    for (let at = from; at < from + length;) {
      const size = this.byte(at);
      if (at + 1 + size > from + length) throw new Malformed("a text that is cut short");
      parts.push(this.#bytes.subarray(at + 1, at + 1 + size));
      at += 1 + size;
    }
    return parts.map((part) => String.fromCharCode(...part)).join("");
  }

  #label(at: number, length: number): string {
    let out = "";
    for (let offset = 0; offset < length; offset++) {
      const code = this.byte(at + offset);
      // A dot within a part, or what is no letter, must not pass for another name.
      const letter = String.fromCharCode(code);
      out += code > 0x20 && code < 0x7f && letter !== "." && letter !== "\\" ? letter.toLowerCase() : `\\${code}`;
    }
    return out;
  }
}

/** As URLs write it: the longest row of zeros is left out. */
function addressOf(groups: readonly number[]): string {
  return new URL(`http://[${groups.map((group) => group.toString(16)).join(":")}]`).hostname.slice(1, -1);
}

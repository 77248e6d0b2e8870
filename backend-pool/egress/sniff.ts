/** What the first bytes of a connection ask for: a name in a TLS greeting, or the host of a plain HTTP request. Pure. */

export type Sniffed =
  /** Not decided yet. */
  | { readonly kind: "more" }
  /** Names, all in lower case and without port; none where it does not say. */
  | { readonly kind: "tls" | "http"; readonly names: readonly string[] }
  /** Says nothing of a host, or nothing that we know. */
  | { readonly kind: "other" }
  /** Neither one thing nor the other: made to be read differently by different readers. */
  | { readonly kind: "malformed" };

/** Longest start that is looked at, bytes. */
export const SNIFF_MAX = 65_536;
const LINE_MAX = 8192;
/** No method is longer. */
const WORD_MAX = 64;
const HANDSHAKE = 22;
const CLIENT_HELLO = 1;

const MORE: Sniffed = { kind: "more" };
const OTHER: Sniffed = { kind: "other" };
const MALFORMED: Sniffed = { kind: "malformed" };

/** @param bytes everything that came so far */
export function sniff(bytes: Buffer): Sniffed {
  if (bytes.length === 0) return MORE;
  const found = isGreeting(bytes) ? sniffTls(bytes) : sniffHttp(bytes);
  return found.kind === "more" && bytes.length > SNIFF_MAX ? MALFORMED : found;
}

/** Whether it begins as TLS does. */
export function isGreeting(bytes: Buffer): boolean {
  return bytes[0] === HANDSHAKE;
}

function sniffTls(bytes: Buffer): Sniffed {
  const parts: Buffer[] = [];
  let size = 0;
  let wanted = 4;
  for (let at = 0; size < wanted;) {
    if (bytes.length < at + 5) return bytes.length > at && bytes[at] !== HANDSHAKE ? MALFORMED : MORE;
    if (bytes[at] !== HANDSHAKE) return MALFORMED;
    if (bytes[at + 1] !== 3) return at === 0 ? OTHER : MALFORMED;
    const length = bytes.readUInt16BE(at + 3);
    if (length === 0 || length > 16_640) return MALFORMED;
    const part = bytes.subarray(at + 5, at + 5 + length);
    parts.push(part);
    size += part.length;
    if (size >= 4) {
      const head = Buffer.concat(parts);
      if (head[0] !== CLIENT_HELLO) return MALFORMED;
      wanted = 4 + head.readUIntBE(1, 3);
      if (wanted > SNIFF_MAX) return MALFORMED;
    }
    if (part.length < length && size < wanted) return MORE;
    at += 5 + length;
  }
  const names = namesOfHello(Buffer.concat(parts).subarray(4, wanted));
  return names ? { kind: "tls", names } : MALFORMED;
}

/** Names of the extension `server_name`; null for a greeting that is not well formed. */
function namesOfHello(hello: Buffer): string[] | null {
  try {
    let at = 34; // version and random
    at += 1 + hello.readUInt8(at); // session
    at += 2 + hello.readUInt16BE(at); // ciphers
    at += 1 + hello.readUInt8(at); // compressions
    if (at === hello.length) return [];
    const end = at + 2 + hello.readUInt16BE(at);
    if (end !== hello.length) return null;
    const names: string[] = [];
    for (at += 2; at < end;) {
      const type = hello.readUInt16BE(at);
      const length = hello.readUInt16BE(at + 2);
      const data = hello.subarray(at + 4, at + 4 + length);
      if (data.length < length) return null;
      if (type === 0) {
        if (data.readUInt16BE(0) !== data.length - 2) return null;
        for (let entry = 2; entry < data.length;) {
          const size = data.readUInt16BE(entry + 1);
          if (entry + 3 + size > data.length) return null;
          if (data[entry] === 0) names.push(plainName(data.toString("latin1", entry + 3, entry + 3 + size)));
          entry += 3 + size;
        }
      }
      at += 4 + length;
    }
    return names;
  } catch {
    return null; // shorter than it says
  }
}

function sniffHttp(bytes: Buffer): Sniffed {
  const text = bytes.toString("latin1").replace(/^[\r\n]+/, "");
  const lineEnd = text.indexOf("\n");
  if (lineEnd < 0) {
    // A word and a blank may begin a request, whatever comes next; a word may become that.
    const word = /^[!#$%&'*+.^_`|~0-9A-Za-z-]*/.exec(text)?.[0] ?? "";
    if (text[word.length] === " " || text[word.length] === "\t") return text.length > LINE_MAX ? MALFORMED : MORE;
    return word.length === text.length && word.length <= WORD_MAX ? MORE : OTHER;
  }
  const line = text.slice(0, lineEnd).trimEnd();
  if (!/[ \t]HTTP\/1\.\d$/i.test(line)) return OTHER;
  const rest = text.slice(lineEnd + 1);
  const end = /^\r?\n|\n\r?\n/.exec(rest);
  if (!end) return MORE;
  const names: string[] = [];
  const target = line.slice(line.search(/[ \t]/)).trim();
  const whole = /^[a-z][a-z0-9+.-]*:\/\/([^/?#\s]*)/i.exec(target);
  if (whole) names.push(hostPart((whole[1] ?? "").replace(/^.*@/, "")));
  for (const header of rest.slice(0, end.index).split("\n")) {
    // A folded line, or a blank before the colon, is read as a host by some and not by others.
    if (/^[ \t]/.test(header) || /^[^:]*[ \t]:/.test(header)) return MALFORMED;
    const host = /^host:(.*)$/i.exec(header.replace(/\r$/, ""));
    if (host) names.push(hostPart((host[1] ?? "").trim()));
  }
  return { kind: "http", names };
}

/** A host without its port. */
export function hostPart(text: string): string {
  return plainName(text.replace(/:\d*$/, ""));
}

function plainName(text: string): string {
  return text
    .toLowerCase()
    .replace(/^\[|\]$/g, "")
    .replace(/\.$/, "");
}

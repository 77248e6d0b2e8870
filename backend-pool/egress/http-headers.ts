/** Headers of requests and answers that pass a proxy. Pure. */

const HOP_BY_HOP = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "transfer-encoding",
  "upgrade",
]);

export interface Passing {
  /** Names and values in turn. */
  readonly headers: string[];
  readonly isChunked: boolean;
}

/**
 * What is meant for who is beyond the next hop: without the headers of the connection, and those that it names.
 * @param drop further ones, in lower case
 */
export function passing(raw: readonly string[], drop: (name: string) => boolean = () => false): Passing {
  const named = new Set<string>();
  let isChunked = false;
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = (raw[at] ?? "").toLowerCase();
    if (name === "connection") for (const one of (raw[at + 1] ?? "").split(",")) named.add(one.trim().toLowerCase());
    if (name === "transfer-encoding") isChunked = true;
  }
  // These frame the message or say whose it is, whatever the connection says of them.
  for (const kept of ["content-length", "host"]) named.delete(kept);
  const headers: string[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = (raw[at] ?? "").toLowerCase();
    if (name.startsWith(":") || HOP_BY_HOP.has(name) || named.has(name) || drop(name)) continue;
    headers.push(raw[at] ?? "", raw[at + 1] ?? "");
  }
  return { headers, isChunked };
}

/** How a body is framed when a request's headers are given as a list: as it came. */
export function framing(method: string, { headers, isChunked }: Passing): string[] {
  if (isChunked) return ["transfer-encoding", "chunked"];
  const hasLength = headers.some((name, at) => at % 2 === 0 && name.toLowerCase() === "content-length");
  return hasLength || method === "GET" || method === "HEAD" ? [] : ["content-length", "0"];
}

/** Trailers as Node adds them. */
export function pairs(raw: readonly string[]): [string, string][] {
  const out: [string, string][] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) out.push([raw[at] ?? "", raw[at + 1] ?? ""]);
  return out;
}

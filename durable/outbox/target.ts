/**
 * Where events may be sent to, as far as a URL says it: what a name resolves to is the network's to refuse, in the very
 * connection (ADR 16). Pure.
 */

/** `any`: for local use. Plain HTTP, any port and private addresses as well. */
export type Targets = "public" | "any";

export function targetsOf(setting: string | undefined): Targets {
  return setting === "any" ? "any" : "public";
}

const PORTS: ReadonlySet<string> = new Set(["", "8443"]);
/** Names that are never of the public network. */
const PRIVATE_NAMES = ["localhost", "local", "internal", "intranet", "lan", "home.arpa", "onion"];

/** Why a URL is not sent to; null when it may be. */
export function targetFault(text: string, targets: Targets): string | null {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url || !/^https?:$/.test(url.protocol)) return "a URL such as https://example.com/rouse";
  if (url.username !== "" || url.password !== "") return "without a user name or password";
  if (url.hash !== "") return "without a fragment";
  if (targets === "any") return null;
  if (url.protocol !== "https:") return "begins with https://";
  if (!PORTS.has(url.port)) return "port 443 or 8443";
  return isPublicHost(url.hostname) ? null : "a host of the public network";
}

/** @param hostname as `URL` writes it: numbers in any notation are dotted there, and names are in lower case */
function isPublicHost(hostname: string): boolean {
  if (hostname.startsWith("[")) {
    const bytes = parseV6(hostname.slice(1, -1));
    return bytes !== null && isPublicV6(bytes);
  }
  const name = hostname.replace(/\.$/, "");
  const v4 = parseV4(name);
  if (v4) return isPublicV4(v4);
  if (!name.includes(".")) return false;
  return !PRIVATE_NAMES.some((suffix) => name === suffix || name.endsWith(`.${suffix}`));
}

/** Blocks that are not of the public network: address and length of the prefix. */
const V4_BLOCKS = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  // Multicast, reserved, broadcast.
  ["224.0.0.0", 3],
] as const;

/** Of IPv6 only `2000::/3` is public, less what leads to IPv4 (6to4, Teredo) or nowhere. */
const V6_BLOCKS = [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
] as const;

function isPublicV4(bytes: readonly number[]): boolean {
  return !V4_BLOCKS.some(([block, bits]) => isWithin(bytes, parseV4(block) ?? [], bits));
}

function isPublicV6(bytes: readonly number[]): boolean {
  if (!isWithin(bytes, parseV6("2000::") ?? [], 3)) return false;
  return !V6_BLOCKS.some(([block, bits]) => isWithin(bytes, parseV6(block) ?? [], bits));
}

function isWithin(bytes: readonly number[], block: readonly number[], bits: number): boolean {
  return Array.from({ length: bits }, (_, bit) => bit).every((bit) => {
    const mask = 0x80 >> (bit % 8);
    const at = Math.floor(bit / 8);
    return ((bytes[at] ?? 0) & mask) === ((block[at] ?? 0) & mask);
  });
}

function parseV4(text: string): number[] | null {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text);
  const bytes = match?.slice(1).map(Number);
  return bytes?.every((byte) => byte <= 255) ? bytes : null;
}

/** As `URL` writes them: hexadecimal groups alone, once with `::`. */
function parseV6(text: string): number[] | null {
  const [head = "", tail, ...more] = text.split("::");
  const groups = (part: string) => (part === "" ? [] : part.split(":"));
  const [before, after] = [groups(head), groups(tail ?? "")];
  const left = 8 - before.length - after.length;
  if (more.length > 0 || left < 0 || (tail === undefined && left !== 0)) return null;
  const all = [...before, ...Array.from({ length: left }, () => "0"), ...after];
  if (!all.every((group) => /^[0-9a-f]{1,4}$/i.test(group))) return null;
  return all.flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255]);
}

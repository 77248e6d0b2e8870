/** Addresses and ranges of them, and which are never reached from a machine, whatever its rules. Pure. */
import { isIPv4, isIPv6 } from "node:net";

export interface Address {
  readonly family: 4 | 6;
  readonly bits: bigint;
}

/** The first `length` bits count. */
export interface Range extends Address {
  readonly length: number;
}

const SIZE = { 4: 32, 6: 128 } as const;
/** IPv4 written as IPv6 (`::ffff:192.0.2.1`) is the same address, so it is read as one. */
const MAPPED = 0xffffn;

/** Null for what is no address: short, hexadecimal or octal forms of IPv4, and addresses with a zone, are none. */
export function parseAddress(text: string): Address | null {
  if (isIPv4(text)) return { family: 4, bits: bitsOfFour(text) };
  if (!isIPv6(text) || text.includes("%")) return null;
  const bits = bitsOfSix(text);
  return bits >> 32n === MAPPED ? { family: 4, bits: bits & 0xffff_ffffn } : { family: 6, bits };
}

/** An address, or one with the number of bits that count: `203.0.113.0/24`. Null for anything else. */
export function parseRange(text: string): Range | null {
  const [at = "", length, more] = text.split("/");
  const address = parseAddress(at);
  if (!address || more !== undefined) return null;
  if (length === undefined) return { ...address, length: SIZE[address.family] };
  if (!/^\d{1,3}$/.test(length)) return null;
  // Of a mapped range, the 96 bits that say so are not of the address.
  const count = address.family === 4 && at.includes(":") ? Number(length) - 96 : Number(length);
  return count < 0 || count > SIZE[address.family] ? null : { ...address, length: count };
}

export function contains(range: Range, address: Address): boolean {
  if (range.family !== address.family) return false;
  const rest = BigInt(SIZE[range.family] - range.length);
  return range.bits >> rest === address.bits >> rest;
}

export function formatAddress({ family, bits }: Address): string {
  if (family === 4) return [24n, 16n, 8n, 0n].map((shift) => (bits >> shift) & 0xffn).join(".");
  const groups = Array.from({ length: 8 }, (_, group) => ((bits >> BigInt(112 - 16 * group)) & 0xffffn).toString(16));
  return new URL(`http://[${groups.join(":")}]`).hostname.slice(1, -1);
}

/** Not of the public network, or not of any one place in it. */
const FOUR = ranges(
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/3",
  // A cloud's own services for a machine, at an address that looks public.
  "168.63.129.16/32",
);

/**
 * Public IPv6 is all in here. Loopback, private, link-local and multicast addresses are not, nor are those that carry
 * one of IPv4 through a translator (`64:ff9b::/96`, `64:ff9b:1::/48`) or in the old way (`::/96`).
 */
const PUBLIC_SIX = ranges("2000::/3");
/** But these: special uses and Teredo, examples, 6to4, and a network of tests that is over. */
const SIX = ranges("2001::/23", "2001:db8::/32", "2002::/16", "3ffe::/16", "3fff::/20");

/** @param own the addresses of this host, now */
export function isNeverReached(address: Address, own: readonly Address[]): boolean {
  if (own.some(({ family, bits }) => family === address.family && bits === address.bits)) return true;
  if (address.family === 4) return within(FOUR, address);
  return !within(PUBLIC_SIX, address) || within(SIX, address);
}

function within(list: readonly Range[], address: Address): boolean {
  return list.some((range) => contains(range, address));
}

function ranges(...texts: string[]): Range[] {
  return texts.map((text) => parseRange(text)).filter((range) => range !== null);
}

function bitsOfFour(text: string): bigint {
  return text.split(".").reduce((bits, part) => (bits << 8n) | BigInt(part), 0n);
}

function bitsOfSix(text: string): bigint {
  const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text);
  const tail = dotted?.[2] === undefined ? null : bitsOfFour(dotted[2]);
  const plain =
    tail === null ? text : `${dotted?.[1] ?? ""}${(tail >> 16n).toString(16)}:${(tail & 0xffffn).toString(16)}`;
  const [left = "", right] = plain.split("::");
  const before = left === "" ? [] : left.split(":");
  const after = right === undefined || right === "" ? [] : right.split(":");
  const gap = right === undefined ? 0 : 8 - before.length - after.length;
  return [...before, ...Array<string>(gap).fill("0"), ...after].reduce(
    (bits, group) => (bits << 16n) | BigInt(`0x${group}`),
    0n,
  );
}

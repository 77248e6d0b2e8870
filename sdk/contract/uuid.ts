/**
 * The UUID spelling of a sandbox's id, for clients that take nothing else for an id. Pure, and always the same for the
 * same id: its 60 random bits are in it as they are, the rest tells one label from another.
 */
import { labelOfId } from "./names.ts";

const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";
const SUFFIX_LENGTH = 12;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** The part of an id that is random: with it an account's index finds the sandbox. */
export function suffixOf(id: string): string {
  return id.slice(-SUFFIX_LENGTH);
}

/** As a UUID of version 8, in lower case. @param id a sandbox's */
export function uuidOf(id: string): string {
  let random = 0n;
  for (const letter of suffixOf(id)) random = (random << 5n) | BigInt(BASE32.indexOf(letter));
  // 48 and 12 bits are random, 62 are of the label; version and variant are between them.
  const label = fnv(labelOfId(id) ?? "") & ((1n << 62n) - 1n);
  const bits = ((random >> 12n) << 80n) | (8n << 76n) | ((random & 0xfffn) << 64n) | (2n << 62n) | label;
  const hex = bits.toString(16).padStart(32, "0");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

/** The random part of the id that a UUID spells, or null for a text that `uuidOf` never returns. */
export function suffixOfUuid(text: string): string | null {
  if (!UUID.test(text)) return null;
  const hex = text.replaceAll("-", "");
  let random = (BigInt(`0x${hex.slice(0, 12)}`) << 12n) | BigInt(`0x${hex.slice(13, 16)}`);
  let suffix = "";
  for (let n = 0; n < SUFFIX_LENGTH; n++) {
    suffix = `${BASE32[Number(random & 31n)]}${suffix}`;
    random >>= 5n;
  }
  return suffix;
}

/** FNV-1a, 64 bits. */
function fnv(text: string): bigint {
  let hash = 0xcbf29ce484222325n;
  for (const letter of text) hash = ((hash ^ BigInt(letter.charCodeAt(0))) * 0x100000001b3n) & 0xffffffffffffffffn;
  return hash;
}

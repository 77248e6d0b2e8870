/** Signatures of webhooks: HMAC-SHA256 and Ed25519 over the bytes as they came. WebCrypto compares in constant time. */
import { equalHashes, sha256Hex } from "../hash.ts";
import { hmacKey } from "../standard-webhooks.ts";

type Bytes = Uint8Array<ArrayBuffer>;

const encoder = new TextEncoder();

/** How far a signature's time may be from ours, milliseconds. */
export const TOLERANCE_MS = 300_000;

export function utf8(text: string): Bytes {
  return new Uint8Array(encoder.encode(text));
}

export async function isHmac(key: Bytes, signature: Bytes | null, content: Bytes): Promise<boolean> {
  if (!signature || key.length === 0) return false;
  return crypto.subtle.verify("HMAC", await hmacKey(key, "verify"), signature, content);
}

export async function isEd25519(publicKey: Bytes | null, signature: Bytes | null, content: Bytes): Promise<boolean> {
  if (publicKey?.length !== 32 || signature?.length !== 64) return false;
  try {
    const key = await crypto.subtle.importKey("raw", publicKey, { name: "Ed25519" }, false, ["verify"]);
    return await crypto.subtle.verify("Ed25519", key, signature, content);
  } catch {
    // Not every 32 bytes are a point of the curve.
    return false;
  }
}

/** Takes the same time wherever, and however long, they differ. */
export async function isSame(a: string, b: string): Promise<boolean> {
  const [one, other] = await Promise.all([sha256Hex(a), sha256Hex(b)]);
  return equalHashes(one, other);
}

/** @param seconds Unix seconds, as a header has them */
export function isTimely(seconds: string, now: number): boolean {
  return /^\d{1,11}$/.test(seconds) && Math.abs(Number(seconds) * 1000 - now) <= TOLERANCE_MS;
}

export function fromHex(text: string): Bytes | null {
  if (text.length % 2 !== 0 || !/^[0-9a-fA-F]+$/.test(text)) return null;
  return Uint8Array.from({ length: text.length / 2 }, (_, at) => Number.parseInt(text.slice(2 * at, 2 * at + 2), 16));
}

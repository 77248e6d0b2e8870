/** Signatures of webhooks: HMAC-SHA256 and Ed25519 over the bytes as they came. WebCrypto compares in constant time. */
import { equalHashes, sha256Hex } from "../hash.ts";

type Bytes = Uint8Array<ArrayBuffer>;

const encoder = new TextEncoder();

/** How far a signature's time may be from ours, milliseconds. */
export const TOLERANCE_MS = 300_000;

export function utf8(text: string): Bytes {
  return new Uint8Array(encoder.encode(text));
}

/** What is signed: a text, then the body. */
export function signedContent(before: string, body: Bytes): Bytes {
  const head = encoder.encode(before);
  const all = new Uint8Array(head.length + body.length);
  all.set(head);
  all.set(body, head.length);
  return all;
}

export async function isHmac(key: Bytes, signature: Bytes | null, content: Bytes): Promise<boolean> {
  if (!signature || key.length === 0) return false;
  return crypto.subtle.verify("HMAC", await hmacKey(key, "verify"), signature, content);
}

export async function hmac(key: Bytes, content: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.sign("HMAC", await hmacKey(key, "sign"), content));
}

function hmacKey(key: Bytes, use: "sign" | "verify"): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, [use]);
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

export function fromBase64(text: string): Bytes | null {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return null;
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    return null;
  }
}

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  // Pieces: so many arguments at once would not fit on the stack.
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

/** The headers of Standard Webhooks. @param secrets `whsec_...`; all sign, so that one may be replaced by another */
export async function signedHeaders(
  id: string,
  body: Bytes,
  secrets: readonly string[],
  now: number,
): Promise<Record<string, string>> {
  const timestamp = String(Math.floor(now / 1000));
  const content = signedContent(`${id}.${timestamp}.`, body);
  const signatures = await Promise.all(
    secrets.map(async (secret) => `v1,${toBase64(await hmac(standardKey(secret), content))}`),
  );
  return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures.join(" ") };
}

/** The bytes of a `whsec_` secret. */
export function standardKey(secret: string): Bytes {
  return fromBase64(secret.replace(/^whsec_/, "")) ?? new Uint8Array();
}

/** A new secret of the form of Standard Webhooks. */
export function newStandardSecret(): string {
  return `whsec_${toBase64(crypto.getRandomValues(new Uint8Array(32)))}`;
}

/** Signing as Standard Webhooks have it, and what that takes. Pure but for the platform's WebCrypto. */

type Bytes = Uint8Array<ArrayBuffer>;

const encoder = new TextEncoder();

/** What is signed: a text, then the body. */
export function signedContent(before: string, body: Bytes): Bytes {
  const head = encoder.encode(before);
  const all = new Uint8Array(head.length + body.length);
  all.set(head);
  all.set(body, head.length);
  return all;
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

export async function hmac(key: Bytes, content: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.sign("HMAC", await hmacKey(key, "sign"), content));
}

export function hmacKey(key: Bytes, use: "sign" | "verify"): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, [use]);
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

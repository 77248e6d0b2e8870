/**
 * Secrets that must be had again, sealed for storage: AES-256-GCM under a key worked out (HKDF-SHA256) from the
 * installation's. What is sealed opens only for the place that it was sealed for.
 */
import { toBase64Url } from "../sdk/contract/ticket.ts";

const encoder = new TextEncoder();
const NONCE_BYTES = 12;

export class Sealer {
  readonly #key: Promise<CryptoKey>;

  /** @param root `ROUSE_SECRET`. @param purpose keeps keys of one kind of secret from opening another */
  constructor(root: string, purpose: string) {
    this.#key = keyOf(root, purpose);
  }

  /** @param place what it belongs to, such as a row's id: copied to another it does not open */
  async seal(place: string, bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
    const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
    const sealed = await crypto.subtle.encrypt(algorithm(nonce, place), await this.#key, bytes);
    const out = new Uint8Array(NONCE_BYTES + sealed.byteLength);
    out.set(nonce);
    out.set(new Uint8Array(sealed), NONCE_BYTES);
    return out;
  }

  /** @throws when it was changed, or sealed for another place or by another installation */
  async open(place: string, sealed: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
    const nonce = sealed.slice(0, NONCE_BYTES);
    return new Uint8Array(
      await crypto.subtle.decrypt(algorithm(nonce, place), await this.#key, sealed.subarray(NONCE_BYTES)),
    );
  }

  async sealText(place: string, text: string): Promise<string> {
    return toBase64Url(await this.seal(place, new Uint8Array(encoder.encode(text))));
  }

  async openText(place: string, sealed: string): Promise<string> {
    const raw = atob(sealed.replaceAll("-", "+").replaceAll("_", "/"));
    return new TextDecoder().decode(
      await this.open(
        place,
        Uint8Array.from(raw, (char) => char.charCodeAt(0)),
      ),
    );
  }
}

function algorithm(nonce: Uint8Array<ArrayBuffer>, place: string) {
  return { name: "AES-GCM", iv: nonce, additionalData: encoder.encode(place) };
}

async function keyOf(root: string, purpose: string): Promise<CryptoKey> {
  const material = await crypto.subtle.importKey("raw", encoder.encode(root), "HKDF", false, ["deriveKey"]);
  const info = encoder.encode(`rouse-sealed\n${purpose}`);
  return crypto.subtle.deriveKey(
    { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(), info },
    material,
    { name: "AES-GCM", length: 256 },
    false,
    ["encrypt", "decrypt"],
  );
}

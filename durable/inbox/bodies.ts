/** Bodies of events that are too large for a row: sealed, in the blob store. */
import { hex } from "../hash.ts";
import { Sealer } from "../sealed-secret.ts";
import { blobStore, DELETE_MAX, type BlobStore } from "../vault/blob-store.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** Bodies up to this size are in a row, bytes. */
export const ROW_MAX = 65_536;

export class Bodies {
  readonly #sealer: Sealer;
  readonly #store: BlobStore;

  constructor(env: Env) {
    this.#sealer = new Sealer(env.ROUSE_SECRET, "inbox-bodies");
    this.#store = blobStore(env);
  }

  async put(key: string, body: Bytes): Promise<void> {
    const sealed = await this.#sealer.seal(key, body);
    const sha256 = hex(new Uint8Array(await crypto.subtle.digest("SHA-256", sealed)));
    const whole = new FixedLengthStream(sealed.length);
    const writer = whole.writable.getWriter();
    const written = writer.write(sealed).then(() => writer.close());
    const [stored] = await Promise.all([
      this.#store.put(key, whole.readable, { bytes: sealed.length, sha256 }),
      written,
    ]);
    if (!stored) throw new Error("the blob store took other bytes than were sent");
  }

  /** null: it is not there. */
  async get(key: string): Promise<Bytes | null> {
    const found = await this.#store.get(key);
    if (!found) return null;
    return this.#sealer.open(key, new Uint8Array(await new Response(found.body).arrayBuffer()));
  }

  async delete(keys: readonly string[]): Promise<void> {
    for (let at = 0; at < keys.length; at += DELETE_MAX) await this.#store.delete(keys.slice(at, at + DELETE_MAX));
  }
}

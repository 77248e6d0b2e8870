/**
 * Packs: chunks gathered into frames, each compressed and encrypted by itself, so that one chunk can be had without
 * the whole pack. A pack has a random key of its own, which only manifests hold; it is written once, so a frame's
 * number in it serves as nonce.
 */
import { createCipheriv, createDecipheriv, hash, randomBytes } from "node:crypto";
import { join } from "node:path";
import { promisify } from "node:util";
import { constants, zstdCompressSync, zstdDecompress } from "node:zlib";
import { writeDurably } from "./durable-file.ts";
import { FRAME_BYTES, TAG_BYTES, type Frames, type Pack, type Place } from "./manifest.ts";

/** A pack is closed when it has so many bytes. */
export const PACK_BYTES = 4_194_304;

const AAD = Buffer.from("rouse pack 1 frame");

/** Writes packs into a folder, each under its id. Holds a pack or two in memory. */
export class PackWriter {
  readonly packs: Pack[] = [];
  readonly #dir: string;
  readonly #frames: { bytes: number; chunks: number; unitBits: number; packed: number }[] = [];
  readonly #gathered = Buffer.allocUnsafe(FRAME_BYTES);
  #gatheredBytes = 0;
  /** Of the chunks that are gathered. */
  #unit = 0;
  #current = newPack(0);
  #full: OpenPack[] = [];

  constructor(dir: string) {
    this.#dir = dir;
  }

  get frames(): Frames {
    return {
      bytes: Uint32Array.from(this.#frames, ({ bytes }) => bytes),
      chunks: Uint8Array.from(this.#frames, ({ chunks }) => chunks),
      unitBits: Uint8Array.from(this.#frames, ({ unitBits }) => unitBits),
      packed: Uint8Array.from(this.#frames, ({ packed }) => packed),
    };
  }

  /** Take a copy of a chunk; answers its place among this writer's frames. Call `write` now and then. */
  add(chunk: Buffer): Place {
    if (chunk.length !== this.#unit || this.#gatheredBytes === FRAME_BYTES) this.#closeFrame();
    this.#unit = chunk.length;
    chunk.copy(this.#gathered, this.#gatheredBytes);
    const place = { frame: this.#frames.length, slot: this.#gatheredBytes / this.#unit };
    this.#gatheredBytes += chunk.length;
    return place;
  }

  /** Write the packs that are full. */
  async write(): Promise<void> {
    for (let pack = this.#full.shift(); pack; pack = this.#full.shift()) {
      const bytes = Buffer.concat(pack.frames, pack.bytes);
      const id = hash("sha256", bytes, "hex");
      await writeDurably(join(this.#dir, id), bytes);
      this.packs.push({
        id,
        key: pack.key,
        bytes: pack.bytes,
        begin: pack.begin,
        end: pack.begin + pack.frames.length,
      });
    }
  }

  /** Write the rest. */
  async end(): Promise<void> {
    this.#closeFrame();
    if (this.#current.bytes > 0) this.#full.push(this.#current);
    await this.write();
  }

  #closeFrame(): void {
    if (this.#gatheredBytes === 0) return;
    const plain = this.#gathered.subarray(0, this.#gatheredBytes);
    const squeezed = zstdCompressSync(plain, {
      chunkSize: FRAME_BYTES,
      pledgedSrcSize: plain.length,
      params: { [constants.ZSTD_c_compressionLevel]: 3 },
    });
    const isSmaller = squeezed.length < plain.length;
    const pack = this.#current;
    const { nonce, aad } = namesOfFrame(pack.frames.length);
    const cipher = createCipheriv("aes-256-gcm", pack.key, nonce).setAAD(aad);
    const stored = Buffer.concat([cipher.update(isSmaller ? squeezed : plain), cipher.final(), cipher.getAuthTag()]);
    pack.frames.push(stored);
    pack.bytes += stored.length;
    this.#frames.push({
      bytes: stored.length,
      chunks: plain.length / this.#unit,
      unitBits: Math.log2(this.#unit),
      packed: isSmaller ? 1 : 0,
    });
    this.#gatheredBytes = 0;
    if (pack.bytes < PACK_BYTES) return;
    this.#full.push(pack);
    this.#current = newPack(this.#frames.length);
  }
}

interface OpenPack {
  readonly key: Buffer;
  readonly begin: number;
  readonly frames: Buffer[];
  bytes: number;
}

const newPack = (begin: number): OpenPack => ({ key: randomBytes(32), begin, frames: [], bytes: 0 });

/** What a frame is encrypted with besides the pack's key: its number, so that frames can't change places. */
function namesOfFrame(number: number): { nonce: Buffer; aad: Buffer } {
  const nonce = Buffer.alloc(12);
  nonce.writeUInt32LE(number);
  return { nonce, aad: Buffer.concat([AAD, nonce]) };
}

/**
 * The chunks of a frame, one after the other.
 * @param number in its pack
 * @param form what the manifest says of it
 * @throws Error when it is not that frame
 */
export async function openFrame(
  key: Buffer,
  number: number,
  stored: Buffer,
  form: { readonly isPacked: boolean; readonly plainBytes: number },
): Promise<Buffer> {
  const { nonce, aad } = namesOfFrame(number);
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: TAG_BYTES }).setAAD(aad);
  decipher.setAuthTag(stored.subarray(-TAG_BYTES));
  const opened = decipher.update(stored.subarray(0, -TAG_BYTES));
  decipher.final();
  const { isPacked, plainBytes } = form;
  // One output buffer of the right size: no second round through the thread pool, no growth beyond what it must be.
  const plain = isPacked
    ? await promisify(zstdDecompress)(opened, { chunkSize: plainBytes, maxOutputLength: plainBytes })
    : opened;
  if (plain.length !== plainBytes) throw new RangeError("The frame has another length.");
  return plain;
}

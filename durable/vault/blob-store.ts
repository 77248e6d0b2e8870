/** Where blobs are. R2 through the edge's binding, any S3, or a folder of the edge's own machine. */
import { DiskBlobStore } from "./disk-blob-store.ts";
import { S3BlobStore, s3SettingsOf } from "./s3-blob-store.ts";

export interface Announced {
  readonly bytes: number;
  /** SHA-256 of the bytes, hex; null: whoever sends them does not know it yet. */
  readonly sha256: string | null;
}

/** A part of a blob. */
export interface Range {
  readonly offset: number;
  readonly length: number;
}

export interface StoredBlob {
  /** Of the body. */
  readonly bytes: number;
  readonly body: ReadableStream;
}

/** Failures of the store itself are thrown. */
export interface BlobStore {
  /** Whole or not at all. false: these are not the bytes that were announced, and nothing was stored. */
  put(key: string, body: ReadableStream, announced: Announced): Promise<boolean>;
  /** @param range within its bytes; all unless given */
  get(key: string, range?: Range): Promise<StoredBlob | null>;
  /** Its size in bytes, or null. */
  head(key: string): Promise<number | null>;
  /** What is not there counts as deleted. At most `DELETE_MAX` keys. */
  delete(keys: readonly string[]): Promise<void>;
}

/** Most keys of one `delete`. */
export const DELETE_MAX = 100;

export function blobStore(env: Env): BlobStore {
  const s3 = s3SettingsOf(env);
  if (s3) return new S3BlobStore(s3);
  if (env.BLOBS_DISK) return new DiskBlobStore(env.BLOBS_DISK);
  return new R2BlobStore(env.BLOBS);
}

/** R2's number for bytes that are not the announced ones. It stands at the end of the message, and nowhere else. */
const R2_BAD_DIGEST = "(10037)";

class R2BlobStore implements BlobStore {
  readonly #bucket: R2Bucket;

  constructor(bucket: R2Bucket) {
    this.#bucket = bucket;
  }

  async put(key: string, body: ReadableStream, { sha256 }: Announced): Promise<boolean> {
    try {
      await this.#bucket.put(key, body, sha256 === null ? {} : { sha256 });
      return true;
    } catch (fault) {
      if (String(fault).includes(R2_BAD_DIGEST)) return false;
      throw fault;
    }
  }

  async get(key: string, range?: Range): Promise<StoredBlob | null> {
    const found = await this.#bucket.get(key, range ? { range } : {});
    return found && { bytes: range?.length ?? found.size, body: found.body };
  }

  async head(key: string): Promise<number | null> {
    return (await this.#bucket.head(key))?.size ?? null;
  }

  async delete(keys: readonly string[]): Promise<void> {
    await this.#bucket.delete([...keys]);
  }
}

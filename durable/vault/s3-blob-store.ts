/** Blobs in an S3 of the operator's choice, at `<endpoint>/<bucket>/<key>`. */
import type { Announced, BlobStore, Range, StoredBlob } from "./blob-store.ts";
import { signedHeaders, type S3Credentials } from "./sigv4.ts";

export interface S3Settings extends S3Credentials {
  readonly endpoint: string;
  readonly bucket: string;
}

/** null: none is set. */
export function s3SettingsOf(env: Env): S3Settings | null {
  const { ROUSE_S3_ENDPOINT: endpoint, ROUSE_S3_BUCKET: bucket, ROUSE_S3_REGION: region } = env;
  const { ROUSE_S3_KEY_ID: keyId, ROUSE_S3_SECRET: secret } = env;
  if (!endpoint) return null;
  if (!bucket || !region || !keyId || !secret)
    throw new Error(
      "ROUSE_S3_ENDPOINT needs ROUSE_S3_BUCKET, ROUSE_S3_REGION, ROUSE_S3_KEY_ID and ROUSE_S3_SECRET too",
    );
  return { endpoint, bucket, region, keyId, secret };
}

/** SHA-256 of no bytes. */
const EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/** In the place of the SHA-256 of bytes that are not known yet. */
const UNSIGNED = "UNSIGNED-PAYLOAD";
/** What an S3 says of bytes that are not the announced ones. */
const BAD_DIGEST = /XAmzContentSHA256Mismatch|BadDigest/;

export class S3BlobStore implements BlobStore {
  readonly #settings: S3Settings;

  constructor(settings: S3Settings) {
    this.#settings = settings;
  }

  async put(key: string, body: ReadableStream, { bytes, sha256 }: Announced): Promise<boolean> {
    // An S3 takes no body of unknown length.
    const response = await this.#ask("PUT", key, sha256 ?? UNSIGNED, body.pipeThrough(new FixedLengthStream(bytes)));
    if (response.ok) return true;
    const text = await response.text();
    if (response.status === 400 && BAD_DIGEST.test(text)) return false;
    throw failed("PUT", response.status);
  }

  async get(key: string, range?: Range): Promise<StoredBlob | null> {
    const response = await this.#found("GET", key, range ? { range: rangeHeader(range) } : {});
    return response?.body ? { bytes: Number(response.headers.get("content-length")), body: response.body } : null;
  }

  async head(key: string): Promise<number | null> {
    const response = await this.#found("HEAD", key);
    return response && Number(response.headers.get("content-length"));
  }

  async delete(keys: readonly string[]): Promise<void> {
    await Promise.all(keys.map((key) => this.#found("DELETE", key)));
  }

  /** null: it is not there. */
  async #found(method: string, key: string, headers: Record<string, string> = {}): Promise<Response | null> {
    const response = await this.#ask(method, key, EMPTY, null, headers);
    if (response.ok) return response;
    await response.body?.cancel();
    if (response.status === 404) return null;
    throw failed(method, response.status);
  }

  async #ask(
    method: string,
    key: string,
    payloadHash: string,
    body: ReadableStream | null,
    extra: Record<string, string> = {},
  ): Promise<Response> {
    const { endpoint, bucket } = this.#settings;
    const url = new URL(`${endpoint.replace(/\/$/, "")}/${bucket}/${key}`);
    const headers = await signedHeaders(this.#settings, method, url, extra, payloadHash, new Date());
    return fetch(url, { method, headers, body, redirect: "manual" });
  }
}

export function rangeHeader({ offset, length }: Range): string {
  return `bytes=${offset}-${offset + length - 1}`;
}

function failed(method: string, status: number): Error {
  return new Error(`the S3 answered ${method} with ${status}`);
}

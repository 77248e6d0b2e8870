/** Where sealed blobs go, and the way there. */
import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { BlobNote } from "../../sdk/contract/archive.ts";
import { DamagedState } from "./damage.ts";
import { inParallel } from "./parallel.ts";

/** A store of blobs, grouped in vaults. Blobs are whole or not there; they never change. */
export interface Blobs {
  /** @throws DamagedState `missing` where the vault has no such blob. The bytes are not checked here. */
  get(vault: string, id: string, signal?: AbortSignal): Promise<Buffer>;
  has(vault: string, id: string, signal?: AbortSignal): Promise<boolean>;
  /** Resolves when the blob is stored for good. Storing it again is harmless. */
  put(vault: string, id: string, bytes: Buffer, signal?: AbortSignal): Promise<void>;
}

export interface UploadOptions {
  /** Blobs on their way at once; default 4. */
  readonly parallel?: number;
  readonly signal?: AbortSignal;
}

/** Bytes that went, and bytes that an upload before had brought already. */
export interface Uploaded {
  readonly sentBytes: number;
  readonly presentBytes: number;
}

const PARALLEL = 4;

/**
 * Store the new blobs of a sealed folder; those of `blobs` that are not new are left alone. Skips what is there, so an
 * upload that was cut goes on where it stopped.
 * @throws DamagedState where a file of the folder is missing or rotten; the store's own errors
 */
export async function upload(
  dir: string,
  blobs: readonly BlobNote[],
  store: Blobs,
  vault: string,
  { parallel = PARALLEL, signal }: UploadOptions = {},
): Promise<Uploaded> {
  let [sentBytes, presentBytes] = [0, 0];
  await inParallel(
    blobs.filter(({ isNew }) => isNew),
    parallel,
    signal,
    async ({ id, bytes }, stop) => {
      if (await store.has(vault, id, stop)) presentBytes += bytes;
      else {
        await store.put(vault, id, await sealedBlob(dir, id), stop);
        sentBytes += bytes;
      }
    },
  );
  return { sentBytes, presentBytes };
}

/** A blob of a sealed folder, checked: what rotted on this disk must not be stored as good. */
async function sealedBlob(dir: string, id: string): Promise<Buffer> {
  const bytes = await readFile(join(dir, id)).catch((fault: NodeJS.ErrnoException) => {
    throw fault.code === "ENOENT"
      ? new DamagedState(id, "missing", "the sealed folder has no such file", fault)
      : fault;
  });
  if (hash("sha256", bytes, "hex") !== id) throw new DamagedState(id, "damaged", "the sealed file changed");
  return bytes;
}

/** Blobs in a plain folder, one below it per vault. */
import { randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { BlobId, VaultId } from "../../sdk/contract/archive.ts";
import { exists } from "../paths.ts";
import type { Blobs } from "./blobs.ts";
import { DamagedState } from "./damage.ts";
import { syncFolder, writeDurably } from "./durable-file.ts";

export class DirectoryBlobs implements Blobs {
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  async get(vault: string, id: string, signal?: AbortSignal): Promise<Buffer> {
    try {
      return await readFile(this.#path(vault, id), { signal });
    } catch (fault) {
      if (fault instanceof Error && "code" in fault && fault.code === "ENOENT") {
        throw new DamagedState(id, "missing", "its vault does not have it", fault);
      }
      throw fault;
    }
  }

  async has(vault: string, id: string): Promise<boolean> {
    return exists(this.#path(vault, id));
  }

  async put(vault: string, id: string, bytes: Buffer, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const path = this.#path(vault, id);
    const folder = dirname(path);
    const isNew = await mkdir(folder, { recursive: true, mode: 0o700 });
    if (isNew !== undefined) await syncFolder(this.#root);
    // Two may store the same blob at once.
    const temporary = `${path}.${randomUUID()}.part`;
    try {
      await writeDurably(temporary, bytes);
      await rename(temporary, path);
    } catch (fault) {
      await rm(temporary, { force: true });
      throw fault;
    }
    await syncFolder(folder);
  }

  /** @throws ZodError for what is no id, so that no path leads out of the folder */
  #path(vault: string, id: string): string {
    return join(this.#root, VaultId.parse(vault), BlobId.parse(id));
  }
}

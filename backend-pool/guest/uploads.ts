/** Large files in chunks: any order, several at once, each as often as needed, whole or not at all at the end. */
import { createHash, randomBytes } from "node:crypto";
import { open, rm, type FileHandle } from "node:fs/promises";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { guestLimits } from "../../sdk/contract/guest-limits.ts";
import type { FileWritten } from "../../sdk/contract/guest.ts";
import { realTarget, type Files } from "./files.ts";
import { number, readJson, sendJson, text, type Call } from "./http.ts";

/** Unfinished uploads at once; the oldest goes first. */
const UPLOADS = 64;

interface Upload {
  readonly id: string;
  readonly key: string | null;
  readonly path: string;
  readonly part: string;
  readonly size: number;
  readonly sha256: string;
  readonly mode: string | undefined;
  readonly handle: FileHandle;
  /** Offsets of chunks that are on the disk. */
  readonly received: Map<number, number>;
  done: FileWritten | null;
}

export class Uploads {
  readonly #files: Files;
  readonly #all = new Map<string, Upload>();

  constructor(files: Files) {
    this.#files = files;
  }

  async begin(call: Call): Promise<void> {
    const body = await readJson(call);
    const header = call.req.headers["idempotency-key"];
    const key = typeof header === "string" ? header : null;
    const known = key === null ? undefined : [...this.#all.values()].find((upload) => upload.key === key);
    if (known) return this.#answer(call, known, true);
    const size = number(body["size"]) ?? 0;
    const path = await realTarget(this.#files.resolve(body["path"]));
    const part = await this.#files.part(path);
    const handle = await open(part, "wx+", 0o644);
    await handle.truncate(size);
    const upload: Upload = {
      id: randomBytes(9).toString("base64url"),
      key,
      path,
      part,
      size,
      sha256: text(body["sha256"]) ?? "",
      mode: text(body["mode"]),
      handle,
      received: new Map(),
      done: null,
    };
    this.#all.set(upload.id, upload);
    const oldest = this.#all.values().next().value;
    if (this.#all.size > UPLOADS && oldest) await this.#drop(oldest);
    this.#answer(call, upload, false);
  }

  async chunk(call: Call, id: string): Promise<void> {
    const upload = this.#get(id);
    const offset = Number(call.query.get("offset"));
    const wanted = Math.min(guestLimits.chunkBytes, upload.size - offset);
    if (!Number.isInteger(offset) || offset < 0 || offset % guestLimits.chunkBytes !== 0 || wanted < 0) {
      throw new RouseFailure(
        "invalid_request",
        `Offset ${call.query.get("offset")} does not begin a chunk of this upload.`,
      );
    }
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of call.req as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > wanted) throw new RouseFailure("payload_too_large", `This chunk has ${wanted} bytes.`);
      chunks.push(chunk);
    }
    if (size !== wanted) throw new RouseFailure("invalid_request", `This chunk has ${wanted} bytes, and ${size} came.`);
    if (upload.done === null) {
      await upload.handle.write(Buffer.concat(chunks), 0, size, offset);
      upload.received.set(offset, size);
    }
    sendJson(call, { received: [...upload.received.values()].reduce((sum, bytes) => sum + bytes, 0) });
  }

  async commit(call: Call, id: string): Promise<void> {
    const upload = this.#get(id);
    if (upload.done === null) {
      const have = [...upload.received.values()].reduce((sum, bytes) => sum + bytes, 0);
      if (have < upload.size) throw new RouseFailure("upload_incomplete", `${have} of ${upload.size} bytes are here.`);
      const hash = createHash("sha256");
      const buffer = Buffer.alloc(guestLimits.chunkBytes);
      for (let at = 0; at < upload.size;) {
        const { bytesRead } = await upload.handle.read(buffer, 0, buffer.length, at);
        if (bytesRead === 0) break;
        hash.update(buffer.subarray(0, bytesRead));
        at += bytesRead;
      }
      const sha256 = hash.digest("hex");
      if (sha256 !== upload.sha256) {
        await this.#drop(upload);
        throw new RouseFailure("digest_mismatch", "The bytes that arrived do not have the digest that was announced.");
      }
      await upload.handle.sync();
      await upload.handle.close();
      upload.done = await this.#files.publish(upload.part, upload.path, upload.mode, upload.size, sha256);
    }
    sendJson(call, upload.done);
  }

  async abort(call: Call, id: string): Promise<void> {
    const upload = this.#all.get(id);
    if (upload) await this.#drop(upload);
    sendJson(call, { aborted: upload !== undefined });
  }

  #answer(call: Call, upload: Upload, replayed: boolean): void {
    sendJson(call, {
      uploadId: upload.id,
      chunkBytes: guestLimits.chunkBytes,
      ...(upload.mode === undefined ? {} : { mode: upload.mode }),
      ...(replayed ? { replayed } : {}),
    });
  }

  #get(id: string): Upload {
    const upload = this.#all.get(id);
    if (!upload) throw new RouseFailure("upload_not_found", `There is no upload ${id}.`);
    return upload;
  }

  async #drop(upload: Upload): Promise<void> {
    this.#all.delete(upload.id);
    if (upload.done !== null) return;
    await upload.handle.close().catch(() => undefined);
    await rm(upload.part, { force: true });
  }
}

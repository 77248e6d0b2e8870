/** Large files in chunks: any order, several at once, each as often as needed, whole or not at all at the end. */
import { createHash, randomBytes } from "node:crypto";
import { open, type FileHandle } from "node:fs/promises";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { guestLimits } from "../../sdk/contract/guest-limits.ts";
import type { FileWritten } from "../../sdk/contract/guest.ts";
import { Fields } from "./fields.ts";
import { digestMismatch, realTarget, writeAll, type Files, type Part } from "./files.ts";
import { readJson, sendJson, toFailure, type Call } from "./http.ts";
import { Replays } from "./replays.ts";

/** Uploads that are remembered; beyond, finished ones go first, then the oldest. */
const UPLOADS = 64;

interface Begin {
  readonly path: string;
  readonly size: number;
  readonly sha256: string;
  readonly mode: string | undefined;
}

interface Upload extends Begin {
  readonly id: string;
  readonly part: Part;
  readonly handle: FileHandle;
  /** Sizes of the chunks that are here, by offset. */
  readonly received: Map<number, number>;
  done: Promise<FileWritten> | null;
}

export class Uploads {
  readonly #files: Files;
  readonly #all = new Map<string, Upload>();
  readonly #replays = new Replays<Promise<Upload>>(UPLOADS);

  constructor(files: Files) {
    this.#files = files;
  }

  async begin(call: Call): Promise<void> {
    const body = await readJson(call);
    const fields = new Fields(body);
    const path = this.#files.resolve(fields.text("path"));
    const size = fields.integer("size", 0, Number.MAX_SAFE_INTEGER);
    const sha256 = fields.text("sha256");
    const mode = fields.mode("mode");
    if (size === undefined) fields.fault("size", "missing");
    if (!/^[0-9a-f]{64}$/.test(sha256 ?? "")) fields.fault("sha256", "expected 64 hex digits");
    fields.check();
    const begin = { path, size: size ?? 0, sha256: sha256 ?? "", mode };
    let once = this.#replays.once(call, body, () => this.#begin(begin));
    let upload = await once.value.catch((fault: unknown) => {
      once.forget();
      throw toFailure(fault, path);
    });
    if (once.replayed && !this.#all.has(upload.id)) {
      // Aborted since, or dropped for newer ones: the key begins anew.
      once.forget();
      once = this.#replays.once(call, body, () => this.#begin(begin));
      upload = await once.value;
    }
    sendJson(call, {
      uploadId: upload.id,
      chunkBytes: guestLimits.chunkBytes,
      ...(mode === undefined ? {} : { mode }),
      ...(once.replayed ? { replayed: true } : {}),
    });
  }

  async chunk(call: Call, id: string): Promise<void> {
    const upload = this.#get(id);
    const fields = new Fields(call.query);
    const offset = fields.integer("offset", 0, upload.size) ?? 0;
    if (offset % guestLimits.chunkBytes !== 0)
      fields.fault("offset", `expected a multiple of ${guestLimits.chunkBytes}`);
    fields.check();
    const wanted = Math.min(guestLimits.chunkBytes, upload.size - offset);
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of call.req as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > wanted) throw new RouseFailure("payload_too_large", `This chunk has ${wanted} bytes.`);
      chunks.push(chunk);
    }
    if (size !== wanted) throw new RouseFailure("invalid_request", `This chunk has ${wanted} bytes, and ${size} came.`);
    if (upload.done === null && size > 0) {
      await writeAll(upload.handle, Buffer.concat(chunks), offset).catch((fault: unknown) => {
        // An abort closes the file under a chunk that is on its way.
        throw this.#all.has(id) ? toFailure(fault, upload.path) : notFound(id);
      });
      upload.received.set(offset, size);
    }
    sendJson(call, { received: upload.done === null ? bytesOf(upload) : upload.size });
  }

  async commit(call: Call, id: string): Promise<void> {
    const upload = this.#get(id);
    if (upload.done === null && bytesOf(upload) < upload.size) {
      throw new RouseFailure("upload_incomplete", `${bytesOf(upload)} of ${upload.size} bytes are here.`);
    }
    // Commits of one upload share one end.
    upload.done ??= this.#commit(upload);
    sendJson(call, await upload.done);
  }

  async abort(call: Call, id: string): Promise<void> {
    const upload = this.#all.get(id);
    const aborted = upload !== undefined && upload.done === null;
    if (aborted) await this.#drop(upload);
    sendJson(call, { aborted });
  }

  async #begin(begin: Begin): Promise<Upload> {
    const part = await this.#files.part(await realTarget(begin.path));
    const handle = await open(part.path, "wx+", 0o644).catch(async (fault: unknown) => {
      await this.#files.discard(part);
      throw fault;
    });
    const upload = {
      ...begin,
      id: randomBytes(9).toString("base64url"),
      part,
      handle,
      received: new Map(),
      done: null,
    };
    this.#all.set(upload.id, upload);
    if (this.#all.size > UPLOADS) {
      const others = [...this.#all.values()];
      const oldest = others.find(({ done }) => done !== null) ?? others[0];
      if (oldest) await this.#drop(oldest);
    }
    return upload;
  }

  async #commit(upload: Upload): Promise<FileWritten> {
    const { handle, part, size, sha256, mode } = upload;
    try {
      const digest = createHash("sha256");
      const buffer = Buffer.allocUnsafe(guestLimits.chunkBytes);
      for (let at = 0; at < size;) {
        const { bytesRead } = await handle.read(buffer, 0, buffer.length, at);
        if (bytesRead === 0) break;
        digest.update(buffer.subarray(0, bytesRead));
        at += bytesRead;
      }
      if (digest.digest("hex") !== sha256) throw digestMismatch();
      await handle.sync();
      const written = await this.#files.publish(part, mode, size, sha256);
      await handle.close();
      return written;
    } catch (fault) {
      this.#all.delete(upload.id);
      await this.#discard(upload);
      throw toFailure(fault, upload.path);
    }
  }

  #get(id: string): Upload {
    const upload = this.#all.get(id);
    if (!upload) throw notFound(id);
    return upload;
  }

  async #drop(upload: Upload): Promise<void> {
    this.#all.delete(upload.id);
    if (upload.done === null) await this.#discard(upload);
  }

  async #discard(upload: Upload): Promise<void> {
    await upload.handle.close().catch(() => undefined);
    await this.#files.discard(upload.part);
  }
}

function bytesOf(upload: Upload): number {
  let sum = 0;
  for (const bytes of upload.received.values()) sum += bytes;
  return sum;
}

function notFound(id: string): RouseFailure {
  return new RouseFailure("upload_not_found", `There is no upload ${id}.`);
}

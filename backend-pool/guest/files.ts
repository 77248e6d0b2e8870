/** Routes of files: everything happens in the guest, with the rights of its user. */
import { createHash, hash, randomBytes } from "node:crypto";
import { constants, createReadStream } from "node:fs";
import { chmod, cp, link, lstat, mkdir, open, readlink, rename, rm, rmdir, stat, unlink } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { guestLimits } from "../../sdk/contract/guest-limits.ts";
import type { FileWritten } from "../../sdk/contract/guest.ts";
import { Fields } from "./fields.ts";
import { readJson, sendJson, toFailure, type Call } from "./http.ts";
import { entryOf, walk } from "./listing.ts";

const LIST_LIMIT = 10_000;
/** Levels a listing with a glob descends when no depth is asked. */
const GLOB_DEPTH = 32;
const READ_BYTES = 262_144;

/** A file on its way: beside its target under another name, so that a rename puts it in place at one instant. */
export interface Part {
  readonly path: string;
  /** What the file becomes. */
  readonly target: string;
  /** The topmost folder that was made for it. */
  readonly madeFolder: string | undefined;
}

export class Files {
  readonly #home: string;

  constructor(home: string) {
    this.#home = home;
  }

  /** @throws RouseFailure `invalid_path` */
  resolve(path: string | null | undefined): string {
    if (path === undefined || path === null || path === "")
      throw new RouseFailure("invalid_path", "A path is missing.");
    if (path.includes("\0")) throw new RouseFailure("invalid_path", "A path has no NUL.");
    return resolve(this.#home, path);
  }

  async read(call: Call): Promise<void> {
    const path = this.resolve(call.query.get("path"));
    // Not blocking: opening a pipe that nobody writes to would hang for ever.
    const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const facts = await handle.stat();
      if (facts.isDirectory()) throw new RouseFailure("is_a_directory", `That is a folder: ${path}`);
      if (!facts.isFile()) throw new RouseFailure("invalid_path", `That is not a regular file: ${path}`);
      const type = { "content-type": "application/octet-stream" };
      if (facts.size <= guestLimits.chunkBytes) {
        // What is counted and hashed is what is sent, even when somebody writes to the file meanwhile.
        const data = await handle.readFile();
        const digest = { "x-content-sha256": hash("sha256", data), "x-content-length": String(data.length) };
        call.res.writeHead(200, { ...type, ...digest, "content-length": data.length });
        call.res.end(data);
        return;
      }
      const { size } = facts;
      call.res.writeHead(200, { ...type, "content-length": size, "x-content-length": String(size) });
      // A file that grows is cut at the length that was announced; for one that shrinks the connection breaks.
      const source = createReadStream("", {
        fd: handle.fd,
        autoClose: false,
        end: size - 1,
        highWaterMark: READ_BYTES,
      });
      await pipeline(source, call.res, { end: false }).catch(() => call.res.destroy());
      if (source.bytesRead === size) call.res.end();
      else call.res.destroy();
    } finally {
      await handle.close();
    }
  }

  async write(call: Call): Promise<void> {
    const fields = new Fields(call.query);
    const mode = fields.mode("mode");
    fields.check();
    const asked = this.resolve(call.query.get("path"));
    const announced = call.req.headers["x-content-sha256"];
    let part: Part | null = null;
    try {
      part = await this.part(await realTarget(asked));
      const digest = createHash("sha256");
      let size = 0;
      const handle = await open(part.path, "wx", 0o644);
      try {
        for await (const chunk of call.req as AsyncIterable<Buffer>) {
          digest.update(chunk);
          await writeAll(handle, chunk, size);
          size += chunk.length;
        }
        if (!call.req.complete) throw new RouseFailure("invalid_request", "The body ended early.");
        await handle.sync();
      } finally {
        await handle.close();
      }
      const sha256 = digest.digest("hex");
      if (typeof announced === "string" && announced.toLowerCase() !== sha256) throw digestMismatch();
      sendJson(call, await this.publish(part, mode, size, sha256));
    } catch (fault) {
      if (part) await this.discard(part);
      throw toFailure(fault, asked);
    }
  }

  /** A new name beside the target, on the same file system, with the folders above it. */
  async part(target: string): Promise<Part> {
    const existing = await stat(target).catch(() => null);
    if (existing?.isDirectory()) throw new RouseFailure("is_a_directory", `That is a folder: ${target}`);
    if (existing && !existing.isFile()) throw new RouseFailure("invalid_path", `That is not a regular file: ${target}`);
    const madeFolder = await mkdir(dirname(target), { recursive: true }).catch((fault: unknown) => {
      // So the system says it when the folder is a file; of the target itself it would mean something else.
      if (!(fault instanceof Error && "code" in fault && fault.code === "EEXIST")) throw fault;
      throw new RouseFailure("not_a_directory", `That is no folder: ${dirname(target)}`);
    });
    return { path: join(dirname(target), `.rouse-${randomBytes(6).toString("hex")}`), target, madeFolder };
  }

  /** Put a finished part in place: synced, with its mode, and its name on the disk before the answer. */
  async publish(part: Part, mode: string | undefined, size: number, sha256: string): Promise<FileWritten> {
    const { path, target, madeFolder } = part;
    const before = await stat(target).catch(() => null);
    if (mode !== undefined) await chmod(path, Number.parseInt(mode, 8));
    else if (before) await chmod(path, before.mode & 0o777);
    await rename(path, target);
    await syncFolder(dirname(target));
    if (madeFolder !== undefined) await syncFolder(dirname(madeFolder));
    return { path: target, size, sha256 };
  }

  /** Leave nothing of a part behind, nor of the folders that were made for it alone. */
  async discard({ path, target, madeFolder }: Part): Promise<void> {
    await rm(path, { force: true });
    if (madeFolder === undefined) return;
    for (let folder = dirname(target); folder.length >= madeFolder.length; folder = dirname(folder)) {
      const removed = await rmdir(folder).then(
        () => true,
        () => false,
      );
      if (!removed) return;
    }
  }

  async list(call: Call): Promise<void> {
    const fields = new Fields(call.query);
    const glob = fields.text("glob");
    const asked = {
      glob,
      depth: fields.integer("depth", 1, 64) ?? (glob === undefined ? 1 : GLOB_DEPTH),
      hidden: fields.oneOf("hidden", ["true", "false"]) !== "false",
      limit: fields.integer("limit", 1, LIST_LIMIT) ?? LIST_LIMIT,
    };
    fields.check();
    sendJson(call, { data: await walk(this.resolve(call.query.get("path") ?? this.#home), asked) });
  }

  async stat(call: Call): Promise<void> {
    const path = this.resolve(call.query.get("path"));
    const entry = await orNull(entryOf(path));
    sendJson(call, entry ? { ...entry, exists: true } : { exists: false, path });
  }

  async mkdir(call: Call): Promise<void> {
    const fields = new Fields(await readJson(call));
    const path = this.resolve(fields.text("path"));
    const parents = fields.flag("parents");
    const mode = fields.mode("mode");
    fields.check();
    await mkdir(path, { recursive: parents });
    if (mode !== undefined) await chmod(path, Number.parseInt(mode, 8));
    sendJson(call, await entryOf(path));
  }

  async remove(call: Call): Promise<void> {
    const fields = new Fields(await readJson(call));
    const path = this.resolve(fields.text("path"));
    const recursive = fields.flag("recursive");
    fields.check();
    if (path === "/" || path === this.#home) throw new RouseFailure("invalid_path", "That folder can't be removed.");
    const facts = await orNull(lstat(path));
    if (!facts) return sendJson(call, { removed: false });
    if (!facts.isDirectory()) await unlink(path);
    else if (recursive) await rm(path, { recursive: true });
    else await rmdir(path);
    sendJson(call, { removed: true });
  }

  async rename(call: Call): Promise<void> {
    const fields = new Fields(await readJson(call));
    const from = this.resolve(fields.text("from"));
    const to = this.resolve(fields.text("to"));
    const overwrite = fields.flag("overwrite");
    fields.check();
    const source = await lstat(from);
    const linked = !overwrite && !source.isDirectory() && (await linkTo(from, to));
    if (linked) await unlink(from);
    else {
      if (!overwrite && (await orNull(lstat(to)))) throw new RouseFailure("file_exists", `That exists already: ${to}`);
      await rename(from, to).catch((fault: NodeJS.ErrnoException) => {
        if (fault.code !== "EXDEV") throw fault;
        return this.#moveAcross(from, to);
      });
    }
    sendJson(call, await entryOf(to));
  }

  async chmod(call: Call): Promise<void> {
    const fields = new Fields(await readJson(call));
    const path = this.resolve(fields.text("path"));
    const mode = fields.mode("mode");
    if (mode === undefined) fields.fault("mode", "missing");
    fields.check();
    await chmod(path, Number.parseInt(mode ?? "", 8));
    sendJson(call, await entryOf(path));
  }

  /** To another file system: complete there under another name before it takes its place. */
  async #moveAcross(from: string, to: string): Promise<void> {
    const part = join(dirname(to), `.rouse-${randomBytes(6).toString("hex")}`);
    try {
      await cp(from, part, { recursive: true, preserveTimestamps: true, verbatimSymlinks: true });
      await rename(part, to);
    } catch (fault) {
      await rm(part, { recursive: true, force: true });
      throw fault;
    }
    await rm(from, { recursive: true });
  }
}

export function digestMismatch(): RouseFailure {
  return new RouseFailure("digest_mismatch", "The bytes that arrived do not have the digest that was announced.");
}

/** A link is written through, as an editor would. */
export async function realTarget(path: string): Promise<string> {
  let target = path;
  for (let hops = 0; hops < 40; hops++) {
    const next = await readlink(target).catch(() => null);
    if (next === null) return target;
    target = resolve(dirname(target), next);
  }
  throw new RouseFailure("invalid_path", `The path leads in a circle of links: ${path}`);
}

/** A write may take less than it was given. */
export async function writeAll(handle: FileHandle, data: Buffer, position: number): Promise<void> {
  for (let done = 0; done < data.length;) {
    const { bytesWritten } = await handle.write(data, done, data.length - done, position + done);
    done += bytesWritten;
  }
}

async function syncFolder(path: string): Promise<void> {
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  await handle.sync().finally(() => handle.close());
}

/** null for what does not exist. */
async function orNull<T>(looked: Promise<T>): Promise<T | null> {
  return looked.catch((fault: NodeJS.ErrnoException) => {
    if (fault.code === "ENOENT" || fault.code === "ENOTDIR") return null;
    throw fault;
  });
}

/**
 * A link fails where something exists, also when it came this moment; a rename would replace it. Answers false where
 * the system does not allow the link (another file system, another owner) and a check must do.
 */
async function linkTo(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (fault) {
    const { code } = fault as NodeJS.ErrnoException;
    if (code === "EEXIST") throw new RouseFailure("file_exists", `That exists already: ${to}`);
    if (code === "EXDEV" || code === "EPERM" || code === "EMLINK" || code === "EOPNOTSUPP") return false;
    throw toFailure(fault, code === "ENOENT" || code === "EACCES" ? to : undefined);
  }
}

/** Routes of files: everything happens in the guest, with the rights of its user. */
import { createHash, randomBytes } from "node:crypto";
import { constants, createReadStream } from "node:fs";
import {
  chmod,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  rmdir,
  stat,
  unlink,
} from "node:fs/promises";
import { basename, dirname, join, matchesGlob, relative, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { guestLimits } from "../../sdk/contract/guest-limits.ts";
import type { FileEntry, FileWritten } from "../../sdk/contract/guest.ts";
import { readJson, sendJson, text, type Call } from "./http.ts";

const LIST_LIMIT = 10_000;

export class Files {
  readonly #home: string;

  constructor(home: string) {
    this.#home = home;
  }

  /** @throws RouseFailure `invalid_path` */
  resolve(path: unknown): string {
    if (typeof path !== "string" || path === "") throw new RouseFailure("invalid_path", "A path is missing.");
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
      const headers: Record<string, string> = { "content-type": "application/octet-stream" };
      if (facts.size <= guestLimits.chunkBytes) {
        // What is counted and hashed is what is sent, even when somebody writes to the file meanwhile.
        const data = await handle.readFile();
        headers["x-content-sha256"] = createHash("sha256").update(data).digest("hex");
        call.res.writeHead(200, { ...headers, "content-length": data.length, "x-content-length": String(data.length) });
        call.res.end(data);
        return;
      }
      call.res.writeHead(200, { ...headers, "content-length": facts.size, "x-content-length": String(facts.size) });
      // A file that grows is cut at the length that was announced; one that shrinks ends the answer short, which the
      // reader sees by its length.
      const source = createReadStream("", {
        fd: handle.fd,
        autoClose: false,
        end: facts.size - 1,
        highWaterMark: 262_144,
      });
      await pipeline(source, call.res).catch(() => call.res.destroy());
    } finally {
      await handle.close();
    }
  }

  async write(call: Call): Promise<void> {
    const path = await realTarget(this.resolve(call.query.get("path")));
    const announced = call.req.headers["x-content-sha256"];
    const part = await this.part(path);
    const hash = createHash("sha256");
    let size = 0;
    try {
      const handle = await open(part, "wx", 0o644);
      try {
        for await (const chunk of call.req as AsyncIterable<Buffer>) {
          hash.update(chunk);
          size += chunk.length;
          await handle.write(chunk);
        }
        // A sender that broke off leaves nothing behind.
        if (!call.req.complete) throw new RouseFailure("invalid_request", "The body ended early.");
        await handle.sync();
      } finally {
        await handle.close();
      }
      const sha256 = hash.digest("hex");
      if (typeof announced === "string" && announced !== sha256) {
        throw new RouseFailure("digest_mismatch", "The bytes that arrived do not have the digest that was announced.");
      }
      sendJson(call, await this.publish(part, path, call.query.get("mode"), size, sha256));
    } catch (fault) {
      await rm(part, { force: true });
      throw fault;
    }
  }

  /** A new name beside the target, on the same file system, with the folders above it. */
  async part(path: string): Promise<string> {
    const existing = await stat(path).catch(() => null);
    if (existing?.isDirectory()) throw new RouseFailure("is_a_directory", `That is a folder: ${path}`);
    await mkdir(dirname(path), { recursive: true });
    return join(dirname(path), `.rouse-${randomBytes(6).toString("hex")}`);
  }

  /** Put a finished part in place: synced, with its mode, and its name on the disk before the answer. */
  async publish(
    part: string,
    path: string,
    mode: string | null | undefined,
    size: number,
    sha256: string,
  ): Promise<FileWritten> {
    const before = await stat(path).catch(() => null);
    if (mode) await chmod(part, Number.parseInt(mode, 8));
    else if (before) await chmod(part, before.mode & 0o777);
    await rename(part, path);
    await syncFolder(dirname(path));
    return { path, size, sha256 };
  }

  async list(call: Call): Promise<void> {
    const root = this.resolve(call.query.get("path") ?? this.#home);
    const depth = Number(call.query.get("depth") ?? 1);
    const glob = call.query.get("glob");
    const hidden = call.query.get("hidden") !== "false";
    const limit = Number(call.query.get("limit") ?? LIST_LIMIT);
    const data: FileEntry[] = [];
    const walk = async (folder: string, level: number): Promise<void> => {
      for (const name of (await readdir(folder)).toSorted()) {
        if (data.length >= limit) return;
        if (!hidden && name.startsWith(".")) continue;
        const path = join(folder, name);
        const entry = await entryOf(path).catch(() => null); // it went while we looked
        if (!entry) continue;
        if (glob === null || matchesGlob(relative(root, path), glob) || matchesGlob(name, glob)) data.push(entry);
        if (entry.type === "directory" && level < (glob === null ? depth : Math.max(depth, 32)))
          await walk(path, level + 1).catch(() => undefined);
      }
    };
    await walk(root, 1);
    sendJson(call, { data });
  }

  async stat(call: Call): Promise<void> {
    const path = this.resolve(call.query.get("path"));
    try {
      sendJson(call, { ...(await entryOf(path)), exists: true });
    } catch (fault) {
      const code = (fault as NodeJS.ErrnoException).code;
      if (code !== "ENOENT" && code !== "ENOTDIR") throw fault;
      sendJson(call, { exists: false, path });
    }
  }

  async mkdir(call: Call): Promise<void> {
    const body = await readJson(call);
    const path = this.resolve(body["path"]);
    const mode = text(body["mode"]);
    await mkdir(path, { recursive: body["parents"] === true });
    if (mode !== undefined) await chmod(path, Number.parseInt(mode, 8));
    sendJson(call, await entryOf(path));
  }

  async remove(call: Call): Promise<void> {
    const body = await readJson(call);
    const path = this.resolve(body["path"]);
    if (path === "/" || path === this.#home) throw new RouseFailure("invalid_path", "That folder can't be removed.");
    const facts = await lstat(path).catch(() => null);
    if (!facts) return sendJson(call, { removed: false });
    if (!facts.isDirectory()) await unlink(path);
    else if (body["recursive"] === true) await rm(path, { recursive: true });
    else await rmdir(path);
    sendJson(call, { removed: true });
  }

  async rename(call: Call): Promise<void> {
    const body = await readJson(call);
    const from = this.resolve(body["from"]);
    const to = this.resolve(body["to"]);
    const source = await lstat(from);
    if (body["overwrite"] === true) {
      await rename(from, to);
    } else if (source.isDirectory() || (await lstat(to).catch(() => null))) {
      if (await lstat(to).catch(() => null)) throw new RouseFailure("file_exists", `That exists already: ${to}`);
      await rename(from, to);
    } else {
      // A link fails where something exists, also when it came this moment; a rename would replace it.
      await link(from, to);
      await unlink(from);
    }
    sendJson(call, await entryOf(to));
  }

  async chmod(call: Call): Promise<void> {
    const body = await readJson(call);
    const path = this.resolve(body["path"]);
    await chmod(path, Number.parseInt(text(body["mode"]) ?? "", 8));
    sendJson(call, await entryOf(path));
  }
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

export async function syncFolder(path: string): Promise<void> {
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  await handle.sync().finally(() => handle.close());
}

async function entryOf(path: string): Promise<FileEntry> {
  const facts = await lstat(path);
  const type = facts.isFile()
    ? "file"
    : facts.isDirectory()
      ? "directory"
      : facts.isSymbolicLink()
        ? "symlink"
        : "other";
  const [owner, group] = await Promise.all([nameOf("/etc/passwd", facts.uid), nameOf("/etc/group", facts.gid)]);
  return {
    name: basename(path),
    path,
    type,
    size: facts.size,
    mode: (facts.mode & 0o7777).toString(8).padStart(4, "0"),
    modifiedAt: facts.mtime.toISOString(),
    uid: facts.uid,
    gid: facts.gid,
    ...(owner === undefined ? {} : { owner }),
    ...(group === undefined ? {} : { group }),
    ...(type === "symlink" ? { symlinkTarget: await readlink(path) } : {}),
  };
}

const names = new Map<string, { readMs: number; byId: Map<number, string> }>();

/** Users and groups may change while the agent runs, but not for every entry of a listing. */
async function nameOf(file: string, id: number): Promise<string | undefined> {
  let known = names.get(file);
  if (!known || Date.now() - known.readMs > 5000) {
    const lines = (await readFile(file, "utf8").catch(() => "")).split("\n").map((line) => line.split(":"));
    known = { readMs: Date.now(), byId: new Map(lines.map((fields) => [Number(fields[2]), fields[0] ?? ""])) };
    names.set(file, known);
  }
  return known.byId.get(id);
}

/** Files in a sandbox. */
import { FileEntry as FileEntrySchema, FileStat as FileStatSchema, WORKSPACE } from "../contract/guest.ts";
import type { FileEntry, FileStat, FileWritten, Unpacked } from "../contract/guest.ts";
import { z } from "zod";
import { readArchive, writeArchive } from "./archive.ts";
import type { ReadArchiveOptions } from "./archive.ts";
import { bytesOf } from "./bytes.ts";
import type { Data } from "./bytes.ts";
import { readBytes, readChecked } from "./download.ts";
import { invalidArgument } from "./errors.ts";
import { downloadPath, uploadPath } from "./local-files.ts";
import type { CopyReport } from "./local-files.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import { withSpooled } from "./spool.ts";
import type { StreamSource } from "./spool.ts";
import type { RequestOptions } from "./transport.ts";
import { memorySource, writeFile } from "./upload.ts";
import { listWatches, watchFiles } from "./watch.ts";
import type { FileWatch, WatchOptions } from "./watch.ts";

/** Levels that {@link Files.glob} looks into. */
const GLOB_DEPTH = 64;

const EntryList = z.object({ data: z.array(FileEntrySchema) });
const Removed = z.object({ removed: z.boolean() });

export interface WriteOptions extends RequestOptions {
  /** Permission bits: three octal digits such as `"755"`, or a number such as `0o755`. The sandbox's default unless given. */
  mode?: string | number | undefined;
}

export interface ListFilesOptions extends RequestOptions {
  /** Levels to list; 1 (only the folder itself) unless given, at most 64. */
  depth?: number | undefined;
  /** Only entries whose path below the folder matches. */
  glob?: string | undefined;
  /** Whether to list names that begin with a dot. */
  hidden?: boolean | undefined;
  /** Most entries, 1 to 10 000. */
  limit?: number | undefined;
}

/**
 * Files in a sandbox, as its user. Paths are absolute, or relative to `/workspace`.
 *
 * @example
 * await sandbox.files.write("memory.md", "- prefers weekly summaries\n");
 * console.log(await sandbox.files.readText("memory.md"));
 */
export class Files {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  /**
   * A file's bytes, checked against its length and, when the sandbox gives it, its SHA-256.
   * @throws NotFoundError `file_not_found`
   * @throws ConflictError `is_a_directory`
   * @throws ConnectionError `download_incomplete` after three tries
   */
  read(path: string, options: RequestOptions = {}): Promise<Uint8Array> {
    return readBytes(this.#remote, path, options);
  }

  /** A file as UTF-8 text; see {@link Files.read}. */
  async readText(path: string, options: RequestOptions = {}): Promise<string> {
    return new TextDecoder().decode(await this.read(path, options));
  }

  /**
   * A file of any size as a stream, which fails at its end with `download_incomplete` when bytes were missing. No time
   * limit unless given.
   */
  readStream(path: string, options: RequestOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return readChecked(this.#remote, path, { timeoutMs: 0, ...options });
  }

  /**
   * Write a file: whole or not at all, parents made. Data above 1 MiB goes in chunks, eight at once, of which each may
   * be lost and sent again.
   * @returns what is on the sandbox's disk, with its SHA-256
   */
  async write(path: string, data: Data, options: WriteOptions = {}): Promise<FileWritten> {
    const { mode, ...rest } = options;
    return await writeFile(this.#remote, path, memorySource(await bytesOf(data)), modeText(mode), rest);
  }

  /** Write a file from a stream of any length; what is above 1 MiB waits in a temporary file until its end is known. */
  async writeStream(path: string, source: StreamSource, options: WriteOptions = {}): Promise<FileWritten> {
    const { mode, ...rest } = options;
    const text = modeText(mode);
    return await withSpooled(source, (spooled) => writeFile(this.#remote, path, spooled, text, rest));
  }

  /**
   * What a folder holds as one tar archive, gzipped unless said, with names below the folder. Files that change
   * meanwhile are as they were read. One that fails, fails as a stream. No time limit unless given.
   * @throws NotFoundError `file_not_found`
   * @throws ConflictError `not_a_directory`
   *
   * @example
   * const archive = await sandbox.files.readArchive("src", { exclude: ["node_modules"] });
   * await pipeline(archive, createWriteStream("src.tar.gz"));
   */
  readArchive(path: string, options: ReadArchiveOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return readArchive(this.#remote, path, options);
  }

  /**
   * Unpack a tar archive of any length, gzipped or not, into a folder, which is made. It is unpacked as it comes: where
   * it fails, what came before is there. Entries may not lead out of the folder.
   * @returns the folder, and the archive's length in bytes
   * @throws InvalidRequestError `invalid_archive`
   */
  writeArchive(path: string, source: StreamSource, options: RequestOptions = {}): Promise<Unpacked> {
    return writeArchive(this.#remote, path, source, options);
  }

  /** What a folder holds; `/workspace` unless given. */
  async list(path: string = WORKSPACE, options: ListFilesOptions = {}): Promise<FileEntry[]> {
    const { depth, glob, hidden, limit, ...rest } = options;
    const answer = await this.#remote.get("/files/list", { query: { path, depth, glob, hidden, limit }, ...rest });
    return parseAnswer(EntryList, answer).data;
  }

  /** Everything below `path` (`/workspace` unless given) whose path matches, such as `*.py`. */
  glob(
    pattern: string,
    options: Omit<ListFilesOptions, "glob"> & { path?: string | undefined } = {},
  ): Promise<FileEntry[]> {
    const { path, ...rest } = options;
    return this.list(path, { depth: GLOB_DEPTH, ...rest, glob: pattern });
  }

  /**
   * Watch a file, or a folder, with `recursive` all below it; see {@link FileWatch}. At most 8 at once.
   * @param options `events`: all but `access` unless given. `include`, `exclude`: patterns of paths below the folder; one
   *   without a slash is of names. `timeoutMs`: an hour unless given, 0 until it is stopped. `id`: of the caller's choice;
   *   one that is there with the same settings is the answer then.
   * @throws NotFoundError `file_not_found`
   * @throws ConflictError `quota_exceeded`
   *
   * @example
   * const watch = await sandbox.files.watch("src", { recursive: true });
   * for await (const event of watch.events()) console.log(event);
   */
  watch(path: string, options: WatchOptions = {}): Promise<FileWatch> {
    return watchFiles(this.#remote, path, options);
  }

  /** The watches that go on, and the last that ended. */
  watches(options: RequestOptions = {}): Promise<FileWatch[]> {
    return listWatches(this.#remote, options);
  }

  /** Facts of a path; `exists: false` when there is nothing. */
  async stat(path: string, options: RequestOptions = {}): Promise<FileStat> {
    return parseAnswer(FileStatSchema, await this.#remote.get("/files/stat", { query: { path }, ...options }));
  }

  async exists(path: string, options: RequestOptions = {}): Promise<boolean> {
    return (await this.stat(path, options)).exists;
  }

  /** Make a folder. `parents` (true unless given) also makes those above it, and bears that it is there already. */
  async mkdir(path: string, options: RequestOptions & { parents?: boolean | undefined } = {}): Promise<void> {
    const { parents = true, ...rest } = options;
    await this.#remote.post("/files:mkdir", { path, parents }, rest);
  }

  /**
   * Remove a file, or with `recursive` a folder with its contents.
   * @returns whether there was anything
   * @throws ConflictError `directory_not_empty`
   */
  async remove(path: string, options: RequestOptions & { recursive?: boolean | undefined } = {}): Promise<boolean> {
    const { recursive, ...rest } = options;
    return parseAnswer(Removed, await this.#remote.post("/files:remove", { path, recursive }, rest)).removed;
  }

  /** Rename or move. @throws ConflictError `file_exists` unless `overwrite` */
  async rename(
    from: string,
    to: string,
    options: RequestOptions & { overwrite?: boolean | undefined } = {},
  ): Promise<void> {
    const { overwrite, ...rest } = options;
    await this.#remote.post("/files:rename", { from, to, overwrite }, rest);
  }

  /** Set permission bits, as in {@link WriteOptions}. */
  async chmod(path: string, mode: string | number, options: RequestOptions = {}): Promise<void> {
    await this.#remote.post("/files:chmod", { path, mode: modeText(mode) }, options);
  }

  /**
   * Copy a file or folder of this machine into the sandbox, with its permission bits. A folder goes as one archive, which
   * is unpacked as it comes; symbolic links in it are left out and named in the report. Only in Node.
   */
  upload(
    local: string,
    remote: string,
    options: RequestOptions & { onProgress?: (report: CopyReport) => void } = {},
  ): Promise<CopyReport> {
    return uploadPath(this.#remote, local, remote, options);
  }

  /**
   * Copy a file or folder of the sandbox to this machine. A folder comes as one archive. A file appears whole or not at
   * all; symbolic links in a folder are left out and named in the report. Only in Node.
   */
  download(
    remote: string,
    local: string,
    options: RequestOptions & { onProgress?: (report: CopyReport) => void } = {},
  ): Promise<CopyReport> {
    return downloadPath(this.#remote, this, remote, local, options);
  }
}

function modeText(mode: string | number | undefined): string | undefined {
  if (mode === undefined) return undefined;
  const text = typeof mode === "number" ? mode.toString(8).padStart(3, "0") : mode.replace(/^0(?=\d{3}$)/, "");
  if (/^[0-7]{3}$/.test(text)) return text;
  throw invalidArgument(`The mode ${String(mode)} is not three octal digits.`, 'Pass "755" or 0o755.');
}

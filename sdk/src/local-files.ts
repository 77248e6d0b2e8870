/** Copying between this machine's files and a sandbox's. Only in Node. */
import { guestLimits } from "../contract/guest.ts";
import type { FileEntry } from "../contract/guest.ts";
import { retryIncomplete } from "./download.ts";
import { RouseError, NotFoundError, invalidArgument } from "./errors.ts";
import type { Files } from "./files.ts";
import { nodeModule } from "./node.ts";
import { inParallel } from "./parallel.ts";
import type { Remote } from "./remote.ts";
import { readExactly } from "./spool.ts";
import type { RequestOptions } from "./transport.ts";
import { memorySource, writeFile } from "./upload.ts";

/** Files on their way at once when a folder is copied. */
const PARALLEL_FILES = 4;
/** Most entries of a folder that is downloaded: what one listing may hold. */
const ENTRIES_MAX = 10_000;
const DEPTH_MAX = 64;

/** What a copy has done. */
export interface CopyReport {
  files: number;
  /** Of files under way those that have left or arrived too. */
  bytes: number;
  /** Of all files that are copied, as they were when it began. */
  totalBytes: number;
  /** Paths that are neither files nor folders and were left out. */
  skipped: string[];
}

interface CopyOptions extends RequestOptions {
  onProgress?: (report: CopyReport) => void;
}

async function modules() {
  const [fs, crypto, path] = await Promise.all([
    nodeModule("node:fs/promises"),
    nodeModule("node:crypto"),
    nodeModule("node:path"),
  ]);
  if (fs === null || crypto === null || path === null) {
    throw invalidArgument("This runtime has no files of its own.", "Use files.write and files.read.");
  }
  return { fs, crypto, path };
}

export async function uploadPath(
  remote: Remote,
  files: Files,
  local: string,
  target: string,
  options: CopyOptions,
): Promise<CopyReport> {
  const { fs, path } = await modules();
  const { onProgress, ...request } = options;
  const report: CopyReport = { files: 0, bytes: 0, totalBytes: 0, skipped: [] };
  const one = async (from: string, to: string, how: RequestOptions): Promise<void> => {
    const moved = movedIn(report, onProgress);
    moved(await uploadFile(remote, from, to, how, moved));
    report.files += 1;
    onProgress?.(report);
  };
  const facts = await fs.stat(local);
  if (!facts.isDirectory()) {
    report.totalBytes = facts.size;
    await one(local, target, request);
    return report;
  }
  // One caller's key cannot stand for many writes.
  const each = { ...request, idempotencyKey: undefined };
  const found: { from: string; to: string }[] = [];
  const walk = async (folder: string, to: string): Promise<void> => {
    await files.mkdir(to, each);
    for (const entry of await fs.readdir(folder, { withFileTypes: true })) {
      const from = path.join(folder, entry.name);
      const below = `${to.replace(/\/$/, "")}/${entry.name}`;
      if (entry.isDirectory()) await walk(from, below);
      else if (entry.isFile()) {
        report.totalBytes += (await fs.stat(from)).size;
        found.push({ from, to: below });
      } else report.skipped.push(from);
    }
  };
  await walk(local, target);
  await inParallel(found, PARALLEL_FILES, ({ from, to }) => one(from, to, each));
  return report;
}

/** Takes how far one file is; what is sent or read anew counts once. */
function movedIn(report: CopyReport, onProgress: CopyOptions["onProgress"]): (bytes: number) => void {
  let counted = 0;
  return (bytes) => {
    if (bytes <= counted) return;
    report.bytes += bytes - counted;
    counted = bytes;
    onProgress?.(report);
  };
}

/** @param moved told of what of it has been sent */
async function uploadFile(
  remote: Remote,
  local: string,
  target: string,
  request: RequestOptions,
  moved: (bytes: number) => void,
): Promise<number> {
  const { fs, crypto } = await modules();
  const handle = await fs.open(local, "r");
  try {
    const facts = await handle.stat();
    if (!facts.isFile()) throw invalidArgument(`${local} is not a file.`);
    const mode = (facts.mode & 0o777).toString(8).padStart(3, "0");
    if (facts.size <= guestLimits.chunkBytes) {
      const source = memorySource(await readExactly(handle, 0, facts.size));
      await writeFile(remote, target, source, mode, request);
      return facts.size;
    }
    const sha256 = async (): Promise<string> => {
      const hash = crypto.createHash("sha256");
      for (let at = 0; at < facts.size; at += guestLimits.chunkBytes) {
        hash.update(await readExactly(handle, at, Math.min(guestLimits.chunkBytes, facts.size - at)));
      }
      return hash.digest("hex");
    };
    const read = (at: number, length: number) => {
      // A part is read once those before it have arrived.
      moved(at);
      return readExactly(handle, at, length);
    };
    const source = { size: facts.size, sha256, read };
    await writeFile(remote, target, source, mode, request);
    return facts.size;
  } finally {
    await handle.close();
  }
}

export async function downloadPath(
  files: Files,
  source: string,
  local: string,
  options: CopyOptions,
): Promise<CopyReport> {
  const { fs, path } = await modules();
  const { onProgress, ...request } = options;
  const report: CopyReport = { files: 0, bytes: 0, totalBytes: 0, skipped: [] };
  const facts = await files.stat(source, request);
  if (!facts.exists) {
    throw new NotFoundError({ code: "file_not_found", status: 404, message: `There is no ${source} in the sandbox.` });
  }
  const one = async (from: string, to: string, mode: string): Promise<void> => {
    const moved = movedIn(report, onProgress);
    moved(await downloadFile(files, from, to, mode, request, moved));
    report.files += 1;
    onProgress?.(report);
  };
  if (facts.type !== "directory") {
    report.totalBytes = facts.size;
    await one(source, local, facts.mode);
    return report;
  }
  const entries = await files.list(source, { depth: DEPTH_MAX, hidden: true, limit: ENTRIES_MAX, ...request });
  if (entries.length >= ENTRIES_MAX) {
    throw invalidArgument(
      `${source} holds ${ENTRIES_MAX} entries or more.`,
      "Pack it in the sandbox with tar and download the archive.",
    );
  }
  await fs.mkdir(local, { recursive: true });
  const target = (entry: FileEntry): string => path.join(local, ...partsBelow(facts.path, entry.path));
  for (const entry of entries) {
    if (entry.type === "directory") await fs.mkdir(target(entry), { recursive: true });
    else if (entry.type !== "file") report.skipped.push(entry.path);
  }
  const regular = entries.filter((entry) => entry.type === "file");
  report.totalBytes = regular.reduce((sum, { size }) => sum + size, 0);
  await inParallel(regular, PARALLEL_FILES, (entry) => one(entry.path, target(entry), entry.mode));
  return report;
}

/** The sandbox chooses the names, so none may lead out of the folder that the caller chose. */
function partsBelow(folder: string, entryPath: string): string[] {
  const prefix = folder.endsWith("/") ? folder : `${folder}/`;
  const parts = entryPath.startsWith(prefix) ? entryPath.slice(prefix.length).split("/") : [];
  const safe = parts.every(
    (part) => part !== "" && part !== "." && part !== ".." && !part.includes("\0") && !part.includes("\\"),
  );
  if (parts.length === 0 || !safe) {
    throw new RouseError({
      code: "unexpected_answer",
      message: `The sandbox lists ${JSON.stringify(entryPath)}, which is not below ${folder}.`,
    });
  }
  return parts;
}

async function downloadFile(
  files: Files,
  source: string,
  local: string,
  mode: string,
  request: RequestOptions,
  moved: (bytes: number) => void,
): Promise<number> {
  const { fs, path } = await modules();
  await fs.mkdir(path.dirname(path.resolve(local)), { recursive: true });
  const partial = `${local}.${crypto.randomUUID().slice(0, 8)}.partial`;
  try {
    const size = await retryIncomplete(async () => {
      const stream = await files.readStream(source, request);
      const handle = await fs.open(partial, "w", Number.parseInt(mode, 8) & 0o777);
      const reader = stream.getReader();
      let bytes = 0;
      try {
        for (;;) {
          const { done, value } = await reader.read();
          if (done) return bytes;
          for (let at = 0; at < value.length;) at += (await handle.write(value, at)).bytesWritten;
          bytes += value.length;
          moved(bytes);
        }
      } finally {
        await reader.cancel().catch(() => undefined);
        await handle.close();
      }
    });
    await fs.rename(partial, local);
    return size;
  } finally {
    await fs.rm(partial, { force: true });
  }
}

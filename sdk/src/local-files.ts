/** Copying between this machine's files and a sandbox's. Only in Node. */
import { guestLimits } from "../contract/guest.ts";
import { retryIncomplete } from "./download.ts";
import { NotFoundError, invalidArgument } from "./errors.ts";
import type { Files } from "./files.ts";
import { downloadFolder, uploadFolder } from "./local-folders.ts";
import { nodeModule } from "./node.ts";
import type { Remote } from "./remote.ts";
import { readExactly } from "./spool.ts";
import type { RequestOptions } from "./transport.ts";
import { memorySource, writeFile } from "./upload.ts";

/** What a copy has done. */
export interface CopyReport {
  files: number;
  /** Of files under way those that have left or arrived too. */
  bytes: number;
  /** Of all files that are copied, as they were when it began; 0 while that is not known. */
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
  local: string,
  target: string,
  options: CopyOptions,
): Promise<CopyReport> {
  const { fs } = await modules();
  const { onProgress, ...request } = options;
  const report: CopyReport = { files: 0, bytes: 0, totalBytes: 0, skipped: [] };
  const facts = await fs.stat(local);
  if (!facts.isDirectory()) {
    report.totalBytes = facts.size;
    const moved = movedIn(report, onProgress);
    moved(await uploadFile(remote, local, target, request, moved));
    report.files = 1;
    onProgress?.(report);
    return report;
  }
  await uploadFolder(remote, local, target, report, (now) => onProgress?.(now), request);
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
  remote: Remote,
  files: Files,
  source: string,
  local: string,
  options: CopyOptions,
): Promise<CopyReport> {
  const { onProgress, ...request } = options;
  const report: CopyReport = { files: 0, bytes: 0, totalBytes: 0, skipped: [] };
  const facts = await files.stat(source, request);
  if (!facts.exists) {
    throw new NotFoundError({ code: "file_not_found", status: 404, message: `There is no ${source} in the sandbox.` });
  }
  if (facts.type === "directory") {
    await downloadFolder(remote, facts.path, local, report, (now) => onProgress?.(now), request);
    return report;
  }
  report.totalBytes = facts.size;
  const moved = movedIn(report, onProgress);
  moved(await downloadFile(files, source, local, facts.mode, request, moved));
  report.files = 1;
  onProgress?.(report);
  return report;
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

/** Copying folders between this machine and a sandbox, each as one archive. Only in Node. */
import { FileEntry, guestLimits } from "../contract/guest.ts";
import { z } from "zod";
import { readArchive, writeArchive } from "./archive.ts";
import { retryIncomplete } from "./download.ts";
import { RouseError, invalidArgument } from "./errors.ts";
import type { CopyReport } from "./local-files.ts";
import { nodeModule } from "./node.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import { chunksOf, readExactly } from "./spool.ts";
import { entriesOf, headOf, invalid, paddingOf, tarEnd } from "./tar.ts";
import type { ReadEntry, TarEntry } from "./tar.ts";
import type { RequestOptions } from "./transport.ts";

/** Entries whose sizes are asked for before a folder comes: what one listing may hold. */
const ENTRIES_MAX = 10_000;
const DEPTH_MAX = 64;

const EntryList = z.object({ data: z.array(FileEntry) });

async function modules() {
  const [fs, path, stream, zlib] = await Promise.all([
    nodeModule("node:fs/promises"),
    nodeModule("node:path"),
    nodeModule("node:stream"),
    nodeModule("node:zlib"),
  ]);
  if (fs === null || path === null || stream === null || zlib === null)
    throw invalidArgument("This runtime has no files of its own.", "Use files.writeArchive and files.readArchive.");
  return { fs, path, stream, zlib };
}

/** What is told of a copy as it goes. */
export type Tell = (report: CopyReport) => void;

interface Found extends TarEntry {
  readonly from: string;
}

/** @throws RouseError `invalid_archive`, `disk_full`, ... */
export async function uploadFolder(
  remote: Remote,
  local: string,
  target: string,
  report: CopyReport,
  tell: Tell,
  request: RequestOptions,
): Promise<void> {
  const { fs, path, stream, zlib } = await modules();
  const found: Found[] = [];
  const walk = async (folder: string, below: string): Promise<void> => {
    for (const entry of await fs.readdir(folder, { withFileTypes: true })) {
      const from = path.join(folder, entry.name);
      const name = `${below}${entry.name}`;
      if (!entry.isDirectory() && !entry.isFile()) {
        report.skipped.push(from);
        continue;
      }
      const { mode, mtimeMs, size } = await fs.stat(from);
      const facts = { from, path: name, mode: mode & 0o777, modifiedAt: mtimeMs / 1000 };
      if (entry.isFile()) {
        report.totalBytes += size;
        found.push({ ...facts, type: "file", size });
        continue;
      }
      // One that its owner could not write to would take none of its files.
      found.push({ ...facts, mode: facts.mode | 0o700, type: "folder", size: 0 });
      await walk(from, `${name}/`);
    }
  };
  await walk(local, "");
  async function* packed(): AsyncGenerator<Uint8Array, void, undefined> {
    for (const entry of found) {
      if (entry.type === "folder") yield headOf(entry);
      else yield* packedFile(entry);
    }
    yield tarEnd;
  }
  async function* packedFile(entry: Found): AsyncGenerator<Uint8Array, void, undefined> {
    const handle = await fs.open(entry.from, "r");
    try {
      const { size } = await handle.stat();
      yield headOf({ ...entry, size });
      for (let at = 0; at < size; at += guestLimits.chunkBytes) {
        const bytes = await readExactly(handle, at, Math.min(guestLimits.chunkBytes, size - at));
        yield bytes;
        report.bytes += bytes.length;
        tell(report);
      }
      yield paddingOf(size);
    } finally {
      await handle.close();
    }
    report.files += 1;
    tell(report);
  }
  const zipped = zlib.createGzip({ level: zlib.constants.Z_BEST_SPEED });
  // What breaks here is told to whoever reads what comes out.
  stream.promises.pipeline(stream.Readable.from(packed()), zipped).catch(() => undefined);
  await writeArchive(remote, target, zipped as AsyncIterable<Uint8Array>, request).finally(() => zipped.destroy());
}

/** @param source the folder, as the sandbox has it */
export async function downloadFolder(
  remote: Remote,
  source: string,
  local: string,
  report: CopyReport,
  tell: Tell,
  request: RequestOptions,
): Promise<void> {
  const { fs, path, stream, zlib } = await modules();
  /** Files that have come: another try does not write them anew. */
  const done = new Set<string>();
  report.totalBytes = await sizeOf(remote, source, request);
  await fs.mkdir(local, { recursive: true });
  await retryIncomplete(async () => {
    report.skipped = [];
    const archive = await readArchive(remote, source, request);
    const unzipped = zlib.createGunzip();
    stream.promises.pipeline(stream.Readable.from(chunksOf(archive)), unzipped).catch(() => undefined);
    try {
      for await (const entry of entriesOf(unzipped as AsyncIterable<Uint8Array>)) {
        const to = path.join(local, ...partsOf(entry.path));
        if (entry.type === "folder") await fs.mkdir(to, { recursive: true });
        else if (entry.type === "other") report.skipped.push(`${source.replace(/\/$/, "")}/${entry.path}`);
        else if (!done.has(to)) {
          await writeFile(to, entry);
          done.add(to);
          report.files += 1;
          tell(report);
        }
      }
    } catch (error) {
      const code = error instanceof Error && "code" in error ? String(error.code) : "";
      throw code.startsWith("Z_") && error instanceof Error ? invalid(error.message) : error;
    } finally {
      unzipped.destroy();
      await archive.cancel().catch(() => undefined);
    }
  });
  report.totalBytes ||= report.bytes;

  async function writeFile(to: string, { mode, content }: ReadEntry): Promise<void> {
    await fs.mkdir(path.dirname(to), { recursive: true });
    const partial = `${to}.${crypto.randomUUID().slice(0, 8)}.partial`;
    const before = report.bytes;
    try {
      const handle = await fs.open(partial, "w", mode);
      try {
        for await (const piece of content()) {
          for (let at = 0; at < piece.length;) at += (await handle.write(piece, at)).bytesWritten;
          report.bytes += piece.length;
          tell(report);
        }
      } finally {
        await handle.close();
      }
      await fs.rename(partial, to);
    } catch (error) {
      report.bytes = before;
      throw error;
    } finally {
      await fs.rm(partial, { force: true });
    }
  }
}

/** Of the files in a folder, bytes; 0 where they are too many to be asked for. */
async function sizeOf(remote: Remote, path: string, request: RequestOptions): Promise<number> {
  const query = { path, depth: DEPTH_MAX, hidden: true, limit: ENTRIES_MAX };
  const { data } = parseAnswer(EntryList, await remote.get("/files/list", { query, ...request }));
  if (data.length >= ENTRIES_MAX) return 0;
  return data.reduce((sum, { type, size }) => sum + (type === "file" ? size : 0), 0);
}

/** The sandbox chooses the names, so none may lead out of the folder that the caller chose. */
function partsOf(path: string): string[] {
  const parts = path.split("/");
  const isSafe = (part: string): boolean =>
    part !== "" && part !== "." && part !== ".." && !part.includes("\0") && !part.includes("\\");
  if (parts.every(isSafe)) return parts;
  throw new RouseError({
    code: "unexpected_answer",
    message: `The sandbox sent ${JSON.stringify(path)}, which is not below the folder.`,
  });
}

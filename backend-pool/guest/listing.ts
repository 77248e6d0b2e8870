/** What files and folders look like on the wire. */
import { lstat, readdir, readFile, readlink } from "node:fs/promises";
import { basename, join, matchesGlob, relative } from "node:path";
import type { FileEntry } from "../../sdk/contract/guest.ts";

export interface Asked {
  readonly glob: string | undefined;
  readonly depth: number;
  readonly hidden: boolean;
  readonly limit: number;
}

/** Entries below a folder, each folder by name, links not followed. A glob matches a name or a path below `root`. */
export async function walk(root: string, { glob, depth, hidden, limit }: Asked): Promise<FileEntry[]> {
  const found: FileEntry[] = [];
  const visit = async (folder: string, names: string[], level: number): Promise<void> => {
    for (const name of names.toSorted()) {
      if (found.length >= limit) return;
      if (!hidden && name.startsWith(".")) continue;
      const path = join(folder, name);
      const entry = await entryOf(path).catch(() => null); // it went while we looked
      if (!entry) continue;
      if (glob === undefined || matchesGlob(relative(root, path), glob) || matchesGlob(name, glob)) found.push(entry);
      if (entry.type !== "directory" || level >= depth) continue;
      await visit(path, await readdir(path).catch(() => []), level + 1);
    }
  };
  await visit(root, await readdir(root), 1);
  return found;
}

export async function entryOf(path: string): Promise<FileEntry> {
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

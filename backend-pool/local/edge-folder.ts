/** The folder of an edge that `workerd serve` runs: whose it is, and what a crash left in it. */
import { mkdir, readdir, readFile, rm, rmdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BUCKETS, OBJECTS } from "./workerd-config.ts";

/** Says which kind of edge has a folder. Only one on plain workerd leaves it. */
const MARK = "edge.json";

/** @throws Error when the folder is that of an edge on plain workerd: Miniflare would not find its blobs */
export async function refuseWorkerdFolder(dir: string): Promise<void> {
  if (await isThere(join(dir, MARK)))
    throw new Error(
      `${dir} belongs to an edge on plain workerd; start it with ROUSE_EDGE=workerd, or use another home`,
    );
}

/**
 * Make the folder ready for a start. Nothing else may use it meanwhile.
 * @param keys of all classes of objects
 * @param buckets folders below `dir`
 * @throws Error when it belongs to another kind of edge, or holds objects of a class that there is no more
 */
export async function openEdgeFolder(dir: string, keys: readonly string[], buckets: readonly string[]): Promise<void> {
  const mark = await readFile(join(dir, MARK), "utf8").catch(() => null);
  if (mark === null && (await isThere(join(dir, "objects"))))
    throw new Error(`${dir} belongs to an edge by Miniflare, whose blobs are stored otherwise; use another folder`);
  await mkdir(join(dir, OBJECTS), { recursive: true, mode: 0o700 });
  if (mark === null) await writeFile(join(dir, MARK), `${JSON.stringify({ kind: "workerd" })}\n`, { mode: 0o600 });
  const strangers = (await readdir(join(dir, OBJECTS))).filter((name) => !keys.includes(name));
  if (strangers.length > 0)
    throw new Error(
      `${join(dir, OBJECTS)} has objects of classes that wrangler.toml does not have: ${strangers.join(", ")}. ` +
        "Nothing would find them; move those folders away if that is meant",
    );
  if (await isThere(join(dir, BUCKETS))) await sweep(join(dir, BUCKETS));
  for (const folder of buckets) await mkdir(join(dir, folder), { recursive: true, mode: 0o700 });
}

/** What workerd writes a blob to before it has its name. */
const UNFINISHED = /^\..*\.tmp$/;

/** Remove what was not finished when the edge last ended, and folders of vaults that are gone. */
async function sweep(folder: string): Promise<{ isEmpty: boolean }> {
  let left = 0;
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) left += (await sweep(path)).isEmpty ? 0 : 1;
    else if (UNFINISHED.test(entry.name)) await rm(path, { force: true });
    else left += 1;
  }
  if (left === 0) await rmdir(folder);
  return { isEmpty: left === 0 };
}

async function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

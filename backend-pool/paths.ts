/** Questions about paths of this host. */
import { lstat, readdir, stat } from "node:fs/promises";
import { join } from "node:path";

/** Whether anything is there that this process may look at. */
export function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

/** Bytes that the files of a folder take on disk, holes not counted. 0 for a folder that is not there. */
export async function allocatedBytes(dir: string): Promise<number> {
  const entries = await readdir(dir, { withFileTypes: true, recursive: true }).catch(() => []);
  const sizes = entries
    .filter((entry) => entry.isFile())
    .map((entry) =>
      lstat(join(entry.parentPath, entry.name)).then(
        ({ blocks }) => blocks * 512,
        () => 0, // removed meanwhile
      ),
    );
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

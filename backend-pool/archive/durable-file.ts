/** Files and folders whose writing is over when they are on the disk. */
import { open } from "node:fs/promises";

/** Make a file, or make it anew, for its owner only; it is on the disk when this resolves. */
export async function writeDurably(path: string, bytes: Buffer | string): Promise<void> {
  await using file = await open(path, "w", 0o600);
  await file.writeFile(bytes);
  await file.sync();
}

/** What was made, renamed or removed in a folder is on the disk when this resolves. */
export async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, "r");
  await folder.sync();
}

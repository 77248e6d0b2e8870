/** What takes minutes to make is made once, also where several host agents of one machine begin together. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";

/** Waited for without a word until then. */
const QUIET_MS = 1000;

/**
 * Do `work` on a folder of the cache while no other process of this machine does: after those that came before it, or at
 * once where they have ended or died. Whoever waited looks again whether there is something left to do.
 * @param under told what is waited for
 */
export async function inTurn<T>(
  cacheDir: string,
  folder: string,
  under: (part: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  const locks = join(cacheDir, "turns");
  await mkdir(locks, { recursive: true, mode: 0o700 });
  // The kernel frees the lock when its holder ends, and the holder ends with this process: its stdin does.
  const holder = spawn("flock", ["--no-fork", join(locks, basename(folder)), "sh", "-c", "echo mine; exec cat"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = new Promise<never>((_, reject) => {
    holder.once("error", reject);
    holder.once("exit", (code, signal) => reject(new Error(`flock ended with ${signal ?? code}`)));
  });
  ended.catch(() => undefined);
  const quiet = setTimeout(() => under("another process of this machine is at it"), QUIET_MS);
  try {
    await Promise.race([once(createInterface({ input: holder.stdout }), "line"), ended]);
    clearTimeout(quiet);
    return await work();
  } finally {
    clearTimeout(quiet);
    holder.stdin.end();
    holder.stdout.resume();
  }
}

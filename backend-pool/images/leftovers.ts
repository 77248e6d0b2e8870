/** Half-made folders (`NAME.part-PID`) of builds that were killed, and the mounts that a bootstrap left in them. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { exists } from "../paths.ts";
import { run } from "../process.ts";

/** Remove a folder and what is mounted below it; never what the mounts show, such as this system's own devices. */
export async function removeTree(dir: string): Promise<void> {
  const mounts = (await readFile("/proc/self/mounts", "utf8")).split("\n").map((line) => unescape(line.split(" ")[1]));
  // The innermost first.
  for (const mount of mounts.filter((path) => path.startsWith(`${dir}/`)).toReversed()) {
    await run("umount", ["-l", mount]).catch(() => undefined);
  }
  await run("rm", ["-rf", "--one-file-system", dir]);
}

/** Remove what builds left in `folder` whose process is gone. */
export async function removeLeftovers(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    const pid = /\.part-(\d+)$/.exec(name)?.[1];
    if (pid !== undefined && Number(pid) !== process.pid && !(await exists(`/proc/${pid}`))) {
      await removeTree(join(folder, name));
    }
  }
}

/** The kernel writes a space in a path as `\040`. */
function unescape(path = ""): string {
  return path.replace(/\\(\d{3})/g, (_, octal: string) => String.fromCodePoint(Number.parseInt(octal, 8)));
}

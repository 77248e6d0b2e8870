/**
 * Golden states and images that nothing needs any more, as an update leaves them: no machine of this system is a
 * difference to them, and none was made of them for days. What is archived does not need them here: the archive has
 * its own (`bases.ts`).
 */
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { exists } from "../../paths.ts";
import { run } from "../../process.ts";
import { FACTS, GOLDEN, type GoldenState } from "./golden.ts";

/** Another version's host agent on this machine may be about to make a machine of one. */
export const UNUSED_MS = 7 * 24 * 3_600_000;

/** Note whose machines refer to golden states: several host agents may share the folder of them. */
export async function noteUser(imagesDir: string, machinesDir: string): Promise<void> {
  const folder = join(imagesDir, "users");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const name = createHash("sha256").update(machinesDir).digest("hex").slice(0, 20);
  await writeFile(join(folder, name), machinesDir, { mode: 0o600 });
}

/**
 * Remove them. Anything that can't be read keeps everything.
 * @returns their folders and how many bytes of disk they took
 */
export async function removeUnused(imagesDir: string, nowMs: number): Promise<{ folders: string[]; bytes: number }> {
  const [goldens, bases] = [join(imagesDir, "golden"), join(imagesDir, "base")];
  const needed = await neededBy(imagesDir);
  const isOld = async (path: string) => nowMs - (await stat(path)).mtimeMs > UNUSED_MS;
  const found: string[] = [];
  const imagesKept = new Set<string>();
  const names = (await namesIn(goldens)).filter((name) => !name.includes(".part-"));
  for (const name of names.filter((one) => !one.endsWith(SPARES))) {
    const dir = join(goldens, name);
    const { image } = JSON.parse(await readFile(join(dir, FACTS), "utf8")) as Pick<GoldenState, "image">;
    const old = await isOld(dir);
    if (old && !needed.has(name)) found.push(dir);
    else for (const file of [image.disk, image.kernel]) imagesKept.add(basename(dirname(file)));
    if (old && names.includes(name + SPARES)) found.push(dir + SPARES);
  }
  for (const name of await namesIn(bases)) {
    const dir = join(bases, name);
    if (!name.includes(".part-") && !imagesKept.has(name) && (await isOld(dir))) found.push(dir);
  }
  let bytes = 0;
  for (const dir of found) {
    bytes += await sizeOf(dir);
    // At once for whoever looks, and cleared away at the next start if this process dies at it (`leftovers.ts`).
    const going = `${dir}.part-${process.pid}`;
    await rename(dir, going);
    await rm(going, { recursive: true, force: true });
  }
  return { folders: found, bytes };
}

const SPARES = ".spares";

/** Names of the golden states that machines are differences to. */
async function neededBy(imagesDir: string): Promise<Set<string>> {
  const needed = new Set<string>();
  const users = join(imagesDir, "users");
  for (const user of await namesIn(users)) {
    const machinesDir = await readFile(join(users, user), "utf8");
    if (!(await exists(machinesDir))) {
      // Elsewhere than among temporary files it may be on a disk that is not mounted now.
      if (!machinesDir.startsWith(`${tmpdir()}/`))
        throw new Error(`${machinesDir} is not there; if it is gone for good, remove ${join(users, user)}`);
      await rm(join(users, user));
      continue;
    }
    for (const machine of await namesIn(machinesDir)) {
      const golden = await readFile(join(machinesDir, machine, GOLDEN), "utf8").catch((fault: unknown) => {
        if (["ENOENT", "ENOTDIR"].includes((fault as NodeJS.ErrnoException).code ?? "")) return null;
        throw fault;
      });
      if (golden !== null) needed.add(basename(golden));
    }
  }
  return needed;
}

async function namesIn(path: string): Promise<string[]> {
  return readdir(path).catch((fault: unknown) => {
    if ((fault as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw fault;
  });
}

async function sizeOf(dir: string): Promise<number> {
  const { stdout } = await run("du", ["-s", "--block-size=1", dir]);
  return Number(stdout.split("\t")[0]);
}

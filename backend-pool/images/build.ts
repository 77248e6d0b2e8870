/** Recipe -> base disk, kernel and the files PID 1 needs; kept in a cache by content key. */
import { mkdir, readFile, readdir, rename, rm, writeFile, copyFile, chmod } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildGuestAgent } from "../guest/build.ts";
import { buildMcpPrograms } from "../guest-programs/mcp/build.ts";
import { exists } from "../paths.ts";
import { run } from "../process.ts";
import { contentKey, type Recipe } from "./recipe.ts";
import type { Progress } from "../progress.ts";
import { removeLeftovers, removeTree } from "./leftovers.ts";
import { inTurn } from "./turn.ts";

/** Kernel modules the root disk, the network and the wire need, in loading order. */
const MODULES = ["virtio_blk", "failover", "net_failover", "virtio_net"];
const rootfs = fileURLToPath(new URL("rootfs/", import.meta.url));
/** PID 1 of the guest, and what the host runs beside it; compiled by the image's own compiler. */
const INIT = ["rouse-init.h", "rouse-init.c", "rouse-connections.c", "rouse-standing.c", "rouse-volumes.c"].map(
  (name) => join(rootfs, name),
);
/** Compiled into the guest as well, each for itself. */
const REDIRECT = join(rootfs, "rouse-redirect.c");
/** The command of checkpoints, which is a file of the Python SDK. */
const CHECKPOINT = fileURLToPath(new URL("../../sdk/python/rouse/checkpoint.py", import.meta.url));
const RAM_COPY = fileURLToPath(new URL("../native/ram-copy.c", import.meta.url));
const repository = fileURLToPath(new URL("../../", import.meta.url));

/** A built image: everything but a shape's saved state. */
export interface Image {
  readonly name: string;
  /** Content key of the base disk. */
  readonly key: string;
  /** Content key of disk, kernel and agent together: what a golden state depends on. */
  readonly bootKey: string;
  readonly disk: string;
  readonly kernel: string;
  readonly initrd: string;
  /** A program of the host (`native/ram-copy.c`); images of earlier versions and of other hosts have none. */
  readonly ramCopy?: string;
  /** The guest agent that rides in the initramfs, for machines that run with an older one. */
  readonly agent?: { readonly version: string; readonly archive: string };
}

/**
 * Build the image, or find it in the cache. The first build takes some minutes (Debian packages); a new guest agent
 * alone takes a second, because it rides in the initramfs.
 */
export async function buildImage(recipe: Recipe, cacheDir: string, progress: Progress): Promise<Image> {
  const node = process.execPath;
  const { key, dir } = await imageDir(recipe, cacheDir);
  await mkdir(join(cacheDir, "base"), { recursive: true });
  await Promise.all(["", "base", "golden"].map((folder) => removeLeftovers(join(cacheDir, folder))));
  if (!(await exists(join(dir, "disk.ext4")))) {
    await progress.step(`building the image "${recipe.name}" (Debian ${recipe.suite}, once, 3 to 6 minutes)`, (part) =>
      inTurn(cacheDir, dir, part, () => buildDisk(recipe, dir, node, part)),
    );
  }
  const boot = await buildInitrd(dir, cacheDir);
  return {
    name: recipe.name,
    key,
    bootKey: contentKey(key, boot.key),
    disk: join(dir, "disk.ext4"),
    kernel: join(dir, "vmlinuz"),
    initrd: boot.initrd,
    ramCopy: join(dir, "ram-copy"),
    agent: { version: boot.version, archive: boot.archive },
  };
}

/** Where the image of a recipe is, or would be. */
async function imageDir(recipe: Recipe, cacheDir: string): Promise<{ key: string; dir: string }> {
  const native = await Promise.all([...INIT, REDIRECT, RAM_COPY].map((path) => readFile(path)));
  const key = contentKey(recipe, ...native, process.version, "layout 2");
  return { key, dir: join(cacheDir, "base", `${recipe.name}-${key}`) };
}

async function buildDisk(recipe: Recipe, dir: string, node: string, under: (part: string) => void): Promise<void> {
  if (await exists(join(dir, "disk.ext4"))) return;
  const part = `${dir}.part-${process.pid}`;
  const root = join(part, "root");
  await removeTree(part);
  await mkdir(root, { recursive: true, mode: 0o755 });
  try {
    const skip = ["doc", "man", "locale", "info"].map((name) => `--dpkgopt=path-exclude=/usr/share/${name}/*`);
    const options = ["--variant=minbase", "--mode=root", "--format=directory", `--include=${recipe.apt.join(",")}`];
    await run("mmdebstrap", [...options, ...skip, recipe.suite, root], {
      // "I: downloading packages with apt..."
      onErrorLine: (line) => line.startsWith("I: ") && under(line.slice(3).replace(/\.+$/, "")),
    });
    under("adding Node.js and npm");
    await copyFile(node, join(root, "usr/local/bin/node"));
    await chmod(join(root, "usr/local/bin/node"), 0o755);
    await installNpm(root);
    for (const path of [...INIT, REDIRECT, RAM_COPY]) await copyFile(path, join(root, "tmp", basename(path)));
    await mkdir(join(root, "usr/lib/rouse"), { recursive: true });
    const inside = (command: string) => run("chroot", [root, "/bin/sh", "-ec", command]);
    const compile = (to: string, ...from: string[]) => `gcc -O2 -static -s -pthread -o ${to} ${from.join(" ")}`;
    const init = INIT.map((path) => basename(path)).filter((name) => name.endsWith(".c"));
    const programs = [
      compile("/usr/lib/rouse/rouse-init", ...init),
      compile("/usr/lib/rouse/rouse-redirect", basename(REDIRECT)),
      compile("ram-copy", basename(RAM_COPY)),
    ];
    await inside(["cd /tmp", ...programs].join(" && "));
    await copyFile(join(root, "tmp/ram-copy"), join(part, "ram-copy"));
    for (const command of recipe.commands) await inside(command);
    const kernel = (await readdir(join(root, "usr/lib/modules")))[0];
    if (!kernel) throw new Error("the image has no kernel");
    await copyFile(join(root, "boot", `vmlinuz-${kernel}`), join(part, "vmlinuz"));
    await copyFile(join(root, "usr/bin/busybox"), join(part, "busybox"));
    await mkdir(join(part, "modules"));
    for (const name of MODULES) {
      const found = await run("find", [join(root, "usr/lib/modules", kernel), "-name", `${name}.ko.xz`]);
      const ko = await run("xz", ["-dc", found.stdout.trim()], { encoding: "buffer" });
      await writeFile(join(part, "modules", `${name}.ko`), ko.raw);
    }
    const disk = join(part, "disk.ext4");
    await run("truncate", ["-s", `${recipe.sizeMiB}M`, disk]);
    // Room for inodes of a disk that later grows; nothing is left for the kernel to initialise in the background.
    under("writing the file system");
    const eager = ["-E", "lazy_itable_init=0,lazy_journal_init=0"];
    await run("mkfs.ext4", ["-q", "-F", "-L", "rouse", ...eager, "-d", root, disk]);
    await removeTree(root);
    await rename(part, dir);
  } finally {
    await removeTree(part);
  }
}

/** npm beside Node, from the package the project pins. */
async function installNpm(root: string): Promise<void> {
  const modules = join(root, "usr/local/lib/node_modules");
  await mkdir(modules, { recursive: true });
  await run("cp", ["-r", join(repository, "node_modules/npm"), modules]);
  for (const name of ["npm", "npx"]) {
    await run("ln", ["-sfn", `../lib/node_modules/npm/bin/${name}-cli.js`, join(root, "usr/local/bin", name)]);
  }
}

interface Initrd {
  readonly key: string;
  readonly initrd: string;
  /** Of the guest agent in it, and that as a tar of its own. */
  readonly version: string;
  readonly archive: string;
}

async function buildInitrd(imageDir: string, cacheDir: string): Promise<Initrd> {
  const work = join(cacheDir, `initrd.part-${process.pid}`);
  await rm(work, { recursive: true, force: true });
  await removeLeftovers(imageDir);
  await mkdir(join(work, "rouse"), { recursive: true });
  try {
    const agent = await buildGuestAgent(join(work, "rouse"));
    const mcp = await buildMcpPrograms(join(work, "rouse/mcp"));
    const scripts = await Promise.all(
      ["initramfs-init.sh", "boot.sh", "agent.sh", "trust.sh"].map((name) => readFile(join(rootfs, name))),
    );
    const checkpoint = await readFile(CHECKPOINT);
    const key = contentKey(agent.sha256, mcp.sha256, ...scripts, checkpoint);
    const initrd = join(imageDir, `initrd-${key}`);
    const version = key.slice(0, 20);
    const archive = join(imageDir, `agent-${key}.tar.gz`);
    const made = { key, initrd, version, archive };
    if ((await exists(initrd)) && (await exists(archive))) return made;
    for (const folder of ["bin", "dev", "proc", "sys", "mnt", "lib"]) await mkdir(join(work, folder));
    await writeFile(join(work, "init"), scripts[0] ?? "", { mode: 0o755 });
    await writeFile(join(work, "rouse/boot.sh"), scripts[1] ?? "", { mode: 0o755 });
    await writeFile(join(work, "rouse/agent.sh"), scripts[2] ?? "", { mode: 0o755 });
    await writeFile(join(work, "rouse/trust.sh"), scripts[3] ?? "", { mode: 0o755 });
    await writeFile(join(work, "rouse/rouse-checkpoint"), checkpoint, { mode: 0o755 });
    await writeFile(join(work, "rouse/version"), version);
    await copyFile(join(imageDir, "busybox"), join(work, "bin/busybox"));
    await chmod(join(work, "bin/busybox"), 0o755);
    // insmod runs over a glob, so the names carry the loading order.
    for (const [index, name] of MODULES.entries()) {
      await copyFile(join(imageDir, "modules", `${name}.ko`), join(work, "lib", `${index}-${name}.ko`));
    }
    const list = (await run("find", ["."], { cwd: work })).stdout;
    const programs = await run("tar", ["-czf", "-", "--mode=u=rwX,go=rX", "-C", join(work, "rouse"), "."], {
      encoding: "buffer",
    });
    const packed = await run("cpio", ["-o", "-H", "newc", "--quiet", "-R", "0:0"], {
      cwd: work,
      input: list,
      encoding: "buffer",
    });
    // Others may do the same meanwhile, with the same bytes.
    for (const [path, { raw }] of [[archive, programs] as const, [initrd, packed] as const]) {
      await writeFile(`${path}.part-${process.pid}`, raw);
      await rename(`${path}.part-${process.pid}`, path);
    }
    return made;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

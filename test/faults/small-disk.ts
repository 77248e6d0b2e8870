/**
 * A file system of its own for the state of one host agent, which can be made full: it is shrunk to what is in it. It
 * lives in memory, and takes only what is written to it.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** A host takes new machines only with room for their memory and 2 GiB more. */
const SIZE_MIB = 8192;
const MIB = 1_048_576;

export class SmallDisk {
  readonly dir: string;

  private constructor(dir: string) {
    this.dir = dir;
  }

  /** Mount one; a text says why that is not possible here. */
  static mount(dir: string): SmallDisk | string {
    if (process.getuid?.() !== 0) return "only root may mount a small file system";
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    const fault = mount(["-t", "tmpfs", "-o", `size=${SIZE_MIB}m,mode=700`, "tmpfs", dir]);
    return fault === null ? new SmallDisk(dir) : `a small file system can't be mounted here: ${fault}`;
  }

  /** Leave room for so many bytes, and a little for what is written at this moment. */
  fill(leaveBytes: number): void {
    for (let spare = 65_536; ; spare *= 2) {
      const { blocks, bfree, bsize } = statfsSync(this.dir);
      const fault = this.#resize((blocks - bfree) * bsize + leaveBytes + spare);
      if (fault === null) return;
      if (spare > MIB * 64) throw new Error(`the file system can't be resized: ${fault}`);
    }
  }

  free(): void {
    const fault = this.#resize(SIZE_MIB * MIB);
    if (fault !== null) throw new Error(`the file system can't be resized: ${fault}`);
  }

  /** Whatever still uses it loses sight of it. Some of its files stay where they were, without the rest. */
  unmount(...names: readonly string[]): void {
    const kept = names.map((name) => join(this.dir, name)).filter((path) => existsSync(path));
    const texts = kept.map((path) => readFileSync(path));
    spawnSync("umount", ["-l", this.dir]);
    for (const [i, path] of kept.entries()) writeFileSync(path, texts[i] ?? "");
  }

  #resize(bytes: number): string | null {
    return mount(["-o", `remount,size=${bytes}`, this.dir]);
  }
}

/** What a run that was cut short left mounted. */
export function unmountBelow(dir: string): void {
  const mounted = readFileSync("/proc/self/mounts", "utf8").split("\n");
  for (const line of mounted) {
    const [, path = ""] = line.split(" ");
    if (path.startsWith(`${dir}/`)) spawnSync("umount", ["-l", path]);
  }
}

function mount(args: readonly string[]): string | null {
  const done = spawnSync("mount", args, { encoding: "utf8" });
  return done.status === 0 ? null : done.stderr.trim();
}

/** The helper that copies RAM while it changes, against files with holes and a writer that goes on. */
import { mkdtemp, open, readFile, rm, stat, type FileHandle } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { defaultHome } from "../../backend-pool/config.ts";
import { buildImage } from "../../backend-pool/images/build.ts";
import { defaultRecipe } from "../../backend-pool/images/recipe.ts";
import { RamCopy } from "../../backend-pool/machine/qemu/ram-copy.ts";
import { run } from "../../backend-pool/process.ts";
import { lineProgress } from "../../backend-pool/progress.ts";

const PAGE = 4096;

/** A generator of numbers in [0, 1) that a seed repeats. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

describe("the helper that copies RAM", () => {
  let dir: string;
  let program: string;
  beforeAll(async () => {
    const { ramCopy } = await buildImage(defaultRecipe, join(defaultHome(), "images"), lineProgress);
    if (!ramCopy) throw new Error("the image has no helper");
    program = ramCopy;
    dir = await mkdtemp(join(tmpdir(), "rouse-ram-copy-"));
  });
  afterAll(() => rm(dir, { recursive: true, force: true }));

  /** Some writes of what a machine does to its RAM: bytes, pages of zeros, ranges given back. */
  async function change(path: string, handle: FileHandle, pages: number, next: () => number): Promise<void> {
    for (let n = 0; n < 40; n++) {
      const page = Math.floor(next() * pages);
      const count = 1 + Math.floor(next() * 30);
      const kind = next();
      if (kind < 0.5) await handle.write(Buffer.alloc(3, 1 + n), 0, 3, page * PAGE + Math.floor(next() * 4000));
      else if (kind < 0.8)
        await handle.write(Buffer.alloc(count * PAGE, kind < 0.6 ? 0 : n), 0, count * PAGE, page * PAGE);
      else await run("fallocate", ["-p", "-o", String(page * PAGE), "-l", String(count * PAGE), path]);
    }
  }

  it.for([1, 2, 3, 4, 5, 6])(
    "makes the same file, whatever changes before the last step (%i)",
    async (seed, { expect }) => {
      const next = random(seed);
      const [from, to] = [join(dir, `from-${seed}`), join(dir, `to-${seed}`)];
      const pages = 200 + Math.floor(next() * 3000);
      const size = pages * PAGE - (seed % 2 === 0 ? 0 : Math.floor(next() * PAGE));
      const handle = await open(from, "w+");
      await handle.truncate(size);
      await change(from, handle, pages - 40, next);
      // Every third into a file that has something else.
      if (seed % 3 === 0) {
        const old = await open(to, "w+");
        await old.truncate(size + PAGE);
        await change(to, old, pages - 40, next);
        await old.close();
      }
      const copy = await RamCopy.start(program, from, to);
      const rounds = Math.floor(next() * 3);
      for (let round = 0; round < rounds; round++) {
        const copied = copy.copy();
        await change(from, handle, pages - 40, next);
        await copied;
        await change(from, handle, pages - 40, next);
      }
      await copy.finish();
      await handle.close();
      // Not `toEqual`: it would print both.
      expect((await readFile(from)).equals(await readFile(to))).toBe(true);
    },
  );

  it("leaves holes, and writes what differs alone", async ({ expect }) => {
    const [from, to] = [join(dir, "from"), join(dir, "to")];
    const handle = await open(from, "w+");
    await handle.truncate(256 * 1_048_576);
    for (const page of [0, 5000, 60_000]) await handle.write(Buffer.alloc(PAGE, 7), 0, PAGE, page * PAGE);
    await handle.write(Buffer.alloc(PAGE), 0, PAGE, 9000 * PAGE);
    const copy = await RamCopy.start(program, from, to);
    expect(await copy.copy()).toBe(3);
    expect(await copy.copy()).toBe(0);
    await handle.write("x", 5000 * PAGE + 17);
    expect(await copy.finish()).toBe(1);
    expect((await stat(to)).size).toBe(256 * 1_048_576);
    expect((await stat(to)).blocks * 512).toBeLessThan(20 * PAGE);
    await handle.close();
  });

  it("fails when it can't go on, and says why", async ({ expect }) => {
    const copy = await RamCopy.start(program, join(dir, "nothing"), join(dir, "never"));
    await expect(copy.finish()).rejects.toThrow(/No such file/);
    const from = join(dir, "whole");
    await (await open(from, "w")).close();
    const given = await RamCopy.start(program, from, join(dir, "given-up"));
    given.end();
    await expect(given.copy()).rejects.toThrow(/could not be copied/);
  });
});

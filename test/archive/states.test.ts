/** Whatever changes in a machine's files, each of its saved states gives them back byte for byte. */
import { copyFile, readFile, truncate } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { BaseNeeded } from "../../backend-pool/archive/damage.ts";
import { FILE_UNIT, RAM_UNIT, type Unit } from "../../backend-pool/archive/manifest.ts";
import { restore } from "../../backend-pool/archive/restore.ts";
import { seal, sealedIn } from "../../backend-pool/archive/seal.ts";
import { chance, digestOf, folder, namedBytes, newFile, newKey, noise, Sleeper, Vault, write } from "./support.ts";

const PAGE = RAM_UNIT;

/** Change a file here and there: noise, zeros, what is elsewhere in it already, another size. */
async function disturb(path: string, next: (n: number) => number, changes: number, mayResize: boolean): Promise<void> {
  for (let change = 0; change < changes; change++) {
    const content = await readFile(path);
    const length = [1 + next(20), PAGE, PAGE * next(40), FILE_UNIT * next(4)][next(4)] ?? PAGE;
    const position = next(2) === 0 ? next(content.length + 1) : Math.floor(next(content.length + 1) / PAGE) * PAGE;
    const fits = Math.max(0, Math.min(length, content.length - position));
    switch (next(5)) {
      case 0:
        await write(path, position, Buffer.alloc(fits));
        break;
      case 1:
        await write(path, position, content.subarray(next(content.length), content.length).subarray(0, fits));
        break;
      case 2:
        if (mayResize) await truncate(path, Math.max(0, content.length + next(200_000) - 80_000));
        break;
      default:
        await write(path, position, noise(next, fits));
    }
  }
}

describe("a saved state", () => {
  it("gives back random files of random bases", async () => {
    for (let seed = 1; seed <= 25; seed++) {
      const next = chance(seed);
      const dir = await folder();
      const [base, file, clone, alone] = [join(dir, "base"), join(dir, "file"), join(dir, "clone"), join(dir, "alone")];
      await newFile(base, next(2_000_000));
      await disturb(base, next, next(12), true);
      await copyFile(base, file);
      await disturb(file, next, next(12), true);
      const unit: Unit = next(2) === 0 ? RAM_UNIT : FILE_UNIT;
      const [key, vault] = [newKey(), new Vault()];
      const sealed = await seal({
        parts: [
          { name: "changed", path: file, unit, base: { id: "the base", path: base } },
          { name: "whole", path: file, unit, base: null },
        ],
        previous: null,
        key,
        facts: { seed, deep: [{ of: "them" }] },
        outDir: join(dir, "sealed"),
      });
      await vault.take(join(dir, "sealed"), sealed);
      const manifest = await vault.open(sealed.manifest, key);
      expect(manifest.facts).toEqual({ seed, deep: [{ of: "them" }] });
      await copyFile(base, clone);
      await restore({
        manifest,
        parts: { changed: { path: clone, ready: true }, whole: { path: alone, ready: false } },
        fetch: vault.fetch,
      });
      const digest = await digestOf(file);
      expect([seed, await digestOf(clone), await digestOf(alone)]).toEqual([seed, digest, digest]);
    }
  });

  it("is one of thirty, each sealed against the one before, and all of them come back", async () => {
    const next = chance(101);
    const sleeper = await Sleeper.create(3_000_000, (base) => disturb(base, next, 30, false));
    const states = [];
    for (let pause = 0; pause < 30; pause++) {
      await disturb(sleeper.ram, next, next(8), false);
      await disturb(sleeper.disk, next, next(3), true);
      await disturb(sleeper.devices, next, 1, true);
      const { opened } = await sleeper.seal(states.at(-1)?.opened ?? null);
      states.push({ opened, digests: await sleeper.digests() });
    }
    for (const [pause, { opened, digests }] of states.entries()) {
      expect([pause, await sleeper.restored(opened)]).toEqual([pause, digests]);
    }
  });

  it("tells data that became zero, holes that became data, and what grew", async () => {
    const next = chance(7);
    const sleeper = await Sleeper.create(PAGE * 200 + 100, async (base) => {
      await write(base, 0, noise(next, PAGE * 64));
      await write(base, PAGE * 199, noise(next, PAGE + 100));
    });
    const cases: (() => Promise<void>)[] = [
      async () => undefined,
      () => write(sleeper.ram, PAGE * 3, Buffer.alloc(PAGE * 40)),
      () => write(sleeper.ram, PAGE * 100, noise(next, PAGE)),
      () => write(sleeper.ram, PAGE * 100, Buffer.alloc(PAGE)),
      () => write(sleeper.ram, PAGE * 200, Buffer.alloc(100)),
      () => write(sleeper.ram, 0, Buffer.alloc(PAGE * 200 + 100)),
      () => truncate(sleeper.ram, PAGE * 230 + 1),
      () => write(sleeper.ram, PAGE * 230, Buffer.from([7])),
      () => truncate(sleeper.ram, PAGE * 10 + 5),
      () => truncate(sleeper.ram, 0),
    ];
    for (const [number, change] of cases.entries()) {
      await change();
      const { opened } = await sleeper.seal(null);
      expect([number, await sleeper.restored(opened)]).toEqual([number, await sleeper.digests()]);
    }
  });

  it("holds nothing of a machine that is as its base", async () => {
    const sleeper = await Sleeper.create(1_000_000, (base) => write(base, 0, noise(chance(1), 900_000)));
    const { opened, blobs, stats } = await sleeper.seal(null);
    expect(opened.packs).toEqual([]);
    expect(blobs).toHaveLength(1);
    expect(stats).toMatchObject({ changedBytes: 0, zeroedBytes: 0, packedBytes: 0 });
  });

  it("names new blobs, old ones and itself, and its folder tells the same later", async () => {
    const sleeper = await Sleeper.create(1_000_000, async () => undefined);
    await write(sleeper.ram, 0, noise(chance(1), 400_000));
    const first = await sleeper.seal(null);
    await write(sleeper.ram, 500_000, noise(chance(2), 20_000));
    const second = await sleeper.seal(first.opened);
    expect(first.blobs.map(({ isNew }) => isNew)).toEqual([true, true]);
    expect(second.blobs.map(({ isNew }) => isNew)).toEqual([false, true, true]);
    expect(second.blobs.at(-1)?.id).toBe(second.manifest);
    expect(second.logicalBytes).toBe(1_310_000);
    expect(second.storedBytes).toBe(second.blobs.reduce((sum, { isNew, bytes }) => sum + (isNew ? bytes : 0), 0));
    const { dir, opened: _, ...said } = second;
    expect(await sealedIn(dir)).toEqual(said);
    expect(await sealedIn(join(dir, "elsewhere"))).toBeNull();
  });

  it("refuses to be restored without the clone that it needs, and makes nothing", async () => {
    const sleeper = await Sleeper.create(100_000, async () => undefined);
    const { opened } = await sleeper.seal(null);
    const [ram, disk] = [join(sleeper.dir, "new-ram"), join(sleeper.dir, "new-disk")];
    const parts = { disk: { path: disk, ready: false }, ram: { path: ram, ready: false } };
    await expect(restore({ manifest: opened, parts, fetch: sleeper.vault.fetch })).rejects.toThrow(BaseNeeded);
    await expect(digestOf(disk)).rejects.toThrow("ENOENT");
  });

  it("can be restored in part, and only the packs of that are fetched", async () => {
    const sleeper = await Sleeper.create(6_000_000, async () => undefined);
    await write(sleeper.ram, 0, noise(chance(3), 6_000_000, 4));
    await write(sleeper.devices, 0, noise(chance(4), 10_000));
    const { opened } = await sleeper.seal(null);
    expect(opened.packs.length).toBe(2);
    const path = join(sleeper.dir, "new-devices");
    const { fetchedBytes } = await restore({
      manifest: opened,
      parts: { devices: { path, ready: false } },
      fetch: sleeper.vault.fetch,
    });
    expect(await digestOf(path)).toBe(await digestOf(sleeper.devices));
    expect(fetchedBytes).toBeLessThan(namedBytes(opened));
  });
});

describe("what is stored", () => {
  const MIB = 1_048_576;

  it("levels off for a machine that dirties the same memory again and again", async () => {
    const next = chance(11);
    const sleeper = await Sleeper.create(20 * MIB, async () => undefined);
    const memory = noise(next, 16 * MIB, 64);
    await write(sleeper.ram, 0, memory);
    let last = await sleeper.seal(null);
    const whole = namedBytes(last.opened);
    let [most, written] = [0, 0];
    for (let pause = 0; pause < 40; pause++) {
      // A quarter of it, each time another: something of every old pack stays needed for long.
      for (let at = 0; at < memory.length; at += PAGE) if (next(4) === 0) noise(next, PAGE, 64).copy(memory, at);
      await write(sleeper.ram, 0, memory);
      last = await sleeper.seal(last.opened);
      most = Math.max(most, namedBytes(last.opened));
      written += last.storedBytes;
    }
    expect(most).toBeLessThan(2.1 * whole);
    expect(written).toBeLessThan(40 * whole);
    expect(await sleeper.restored(last.opened)).toEqual(await sleeper.digests());
  });

  it("stays in few packs, however many pauses brought it", async () => {
    const next = chance(12);
    const sleeper = await Sleeper.create(4 * MIB, async () => undefined);
    let last = await sleeper.seal(null);
    for (let pause = 0; pause < 40; pause++) {
      await write(sleeper.ram, pause * 65_536, noise(next, 8192));
      last = await sleeper.seal(last.opened);
      expect(last.opened.packs.length).toBeLessThan(20);
    }
    expect(await sleeper.restored(last.opened)).toEqual(await sleeper.digests());
  });

  it("has equal chunks once, within a state and over states", async () => {
    const sleeper = await Sleeper.create(8 * MIB, async () => undefined);
    const page = noise(chance(13), PAGE);
    for (let at = 0; at < 500; at++) await write(sleeper.ram, at * PAGE, page);
    const first = await sleeper.seal(null);
    expect(first.stats.packedBytes).toBe(PAGE);
    await write(sleeper.ram, 0, Buffer.alloc(500 * PAGE));
    for (let at = 1000; at < 1200; at++) await write(sleeper.ram, at * PAGE, page);
    const second = await sleeper.seal(first.opened);
    expect(second.stats).toMatchObject({ changedBytes: 200 * PAGE, packedBytes: 0 });
    expect(await sleeper.restored(second.opened)).toEqual(await sleeper.digests());
  });
});

/** Saved states that are damaged, forged or hostile are told, by the blob that is at fault. */
import { createCipheriv, hash, randomBytes } from "node:crypto";
import { access, readdir } from "node:fs/promises";
import { join } from "node:path";
import { zstdCompressSync } from "node:zlib";
import { beforeAll, describe, expect, it } from "vitest";
import { DamagedState } from "../../backend-pool/archive/damage.ts";
import { NO_STATE, openManifest, writeManifest } from "../../backend-pool/archive/manifest.ts";
import { restore } from "../../backend-pool/archive/restore.ts";
import { chance, faultOf, newKey, noise, Sleeper, write } from "./support.ts";

const damaged = (blob: string) => expect.objectContaining({ name: "DamagedState", blob, fault: "damaged" });

/** A state of several packs. */
async function state() {
  const next = chance(21);
  const sleeper = await Sleeper.create(12_000_000, async () => undefined);
  await write(sleeper.ram, 0, noise(next, 3_000_000, 4));
  const { opened } = await sleeper.seal(null);
  await write(sleeper.ram, 9_000_000, noise(next, 2_000_000, 4));
  await write(sleeper.disk, 0, noise(next, 200_000));
  return { sleeper, ...(await sleeper.seal(opened)) };
}

describe("a damaged blob", () => {
  it("is detected and named, whatever is wrong with it", async () => {
    const { sleeper, opened, manifest, blobs } = await state();
    const next = chance(22);
    expect(opened.packs.length).toBeGreaterThan(1);
    const [one, other] = opened.packs.map(({ id }) => sleeper.vault.blobs.get(id) ?? Buffer.alloc(0));
    const harms: ((bytes: Buffer) => Buffer)[] = [
      ...Array.from({ length: 12 }, () => (bytes: Buffer) => {
        const at = next(bytes.length);
        return Buffer.from(bytes.map((byte, place) => (place === at ? byte ^ (1 << next(8)) : byte)));
      }),
      (bytes) => bytes.subarray(0, -1),
      (bytes) => bytes.subarray(0, bytes.length / 2),
      (bytes) => Buffer.concat([bytes, Buffer.alloc(1)]),
      (bytes) => Buffer.alloc(bytes.length),
      () => Buffer.alloc(0),
      (bytes) => (one && other ? (bytes.equals(one) ? other : one) : bytes),
    ];
    for (const { id } of blobs) {
      const bytes = sleeper.vault.blobs.get(id) ?? Buffer.alloc(0);
      for (const harm of harms) {
        const broken = harm(bytes);
        const fetch = async (blob: string) => (blob === id ? broken : sleeper.vault.fetch(blob));
        const work =
          id === manifest ? openManifest(broken, { manifest, key: sleeper.key }) : sleeper.restored(opened, fetch);
        expect(await faultOf(work)).toEqual(damaged(id));
        const made = (await readdir(sleeper.dir)).filter((name) => /^back-(disk|devices)/.test(name));
        expect(made).toEqual([]);
      }
    }
    // And whole it is good.
    expect(await sleeper.restored(opened)).toEqual(await sleeper.digests());
  }, 60_000);

  it("is told as missing when it is, and ends the restore", async () => {
    const { sleeper, opened } = await state();
    for (const { id } of opened.packs) {
      const fetch = async (blob: string) => {
        if (blob === id) throw new DamagedState(blob, "missing", "nobody has it");
        return sleeper.vault.fetch(blob);
      };
      expect(await faultOf(sleeper.restored(opened, fetch))).toMatchObject({ blob: id, fault: "missing" });
    }
  });

  it("does not open under another key, nor in another's place", async () => {
    const { sleeper, manifest } = await state();
    const bytes = sleeper.vault.blobs.get(manifest) ?? Buffer.alloc(0);
    for (const key of [newKey(), "", "short", sleeper.key.slice(1)]) {
      expect(await faultOf(openManifest(bytes, { manifest, key }))).toEqual(damaged(manifest));
    }
    const other = await writeManifest(NO_STATE, sleeper.key);
    expect(await faultOf(openManifest(other, { manifest, key: sleeper.key }))).toEqual(damaged(manifest));
  });
});

describe("an abort", () => {
  it("ends a restore with its reason, and leaves no new file", async () => {
    const { sleeper, opened } = await state();
    const path = join(sleeper.dir, "aborted");
    const stop = new AbortController();
    const fetch = (blob: string) => {
      stop.abort(new Error("woken elsewhere"));
      return sleeper.vault.fetch(blob);
    };
    const parts = { disk: { path, ready: false } };
    await expect(restore({ manifest: opened, parts, fetch, signal: stop.signal })).rejects.toThrow("woken elsewhere");
    await expect(access(path)).rejects.toThrow("ENOENT");
  });
});

describe("a manifest that is authentic and wrong", () => {
  const key = newKey();

  /** As the format has it: `nonce | AES-256-GCM of (u32 length | zstd of plain) | tag`. */
  function stored(plain: Buffer, claimed = plain.length): { bytes: Buffer; source: { manifest: string; key: string } } {
    const nonce = randomBytes(12);
    const length = Buffer.alloc(4);
    length.writeUInt32LE(claimed);
    const cipher = createCipheriv("aes-256-gcm", Buffer.from(key, "base64url"), nonce);
    cipher.setAAD(Buffer.from("rouse manifest 1"));
    const body = cipher.update(Buffer.concat([length, zstdCompressSync(plain)]));
    const bytes = Buffer.concat([nonce, body, cipher.final(), cipher.getAuthTag()]);
    return { bytes, source: { manifest: hash("sha256", bytes, "hex"), key } };
  }

  function plainOf(header: object, columns: Buffer = Buffer.alloc(0)): Buffer {
    const text = Buffer.from(JSON.stringify(header));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(text.length);
    return Buffer.concat([length, text, Buffer.alloc(-text.length & 3), columns]);
  }

  const empty = { version: 1, facts: {}, parts: [], packs: 0, frames: 0 };
  const part = { name: "ram", size: 8192, unit: 4096, base: "golden", chunks: 0, zeros: 0 };

  beforeAll(async () => {
    // What the helpers make is read, so that what is refused below is refused for what is wrong with it.
    const { bytes, source } = stored(plainOf(empty));
    await openManifest(bytes, source);
  });

  it("is refused for every number that does not fit", async () => {
    const u32 = (...numbers: number[]) => Buffer.from(Uint32Array.from(numbers).buffer);
    const zero = { ...empty, parts: [{ ...part, zeros: 1 }] };
    /** One pack of one frame of two pages, and one chunk. */
    const one = { ...empty, parts: [{ ...part, chunks: 1 }], packs: 1, frames: 1 };
    const columns = (
      { frames = 1, bytes = 24, chunks = 2, unitBits = 12, packed = 1 },
      { index = 0, frame = 0, slot = 0 },
    ) =>
      Buffer.concat([
        Buffer.alloc(64, 1),
        u32(frames, bytes, chunks, unitBits, packed, index, frame, slot),
        Buffer.alloc(16),
      ]);
    const good = [plainOf(zero, u32(0, 2)), plainOf(one, columns({}, {}))];
    for (const plain of good) {
      const { bytes, source } = stored(plain);
      await expect(openManifest(bytes, source)).resolves.toMatchObject({ parts: [{ name: "ram" }] });
    }
    const bad = [
      plainOf({ ...empty, version: 2 }),
      plainOf({ ...empty, more: 1 }),
      plainOf(empty, Buffer.alloc(4)),
      plainOf({ ...empty, packs: 60_000 }),
      plainOf({ ...empty, frames: 2 ** 50 }),
      plainOf({ ...empty, parts: [part, part] }),
      plainOf({ ...empty, parts: [{ ...part, unit: 1 }] }),
      plainOf({ ...empty, parts: [{ ...part, size: 2 ** 52 }] }),
      plainOf({ ...empty, parts: [{ ...part, chunks: 2 ** 31 }] }),
      plainOf({ ...empty, parts: [{ ...part, base: null, zeros: 1 }] }, u32(0, 1)),
      plainOf(zero, u32(0, 3)),
      plainOf(zero, u32(2, 1)),
      plainOf(zero, u32(1, 0)),
      plainOf(zero, u32(0, 4_294_967_295)),
      plainOf({ ...empty, parts: [{ ...part, zeros: 2 }] }, u32(0, 0, 2, 1)),
      plainOf(one, columns({}, { index: 2 })),
      plainOf(one, columns({}, { frame: 1 })),
      plainOf(one, columns({}, { slot: 2 })),
      plainOf(one, columns({ frames: 0 }, {})),
      plainOf(one, columns({ frames: 2 }, {})),
      plainOf(one, columns({ bytes: 16 }, {})),
      plainOf(one, columns({ bytes: 4_000_000_000 }, {})),
      plainOf(one, columns({ chunks: 0 }, {})),
      plainOf(one, columns({ chunks: 65 }, {})),
      plainOf(one, columns({ unitBits: 16 }, {})),
      plainOf(one, columns({ unitBits: 255 }, {})),
      plainOf(one, columns({ packed: 2 }, {})),
      plainOf(one, columns({ packed: 0 }, {})),
    ];
    for (const [number, plain] of bad.entries()) {
      const { bytes, source } = stored(plain);
      const fault = await faultOf(openManifest(bytes, source));
      expect([number, fault]).toEqual([number, damaged(source.manifest)]);
    }
  });

  it("takes no more memory than a real one may, and garbage ends in the same failure", async () => {
    const next = chance(31);
    const bomb = Buffer.alloc(400_000_000);
    const before = process.resourceUsage().maxRSS;
    for (const { bytes, source } of [stored(bomb), stored(bomb, 4096), stored(Buffer.alloc(10), 4_294_967_295)]) {
      expect(await faultOf(openManifest(bytes, source))).toEqual(damaged(source.manifest));
    }
    expect(process.resourceUsage().maxRSS - before).toBeLessThan(100_000);
    const good = plainOf(empty);
    for (let round = 0; round < 500; round++) {
      const raw = noise(next, next(3000));
      const bytes =
        next(3) === 0 ? raw : stored(next(2) === 0 ? raw : Buffer.concat([good, Buffer.alloc(4), raw])).bytes;
      const manifest = hash("sha256", bytes, "hex");
      expect(await faultOf(openManifest(bytes, { manifest, key }))).toEqual(damaged(manifest));
    }
  });
});

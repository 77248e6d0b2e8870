/** Files of a made-up machine that change by chance, and ways to seal and restore them. */
import { hash, randomBytes } from "node:crypto";
import { copyFile, mkdtemp, open, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { FILE_UNIT, openManifest, RAM_UNIT, type Manifest } from "../../backend-pool/archive/manifest.ts";
import { restore } from "../../backend-pool/archive/restore.ts";
import { seeded } from "../support/random.ts";
import { seal, type Sealed, type SealPart } from "../../backend-pool/archive/seal.ts";

export const newKey = (): string => randomBytes(32).toString("base64url");

export async function folder(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), "rouse archive-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

/** Numbers below `n`, the same for a seed. */
export function chance(seed: number): (n: number) => number {
  const next = seeded(seed);
  return (n) => Math.floor(next() * n);
}

/** Bytes that compress to about half; with a step of 4 they don't. */
export function noise(next: (n: number) => number, length: number, step = 8): Buffer {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at + 4 <= length; at += step) bytes.writeUInt32LE(next(4_294_967_296), at);
  return bytes;
}

/** The failure that something ends with. */
export const faultOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => "no failure",
    (fault: unknown) => fault,
  );

export async function write(path: string, position: number, bytes: Buffer): Promise<void> {
  await using file = await open(path, "r+");
  await file.write(bytes, 0, bytes.length, position);
}

export async function newFile(path: string, size: number): Promise<void> {
  await writeFile(path, "");
  await truncate(path, size);
}

export const digestOf = async (path: string): Promise<string> => hash("sha256", await readFile(path), "hex");

/** Where blobs of all states go, as an upload would bring them there. */
export class Vault {
  readonly blobs = new Map<string, Buffer>();

  async take(dir: string, { blobs }: Sealed): Promise<void> {
    for (const { id, isNew } of blobs) if (isNew) this.blobs.set(id, await readFile(join(dir, id)));
  }

  readonly fetch = async (id: string): Promise<Buffer> => {
    const blob = this.blobs.get(id);
    if (!blob) throw new Error(`Nobody kept blob ${id}.`);
    return blob;
  };

  open(manifest: string, key: string): Promise<Manifest> {
    return openManifest(this.blobs.get(manifest) ?? Buffer.alloc(0), { manifest, key });
  }
}

/** A machine with RAM that came from a base, a disk and devices. */
export class Sleeper {
  readonly dir: string;
  readonly key = newKey();
  readonly vault = new Vault();
  readonly ram: string;
  readonly disk: string;
  readonly devices: string;
  readonly base: string;
  #seals = 0;

  private constructor(dir: string) {
    this.dir = dir;
    [this.ram, this.disk, this.devices, this.base] = [
      join(dir, "ram"),
      join(dir, "disk"),
      join(dir, "devices"),
      join(dir, "base"),
    ];
  }

  /** @param fill changes the base before it is cloned */
  static async create(ramBytes: number, fill: (base: string) => Promise<void>): Promise<Sleeper> {
    const sleeper = new Sleeper(await folder());
    await newFile(sleeper.base, ramBytes);
    await fill(sleeper.base);
    await copyFile(sleeper.base, sleeper.ram);
    await newFile(sleeper.disk, 300_000);
    await newFile(sleeper.devices, 10_000);
    return sleeper;
  }

  get parts(): SealPart[] {
    return [
      { name: "ram", path: this.ram, unit: RAM_UNIT, base: { id: "golden", path: this.base } },
      { name: "disk", path: this.disk, unit: FILE_UNIT, base: null },
      { name: "devices", path: this.devices, unit: FILE_UNIT, base: null },
    ];
  }

  /** Seal into a folder of its own, and bring the blobs to the vault. */
  async seal(previous: Manifest | null, facts = {}): Promise<Sealed & { dir: string; opened: Manifest }> {
    const dir = join(this.dir, `sealed-${this.#seals++}`);
    const sealed = await seal({ parts: this.parts, previous, key: this.key, facts, outDir: dir });
    await this.vault.take(dir, sealed);
    return { ...sealed, dir, opened: await this.vault.open(sealed.manifest, this.key) };
  }

  async digests(): Promise<string[]> {
    return Promise.all([this.ram, this.disk, this.devices].map(digestOf));
  }

  /** Restore to a clone of the base and to new files; answers their digests. */
  async restored(manifest: Manifest, fetch = this.vault.fetch): Promise<string[]> {
    const paths = ["ram", "disk", "devices"].map((name) => join(this.dir, `back-${name}`));
    const [ram = "", disk = "", devices = ""] = paths;
    await Promise.all(paths.map((path) => rm(path, { force: true })));
    await copyFile(this.base, ram);
    await restore({
      manifest,
      parts: {
        ram: { path: ram, ready: true },
        disk: { path: disk, ready: false },
        devices: { path: devices, ready: false },
      },
      fetch,
    });
    return Promise.all(paths.map(digestOf));
  }
}

/** Bytes of the packs that a state names. */
export const namedBytes = ({ packs }: Manifest): number => packs.reduce((sum, { bytes }) => sum + bytes, 0);

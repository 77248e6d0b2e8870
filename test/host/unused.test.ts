/** What updates leave behind goes, and nothing that a machine is a difference to. */
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { noteUser, removeUnused, UNUSED_MS } from "../../backend-pool/machine/qemu/unused.ts";

const NOW = Date.UTC(2031, 0, 20);
const OLD = new Date(NOW - UNUSED_MS - 1000);
const FRESH = new Date(NOW - UNUSED_MS + 60_000);
let folder: string;
let imagesDir: string;
let machinesDir: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rouse-unused-"));
  imagesDir = join(folder, "images");
  machinesDir = join(folder, "state/machines");
  await mkdir(machinesDir, { recursive: true });
  await noteUser(imagesDir, machinesDir);
});
afterEach(() => rm(folder, { recursive: true }));

async function image(name: string, at: Date): Promise<void> {
  const dir = join(imagesDir, "base", name);
  await mkdir(dir, { recursive: true });
  await writeFile(join(dir, "disk.ext4"), "disk");
  await utimes(dir, at, at);
}

async function golden(name: string, base: string, at: Date, kernelIn = base): Promise<string> {
  const dir = join(imagesDir, "golden", name);
  await mkdir(dir, { recursive: true });
  await mkdir(`${dir}.spares/one`, { recursive: true });
  const of = (one: string, file: string) => join(imagesDir, "base", one, file);
  const facts = { id: name, image: { disk: of(base, "disk.ext4"), kernel: of(kernelIn, "vmlinuz") } };
  await writeFile(join(dir, "golden.json"), JSON.stringify(facts));
  await utimes(dir, at, at);
  return dir;
}

async function machine(id: string, goldenDir: string, machines = machinesDir): Promise<void> {
  await mkdir(join(machines, id), { recursive: true });
  await writeFile(join(machines, id, "golden"), goldenDir);
}

const left = async () => [await readdir(join(imagesDir, "golden")), await readdir(join(imagesDir, "base"))];

test("what nothing needs and nothing was made of for a week goes, with its image; all else stays", async () => {
  await image("old", OLD);
  await image("older-with-sleeper", OLD);
  await image("current", FRESH);
  await image("agent", OLD);
  await golden("unused", "old", OLD);
  await machine("sleeper", await golden("needed", "older-with-sleeper", OLD));
  await golden("recent", "current", FRESH);
  // An agent's image has its kernel from the default one.
  await machine("agent-sleeper", await golden("of-agent", "agent", OLD, "current"));
  await mkdir(join(imagesDir, "golden/half.part-1"));
  const { folders, bytes } = await removeUnused(imagesDir, NOW);
  expect(folders.map((one) => one.slice(imagesDir.length + 1)).toSorted()).toEqual([
    "base/old",
    "golden/needed.spares",
    "golden/of-agent.spares",
    "golden/unused",
    "golden/unused.spares",
  ]);
  expect(bytes).toBeGreaterThan(0);
  expect(await left()).toEqual([
    ["half.part-1", "needed", "of-agent", "recent", "recent.spares"],
    ["agent", "current", "older-with-sleeper"],
  ]);
  // Once more: there is nothing left to do.
  expect(await removeUnused(imagesDir, NOW)).toEqual({ folders: [], bytes: 0 });
});

test("machines of another host agent that shares the images count", async () => {
  await image("old", OLD);
  const other = join(folder, "host-2/machines");
  await noteUser(imagesDir, other);
  await machine("theirs", await golden("shared", "old", OLD), other);
  await removeUnused(imagesDir, NOW);
  expect(await left()).toEqual([["shared"], ["old"]]);
  // A try in a temporary folder that is gone needs nothing any more.
  await rm(other, { recursive: true });
  await removeUnused(imagesDir, NOW);
  expect(await left()).toEqual([[], []]);
  expect(await readdir(join(imagesDir, "users"))).toHaveLength(1);
});

test("where somebody's machines can't be looked into, everything stays", async () => {
  await image("old", OLD);
  await golden("unused", "old", OLD);
  await noteUser(imagesDir, "/var/lib/rouse-on-a-disk-that-is-not-mounted/machines");
  await expect(removeUnused(imagesDir, NOW)).rejects.toThrow("is not there; if it is gone for good");
  expect(await left()).toEqual([["unused", "unused.spares"], ["old"]]);
});

/** What a machine is made of: written once, beside its disk. A folder without it is half made. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Shape } from "../../../sdk/contract/host.ts";
import type { Image } from "../../images/build.ts";
import { SLOTS_BEFORE } from "./command.ts";
import type { VmPaths } from "./vm.ts";

export const MADE = "machine.json";

export interface Made {
  readonly shape: Shape;
  readonly dir: string;
  readonly paths: VmPaths;
  readonly image: Image;
  /** Where volumes can be plugged in (`command.ts`). */
  readonly slots: number;
}

export async function writeMade(dir: string, { shape, image, slots }: Omit<Made, "dir" | "paths">): Promise<void> {
  await writeFile(join(dir, MADE), JSON.stringify({ shape, image, slots }), { mode: 0o600 });
}

/** @throws when the folder is not there, or half made */
export async function readMade(dir: string, paths: VmPaths): Promise<Made> {
  // This file is the host's own; only the shape's form may change between versions.
  const json = JSON.parse(await readFile(join(dir, MADE), "utf8")) as { shape: unknown; image: Image; slots?: number };
  const { image, slots = SLOTS_BEFORE } = json;
  return { shape: Shape.parse(json.shape), image, slots, dir, paths };
}

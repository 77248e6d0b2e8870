/** Two hosts that each made an image: what slept on one that is gone wakes on the other, which fetches what it lacks. */
import { copyFile, mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { defaultHome } from "../../backend-pool/config.ts";
import { tellHostLoss } from "../../backend-pool/local/story/host-loss.ts";
import { run as execute } from "../../backend-pool/process.ts";
import type { Course, Part } from "./part.ts";

export const otherImage: Part = { launch, run };

/** The first host has the image and golden states of this machine; the second starts from the image alone. */
async function launch(stateDir: string) {
  const [homeDir, otherHomeDir] = [join(stateDir, "home"), join(stateDir, "home-2")];
  const images = join(defaultHome(), "images");
  for (const home of [homeDir, otherHomeDir]) {
    await mkdir(join(home, "images", "golden"), { recursive: true, mode: 0o700 });
    await copyFile(join(images, "accelerator.json"), join(home, "images", "accelerator.json"));
    // Nobody writes to images and golden states, so links will do.
    await link(join(images, "base"), join(home, "images", "base"));
  }
  for (const name of await readdir(join(images, "golden")))
    if (!name.includes(".")) await link(join(images, "golden", name), join(homeDir, "images", "golden", name));
  return { hosts: 2, homeDir, otherHomeDir };
}

async function link(from: string, to: string): Promise<void> {
  await execute("cp", ["-al", from, to]);
}

async function run({ system, stateDir, say, expect }: Course): Promise<Record<string, unknown>> {
  const golden = () => readdir(join(stateDir, "home", "images", "golden"));
  const before = new Set(await golden());
  const told = await tellHostLoss({ ...system, say, stateDir });
  const fetched = (await golden()).filter((name) => !before.has(name) && /\.[0-9a-f]{12}$/.test(name));
  expect(fetched.length === 1, `golden states that were fetched: ${fetched.join(", ") || "none"}`);
  return { ...told, fetched: fetched.length };
}

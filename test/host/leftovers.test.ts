/** What killed builds left behind goes; what living ones make stays. */
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { removeLeftovers } from "../../backend-pool/images/leftovers.ts";
import { run } from "../../backend-pool/process.ts";

/** No process has this number: the kernel's highest is 4194304. */
const NOBODY = 4_194_305;

async function folder(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), "rouse left overs-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

test("half-made folders of processes that are gone are removed, and no others", async () => {
  const dir = await folder();
  for (const name of [`image.part-${NOBODY}`, `image.part-${process.pid}`, "image", "image.part"]) {
    await mkdir(join(dir, name, "root"), { recursive: true });
  }
  await removeLeftovers(dir);
  expect((await readdir(dir)).toSorted()).toEqual(["image", "image.part", `image.part-${process.pid}`]);
  await removeLeftovers(join(dir, "absent"));
});

test.skipIf(process.getuid?.() !== 0)("what is mounted in them is let go of, and not removed", async () => {
  const dir = await folder();
  const precious = join(dir, "precious");
  const inside = join(dir, `image.part-${NOBODY}`, "root/dev");
  await Promise.all([mkdir(precious), mkdir(inside, { recursive: true })]);
  await writeFile(join(precious, "file"), "kept");
  await run("mount", ["--bind", precious, inside]);
  await removeLeftovers(dir);
  expect(await readdir(dir)).toEqual(["precious"]);
  expect(await readdir(precious)).toEqual(["file"]);
});

/** Builds the image and the golden state that tests of real machines need, so that they find them. */
import { join } from "node:path";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { defaultHome } from "../../backend-pool/config.ts";
import { buildImage } from "../../backend-pool/images/build.ts";
import { defaultRecipe } from "../../backend-pool/images/recipe.ts";
import { chooseAccelerator } from "../../backend-pool/machine/qemu/accelerator.ts";
import { QemuDriver, qemuVersion } from "../../backend-pool/machine/qemu/driver.ts";
import { lineProgress } from "../../backend-pool/progress.ts";
import { shapeOf } from "../../backend-pool/shape.ts";

const imagesDir = join(defaultHome(), "images");
const dir = await mkdtemp(join(tmpdir(), "rouse-prepare-"));
try {
  const image = await buildImage(defaultRecipe, imagesDir, lineProgress);
  const version = await qemuVersion();
  const accelerator = await chooseAccelerator({ ...image, qemuVersion: version, cacheDir: imagesDir });
  const driver = new QemuDriver(image, accelerator, version, {
    ...{ imagesDir, machinesDir: dir, runDir: dir, spares: 0, progress: lineProgress },
  });
  await driver.prepare(shapeOf({}));
  await driver.close();
} finally {
  await rm(dir, { recursive: true, force: true });
}

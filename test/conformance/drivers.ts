/** The drivers there are, and a way into their guests. */
import { mkdir } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { defaultHome } from "../../backend-pool/config.ts";
import { buildImage } from "../../backend-pool/images/build.ts";
import { defaultRecipe } from "../../backend-pool/images/recipe.ts";
import type { Driver } from "../../backend-pool/machine/driver.ts";
import { FakeDriver } from "../../backend-pool/machine/fake/driver.ts";
import { chooseAccelerator } from "../../backend-pool/machine/qemu/accelerator.ts";
import { QemuDriver, qemuVersion } from "../../backend-pool/machine/qemu/driver.ts";
import { lineProgress } from "../../backend-pool/progress.ts";
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";

export const drivers: Record<string, (dir: string) => Promise<Driver>> = {
  fake: async (dir) => new FakeDriver(join(dir, "machines")),
  qemu: async (dir) => {
    const imagesDir = join(defaultHome(), "images");
    const image = await buildImage(defaultRecipe, imagesDir, lineProgress);
    const version = await qemuVersion();
    const accelerator = await chooseAccelerator({ ...image, qemuVersion: version, cacheDir: imagesDir });
    const runDir = join(dir, "run");
    await mkdir(runDir, { recursive: true });
    return new QemuDriver(image, accelerator, version, {
      imagesDir,
      machinesDir: join(dir, "machines"),
      runDir,
      spares: 0,
      progress: lineProgress,
    });
  },
};

/** Output of a command that the guest agent runs. */
export async function execIn(driver: Driver, id: string, command: string): Promise<string> {
  const at = await driver.endpoint(id, AGENT_PORT);
  const body = JSON.stringify({ command });
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const req = request({ ...at, path: "/exec", method: "POST", headers, agent: false }, (res) => {
      let text = "";
      res.on("data", (chunk: Buffer) => (text += chunk.toString()));
      res.on("end", () => resolve((JSON.parse(text) as { stdout: string }).stdout.trim()));
    });
    req.on("error", reject);
    req.end(body);
  });
}

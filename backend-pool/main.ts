/** `node main.ts`: run the host agent of this machine until it is told to end. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { loadConfig, type Config } from "./config.ts";
import { Authority } from "./egress/ca.ts";
import { startHostAgent } from "./host-agent.ts";
import { offerAgents } from "./images/agents/offer.ts";
import { buildImage } from "./images/build.ts";
import { defaultRecipe } from "./images/recipe.ts";
import type { Driver } from "./machine/driver.ts";
import { FakeDriver } from "./machine/fake/driver.ts";
import { chooseAccelerator } from "./machine/qemu/accelerator.ts";
import { QemuDriver, qemuVersion } from "./machine/qemu/driver.ts";
import { noteUser, removeUnused } from "./machine/qemu/unused.ts";
import { lineProgress } from "./progress.ts";
import { shapeOf } from "./shape.ts";

const log = (entry: object) => process.stderr.write(`${JSON.stringify({ at: new Date().toISOString(), ...entry })}\n`);

const TIDY_MS = 24 * 3_600_000;

/** Image, accelerator and golden state of the default shape: everything slow, before the host says it is there. */
export async function makeDriver(config: Config): Promise<Driver> {
  if (config.driver === "fake") return new FakeDriver(join(config.stateDir, "machines"));
  const image = await buildImage(defaultRecipe, config.imagesDir, lineProgress);
  const version = await qemuVersion();
  const accelerator = await chooseAccelerator({
    ...image,
    qemuVersion: version,
    cacheDir: config.imagesDir,
    forced: config.accelerator,
  });
  log({ message: "accelerator", kind: accelerator.kind, reason: accelerator.reason });
  const runDir = join(config.stateDir, "run");
  await mkdir(runDir, { recursive: true, mode: 0o700 });
  const machinesDir = join(config.stateDir, "machines");
  await noteUser(config.imagesDir, machinesDir);
  // So that a new machine has nothing to do about it.
  const authority = await Authority.open(config.egress.authorityFile);
  const driver = new QemuDriver(image, accelerator, version, {
    imagesDir: config.imagesDir,
    machinesDir,
    runDir,
    spares: config.spares,
    progress: lineProgress,
    caPem: () => authority.pem,
  });
  await driver.prepare(shapeOf({}));
  await offerAgents(driver, image, config, log);
  const tidy = () => tidyImages(driver, config.imagesDir);
  setInterval(tidy, TIDY_MS).unref();
  tidy();
  return driver;
}

/** Remove what updates left behind. */
function tidyImages(driver: QemuDriver, imagesDir: string): void {
  driver.sleepers.golden
    .noteUsed()
    .then(() => removeUnused(imagesDir, Date.now()))
    .then(
      ({ folders, bytes }) => folders.length > 0 && log({ message: "unused images are removed", folders, bytes }),
      (fault: unknown) => log({ level: "warning", message: "unused images are kept", fault: String(fault) }),
    );
}

const config = loadConfig();
const agent = await startHostAgent(config, await makeDriver(config), log);
log({ message: "host agent is up", url: agent.url, hostId: config.hostId, accelerator: agent.driver.accelerator });
// The launcher waits for this line.
process.stdout.write(`${JSON.stringify({ url: agent.url, accelerator: agent.driver.accelerator })}\n`);

let ending = false;
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => {
    if (ending) return;
    ending = true;
    agent.shutdown().then(
      () => process.exit(0),
      (fault: unknown) => {
        log({ level: "error", fault: String(fault) });
        process.exit(1);
      },
    );
  });
}

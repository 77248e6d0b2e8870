/** A project of a user's own that has the SDK from its package: built, packed, and installed by npm. */
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const npm = join(root, "node_modules/npm/bin/npm-cli.js");

/** Answers a folder that is the caller's to remove; the project is its `app`. The network is not asked. */
export async function cleanProject(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "rouse-package-"));
  const built = join(folder, "built");
  const app = join(folder, "app");
  await mkdir(built);
  await mkdir(app);
  const tsc = join(root, "node_modules/.bin/tsc");
  await run(tsc, ["-p", join(root, "sdk"), "--noEmit", "false", "--outDir", join(built, "dist")]);
  await cp(join(root, "sdk/package.json"), join(built, "package.json"));
  await cp(join(root, "sdk/bin"), join(built, "bin"), { recursive: true });
  const files: string[] = [];
  for (const from of [built, join(root, "node_modules/zod")]) {
    const { stdout } = await run(process.execPath, [npm, "pack", "--ignore-scripts", "--pack-destination", folder], {
      cwd: from,
    });
    files.push(join(folder, stdout.trim().split("\n").at(-1) ?? ""));
  }
  await writeFile(join(app, "package.json"), '{"private":true,"type":"module"}');
  await run(process.execPath, [npm, "install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts", ...files], {
    cwd: app,
  });
  return folder;
}

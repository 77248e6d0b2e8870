/** Bundles the guest agent into one file, with the programs that it starts by Python beside it. */
import { createHash } from "node:crypto";
import { copyFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

export interface BuiltAgent {
  readonly file: string;
  /** The interpreter's bridge, and what gives terminals. */
  readonly scripts: readonly string[];
  /** Changes with anything in them. */
  readonly sha256: string;
}

const SCRIPTS = ["interpreter.py", "terminal.py", "watch.py"];

/** Write `agent.mjs` and the scripts to a folder. */
export async function buildGuestAgent(outDir: string): Promise<BuiltAgent> {
  const file = join(outDir, "agent.mjs");
  await build({
    entryPoints: [fileURLToPath(new URL("main.ts", import.meta.url))],
    outfile: file,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node24",
    logLevel: "error",
    // Some packages ask for Node's own modules by require().
    banner: { js: 'import{createRequire as nodeRequire}from"node:module";const require=nodeRequire(import.meta.url);' },
  });
  const scripts = SCRIPTS.map((name) => join(outDir, name));
  for (const [at, name] of SCRIPTS.entries())
    await copyFile(fileURLToPath(new URL(name, import.meta.url)), scripts[at] ?? "");
  const hash = createHash("sha256");
  for (const one of [file, ...scripts]) hash.update(await readFile(one));
  return { file, scripts, sha256: hash.digest("hex") };
}

/** Bundles the guest agent into one file, with the interpreter's bridge beside it. */
import { createHash } from "node:crypto";
import { copyFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

export interface BuiltAgent {
  /** The agent, and the interpreter's bridge beside it. */
  readonly file: string;
  readonly python: string;
  /** Changes with anything in them. */
  readonly sha256: string;
}

/** Write `agent.mjs` and `interpreter.py` to a folder. */
export async function buildGuestAgent(outDir: string): Promise<BuiltAgent> {
  const file = join(outDir, "agent.mjs");
  const python = join(outDir, "interpreter.py");
  await build({
    entryPoints: [fileURLToPath(new URL("main.ts", import.meta.url))],
    outfile: file,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node24",
    logLevel: "error",
  });
  await copyFile(fileURLToPath(new URL("interpreter.py", import.meta.url)), python);
  const hash = createHash("sha256");
  for (const one of [file, python]) hash.update(await readFile(one));
  return { file, python, sha256: hash.digest("hex") };
}

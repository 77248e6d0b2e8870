/** Bundles the gateway of MCP servers, and the servers that come with it, into a folder of files without dependencies. */
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const repository = fileURLToPath(new URL("../../../", import.meta.url));
export interface BuiltPrograms {
  /** Paths below the folder. */
  readonly files: readonly string[];
  /** Changes with anything in them. */
  readonly sha256: string;
}

/** Write `gateway.js`, a file of each server, and what they share. */
export async function buildMcpPrograms(outDir: string): Promise<BuiltPrograms> {
  const server = (name: string) => join(repository, `node_modules/@modelcontextprotocol/server-${name}/dist/index.js`);
  const { metafile } = await build({
    absWorkingDir: repository,
    entryPoints: {
      gateway: join(here, "main.ts"),
      filesystem: server("filesystem"),
      "sequential-thinking": server("sequential-thinking"),
    },
    outdir: outDir,
    bundle: true,
    splitting: true,
    minify: true,
    metafile: true,
    platform: "node",
    format: "esm",
    target: "node24",
    legalComments: "none",
    logLevel: "error",
    // Some packages ask for Node's own modules by require().
    banner: { js: 'import{createRequire as nodeRequire}from"node:module";const require=nodeRequire(import.meta.url);' },
  });
  // The reference servers look for their version beside themselves.
  const { version } = await factsOf("@modelcontextprotocol/server-sequential-thinking");
  await writeFile(join(outDir, "package.json"), `${JSON.stringify({ type: "module", version })}\n`);
  await writeFile(join(outDir, "LICENSES"), await licenses(Object.keys(metafile.inputs)));
  const made = Object.keys(metafile.outputs).map((path) => relative(outDir, join(repository, path)));
  const files = [...made, "package.json", "LICENSES"].toSorted();
  const hash = createHash("sha256");
  for (const file of files) hash.update(file).update(await readFile(join(outDir, file)));
  return { files, sha256: hash.digest("hex") };
}

/** Of each package that is bundled. @param inputs files, relative to the repository */
async function licenses(inputs: readonly string[]): Promise<string> {
  const packages = new Set(inputs.flatMap((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []));
  const lines = [...packages].toSorted().map(async (name) => {
    const { version, license } = await factsOf(name);
    // The reference servers have their license in their README alone.
    return `${name} ${version} ${license.startsWith("SEE LICENSE") ? "MIT" : license}`;
  });
  const head = "Bundled in this folder besides Rouse's own (Apache-2.0); texts are in the packages at www.npmjs.com:";
  return [head, ...(await Promise.all(lines)), ""].join("\n");
}

async function factsOf(name: string): Promise<{ version: string; license: string }> {
  const text = await readFile(join(repository, "node_modules", name, "package.json"), "utf8");
  return JSON.parse(text) as { version: string; license: string };
}

/**
 * Builds the dashboard into one module that the Worker imports, `dist/files.js`: whoever bundles the Worker runs this
 * first. `node worker/dashboard/build.ts [--sizes]`
 */
import { createHash } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import { build, type Plugin } from "esbuild";

const folder = import.meta.dirname;
const OUT = join(folder, "dist");

const types: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
};

/** The SDK's checks speak English alone: the texts of forty languages would be half of what is loaded. */
const englishOnly: Plugin = {
  name: "english-only",
  setup({ onLoad }) {
    onLoad({ filter: /zod\/v4\/locales\/index\.js$/ }, () => ({
      contents: 'export { default as en } from "./en.js";',
    }));
  },
};

interface Packed {
  readonly type: string;
  readonly etag: string;
  readonly gzip: string;
  /** Unpacked, and packed. */
  readonly bytes: readonly [number, number];
}

function packed(name: string, bytes: Uint8Array): Packed {
  const zip = gzipSync(bytes, { level: 9 });
  const hash = createHash("sha256").update(bytes).digest("base64url").slice(0, 22);
  const type = types[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream";
  return { type, etag: `"${hash}"`, gzip: zip.toString("base64"), bytes: [bytes.length, zip.length] };
}

async function built(): Promise<Map<string, Packed>> {
  const { outputFiles, metafile } = await build({
    absWorkingDir: join(folder, "../.."),
    entryPoints: ["app.tsx", "app.css", "theme.ts", "icon.svg"].map((name) => join(folder, name)),
    outdir: OUT,
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    assetNames: "[name]-[hash]",
    loader: { ".svg": "copy" },
    bundle: true,
    splitting: true,
    format: "esm",
    minify: true,
    target: ["chrome120", "firefox121", "safari17"],
    platform: "browser",
    conditions: ["rouse-source"],
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    plugins: [englishOnly],
    // What the SDK adds to old runtimes is not needed here.
    logOverride: { "ignored-bare-import": "silent" },
    logLevel: "warning",
    metafile: true,
    write: false,
  });
  const files = new Map(outputFiles.map(({ path, contents }) => [`assets/${basename(path)}`, packed(path, contents)]));
  let html = await readFile(join(folder, "index.html"), "utf8");
  for (const [path, { entryPoint }] of Object.entries(metafile.outputs))
    if (entryPoint !== undefined)
      html = html.replaceAll(`"${basename(entryPoint)}"`, `"/dashboard/assets/${basename(path)}"`);
  return files.set("index.html", packed("index.html", Buffer.from(html)));
}

const files = await built();
const shown = Object.fromEntries([...files].map(([name, { type, etag, gzip }]) => [name, { type, etag, gzip }]));
const text = `// Made by worker/dashboard/build.ts.\nexport const files = ${JSON.stringify(shown, null, 1)};\n`;
await mkdir(OUT, { recursive: true });
const file = join(OUT, "files.js");
if ((await readFile(file, "utf8").catch(() => "")) !== text) {
  // Two that build at once each put a whole file there.
  const temporary = `${file}.${process.pid}`;
  await writeFile(temporary, text);
  await rename(temporary, file);
}
if (process.argv.includes("--sizes"))
  for (const [name, { bytes }] of files) console.log(`${name}: ${bytes[0]} bytes, ${bytes[1]} with gzip`);

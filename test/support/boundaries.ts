/**
 * House rules that the linter can't express: which folder may import which, no shell strings, no
 * very long files, no test that nothing runs.
 * Run as a script it checks the whole tree, prints `path:line: fault` and exits 1 on faults.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { testProjects } from "./projects.ts";

export interface SourceFile {
  /** Relative to the project, with `/`. */
  readonly path: string;
  readonly text: string;
}

export interface Fault {
  readonly path: string;
  readonly line: number;
  readonly message: string;
}

interface Zone {
  /** Folder or file the zone covers; the longest match wins. */
  readonly root: string;
  /** What it may import besides itself: folders or files of the project. */
  readonly imports: readonly string[];
  /** Packages it may import; without the list, any. */
  readonly packages?: readonly string[];
  /** Whether Node's own modules may be imported when the file loads. */
  readonly node: boolean;
  /** Type imports vanish at run time, so a zone may be freer with them. */
  readonly anyTypes?: true;
}

const zones: readonly Zone[] = [
  { root: "sdk/contract", imports: [], packages: ["zod"], node: false },
  { root: "sdk/src", imports: ["sdk/contract"], packages: ["zod"], node: false },
  { root: "sdk/cli", imports: ["sdk/src", "sdk/contract"], packages: ["zod"], node: true },
  { root: "worker", imports: ["durable", "sdk/contract"], node: true },
  // Runs in browsers; its bundler on whoever bundles the Worker.
  {
    root: "worker/dashboard",
    imports: ["sdk/src", "sdk/contract"],
    packages: ["preact", "zod", "@xterm/xterm", "@xterm/addon-fit"],
    node: false,
  },
  { root: "worker/dashboard/build.ts", imports: [], packages: ["esbuild"], node: true },
  { root: "durable", imports: ["sdk/contract"], node: true },
  { root: "backend-pool", imports: ["sdk/contract"], node: true },
  { root: "backend-pool/local", imports: ["backend-pool", "sdk/src", "sdk/contract"], node: true },
  {
    // Bundled into the guest: every byte it imports is loaded at each boot.
    root: "backend-pool/guest",
    imports: ["sdk/contract/guest-limits.ts", "sdk/contract/error-codes.ts", "sdk/contract/guest-tunnel.ts"],
    packages: ["ws"],
    node: true,
    anyTypes: true,
  },
  // The bundler of the guest agent runs on the host.
  { root: "backend-pool/guest/build.ts", imports: ["backend-pool", "sdk/contract"], node: true },
];

/** The workspace's own package, as a folder. */
const ownPackages: Readonly<Record<string, string>> = {
  rouse: "sdk/src/index.ts",
  "rouse/contract": "sdk/contract/index.ts",
};

const ITTY = "itty-durable";
const ittyImporter = /^durable\/hosts\/board[^/]*\.ts$/;

const MAX_LINES = 500;
const longFileReason = /^(?:#!.*\n)?(?:\/\/|#) long file: \S/;

/** Folders where a program is only ever started with an argument list. */
const noShell = ["backend-pool/", "worker/", "durable/"];

/** All faults of the given files, in their order. */
export function faultsOf(files: readonly SourceFile[]): Fault[] {
  const paths = new Set(files.map(({ path }) => path));
  return files.flatMap((file) => [
    ...importFaults(file),
    ...shellFaults(file),
    ...lengthFaults(file),
    ...strayTestFaults(file, paths),
  ]);
}

interface Import {
  readonly specifier: string;
  readonly line: number;
  readonly typeOnly: boolean;
  /** Runs when it is reached, not when the file loads. */
  readonly dynamic: boolean;
  readonly clause: string;
}

const staticImport = /^[ \t]*(?:import|export)\b([\s{*][^"'`;=]*?\bfrom\s*|\s*)["']([^"'\n]+)["']/gm;
const dynamicImport = /(\btypeof\s+)?\b(?:import|require)\(\s*["']([^"'\n]+)["']/g;

function importsOf(text: string): Import[] {
  const code = withoutComments(text);
  const found: Import[] = [];
  for (const match of code.matchAll(staticImport)) {
    const clause = match[1] ?? "";
    const typeOnly = /^\s+type\s+[\w{*]/.test(clause) && !/^\s+type\s+from\b/.test(clause);
    found.push({ specifier: match[2] ?? "", line: lineAt(code, match.index), typeOnly, dynamic: false, clause });
  }
  for (const match of code.matchAll(dynamicImport)) {
    found.push({
      specifier: match[2] ?? "",
      line: lineAt(code, match.index),
      typeOnly: match[1] !== undefined,
      dynamic: true,
      clause: "",
    });
  }
  return found.toSorted((a, b) => a.line - b.line);
}

function importFaults(file: SourceFile): Fault[] {
  if (!/\.tsx?$/.test(file.path)) return [];
  const zone = zones
    .filter(({ root }) => within(file.path, root))
    .toSorted((a, b) => b.root.length - a.root.length)
    .at(0);
  const faults: Fault[] = [];
  for (const found of importsOf(file.text)) {
    const message = importFault(file.path, zone, found);
    if (message) faults.push({ path: file.path, line: found.line, message });
  }
  return faults;
}

function importFault(path: string, zone: Zone | undefined, found: Import): string | null {
  const { specifier } = found;
  if (specifier === ITTY || specifier.startsWith(`${ITTY}/`)) {
    if (!ittyImporter.test(path) && !path.startsWith("test/")) return `only durable/hosts/board*.ts may import ${ITTY}`;
  }
  if (!zone || (zone.anyTypes && found.typeOnly)) return null;
  if (specifier.startsWith("node:")) {
    return zone.node || found.typeOnly || found.dynamic
      ? null
      : `${zone.root} may not import ${specifier} when it loads`;
  }
  const target = specifier.startsWith(".") ? posix.join(posix.dirname(path), specifier) : ownPackages[specifier];
  if (target === undefined) {
    const name = specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
    const allowed = !zone.packages || zone.packages.includes(name) || specifier.startsWith("cloudflare:");
    return allowed ? null : `${zone.root} may not import the package ${name}`;
  }
  const allowed = [zone.root, ...zone.imports].some((root) => within(target, root)) || target.endsWith("package.json");
  return allowed ? null : `${zone.root} may not import ${target}`;
}

function shellFaults(file: SourceFile): Fault[] {
  if (!file.path.endsWith(".ts") || !noShell.some((folder) => file.path.startsWith(folder))) return [];
  const faults: Fault[] = [];
  const add = (line: number, what: string) =>
    faults.push({ path: file.path, line, message: `${what}: start programs with an argument list and no shell` });
  const code = withoutComments(file.text);
  for (const found of importsOf(file.text)) {
    if (!/^(?:node:)?child_process$/.test(found.specifier)) continue;
    if (/\bexec(?:Sync)?\b/.test(found.clause)) add(found.line, "exec of child_process");
    const namespace = /\*\s*as\s+(\w+)/.exec(found.clause)?.[1] ?? /^\s+(\w+)/.exec(found.clause)?.[1];
    if (!namespace) continue;
    for (const call of code.matchAll(new RegExp(`\\b${namespace}\\.exec(?:Sync)?\\(`, "g"))) {
      add(lineAt(code, call.index), "exec of child_process");
    }
  }
  for (const match of code.matchAll(/\bshell:\s*(?:true\b|["'`])/g)) add(lineAt(code, match.index), "shell option");
  return faults;
}

function lengthFaults(file: SourceFile): Fault[] {
  const lines = file.text.split("\n").length - (file.text.endsWith("\n") ? 1 : 0);
  if (lines <= MAX_LINES || longFileReason.test(file.text)) return [];
  const mark = /\.tsx?$/.test(file.path) ? "//" : "#";
  const message = `${lines} lines, over ${MAX_LINES}: split it, or begin with "${mark} long file: <reason>"`;
  return [{ path: file.path, line: 1, message }];
}

/** A test that no project runs would look green for ever. */
function strayTestFaults({ path }: SourceFile, paths: ReadonlySet<string>): Fault[] {
  if (!path.endsWith(".test.ts")) return [];
  const project = testProjects.find(({ name }) => within(path, `test/${name}`));
  if (project && paths.has(`test/${project.name}/vitest.config.ts`)) return [];
  return [{ path, line: 1, message: "no test project runs this file: see test/support/projects.ts" }];
}

function within(path: string, root: string): boolean {
  return path === root || path.startsWith(`${root}/`);
}

function lineAt(text: string, index: number): number {
  const lead = text.slice(index).search(/\S/);
  return text.slice(0, index + Math.max(lead, 0)).split("\n").length;
}

/** Comments that stand on lines of their own, blanked so that line numbers stay. */
function withoutComments(text: string): string {
  const blank = (comment: string) => comment.replace(/[^\n]/g, " ");
  return text.replace(/^[ \t]*\/\*[\s\S]*?\*\//gm, blank).replace(/^[ \t]*\/\/.*$/gm, blank);
}

const skippedFolders = new Set(["node_modules", "dist", "coverage"]);

/** Every .ts, .tsx, .py and .sh file below a folder, without generated and hidden folders. */
export function sourceFiles(root: string): SourceFile[] {
  const files: SourceFile[] = [];
  const walk = (folder: string) => {
    for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
      const path = posix.join(folder, entry.name);
      if (entry.isDirectory() && !entry.name.startsWith(".") && !skippedFolders.has(entry.name)) walk(path);
      if (entry.isFile() && /\.(?:tsx?|py|sh)$/.test(entry.name)) {
        files.push({ path, text: readFileSync(join(root, path), "utf8") });
      }
    }
  };
  walk("");
  return files.toSorted((a, b) => (a.path < b.path ? -1 : 1));
}

if (import.meta.main) {
  const faults = faultsOf(sourceFiles(join(import.meta.dirname, "../..")));
  for (const { path, line, message } of faults) console.log(`${path}:${line}: ${message}`);
  process.exitCode = faults.length > 0 ? 1 : 0;
}

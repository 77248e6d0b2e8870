/** `npm run check`: everything that can be judged without running the product. Exit code 1 when something FAILED. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";

const root = join(import.meta.dirname, "../..");
const bin = (name: string) => join(root, "node_modules/.bin", name);

interface Check {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** The committed file that must equal what the command prints. */
  readonly file?: string;
  /** What makes it right again. */
  readonly remedy?: string;
}

/** Committed files that a script prints; add a line for each. */
const generated: readonly { name: string; script: string; file: string }[] = [
  { name: "descriptions", script: "test/support/print-descriptions.ts", file: "worker/api/descriptions.ts" },
  { name: "command line", script: "test/support/print-cli.ts", file: "docs/cli.md" },
  { name: "openapi", script: "worker/api/print-openapi.ts", file: "sdk/openapi.json" },
];

const checks: readonly Check[] = [
  { name: "format", command: bin("oxfmt"), args: ["--check"], remedy: "npm run fix" },
  { name: "lint", command: bin("oxlint"), args: [] },
  { name: "boundaries", command: process.execPath, args: ["test/support/boundaries.ts"] },
  {
    name: "python",
    command: process.execPath,
    args: ["--disable-warning=ExperimentalWarning", "test/support/print-python.ts", "--check"],
    remedy: "node test/support/print-python.ts",
  },
  ...typeProjects().map((path) => ({ name: `types of ${path}`, command: bin("tsc"), args: ["-p", path, "--noEmit"] })),
  ...generated.map(({ name, script, file }) => ({
    name,
    command: process.execPath,
    args: ["--disable-warning=ExperimentalWarning", script],
    file,
    remedy: `node ${script} > ${file}`,
  })),
];

/** The projects of the solution file at the root. */
function typeProjects(): string[] {
  const solution: unknown = JSON.parse(readFileSync(join(root, "tsconfig.json"), "utf8"));
  const { references } = solution as { references: { path: string }[] };
  return references.map(({ path }) => path);
}

interface Output {
  readonly ok: boolean;
  readonly stdout: string;
  readonly text: string;
}

function run({ command, args }: Check): Promise<Output> {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: root,
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, NO_COLOR: "1" },
    });
    let stdout = "";
    let text = "";
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      stdout += chunk;
      text += chunk;
    });
    child.stderr.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
    child.on("error", (error) => resolve({ ok: false, stdout, text: error.message }));
    child.on("close", (code) => resolve({ ok: code === 0, stdout, text }));
  });
}

function isFresh(file: string, content: string): boolean {
  try {
    return readFileSync(join(root, file), "utf8") === content;
  } catch {
    return false;
  }
}

async function judge(check: Check): Promise<boolean> {
  const startedAt = performance.now();
  const { ok: ran, stdout, text } = await run(check);
  const fresh = !ran || check.file === undefined || isFresh(check.file, stdout);
  const ok = ran && fresh;
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  console.log(`${ok ? "ok    " : "FAILED"} ${check.name} (${seconds} s)`);
  if (!ran) console.log(stripVTControlCharacters(text).trimEnd().replace(/^/gm, "    "));
  if (!fresh) console.log(`    ${check.file} is not what ${check.args.at(-1)} prints`);
  if (!ok && check.remedy) console.log(`    mend it with: ${check.remedy}`);
  return ok;
}

const verdicts = await Promise.all(checks.map(judge));
const failed = checks.filter((_check, index) => !verdicts[index]);
console.log(
  failed.length === 0
    ? "check: all ok"
    : `check: ${failed.length} FAILED: ${failed.map(({ name }) => name).join(", ")}`,
);
process.exitCode = failed.length === 0 ? 0 : 1;

/** Every example of the documentation is what it says: it compiles, parses, and names what there is. */
import { execFile, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { faultOfCall } from "./api-calls.ts";
import { faultOfLine, faultOfMention } from "./command-lines.ts";
import { allPages, root, type Block } from "../support/markdown.ts";
import { bareCommand, scriptOf } from "./shell.ts";

const run = promisify(execFile);
const pages = allPages();
const blocks = pages.flatMap((page) => page.blocks);

/** Blocks in some languages that are to be checked. */
const written = (...languages: string[]): Block[] =>
  blocks.filter(({ language, notes }) => languages.includes(language) && !notes.includes("no-check"));

/** What a checker that writes to stdout, stderr or both and exits with a code has to say. */
async function saidBy(command: string, args: readonly string[], cwd: string): Promise<string> {
  try {
    await run(command, args, { cwd, maxBuffer: 16 * 2 ** 20 });
    return "";
  } catch (fault) {
    const { stdout = "", stderr = "", message } = fault as Error & { stdout?: string; stderr?: string };
    return `${stdout}${stderr}`.trim() || message;
  }
}

/** A file for each block, named after where it is, so that a checker's complaint says which one it is. */
async function files(some: readonly Block[], suffix: string): Promise<{ folder: string; names: string[] }> {
  const folder = await mkdtemp(join(tmpdir(), "rouse-docs-"));
  const names = some.map(({ at }) => `${at.replaceAll(/[/:]/g, "-")}${suffix}`);
  await Promise.all(some.map(({ text }, index) => writeFile(join(folder, names[index] ?? ""), text)));
  return { folder, names };
}

test("there are examples in every language, and of no other", () => {
  const languages = new Set(blocks.map(({ language }) => language));
  expect([...languages].toSorted()).toEqual(["", "json", "mermaid", "python", "sh", "ts"]);
  for (const language of ["json", "python", "sh", "ts"]) expect(written(language).length).toBeGreaterThan(0);
});

test("few blocks are not checked, and each says why", () => {
  const unchecked = blocks.filter(({ notes }) => notes.length > 0);
  const silent = unchecked.filter(({ notes, before }) => notes.join() !== "no-check" || !/^<!-- .+ -->$/.test(before));
  expect(silent.map(({ at }) => at)).toEqual([]);
  expect(unchecked.length).toBeLessThanOrEqual(3);
});

test("TypeScript examples are right as they stand", async () => {
  const { folder, names } = await files(written("ts"), ".ts");
  try {
    await symlink(join(root, "node_modules"), join(folder, "node_modules"));
    // A block is a module, also where it imports nothing.
    await Promise.all(
      written("ts").map(({ text }, index) =>
        writeFile(join(folder, names[index] ?? ""), `${text.trimEnd()}\nexport {};\n`),
      ),
    );
    const config = {
      extends: join(root, "tsconfig.base.json"),
      compilerOptions: {
        lib: ["ES2024", "ESNext.Disposable", "DOM", "DOM.AsyncIterable"],
        types: ["node"],
        typeRoots: [join(root, "node_modules/@types")],
        noUnusedLocals: false,
        exactOptionalPropertyTypes: false,
      },
      files: [...names, join(root, "test/docs/prelude.ts")],
    };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
    await writeFile(join(folder, "package.json"), '{"type":"module"}');
    expect(await saidBy(join(root, "node_modules/.bin/tsc"), ["-p", "."], folder)).toBe("");
  } finally {
    await rm(folder, { recursive: true });
  }
}, 600_000);

test("Python examples compile", async (context) => {
  if (spawnSync("python3", ["--version"]).status !== 0) return context.skip("no python3 here");
  const { folder, names } = await files(written("python"), ".py");
  try {
    const program = "import sys\nfor name in sys.argv[1:]: compile(open(name).read(), name, 'exec')";
    expect(await saidBy("python3", ["-c", program, ...names], folder)).toBe("");
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("JSON examples parse", () => {
  const faults = written("json").map(({ at, text }) => ({ at, fault: faultOfJson(text) }));
  expect(said(faults)).toEqual([]);
});

function faultOfJson(text: string): string | null {
  try {
    JSON.parse(text);
    return null;
  } catch (fault) {
    return String(fault);
  }
}

test("shell examples parse, and have no placeholder that a shell takes for a redirection", async () => {
  const { folder, names } = await files(written("sh"), ".sh");
  try {
    const faults = await saidBy(
      "bash",
      ["-c", 'for f; do bash -n "$f" || fault=1; done; exit ${fault:-0}', "sh", ...names],
      folder,
    );
    expect(faults).toBe("");
  } finally {
    await rm(folder, { recursive: true });
  }
  const placeholders = written("sh").flatMap(({ at, text }) =>
    scriptOf(text).placeholders.map((placeholder) => `${at}: ${placeholder}`),
  );
  expect(placeholders).toEqual([]);
});

test("commands of the command line exist, with their options and words", () => {
  const lines = written("sh").flatMap(({ at, text }) => {
    const { commands, comments } = scriptOf(text);
    const own = commands.map(bareCommand).filter(([name]) => name === "rouse");
    return [
      ...own.map((words) => ({ at, fault: faultOfLine(words) })),
      ...comments.flatMap(mentionsIn).map((text) => ({ at, fault: faultOfMention(text) })),
    ];
  });
  const spans = pages.flatMap((page) =>
    page.spans
      .filter(({ text }) => /^(npx )?rouse /.test(text))
      .map(({ at, text }) => ({ at, fault: faultOfMention(text.replace(/^npx /, "")) })),
  );
  expect(lines.length).toBeGreaterThan(50);
  expect(spans.length).toBeGreaterThan(20);
  expect(said([...lines, ...spans])).toEqual([]);
});

/** `rouse verb ...` within a comment. */
function mentionsIn(comment: string): string[] {
  return [...comment.matchAll(/\brouse [a-z][^;,()]*/g)].map(([text]) => text.trim());
}

test("calls of the HTTP API exist, and their bodies are JSON", () => {
  const calls = written("sh").flatMap(({ at, text }) =>
    scriptOf(text)
      .commands.map(bareCommand)
      .filter(([name]) => name === "call" || name === "curl")
      .map((words) => ({ at, fault: faultOfCall(words) })),
  );
  expect(calls.length).toBeGreaterThan(50);
  expect(said(calls)).toEqual([]);
});

test("links lead to pages and headings that there are", () => {
  const byPath = new Map(pages.map((page) => [page.path, page]));
  const links = pages.flatMap((page) =>
    page.links.map(({ at, text }) => {
      if (/^[a-z]+:/.test(text)) return { at, fault: null };
      const [path = "", anchor] = text.split("#");
      const target = path === "" ? page.path : join(dirname(page.path), path);
      if (!existsSync(join(root, target))) return { at, fault: `${text}: there is no such file` };
      const isThere = anchor === undefined || byPath.get(target)?.anchors.has(anchor) === true;
      return { at, fault: isThere ? null : `${text}: there is no such heading` };
    }),
  );
  expect(links.length).toBeGreaterThan(100);
  expect(said(links)).toEqual([]);
});

test("the index of the documentation has each page", () => {
  const index = pages.find(({ path }) => path === "docs/README.md");
  const listed = new Set(index?.links.map(({ text }) => join("docs", text.split("#")[0] ?? "")));
  const own = pages.map(({ path }) => path).filter((path) => /^docs\/(guides\/)?[^/]+\.md$/.test(path));
  expect(own.length).toBeGreaterThan(30);
  expect(own.filter((path) => !listed.has(path) && path !== index?.path)).toEqual([]);
});

test("files of the project that are named are there", () => {
  const named = pages.flatMap((page) =>
    page.spans
      .filter(({ text }) => /^(sdk|worker|durable|backend-pool|test|docs)\/[\w./-]+$/.test(text))
      .map(({ at, text }) => ({ at, fault: existsSync(join(root, text)) ? null : `${text} is not there` })),
  );
  expect(named.length).toBeGreaterThan(50);
  expect(said(named)).toEqual([]);
});

const said = (faults: readonly { at: string; fault: string | null }[]): string[] =>
  faults.filter(({ fault }) => fault !== null).map(({ at, fault }) => `${at}: ${fault}`);

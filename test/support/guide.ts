/** Does a guide as its reader does: each program and command in order; what it says is printed must be printed. */
import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Block } from "./markdown.ts";

/** The project's Node.js, by which programs run from their sources. */
export const NODE = [process.execPath, "--disable-warning=ExperimentalWarning", "--conditions=rouse-source"];
/** Before a block that nothing runs; the reason follows. */
export const SKIP = "<!-- not run: ";

export interface Reader {
  /** Where it runs programs, and where it keeps them. */
  readonly folder: string;
  readonly scripts: string;
  readonly env: NodeJS.ProcessEnv;
  /** What is otherwise on this machine, such as a port. */
  change(text: string): string;
  /** Whether a block can be run here. */
  can?(block: Block): boolean;
}

/** Which outputs were others, and how many were compared. @throws Error of a block that fails, with all it printed */
export async function doGuide(
  blocks: readonly Block[],
  reader: Reader,
): Promise<{ faults: string[]; compared: number }> {
  const faults: string[] = [];
  let compared = 0;
  for (const [index, block] of blocks.entries()) {
    if (block.language === "" || block.before.startsWith(SKIP) || reader.can?.(block) === false) continue;
    const printed = linesOf(await ran(block, reader));
    const next = blocks[index + 1];
    if (next?.language !== "") continue;
    const expected = linesOf(next.text).map(patternOf);
    const isSaid = printed.length === expected.length && expected.every((one, at) => one.test(printed[at] ?? ""));
    if (!isSaid) faults.push(`${next.at}: ${printed.join("\n")}`);
    compared += 1;
  }
  return { faults, compared };
}

async function ran({ at, language, text }: Block, { folder, scripts, env, change }: Reader): Promise<string> {
  const suffix = { ts: "ts", python: "py", sh: "sh" }[language];
  if (suffix === undefined) throw new Error(`${at}: nothing runs ${language}`);
  const file = join(scripts, `${basename(at).replaceAll(/\W/g, "-")}.${suffix}`);
  await writeFile(file, change(text));
  const [command = "", ...args] = { ts: NODE, py: ["python3"], sh: ["bash", "-e"] }[suffix] ?? [];
  const child = spawn(command, [...args, file], { cwd: folder, stdio: ["ignore", "pipe", "pipe"], env });
  const said = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk: Buffer) => (said.stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (said.stderr += chunk.toString()));
  const code = await new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", resolve);
  });
  if (code !== 0) throw new Error(`${at}: exit code ${String(code)}\n${said.stdout}${said.stderr}`);
  return said.stdout;
}

/** Lines that are not empty; `...` stands for anything. */
const linesOf = (text: string): string[] => text.split("\n").filter((line) => line.trim() !== "");

export const patternOf = (line: string): RegExp =>
  new RegExp(
    `^${line
      .split("...")
      .map((part) => part.replaceAll(/[.*+?^$()|[\]{}\\]/g, "\\$&"))
      .join(".*")}$`,
  );

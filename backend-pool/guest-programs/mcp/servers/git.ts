/** One repository, by the machine's git. */
import { execFile } from "node:child_process";
import { z } from "zod";
import { tool, type Tool } from "./tool.ts";

const TIME_MS = 60_000;
/** Of an answer, characters; git itself is stopped at eight times that. */
const ANSWER_MAX = 100_000;

/** What git would take for an option is no name of anything here. */
const noOption = (text: string) => !text.startsWith("-") && !text.includes("\0");
const Revision = z
  .string()
  .min(1)
  .max(256)
  .refine((text) => noOption(text) && !/\s/.test(text), "a revision, such as HEAD~1; it does not begin with -");
const Branch = z
  .string()
  .max(200)
  .regex(/^[A-Za-z0-9_][A-Za-z0-9_./-]*$/, "a branch name, of letters, digits and _ . / -");
const Path = z
  .string()
  .min(1)
  .max(4096)
  .refine((text) => !text.includes("\0"), "no NUL")
  .describe("A path within the repository");
const Paths = z.array(Path).max(1000);

export function gitTools({ repository = "/workspace" }: Readonly<Record<string, string>>): readonly Tool[] {
  /** Paths are names, not patterns; nothing of it asks a person. */
  const git = (signal: AbortSignal, ...args: string[]) =>
    run(repository, ["--no-pager", "--literal-pathspecs", "-c", "color.ui=false", ...args], signal);
  return [
    tool({
      name: "git_status",
      description: "Branch, staged and unstaged changes, untracked files.",
      input: z.strictObject({}),
      readOnly: true,
      act: (_, signal) => git(signal, "status", "--short", "--branch"),
    }),
    tool({
      name: "git_diff",
      description: "Changes: unstaged ones, staged ones, or those since a revision.",
      input: z.strictObject({
        staged: z.boolean().optional(),
        revision: Revision.optional().describe("Compare with this revision"),
        paths: Paths.optional(),
      }),
      readOnly: true,
      act: ({ staged, revision, paths = [] }, signal) => {
        const cached = staged ? ["--cached"] : [];
        const since = revision === undefined ? [] : [revision];
        return git(signal, "diff", "--no-ext-diff", "--no-textconv", ...cached, ...since, "--", ...paths);
      },
    }),
    tool({
      name: "git_log",
      description: "The newest commits first.",
      input: z.strictObject({
        limit: z.int().min(1).max(200).optional().describe("20 unless given"),
        revision: Revision.optional(),
        paths: Paths.optional(),
      }),
      readOnly: true,
      act: ({ limit = 20, revision = "HEAD", paths = [] }, signal) =>
        git(signal, "log", `--max-count=${limit}`, "--date=iso-strict", revision, "--", ...paths),
    }),
    tool({
      name: "git_show",
      description: "A commit with its changes.",
      input: z.strictObject({ revision: Revision }),
      readOnly: true,
      act: ({ revision }, signal) => git(signal, "show", "--no-ext-diff", "--no-textconv", revision, "--"),
    }),
    tool({
      name: "git_add",
      description: "Stage files.",
      input: z.strictObject({ paths: Paths.min(1) }),
      readOnly: false,
      act: async ({ paths }, signal) => (await git(signal, "add", "--", ...paths)) || "Staged.",
    }),
    tool({
      name: "git_commit",
      description: "Commit what is staged.",
      input: z.strictObject({ message: z.string().min(1).max(16_384) }),
      readOnly: false,
      act: ({ message }, signal) => git(signal, "commit", `--message=${message}`),
    }),
    tool({
      name: "git_branch",
      description: "List branches, or make a new one.",
      input: z.strictObject({ name: Branch.optional(), from: Revision.optional() }),
      readOnly: false,
      act: async ({ name, from = "HEAD" }, signal) => {
        if (name === undefined) return git(signal, "branch", "--all", "--verbose");
        return (await git(signal, "branch", "--", name, from)) || `Made ${name}.`;
      },
    }),
    tool({
      name: "git_checkout",
      description: "Go to a branch.",
      input: z.strictObject({ branch: Branch, create: z.boolean().optional().describe("Make it first") }),
      readOnly: false,
      act: async ({ branch, create }, signal) =>
        (await git(signal, "switch", ...(create ? ["--create"] : []), branch)) || `On ${branch}.`,
    }),
  ];
}

function run(cwd: string, args: readonly string[], signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, GIT_TERMINAL_PROMPT: "0", GIT_OPTIONAL_LOCKS: "0", LC_ALL: "C.UTF-8" };
    const limits = { cwd, env, signal, timeout: TIME_MS, maxBuffer: 8 * ANSWER_MAX };
    execFile("git", args, limits, (fault, stdout, stderr) => {
      const text = `${stdout}${stderr}`.trimEnd();
      const short = text.length > ANSWER_MAX ? `${text.slice(0, ANSWER_MAX)}\n... cut` : text;
      if (!fault || fault.code === "ERR_CHILD_PROCESS_STDIO_MAXBUFFER") resolve(short);
      else reject(new Error(short === "" ? fault.message : short));
    });
  });
}

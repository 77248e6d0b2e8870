import type { HookResult, Resume } from "../../src/index.ts";
import type { Command } from "../command.ts";
import { ago } from "../output.ts";
import { serviceTable } from "./services.ts";

export const resume: Command = {
  name: "resume",
  summary: "Say how a sandbox's newest run began, and whether there is something to go on with",
  usage: "<name>",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = ""] = args.positionals;
    const answer = await (await sandbox(which)).resume();
    out.result(linesOf(which, answer, Date.now()).join("\n"), answer);
    return 0;
  },
};

const began = {
  created: "began anew",
  restored: "woke with its RAM",
  booted: "booted from its disk; what was in RAM is gone",
} as const;

function linesOf(which: string, answer: Resume, now: number): string[] {
  const { bootKind, bootedAt, checkpoint, queue, services } = answer;
  const when = bootedAt === null ? "" : `, ${ago(bootedAt, now)} ago`;
  const lines = [bootKind === null ? `${which} has not run yet` : `${which} ${began[bootKind]}${when}`];
  for (const name of ["onBoot", "onWake"] as const)
    if (answer[name]) lines.push(`  ${name}: ${hookText(answer[name])}`);
  if (checkpoint) {
    const step = checkpoint.step === null ? "" : `, step ${checkpoint.step}`;
    lines.push(
      `  checkpoint: ${checkpoint.name} version ${checkpoint.version}${step}, ${ago(checkpoint.savedAt, now)} ago`,
    );
  }
  if (queue) lines.push(`  tasks: ${queue.waiting} wait, ${queue.leased} are worked on, ${queue.dead} were given up`);
  lines.push(answer.unfinished ? "  there is something to go on with" : "  nothing is unfinished");
  return services.length === 0 ? lines : [...lines, "", serviceTable(services, now)];
}

function hookText({ endedAt, exitCode, timedOut, stderr }: HookResult): string {
  if (endedAt === null) return "runs";
  if (exitCode === 0) return "ended well";
  const how = timedOut ? "took too long" : `ended with ${exitCode ?? "a signal"}`;
  const last = stderr.trimEnd().split("\n").at(-1) ?? "";
  return last === "" ? how : `${how}: ${last}`;
}

import type { DiffEntry } from "../../src/index.ts";
import type { Command } from "../command.ts";
import { sizeOf, table } from "../output.ts";

export const diff: Command = {
  name: "diff",
  summary: "List the files that differ between two states of a sandbox",
  usage: "<name> [from [to]]",
  details:
    "TO is the newest state that is stored unless given, and FROM the one before it. The sandbox runs or sleeps on. " +
    "Volumes and /tmp are not compared. rouse history NAME lists the states.",
  words: [1, 3],
  options: { path: { type: "string", value: "FOLDER", help: "Only what is in that folder" } },
  async run({ args, out, sandbox }) {
    const [which = "", from, to] = args.positionals;
    const target = await sandbox(which);
    out.progress(`Comparing states of ${which}...`);
    const found = await target.diff({ from, to, path: args.text("path") });
    const rows = found.data.map((one) => [one.change, sizes(one), printable(one.path)]);
    const none = `${which}: no file differs between ${found.from} and ${found.to}`;
    out.result(rows.length === 0 ? none : table(["CHANGE", "SIZE", "PATH"], rows), found);
    if (found.truncated) out.note(`There are more than these ${found.data.length}.`);
    return 0;
  },
};

function sizes({ change, kind, sizeBefore, sizeAfter }: DiffEntry): string {
  const [before, after] = [sizeBefore, sizeAfter].map((bytes) => (bytes === null ? null : sizeOf(bytes)));
  if (change !== "modified" || (before === null && after === null)) return before ?? after ?? kind;
  return `${before ?? "-"} -> ${after ?? "-"}`;
}

/** A name must not steer the terminal. */
function printable(path: string): string {
  return path.replace(/\p{Cc}/gu, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

import { snapshotLimits } from "../../contract/snapshot.ts";
import type { Command } from "../command.ts";

export const fork: Command = {
  name: "fork",
  summary: "Copy a sandbox with its RAM and processes, and print the ids",
  usage: "<name> [--count N] [--name N] [--label K=V] [--keep-snapshot]",
  details: "The source goes on. Each copy has an identity of its own, and runs when its id is printed.",
  words: [1, 1],
  options: {
    count: { type: "string", value: "N", help: `Copies, at most ${snapshotLimits.forksMax} (1)` },
    name: { type: "string", value: "N", help: "Name of the copy; of several: N-1, N-2, ..." },
    label: { type: "string", value: "K=V", multiple: true, help: "Label (those of the source)" },
    "keep-snapshot": { type: "boolean", help: "Keep the snapshot that they start from" },
  },
  async run({ args, out, sandbox }) {
    const [which = ""] = args.positionals;
    const count = args.whole("count", 1, snapshotLimits.forksMax) ?? 1;
    const source = await sandbox(which);
    out.progress(`Copying ${which}${count === 1 ? "" : ` ${count} times`}...`);
    const forks = await source.fork({
      count,
      name: args.text("name"),
      labels: args.pairs("label"),
      keepSnapshot: args.flag("keep-snapshot") ? true : undefined,
    });
    out.result(forks.map(({ id }) => id).join("\n"), { data: forks.map(({ info }) => info) });
    return 0;
  },
};

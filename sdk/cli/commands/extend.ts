import type { Command } from "../command.ts";
import { UsageError } from "../args.ts";

export const extend: Command = {
  name: "extend",
  summary: "Move the end of a sandbox's time limit",
  usage: "<name> <seconds>",
  details:
    "The end moves to so many seconds from now, unless it is later already. Without a time limit nothing changes.",
  words: [2, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [name = "", text = ""] = args.positionals;
    if (!/^\d+$/.test(text))
      throw new UsageError(`${JSON.stringify(text)} is no number of seconds`, "Such as: rouse extend demo 3600");
    const target = await (await sandbox(name)).extend(Number(text));
    out.result(
      target.info.endsAt === null ? `${name}: no time limit` : `${name}: ends at ${target.info.endsAt}`,
      target.info,
    );
    return 0;
  },
};

import type { Command } from "../command.ts";

export const rollback: Command = {
  name: "rollback",
  summary: "Make a sandbox what it was at a point of its history",
  usage: "<name> <point>",
  details:
    "Name, id and URL stay. What it is now is a point itself, if it has been stored. rouse history NAME lists the points.",
  words: [2, 2],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = "", point = ""] = args.positionals;
    const target = await sandbox(which);
    out.progress(`Rolling ${which} back to ${point}...`);
    await target.rollback(point);
    out.result(`${which}: ${target.state}, as it was at ${point}`, target.info);
    return 0;
  },
};

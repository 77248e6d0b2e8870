import type { Command } from "../command.ts";

export const stop: Command = {
  name: "stop",
  summary: "End a sandbox's machine; its disk is kept, its RAM is not",
  usage: "<name>",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const [name = ""] = args.positionals;
    const target = await sandbox(name);
    out.progress(`Stopping ${name}...`);
    await target.stop();
    out.result(`${name}: ${target.state}`, target.info);
    return 0;
  },
};

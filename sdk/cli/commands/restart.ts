import type { Command } from "../command.ts";

export const restart: Command = {
  name: "restart",
  summary: "Boot a sandbox from its disk",
  usage: "<name>",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const [name = ""] = args.positionals;
    const target = await sandbox(name);
    out.progress(`Restarting ${name}...`);
    await target.restart();
    out.result(`${name}: ${target.state}`, target.info);
    return 0;
  },
};

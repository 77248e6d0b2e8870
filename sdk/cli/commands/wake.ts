import type { Command } from "../command.ts";

export const wake: Command = {
  name: "wake",
  summary: "Wake a sandbox",
  usage: "<name>",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const [name = ""] = args.positionals;
    const target = await sandbox(name);
    out.progress(`Waking ${name}...`);
    await target.wake();
    out.result(`${name}: ${target.state}`, target.info);
    return 0;
  },
};

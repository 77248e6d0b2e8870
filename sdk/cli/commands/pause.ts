import type { Command } from "../command.ts";

export const pause: Command = {
  name: "pause",
  summary: "Put a sandbox to sleep with its RAM",
  usage: "<name>",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const [name = ""] = args.positionals;
    const target = await sandbox(name);
    out.progress(`Pausing ${name}...`);
    await target.pause();
    out.result(`${name}: ${target.state}`, target.info);
    return 0;
  },
};

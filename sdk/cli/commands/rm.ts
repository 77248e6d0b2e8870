import type { Command } from "../command.ts";

export const rm: Command = {
  name: "rm",
  summary: "Delete a sandbox with everything in it",
  usage: "<name>",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const [name = ""] = args.positionals;
    out.progress(`Deleting ${name}...`);
    const deleted = await client.sandboxes.delete(name);
    out.result(`${name}: deleted`, deleted);
    return 0;
  },
};

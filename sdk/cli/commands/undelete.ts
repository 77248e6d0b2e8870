import type { Command } from "../command.ts";

export const undelete: Command = {
  name: "undelete",
  summary: "Take back a deletion within its grace time",
  usage: "<id>",
  details: "It sleeps again, or is stopped. The time is that of rouse rm --grace.",
  words: [1, 1],
  options: {},
  async run({ args, out, client }) {
    const [id = ""] = args.positionals;
    const sandbox = await client.sandboxes.undelete(id);
    out.result(`${id}: ${sandbox.state}`, sandbox.info);
    return 0;
  },
};

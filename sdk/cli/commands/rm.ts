import type { Command } from "../command.ts";

export const rm: Command = {
  name: "rm",
  summary: "Delete a sandbox with everything in it",
  usage: "<name> [--grace SEC]",
  details:
    "With --grace one that runs is put to sleep first, and rouse undelete ID takes it back within that time. One that\n" +
    "can't be put to sleep is deleted for good.",
  words: [1, 1],
  options: {
    grace: { type: "string", value: "SEC", help: "Seconds in which it can be taken back, at most 604800 (0)" },
  },
  async run({ args, out, client }) {
    const [name = ""] = args.positionals;
    const graceSeconds = args.whole("grace");
    out.progress(`Deleting ${name}...`);
    const deleted = await client.sandboxes.delete(name, { graceSeconds });
    out.result(`${name}: deleted`, deleted);
    if (graceSeconds) out.note(`Within ${graceSeconds} s it can be taken back: rouse undelete ${deleted.id}`);
    return 0;
  },
};

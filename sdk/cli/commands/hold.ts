import { UsageError } from "../args.ts";
import type { Command } from "../command.ts";

export const hold: Command = {
  name: "hold",
  summary: "Keep a sandbox awake for a time, however idle it is",
  usage: "<name> <seconds> [--as HOLD] [--release]",
  details: "Several holds add up: it stays awake until the last one ends. --release lets go of one.",
  words: [1, 2],
  options: {
    as: { type: "string", value: "HOLD", help: "Name of the hold (cli)" },
    release: { type: "boolean", help: "Let go of it" },
  },
  async run({ args, out, sandbox }) {
    const [name = "", text] = args.positionals;
    const which = args.text("as") ?? "cli";
    const release = args.flag("release");
    if (release === (text !== undefined) || (text !== undefined && !/^\d+$/.test(text)))
      throw new UsageError("hold needs a number of seconds, or --release", "Such as: rouse hold demo 3600");
    const target = await sandbox(name);
    await (release ? target.release(which) : target.hold(which, Number(text)));
    const holds = (target.info.holds ?? []).map((one) => `${one.name} until ${one.expiresAt}`);
    out.result(`${name}: ${holds.length === 0 ? "nothing holds it" : holds.join(", ")}`, target.info);
    return 0;
  },
};

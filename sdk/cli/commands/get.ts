import type { Durability } from "../../contract/sandbox.ts";
import type { Command } from "../command.ts";
import { fields, sizeOf } from "../output.ts";

export const get: Command = {
  name: "get",
  summary: "Show everything about a sandbox",
  usage: "<name>",
  details: "This does not wake it.",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const { info } = await sandbox(args.positionals[0] ?? "");
    const { durability } = info;
    out.result(fields(durability ? { ...info, durability: safetyOf(durability) } : info), info);
    return 0;
  },
};

/** Where what it sleeps with is, and what that is good for. */
function safetyOf({ state, durableAt, coldAt, storedBytes }: Durability): string {
  const size = storedBytes === null ? "" : `, ${sizeOf(storedBytes)}`;
  switch (state) {
    case "cached":
      return "cached: on its host, not yet on its disk for sure";
    case "local":
      return "local: on its host's disk, not yet off it";
    case "durable":
      return `durable: off its host too since ${durableAt ?? "-"}, so that it can wake elsewhere${size}`;
    case "cold":
      return `cold: only off its host since ${coldAt ?? "-"}${size}`;
  }
}

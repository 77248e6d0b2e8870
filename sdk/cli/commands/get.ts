import type { Command } from "../command.ts";
import { table } from "../output.ts";

export const get: Command = {
  name: "get",
  summary: "Show everything about a sandbox",
  usage: "<name>",
  details: "This does not wake it.",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const { info } = await sandbox(args.positionals[0] ?? "");
    const rows = Object.entries(info).map(([field, value]) => [
      field,
      typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "-"),
    ]);
    out.result(table(["FIELD", "VALUE"], rows), info);
    return 0;
  },
};

import type { Command } from "../command.ts";
import { table } from "../output.ts";

export const notices: Command = {
  name: "notices",
  summary: "Show what is about to happen: deletions, keys and credit that end",
  usage: "",
  words: [0, 0],
  options: {},
  async run({ out, client }) {
    const found = await client.notices();
    const rows = found.map((one) => [one.at ?? "now", one.kind, one.name ?? one.sandboxId ?? "-", one.message]);
    out.result(rows.length === 0 ? "No notices." : table(["WHEN", "KIND", "SANDBOX", "MESSAGE"], rows), {
      data: found,
    });
    return 0;
  },
};

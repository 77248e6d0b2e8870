import type { Command } from "../command.ts";
import { ago, sizeOf, table } from "../output.ts";

export const history: Command = {
  name: "history",
  summary: "List the states that a sandbox can be rolled back to",
  usage: "<name>",
  details: "The newest first. rouse create --keep-pauses says how many before the last are kept.",
  words: [1, 1],
  options: {},
  async run({ args, out, sandbox }) {
    const [which = ""] = args.positionals;
    const points = await (await sandbox(which)).history();
    const now = Date.now();
    const rows = points.map((one) => [
      one.point,
      one.mode,
      ago(one.savedAt, now),
      one.durableAt === null ? "not yet" : ago(one.durableAt, now),
      sizeOf(one.storedBytes),
      one.current ? "rests with it" : "",
    ]);
    const heading = ["POINT", "MODE", "SAVED", "OFF ITS HOST", "SIZE", ""];
    out.result(rows.length === 0 ? `${which}: nothing is stored yet` : table(heading, rows), { data: points });
    return 0;
  },
};

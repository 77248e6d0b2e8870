import { WakeRules, type WakeRule } from "../../contract/wake-rule.ts";
import { UsageError } from "../args.ts";
import type { Command } from "../command.ts";
import { jsonFrom } from "../json-file.ts";
import { table } from "../output.ts";

export const rules: Command = {
  name: "rules",
  summary: "Show or set which requests wake a sandbox, and keep it awake",
  usage: "<name> [FILE] [--max-wakes-per-hour N]",
  details:
    "FILE (- for stdin) holds all rules as a JSON list; [] for none. Such as:\n" +
    '  [{"match":{"path":"/health"},"action":"answer"},{"match":{"userAgent":"bot"},"action":"no_wake"}]',
  words: [1, 2],
  options: {
    "max-wakes-per-hour": { type: "string", value: "N", help: "How often requests may wake it; none for no limit" },
  },
  async run({ args, out, sandbox }) {
    const [name = "", file] = args.positionals;
    const cap = args.text("max-wakes-per-hour");
    if (cap !== undefined && cap !== "none" && !/^[1-9]\d{0,5}$/.test(cap))
      throw new UsageError("--max-wakes-per-hour is a number, or none", "Such as: --max-wakes-per-hour 20");
    const change = {
      ...(file === undefined ? {} : { wakeRules: await jsonFrom(file, WakeRules, "rules", "See rouse help rules.") }),
      ...(cap === undefined ? {} : { maxWakesPerHour: cap === "none" ? null : Number(cap) }),
    };
    const target = await sandbox(name);
    if (Object.keys(change).length > 0) await target.update(change);
    const { wakeRules = [], maxWakesPerHour = null } = target.info;
    const often = maxWakesPerHour === null ? "as often as they like" : `${maxWakesPerHour} times an hour at most`;
    const rows = wakeRules.map((rule) => [matchOf(rule), rule.action, rule.when ?? "", String(rule.status ?? "")]);
    const shown = rows.length === 0 ? [] : [table(["REQUESTS", "ACTION", "WHEN", "STATUS"], rows)];
    out.result([...shown, `Requests wake ${name} ${often}.`].join("\n"), { wakeRules, maxWakesPerHour });
    return 0;
  },
};

function matchOf({ match: { methods, path, userAgent, port, credential } }: WakeRule): string {
  const parts = [methods?.join(","), path, userAgent && `agent ${JSON.stringify(userAgent)}`, port && `port ${port}`];
  return [...parts, credential && `by ${credential}`].filter(Boolean).join(" ");
}

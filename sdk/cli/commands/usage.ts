import { dollars } from "../../contract/pricing.ts";
import { usageCsv } from "../../contract/usage.ts";
import type { Usage, UsageOptions } from "../../src/index.ts";
import { UsageError } from "../args.ts";
import type { Command } from "../command.ts";
import { table } from "../output.ts";

const HOUR_NS = 3_600_000_000_000;
const GIB_HOUR = 1024 * 3_600_000;
const GB_HOUR = 1e9 * 3_600_000;

export const usage: Command = {
  name: "usage",
  summary: "Show what sandboxes, volumes, snapshots and backups came to in a month",
  usage: "[--month YYYY-MM|all] [--by WHAT] [--csv]",
  words: [0, 0],
  options: {
    month: { type: "string", value: "YYYY-MM", help: "Another month than this one (UTC), or all" },
    by: { type: "string", value: "WHAT", help: "Totals by sandbox, by month, or by label:KEY" },
    csv: { type: "boolean", help: "Print CSV; money in microdollars" },
  },
  async run({ args, out, client }) {
    const month = args.text("month");
    if (month !== undefined && month !== "all" && !/^\d{4}-(0[1-9]|1[0-2])$/.test(month))
      throw new UsageError(`${JSON.stringify(month)} is no month`, "Such as: --month 2026-11, or --month all");
    const by = groupingOf(args.text("by"));
    if (by !== undefined && args.flag("csv"))
      throw new UsageError("--csv prints lines, and --by totals", "Use one of them.");
    const answer = await client.usage({ month, by });
    if (args.flag("csv") && !out.json) await out.pass("stdout", usageCsv(answer.lines));
    else out.result(answer.groups === undefined ? linesOf(answer) : groupsOf(answer, by ?? ""), answer);
    return 0;
  },
};

function groupingOf(text: string | undefined): UsageOptions["by"] {
  if (text === undefined || text === "sandbox" || text === "month") return text;
  if (/^label:.{1,63}$/.test(text)) return `label:${text.slice("label:".length)}`;
  throw new UsageError(`there are no totals by ${JSON.stringify(text)}`, "By: sandbox, month, label:KEY.");
}

function nothing({ month }: Usage): string {
  return month === "all" ? "Nothing was used." : `Nothing was used in ${month}.`;
}

function linesOf(answer: Usage): string {
  if (answer.lines.length === 0) return nothing(answer);
  const all = answer.month === "all";
  const kinds = new Set(answer.lines.map(({ kind }) => kind));
  const [anyVolume, anyBackup] = [kinds.has("volume"), kinds.has("backup")];
  const rows = answer.lines.map((line) => [
    ...(all ? [line.month] : []),
    line.sandboxId,
    hours(line.cpu, HOUR_NS),
    hours(line.memory, GIB_HOUR),
    hours(line.stored, GB_HOUR),
    ...(anyVolume ? [hours(line.volume, GIB_HOUR)] : []),
    ...(anyBackup ? [hours(line.backup, GB_HOUR)] : []),
    dollars(BigInt(line.totalMicros)),
  ]);
  const heading = [
    ...(all ? ["MONTH"] : []),
    [...kinds].every((kind) => kind === "sandbox") ? "SANDBOX" : "ID",
    ...["VCPU-H", "GIB-H", "GB-H ASLEEP"],
    ...(anyVolume ? ["GIB-H VOLUME"] : []),
    ...(anyBackup ? ["GB-H BACKUP"] : []),
    all ? "COST" : answer.month,
  ];
  const total = heading.map((_, column): string => (column === 0 ? "Total" : ""));
  return table(heading, [...rows, total.with(-1, dollars(BigInt(answer.totalMicros)))]);
}

function groupsOf(answer: Usage, by: string): string {
  const { groups = [] } = answer;
  if (groups.length === 0) return nothing(answer);
  const rows = groups.map(({ key, sandboxes, totalMicros }) => [
    key ?? "-",
    String(sandboxes),
    dollars(BigInt(totalMicros)),
  ]);
  const total = ["Total", "", dollars(BigInt(answer.totalMicros))];
  return table([by.toUpperCase(), "SANDBOXES", "COST"], [...rows, total]);
}

/** To a thousandth: shown to people, while costs are worked out from the exact amounts. */
function hours(amount: string, unit: number): string {
  return (Number(amount) / unit).toFixed(3);
}

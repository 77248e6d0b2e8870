import { dollars } from "../../contract/pricing.ts";
import type { UsageLine } from "../../src/index.ts";
import { UsageError } from "../args.ts";
import type { Command } from "../command.ts";
import { table } from "../output.ts";

const HOUR_NS = 3_600_000_000_000;
const GIB_HOUR = 1024 * 3_600_000;
const GB_HOUR = 1e9 * 3_600_000;

export const usage: Command = {
  name: "usage",
  summary: "Show what sandboxes used in a month",
  usage: "[--month YYYY-MM] [--csv]",
  words: [0, 0],
  options: {
    month: { type: "string", value: "YYYY-MM", help: "Another month than this one (UTC)" },
    csv: { type: "boolean", help: "Print CSV; money in microdollars" },
  },
  async run({ args, out, client }) {
    const month = args.text("month");
    if (month !== undefined && !/^\d{4}-(0[1-9]|1[0-2])$/.test(month))
      throw new UsageError(`${JSON.stringify(month)} is no month`, "Such as: --month 2026-11");
    const answer = await client.usage(month);
    if (args.flag("csv") && !out.json) {
      out.result(csv(answer.month, answer.lines), null);
      return 0;
    }
    const rows = answer.lines.map((line) => [
      line.sandboxId,
      hours(line.cpu, HOUR_NS),
      hours(line.memory, GIB_HOUR),
      hours(line.stored, GB_HOUR),
      dollars(BigInt(line.totalMicros)),
    ]);
    const total = ["Total", "", "", "", dollars(BigInt(answer.totalMicros))];
    out.result(
      rows.length === 0
        ? `Nothing was used in ${answer.month}.`
        : table(["SANDBOX", "VCPU-H", "GIB-H", "GB-H ASLEEP", answer.month], [...rows, total]),
      answer,
    );
    return 0;
  },
};

/** To a thousandth: shown to people, while costs are worked out from the exact amounts. */
function hours(amount: string, unit: number): string {
  return (Number(amount) / unit).toFixed(3);
}

function csv(month: string, lines: readonly UsageLine[]): string {
  const fields = ["cpu", "memory", "stored", "cpuMicros", "memoryMicros", "storedMicros", "totalMicros"] as const;
  const rows = lines.map((line) => [month, line.sandboxId, ...fields.map((field) => line[field])].join(","));
  return [["month", "sandboxId", ...fields].join(","), ...rows].join("\n");
}

import type { RouseEvent } from "../../src/index.ts";
import type { Command } from "../command.ts";
import { table } from "../output.ts";

/** Facts that a line says; `--json` has all. */
const told = ["reason", "code", "wakeMs", "startMs", "bootMs", "durability", "point", "forkId", "hookEventId"] as const;

export const events: Command = {
  name: "events",
  summary: "Show what happened to a sandbox, and with -f what happens",
  usage: "<name> [-f] [--after N]",
  details: "The last 1,000 events of 30 days, the oldest first. With --json, and with -f, one event per line.",
  words: [1, 1],
  options: {
    follow: { type: "boolean", short: "f", help: "Go on with each event that comes" },
    after: { type: "string", value: "N", help: "Only events with a greater number (0)" },
  },
  async run({ args, out, sandbox }) {
    const [name = ""] = args.positionals;
    const after = args.whole("after", 0, Number.MAX_SAFE_INTEGER) ?? 0;
    const target = await sandbox(name);
    if (args.flag("follow")) {
      for await (const event of target.events.follow({ after })) out.result(rowOf(event).join("  "), event);
      return 0;
    }
    const all: RouseEvent[] = [];
    for (let last = after; ;) {
      const page = await target.events.list({ after: last });
      all.push(...page);
      if (page.length === 0) break;
      last = page.at(-1)?.sequence ?? last;
    }
    if (out.json) for (const event of all) out.result("", event);
    else out.result(all.length === 0 ? "No events." : table(["N", "AT", "EVENT", ""], all.map(rowOf)), {});
    return 0;
  },
};

function rowOf({ sequence, timestamp, type, data }: RouseEvent): string[] {
  const facts = new Map(Object.entries(data));
  const cause = facts.get("cause") as { request: string } | null | undefined;
  const said = told.flatMap((fact) => {
    const value = facts.get(fact);
    if (value === undefined || value === null) return [];
    return [fact.endsWith("Ms") ? `${String(value)} ms` : String(value)];
  });
  return [String(sequence), timestamp, type, [...said, ...(cause ? [cause.request] : [])].join(", ")];
}

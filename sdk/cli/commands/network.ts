import type { Network } from "../../src/index.ts";
import { UsageError } from "../args.ts";
import type { Command } from "../command.ts";
import { ago, sizeOf, table } from "../output.ts";

export const network: Command = {
  name: "network",
  summary: "Show or set what a sandbox may reach outside",
  usage: "<name> [--off|--on] [--allow X]... [--deny X]... [--reset]",
  details:
    "X is a host name, *.name for all names below one, an address, or a range such as 203.0.113.0/24. --allow and --deny\n" +
    "add to the lists; after --reset they begin anew. A change counts at once, for open connections too.",
  words: [1, 1],
  options: {
    off: { type: "boolean", help: "Let it reach nothing but what is allowed" },
    on: { type: "boolean", help: "Let it reach everything public but what is denied" },
    allow: { type: "string", value: "X", multiple: true, help: "Allow, also while the internet is off" },
    deny: { type: "string", value: "X", multiple: true, help: "Deny; wins over what is allowed" },
    reset: { type: "boolean", help: "As of a new sandbox: everything public" },
  },
  async run({ args, out, sandbox }) {
    const [name = ""] = args.positionals;
    const [on, off, reset] = [args.flag("on"), args.flag("off"), args.flag("reset")];
    if (on && off) throw new UsageError("--on or --off, not both", "See the options with --help.");
    const [allow, deny] = [args.all("allow"), args.all("deny")];
    const { network: rules } = await sandbox(name);
    const isChange = on || off || reset || allow.length > 0 || deny.length > 0;
    const before = isChange && reset ? { internet: true, allow: [], deny: [] } : await rules.get();
    const after = isChange
      ? await rules.set({
          internet: off ? false : on ? true : before.internet,
          allow: [...before.allow, ...allow],
          deny: [...before.deny, ...deny],
        })
      : (before as Network);
    out.result(shown(after), after);
    if (isChange && !after.enforced) out.note("It is not in force yet: its host is told, or will be before it wakes.");
    return 0;
  },
};

function shown(of: Network): string {
  const now = Date.now();
  const lines = [
    `internet  ${of.internet ? "on" : "off"}`,
    `allow     ${of.allow.join(" ") || "-"}`,
    `deny      ${of.deny.join(" ") || "-"}`,
    `in force  ${of.enforced ? `yes (version ${of.version})` : `not yet (version ${of.version})`}`,
    `traffic   ${sizeOf(of.bytesOut)} out, ${sizeOf(of.bytesIn)} in`,
  ];
  if (of.refusals.length === 0) return lines.join("\n");
  const rows = of.refusals.map(({ rule, target, count, lastAt }) => [target, rule, String(count), ago(lastAt, now)]);
  return `${lines.join("\n")}\n\n${table(["REFUSED", "RULE", "TIMES", "LAST"], rows)}`;
}

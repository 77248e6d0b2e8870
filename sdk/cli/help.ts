/** Help texts, made from the commands themselves. Pure. */
import { commonOptions } from "./args.ts";
import type { OptionSpecs } from "./args.ts";
import type { Command } from "./command.ts";
import { examples } from "./examples.ts";
import { table } from "./output.ts";
import { unstyled } from "./style.ts";

export function overview(commands: readonly Command[]): string {
  const verbs = indented(commands.map(({ name, usage, summary }) => [`rouse ${name} ${usage}`.trim(), summary]));
  return [
    "Rouse: Linux machines with a name that sleep with their RAM and wake on the first request.",
    "",
    "Usage: rouse [sandbox] <verb> [options]",
    "",
    verbs,
    "",
    "Every verb takes --json and --help. <name> is a sandbox's name or id.",
    "Exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 unauthorized; of exec and run-code those of what ran.",
    "",
    "Environment: ROUSE_API_KEY, ROUSE_API_URL (default: of the last login, else http://localhost:8787). Without a key in",
    "the environment the one of `rouse login` counts; on the machine that runs Rouse one is found without asking.",
    "ROUSE_NO_LOGIN or CI forbid logins.",
  ].join("\n");
}

export function helpOf(command: Command): string {
  return [
    `${command.summary}.`,
    "",
    `Usage: rouse ${command.name} ${command.usage}`.trimEnd(),
    ...(command.details ? ["", command.details] : []),
    "",
    "Options:",
    optionLines({ ...command.options, ...commonOptions }),
    "",
    "Examples:",
    ...(examples[command.name] ?? []).map((example) => `  ${example}`),
  ].join("\n");
}

function optionLines(options: OptionSpecs): string {
  return indented(
    Object.entries(options).map(([name, spec]) => [
      `${spec.short ? `-${spec.short}, ` : ""}--${name}${spec.type === "string" ? ` ${spec.value ?? "VALUE"}` : ""}`,
      spec.help + (spec.multiple ? " (may be repeated)" : ""),
    ]),
  );
}

function indented(rows: readonly (readonly [string, string])[]): string {
  const [, ...lines] = table(["", ""], rows, unstyled).split("\n");
  return lines.map((line) => `  ${line}`).join("\n");
}

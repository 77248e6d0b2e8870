/** Prints docs/cli.md: every verb with its options and examples, as the command line itself says them. */
import { commonOptions, type OptionSpecs } from "../../sdk/cli/args.ts";
import { commands } from "../../sdk/cli/commands/index.ts";
import { examples } from "../../sdk/cli/examples.ts";

const INTRODUCTION = `# The command line

\`rouse\` comes with the [SDK](../sdk/README.md). Each verb has \`--help\`; this page is made of it (\`npm run fix\`).

\`\`\`sh
rouse login                                  # or ROUSE_API_KEY, and ROUSE_API_URL for another server
rouse create --name demo                     # a Linux machine with a name
rouse exec demo -- uname -a                  # it wakes by itself
rouse open demo 3000                         # its port 3000 in a browser
source <(rouse completion bash)              # verbs, options and names of sandboxes with the tab key; also zsh and fish
\`\`\`

## Output

Results go to stdout, everything else to stderr. Every verb takes \`--json\`: one JSON value, of what streams one in each line, and errors as \`{"error":{code, message, hint, ...}}\` on stderr. Ids, names and fields are those of the [API](api.md).

On a terminal tables fit its width (what is too long ends in an ellipsis), states have colours and long work shows how far it is. Elsewhere lines are whole and plain. \`NO_COLOR\` takes colours away, \`FORCE_COLOR=1\` has them everywhere.

## Exit codes

| code | means |
| --- | --- |
| 0 | done |
| 1 | it failed; the error says why and what to do |
| 2 | the words were not understood: an unknown verb or option, a value that can't be |
| 3 | there is no such thing (any more) |
| 4 | no key, a wrong one, or one that may not do that |
| 124 | of \`exec\`: its time limit ended the command |
| 128 + n | of \`exec\`: signal n ended the command |

\`exec\` and \`run-code\` otherwise exit as what they ran did. \`doctor\` exits with 1 where something fails.

## Verbs
`;

function code(text: string): string {
  return `\`${text.replaceAll("|", "\\|")}\``;
}

function optionTable(options: OptionSpecs): string {
  const rows = Object.entries(options)
    .filter(([name]) => !Object.hasOwn(commonOptions, name))
    .map(([name, { type, short, value = "VALUE", help, multiple }]) => {
      const named = `${short === undefined ? "" : `-${short}, `}--${name}${type === "string" ? ` ${value}` : ""}`;
      return `| ${code(named)} | ${help.replaceAll("|", "\\|")}${multiple ? " (may be repeated)" : ""} |`;
    });
  return rows.length === 0 ? "" : ["", "| option | |", "| --- | --- |", ...rows, ""].join("\n");
}

const parts = commands.map(({ name, summary, usage, details, options, parts: own = [] }) => {
  const lines = own.map((part) => `rouse ${name} ${part.name} ${part.usage}`.trimEnd());
  const usages = lines.length === 0 ? [`rouse ${name} ${usage}`.trimEnd()] : lines;
  // A group's details begin with its verbs, which are here already.
  const more = own.length === 0 ? details : details?.split("\n\n").slice(1).join("\n\n");
  return [
    `### ${name}`,
    "",
    `${summary}.`,
    "",
    "```",
    ...usages,
    "```",
    ...(more ? ["", "```", more, "```"] : []),
    optionTable(options),
    "```sh",
    ...(examples[name] ?? []),
    "```",
    "",
  ].join("\n");
});
process.stdout.write(`${INTRODUCTION}\n${parts.join("\n").trimEnd()}\n`);

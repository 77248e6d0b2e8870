/** What a command line asks for, without doing it: the verb, and its words checked. Pure. */
import { Args, UsageError, nearest } from "./args.ts";
import type { Command } from "./command.ts";
import { helpOf, overview } from "./help.ts";

export type Line = { readonly help: string } | { readonly command: Command; readonly args: Args };

/** @throws UsageError when there is no such verb, or its words or options are not right */
export function lineOf(words: readonly string[], commands: readonly Command[]): Line {
  // A global option may stand before the verb.
  const leading = words.findIndex((word) => word !== "--json" && word !== "--json=true");
  const [first, ...others] = leading === -1 ? [] : words.slice(leading);
  if (first === "--version" || first === "-v") return lineOf(["version"], commands);
  if (first === undefined || first === "--help" || first === "-h") return { help: overview(commands) };
  if (first === "sandbox" || first === "sandboxes") {
    const verb = others.find((word) => word !== "--json");
    return verb === "sandbox" || verb === "sandboxes" ? unknown(verb, commands) : lineOf(others, commands);
  }
  const command = commands.find(({ name }) => name === first) ?? unknown(first, commands);
  const args = Args.parse(others, command.options);
  if (args.flag("help")) return { help: helpOf(command) };
  const [least, most] = command.words;
  const see = `Usage: rouse ${command.name} ${command.usage}`.trimEnd();
  if (args.positionals.length < least) throw new UsageError(`${command.name} needs ${command.usage}`, see);
  if (args.positionals.length > most) {
    throw new UsageError(`${JSON.stringify(args.positionals[most])} is one word too many`, see);
  }
  if (args.rest !== null && !command.takesRest) throw new UsageError(`${command.name} takes nothing after --`, see);
  command.check?.(args);
  return { command, args };
}

function unknown(verb: string, commands: readonly Command[]): never {
  const near = nearest(verb, [...commands.map(({ name }) => name), "sandbox"]);
  throw new UsageError(
    `there is no verb ${JSON.stringify(verb)}`,
    near === null ? "See the verbs with rouse help." : `Did you mean rouse ${near}?`,
  );
}

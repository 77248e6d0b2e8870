#!/usr/bin/env node
/** `rouse`: the command line. */
import { Args, UsageError, nearest } from "./args.ts";
import { commands } from "./commands/index.ts";
import { contextOf } from "./config.ts";
import { helpOf, overview } from "./help.ts";
import { Output, exitCodes } from "./output.ts";

/** A reader that has seen enough, such as `head`, ends the program quietly. */
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(exitCodes.ok);
  throw error;
});

async function main(words: readonly string[]): Promise<number> {
  const end = words.indexOf("--");
  const out = new Output(
    (end === -1 ? words : words.slice(0, end)).some((word) => word === "--json" || word === "--json=true"),
  );
  try {
    return await run(words, out);
  } catch (error) {
    return out.error(error);
  }
}

async function run(words: readonly string[], out: Output): Promise<number> {
  // A global option may stand before the verb.
  const leading = words.findIndex((word) => word !== "--json" && word !== "--json=true");
  const [first, ...others] = leading === -1 ? [] : words.slice(leading);
  if (first === "--version" || first === "-v") return await run(["version"], out);
  if (first === undefined || first === "--help" || first === "-h") return show(overview(commands), out);
  if (first === "sandbox" || first === "sandboxes") {
    const verb = others.find((word) => word !== "--json");
    return verb === "sandbox" || verb === "sandboxes" ? unknown(verb) : await run(others, out);
  }
  const command = commands.find(({ name }) => name === first) ?? unknown(first);
  const args = Args.parse(others, command.options);
  if (args.flag("help")) return show(helpOf(command), out);
  const [least, most] = command.words;
  const see = `Usage: rouse ${command.name} ${command.usage}`.trimEnd();
  if (args.positionals.length < least) throw new UsageError(`${command.name} needs ${command.usage}`, see);
  if (args.positionals.length > most) {
    throw new UsageError(`${JSON.stringify(args.positionals[most])} is one word too many`, see);
  }
  if (args.rest !== null && !command.takesRest) throw new UsageError(`${command.name} takes nothing after --`, see);
  return await command.run(contextOf(args, out));
}

function show(text: string, out: Output): number {
  out.result(text, { help: text });
  return exitCodes.ok;
}

function unknown(verb: string): never {
  const near = nearest(verb, [...commands.map(({ name }) => name), "sandbox"]);
  throw new UsageError(
    `there is no verb ${JSON.stringify(verb)}`,
    near === null ? "See the verbs with rouse help." : `Did you mean rouse ${near}?`,
  );
}

process.exitCode = await main(process.argv.slice(2));

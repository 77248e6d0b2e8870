#!/usr/bin/env node
/** `rouse`: the command line. */
import { commands } from "./commands/index.ts";
import { contextOf } from "./config.ts";
import { lineOf } from "./line.ts";
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
  const line = lineOf(words, commands);
  if ("help" in line) return show(line.help, out);
  return await line.command.run(contextOf(line.args, out));
}

function show(text: string, out: Output): number {
  out.result(text, { help: text });
  return exitCodes.ok;
}

process.exitCode = await main(process.argv.slice(2));

/** Whether command lines of the documentation are ones that there are. Pure. */
import { UsageError } from "../../sdk/cli/args.ts";
import { commonOptions } from "../../sdk/cli/args.ts";
import { commands } from "../../sdk/cli/commands/index.ts";
import { lineOf } from "../../sdk/cli/line.ts";

/** What is wrong with a whole `rouse ...` command, or null. */
export function faultOfLine(words: readonly string[]): string | null {
  try {
    lineOf(words.slice(1), commands);
    return null;
  } catch (fault) {
    if (fault instanceof UsageError) return `${words.join(" ")}: ${fault.message}`;
    throw fault;
  }
}

/** What is wrong with a `rouse ...` that is mentioned and may leave words out, or null. */
export function faultOfMention(text: string): string | null {
  const words = text.split(/\s+/).slice(1);
  if (words[0] === "sandbox") words.shift();
  const verb = words.find((word) => !word.startsWith("-"));
  // `rouse help`, `rouse --version`, `rouse <verb>`
  if (verb === undefined || !/^[a-z][a-z-]*$/.test(verb)) return null;
  const command = commands.find(({ name }) => name === verb);
  if (command === undefined) return `${text}: there is no verb ${verb}`;
  const end = words.indexOf("--");
  const own = end === -1 ? words : words.slice(0, end);
  const part = command.parts?.find(({ name }) => name === own[own.indexOf(verb) + 1]);
  const known = { ...(part ?? command).options, ...commonOptions };
  const unknown = own
    .map((word) => /^--([a-z][a-z-]*)/.exec(word)?.[1])
    .filter((name) => name !== undefined && !Object.hasOwn(known, name));
  return unknown.length === 0 ? null : `${text}: no option --${unknown.join(", --")}`;
}

/** A verb that has verbs of its own, such as `keys create`; each takes only its own options. */
import { commonOptions, nearest, UsageError } from "./args.ts";
import type { Args, OptionSpecs } from "./args.ts";
import type { Command } from "./command.ts";
import { table } from "./output.ts";
import { unstyled } from "./style.ts";

export type Part = Omit<Command, "details" | "parts" | "check">;

interface GroupFacts {
  readonly name: string;
  readonly summary: string;
  readonly details?: string;
  readonly parts: readonly Part[];
  /** The part that is meant when none is named. */
  readonly fallback?: string;
  /** The part that is meant when the first word is no part's name: it takes all the words. */
  readonly unnamed?: string;
}

export function group({ name, summary, details, parts, fallback, unnamed }: GroupFacts): Command {
  const names = parts.map((part) => part.name);
  const [open, close] = fallback === undefined ? ["<", ">"] : ["[", "]"];
  const [, ...lines] = table(
    ["", ""],
    parts.map((part) => [`${name} ${part.name} ${part.usage}`.trim(), part.summary]),
    unstyled,
  ).split("\n");
  return {
    name,
    summary,
    usage: `${open}${names.join("|")}${close} ...`,
    details: [...lines, ...(details === undefined ? [] : ["", details])].join("\n"),
    words: [fallback === undefined ? 1 : 0, 1 + Math.max(...parts.map((part) => part.words[1]))],
    options: parts.reduce<OptionSpecs>((all, part) => ({ ...part.options, ...all }), {}),
    ...(parts.some(({ takesRest }) => takesRest) ? { takesRest: true } : {}),
    parts,
    check: (args) => void partOf(args),
    ...(unnamed === undefined ? {} : { unnamed: true }),
    async run(context) {
      const { part, args } = partOf(context.args);
      return await part.run({ ...context, args });
    },
  };

  function partOf(all: Args): { part: Part; args: Args } {
    const [first = fallback ?? ""] = all.positionals;
    const named = names.includes(first);
    const verb = named ? first : (unnamed ?? first);
    const part = parts.find((one) => one.name === verb);
    if (part === undefined) {
      const near = nearest(verb, names);
      throw new UsageError(
        `there is no verb ${JSON.stringify(verb)} of ${name}`,
        near === null ? `Verbs: ${names.join(", ")}.` : `Did you mean rouse ${name} ${near}?`,
      );
    }
    const see = `Usage: rouse ${name} ${part.name} ${part.usage}`.trimEnd();
    const own: OptionSpecs = { ...part.options, ...commonOptions };
    const foreign = all.given().filter((option) => !Object.hasOwn(own, option));
    if (foreign.length > 0)
      throw new UsageError(`${name} ${verb} has no option ${foreign.map((one) => `--${one}`).join(", ")}`, see);
    const args = named ? all.after(1) : all;
    const [least, most] = part.words;
    if (args.positionals.length < least) throw new UsageError(`${name} ${verb} needs ${part.usage}`, see);
    if (args.positionals.length > most)
      throw new UsageError(`${JSON.stringify(args.positionals[most])} is one word too many`, see);
    if (args.rest !== null && !part.takesRest) throw new UsageError(`${name} ${verb} takes nothing after --`, see);
    return { part, args };
  }
}

import { UsageError, nearest } from "../args.ts";
import type { Command } from "../command.ts";
import { helpOf, overview } from "../help.ts";

/** `help` shows the other commands, so it is made with them. */
export function helpCommand(commands: () => readonly Command[]): Command {
  return {
    name: "help",
    summary: "Show help, of one verb or of all",
    usage: "[verb]",
    words: [0, 2],
    options: {},
    run({ args, out }) {
      const verb = args.positionals.find((word) => word !== "sandbox");
      const all = commands();
      const command = all.find(({ name }) => name === verb);
      if (verb !== undefined && command === undefined) {
        const near = nearest(
          verb,
          all.map(({ name }) => name),
        );
        throw new UsageError(
          `there is no verb ${JSON.stringify(verb)}`,
          near === null ? "See the verbs with rouse help." : `Did you mean rouse help ${near}?`,
        );
      }
      const text = command === undefined ? overview(all) : helpOf(command);
      out.result(text, { help: text });
      return Promise.resolve(0);
    },
  };
}

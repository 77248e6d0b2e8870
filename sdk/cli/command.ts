/** What a verb of the command line is. */
import type { Rouse, Sandbox } from "../src/index.ts";
import type { Args, OptionSpecs } from "./args.ts";
import type { Output } from "./output.ts";

export interface Context {
  readonly args: Args;
  readonly out: Output;
  readonly client: Rouse;
  /** The sandbox that a word names, by id or name. */
  sandbox(idOrName: string): Promise<Sandbox>;
}

export interface Command {
  readonly name: string;
  /** One line for the list of verbs. */
  readonly summary: string;
  /** Words after the verb, such as `<name> [port]`. */
  readonly usage: string;
  /** More to know, in the verb's own help. */
  readonly details?: string;
  readonly options: OptionSpecs;
  /** How many words the verb takes, least and most. */
  readonly words: readonly [number, number];
  /** Whether it takes words after `--`. */
  readonly takesRest?: true;
  /** The verbs that it has of its own, such as those of `rouse keys`. */
  readonly parts?: readonly Omit<Command, "details" | "parts" | "check">[];
  /** Without one of them its first word is a sandbox. */
  readonly unnamed?: true;
  /** Looks at the words of those, without doing anything. @throws UsageError when they are not right */
  check?(args: Args): void;
  /** Answers the exit code. */
  run(context: Context): Promise<number>;
}

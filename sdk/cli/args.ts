/** The command line's grammar: options by name, unknown ones refused with a suggestion. Pure. */
import { parseArgs } from "node:util";

export interface OptionSpec {
  type: "string" | "boolean";
  short?: string;
  /** May be given several times. */
  multiple?: boolean;
  /** What the value is called in the help. */
  value?: string;
  help: string;
}

export type OptionSpecs = Readonly<Record<string, OptionSpec>>;

/** The command line was not understood; exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  readonly hint: string;
  constructor(message: string, hint: string) {
    super(message);
    this.hint = hint;
  }
}

/** Options that every command has. */
export const commonOptions: OptionSpecs = {
  json: { type: "boolean", help: "Print JSON; errors as one JSON object on stderr" },
  help: { type: "boolean", short: "h", help: "Show this help" },
};

/** The words of one command line, checked. */
export class Args {
  readonly positionals: readonly string[];
  /** Words after `--`, null without one. */
  readonly rest: readonly string[] | null;
  readonly #values: ReadonlyMap<string, readonly (string | boolean)[]>;

  private constructor(
    values: ReadonlyMap<string, readonly (string | boolean)[]>,
    positionals: readonly string[],
    rest: readonly string[] | null,
  ) {
    this.#values = values;
    this.positionals = positionals;
    this.rest = rest;
  }

  /** @throws UsageError with every fault of the options */
  static parse(words: readonly string[], specs: OptionSpecs): Args {
    const end = words.indexOf("--");
    const before = end === -1 ? words : words.slice(0, end);
    const all: OptionSpecs = { ...specs, ...commonOptions };
    const { tokens } = parseArgs({
      args: [...before],
      options: Object.fromEntries(
        Object.entries(all).map(([name, spec]) => [
          name,
          { type: spec.type, ...(spec.short ? { short: spec.short } : {}) },
        ]),
      ),
      strict: false,
      allowPositionals: true,
      tokens: true,
    });
    const values = new Map<string, (string | boolean)[]>();
    const positionals: string[] = [];
    const faults: string[] = [];
    for (const token of tokens) {
      if (token.kind === "positional") positionals.push(token.value);
      if (token.kind !== "option") continue;
      const spec = Object.hasOwn(all, token.name) ? all[token.name] : undefined;
      if (spec === undefined) {
        const near = nearest(token.name, Object.keys(all));
        faults.push(`unknown option ${token.rawName}${near === null ? "" : ` (did you mean --${near}?)`}`);
        continue;
      }
      const value = valueOf(spec, token.value, token.inlineValue ?? false);
      if (value === null) {
        faults.push(spec.type === "string" ? `${token.rawName} needs a value` : `${token.rawName} is true or false`);
        continue;
      }
      const earlier = values.get(token.name);
      if (earlier === undefined) values.set(token.name, [value]);
      else if (spec.multiple) earlier.push(value);
      else faults.push(`${token.rawName} is given twice`);
    }
    if (faults.length > 0) throw new UsageError(faults.join("; "), "See the options with --help.");
    return new Args(values, positionals, end === -1 ? null : words.slice(end + 1));
  }

  /** Names of the options that are given. */
  given(): string[] {
    return [...this.#values.keys()];
  }

  /** The same without the first words. */
  after(count: number): Args {
    return new Args(this.#values, this.positionals.slice(count), this.rest);
  }

  flag(name: string): boolean {
    return this.#values.get(name)?.at(-1) === true;
  }

  text(name: string): string | undefined {
    const value = this.#values.get(name)?.at(-1);
    return typeof value === "string" ? value : undefined;
  }

  all(name: string): string[] {
    return (this.#values.get(name) ?? []).filter((value) => typeof value === "string");
  }

  /** @throws UsageError when it is not a number of 0 or more */
  number(name: string): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const value = Number(text);
    if (text.trim() === "" || !Number.isFinite(value) || value < 0) {
      throw new UsageError(
        `--${name} is ${JSON.stringify(text)}, not a number of 0 or more`,
        `Pass a number, such as --${name} 60.`,
      );
    }
    return value;
  }

  /** @throws UsageError when it is not a whole number of 0 or more, or not within `least` and `most` */
  whole(name: string, least = 0, most = Number.MAX_SAFE_INTEGER): number | undefined {
    const value = this.number(name);
    if (value === undefined || (Number.isSafeInteger(value) && value >= least && value <= most)) return value;
    if (Number.isSafeInteger(value))
      throw new UsageError(`--${name} is ${value}`, `Pass a whole number from ${least} to ${most}.`);
    throw new UsageError(`--${name} is not a whole number`, `Pass a whole number, such as --${name} 60.`);
  }

  /** One of some words. @throws UsageError when it is another */
  choice<T extends string>(name: string, choices: readonly T[]): T | undefined {
    const text = this.text(name);
    const choice = choices.find((one) => one === text);
    if (text === undefined || choice !== undefined) return choice;
    throw new UsageError(`--${name} is ${JSON.stringify(text)}`, `It is one of: ${choices.join(", ")}.`);
  }

  /** `K=V` options as a record; `K` alone takes the value of this program's variable when `fromEnvironment`. */
  pairs(name: string, fromEnvironment?: NodeJS.ProcessEnv): Record<string, string> | undefined {
    const pairs: Record<string, string> = {};
    for (const text of this.all(name)) {
      const at = text.indexOf("=");
      const key = at === -1 ? text : text.slice(0, at);
      const value = at === -1 ? fromEnvironment?.[key] : text.slice(at + 1);
      if (key === "" || value === undefined) {
        const why = at === -1 && fromEnvironment ? ", and this shell has no such variable" : "";
        throw new UsageError(`--${name} ${JSON.stringify(key)} has no value${why}`, `Pass --${name} KEY=VALUE.`);
      }
      pairs[key] = value;
    }
    return Object.keys(pairs).length === 0 ? undefined : pairs;
  }
}

/** The known word that an unknown one was probably meant to be, or null. */
export function nearest(word: string, known: readonly string[]): string | null {
  let best: string | null = null;
  let bestDistance = word.length > 3 ? 3 : 2;
  for (const candidate of known) {
    const distance = candidate.startsWith(word) && word.length > 1 ? 1 : distanceOf(word, candidate);
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

function valueOf(spec: OptionSpec, value: string | undefined, inline: boolean): string | boolean | null {
  if (spec.type === "string")
    return value === undefined || (!inline && value.startsWith("-") && value !== "-") ? null : value;
  if (value === undefined || value === "true") return true;
  return value === "false" ? false : null;
}

/** Edits between two words. */
function distanceOf(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

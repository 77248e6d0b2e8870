/** What a shell may put at the end of a line, and the scripts that ask for it. */
import { commonOptions, type OptionSpecs } from "./args.ts";
import type { Command } from "./command.ts";

export const shells = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof shells)[number];

/**
 * Words that the last one may become.
 * @param words of the line after `rouse`; the last one is what has been typed of it, or empty
 * @param names of sandboxes; asked only where one fits
 */
export async function wordsFor(
  commands: readonly Command[],
  words: readonly string[],
  names: () => Promise<readonly string[]>,
): Promise<string[]> {
  const typed = words.at(-1) ?? "";
  const before = words.slice(0, -1).filter((word) => word !== "sandbox" && word !== "--json");
  // What follows is a command of the sandbox's.
  if (before.includes("--")) return [];
  const starting = (all: readonly string[]) => [...new Set(all)].filter((word) => word.startsWith(typed)).toSorted();
  const [verb] = before;
  if (verb === undefined)
    return starting(typed.startsWith("-") ? ["--help", "--version", "--json"] : commands.map(({ name }) => name));
  const command = commands.find(({ name }) => name === verb);
  if (command === undefined) return [];
  const options: OptionSpecs = { ...command.options, ...commonOptions };
  if (typed.startsWith("-")) return starting(Object.keys(options).map((name) => `--${name}`));
  const last = before.at(-1) ?? "";
  // Its value is whatever it is.
  if (takesValue(last, options)) return [];
  const given = positionalsOf(before.slice(1), options);
  const parts = partsOf(command);
  if (parts.length > 0 && given.length === 0) {
    const own = parts.map(({ name }) => name);
    return starting(parts.some(({ unnamed }) => unnamed) ? [...own, ...(await names())] : own);
  }
  const part = parts.find(({ name }) => name === given[0]);
  const usage = part?.usage ?? (parts.length > 0 ? "" : command.usage);
  const place = placesOf(usage)[given.length - (part ? 1 : 0)];
  if (verb === "help") return given.length === 0 ? starting(commands.map(({ name }) => name)) : [];
  if (place !== undefined && place.includes("|")) return starting(place.split("|"));
  const isSandbox =
    part && !namesAreSandboxes.has(verb) ? place === "sandbox" : /^(?:name|sandbox|from|to)$/.test(place ?? "");
  return isSandbox ? starting(await names()) : [];
}

/** Groups whose `<name>` is a sandbox's. */
const namesAreSandboxes: ReadonlySet<string> = new Set(["memory", "snapshot"]);

function takesValue(word: string, options: OptionSpecs): boolean {
  return Object.entries(options).some(
    ([name, spec]) =>
      spec.type === "string" && (word === `--${name}` || (spec.short !== undefined && word === `-${spec.short}`)),
  );
}

function positionalsOf(words: readonly string[], options: OptionSpecs): string[] {
  return words.filter((word, at) => !word.startsWith("-") && !takesValue(words[at - 1] ?? "", options));
}

/** Names of the words that a usage has, in order: `<name> [port] [--print]` has `name` and `port`. */
function placesOf(usage: string): string[] {
  return [...usage.matchAll(/(?:^|\s)[<[]([^<>[\]\s-][^<>[\]\s]*)[>\]]/g)].map(([, name = ""]) => name);
}

interface PartFacts {
  readonly name: string;
  readonly usage: string;
  /** Without a verb of the group the word is a sandbox. */
  readonly unnamed: boolean;
}

function partsOf({ parts = [], unnamed }: Command): PartFacts[] {
  return parts.map(({ name, usage }) => ({ name, usage, unnamed: unnamed === true }));
}

/** Each asks `rouse completion words -- <the line so far>`, so that a new version needs no new script. */
export function completionScript(shell: Shell): string {
  switch (shell) {
    case "bash":
      return `_rouse() {
  local cur words
  cur="\${COMP_LINE:0:COMP_POINT}"
  case "$cur" in *[[:space:]]) cur="" ;; *) cur="\${cur##*[[:space:]]}" ;; esac
  read -ra words <<< "\${COMP_LINE:0:COMP_POINT}"
  words=("\${words[@]:1}")
  if [[ -z "$cur" ]]; then words+=(""); fi
  local IFS=$'\\n'
  COMPREPLY=($(rouse completion words -- "\${words[@]}" 2>/dev/null))
  if [[ \${#COMPREPLY[@]} -eq 0 ]]; then compopt -o default 2>/dev/null; fi
  # Bash replaces what follows the last colon alone.
  if [[ "$cur" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
    local prefix="\${cur%"\${cur##*:}"}"
    COMPREPLY=("\${COMPREPLY[@]#"$prefix"}")
  fi
}
complete -F _rouse rouse`;
    case "zsh":
      return `#compdef rouse
_rouse() {
  local -a found
  found=("\${(@f)$(rouse completion words -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  found=("\${(@)found:#}")
  if (( \${#found} )); then compadd -Q -- "\${(@q)found}"; else _files; fi
}
compdef _rouse rouse`;
    case "fish":
      return `function __rouse_words
  set -l line (commandline -opc) (commandline -ct)
  rouse completion words -- $line[2..-1] 2>/dev/null
end
complete -c rouse -a '(__rouse_words)'`;
  }
}

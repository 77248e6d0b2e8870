/** The commands of a shell script, as far as examples need it: words without their quotes. Pure. */

export interface Script {
  /** Words of each simple command, those in `$(...)` too. */
  readonly commands: readonly (readonly string[])[];
  readonly comments: readonly string[];
  /** `<words>` outside of quotes, which a shell takes for redirections. */
  readonly placeholders: readonly string[];
}

export function scriptOf(text: string): Script {
  const commands: (readonly string[])[] = [];
  const comments: string[] = [];
  const placeholders: string[] = [];
  const ends: string[] = [];
  let words: string[] = [];
  let word: string | null = null;
  let at = 0;

  const endWord = () => {
    if (word !== null) words.push(word);
    word = null;
  };
  const endCommand = () => {
    endWord();
    if (words.length > 0) commands.push(words);
    words = [];
  };
  /** Takes in what another script has within this one. */
  const nested = (inner: string) => {
    const script = scriptOf(inner);
    commands.push(...script.commands);
    comments.push(...script.comments);
    placeholders.push(...script.placeholders);
  };
  /** The end of `$(` that begins at `from`, where `(` is `from + 1`. */
  const closing = (from: number): number => {
    let depth = 0;
    let quote = "";
    for (let i = from + 1; i < text.length; i += 1) {
      const c = text[i];
      if (quote !== "") quote = c === quote ? "" : quote;
      else if (c === "'" || c === '"') quote = c;
      else if (c === "(") depth += 1;
      else if (c === ")" && (depth -= 1) === 0) return i;
    }
    throw new Error("$( does not end");
  };
  const substitution = () => {
    const end = closing(at);
    if (text[at + 2] !== "(") nested(text.slice(at + 2, end));
    word = (word ?? "") + text.slice(at, end + 1);
    at = end;
  };

  for (; at < text.length; at += 1) {
    const c = text[at] ?? "";
    if (c === "\\") {
      at += 1;
      if (text[at] !== "\n") word = (word ?? "") + (text[at] ?? "");
    } else if (c === "'") {
      const end = text.indexOf("'", at + 1);
      word = (word ?? "") + text.slice(at + 1, end);
      at = end;
    } else if (c === '"') {
      word ??= "";
      for (at += 1; text[at] !== '"'; at += 1) {
        if (at >= text.length) throw new Error('" does not end');
        if (text[at] === "\\") at += 1;
        if (text[at] === "$" && text[at + 1] === "(") substitution();
        else word += text[at] ?? "";
      }
    } else if (c === "$" && text[at + 1] === "(") {
      substitution();
    } else if (c === "#" && word === null) {
      const end = text.indexOf("\n", at);
      comments.push(text.slice(at + 1, end === -1 ? undefined : end).trim());
      at = (end === -1 ? text.length : end) - 1;
    } else if (c === "<" || c === ">") {
      const placeholder = /^<[a-z][a-z ]*>/.exec(text.slice(at))?.[0];
      if (placeholder !== undefined) placeholders.push(placeholder);
      endWord();
      const redirect = /^(<<<|<<-?|>>|<|>)&?[ \t]*(?:(['"]?)([^\s;|&()'"]+)\2)?/.exec(text.slice(at));
      if (redirect?.[1] === "<<" && redirect[3] !== undefined) ends.push(redirect[3]);
      at += (redirect?.[1] === "<<<" ? 3 : (redirect?.[0].length ?? 1)) - 1;
    } else if (c === "\n") {
      endCommand();
      for (const end of ends.splice(0)) at = text.indexOf(`\n${end}\n`, at) + end.length + 1;
    } else if (";|&()".includes(c)) {
      endCommand();
    } else if (/\s/.test(c)) {
      endWord();
    } else {
      word = (word ?? "") + c;
    }
  }
  endCommand();
  return { commands, comments, placeholders };
}

/** Words that stand before a command without changing which one it is. */
const KEYWORDS = new Set(["do", "then", "else", "if", "while", "until", "!", "sudo", "npx", "time", "{"]);

/** A command's own words: without assignments and keywords before it. */
export function bareCommand(words: readonly string[]): readonly string[] {
  const first = words.findIndex((word) => !KEYWORDS.has(word) && !/^[A-Za-z_]\w*=/.test(word));
  return first === -1 ? [] : words.slice(first);
}

/** Asynchronous Python of the SDK as synchronous Python. No I/O. */

/** In order; each is the whole difference between the two halves, so sources keep to what these know. */
const RULES: readonly (readonly [RegExp, string])[] = [
  [/\basync def /g, "def "],
  [/\basync for /g, "for "],
  [/\basync with /g, "with "],
  [/\bawait /g, ""],
  [/\b__aenter__\b/g, "__enter__"],
  [/\b__aexit__\b/g, "__exit__"],
  [/\b__aiter__\b/g, "__iter__"],
  [/\b__anext__\b/g, "__next__"],
  [/\banext\b/g, "next"],
  [/\baclose\b/g, "close"],
  [/\baclosing\b/g, "closing"],
  [/\bAwaitable\[((?:[^[\]]|\[[^[\]]*\])+)\]/g, "$1"],
  [/\bAsyncGenerator\[((?:[^[\]]|\[[^[\]]*\])+), None\]/g, "Generator[$1, None, None]"],
  // AsyncSandbox, AsyncIterator and all others: the synchronous one has the name without it.
  [/\bAsync(?=[A-Z])/g, ""],
];

export function synchronous(source: string, name: string): string {
  let text = source;
  for (const [from, to] of RULES) text = text.replace(from, to);
  // Where a parenthesis was for an await alone, nothing is left to hold together; Python does not mind it.
  const lines = text.split("\n").map((line) => (line.startsWith("from typing import") ? imports(line) : line));
  // The reason of a long file stays where it is looked for: first.
  const reason = lines[0]?.startsWith("# long file:") ? lines.splice(0, 1) : [];
  const origin = `# Made by test/support/print-python.ts from _async/${name}: change that file.`;
  return [...reason, origin, ...lines].join("\n");
}

/** One `from typing import` line with each name once. */
function imports(line: string): string {
  const [head = "", names = ""] = line.split(" import ");
  const kept = [...new Set(names.split(", "))].filter((one) => one !== "Awaitable");
  return `${head} import ${kept.toSorted((a, b) => (a < b ? -1 : 1)).join(", ")}`;
}

/** Paths of requests against patterns: `*` is anything within a segment, `**` anything. Pure. */

/** In a path that servers may read in more than one way: `..`, and separators that are written as numbers. */
const AMBIGUOUS = /(?:^|\/)(?:\.|%2e){1,2}(?:\/|$)|%2f|%5c|%00|\\|;/i;

/** Whether a path (without a query) is one to every server, so that a pattern can answer for it. */
export function isPlainPath(path: string): boolean {
  return path.startsWith("/") && !AMBIGUOUS.test(path) && !path.includes("//");
}

/** Takes time by the product of the lengths, whatever is in them: both may come from somebody hostile. */
export function fitsPattern(pattern: string, path: string): boolean {
  const tokens = pattern.match(/\*\*+|\*|[^*]/g) ?? [];
  // Whether the tokens so far can stand for the first n characters.
  let reached = new Uint8Array(path.length + 1);
  reached[0] = 1;
  for (const token of tokens) {
    const next = new Uint8Array(path.length + 1);
    let open = 0;
    for (let at = 0; at <= path.length; at++) {
      if (token.startsWith("*")) {
        if (at > 0 && token === "*" && path[at - 1] === "/") open = 0;
        open |= reached[at] ?? 0;
        next[at] = open;
      } else if (at > 0 && path[at - 1] === token) next[at] = reached[at - 1] ?? 0;
    }
    reached = next;
  }
  return reached[path.length] === 1;
}

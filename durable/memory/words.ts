/**
 * Text as the full-text index has it, what a query means there, and which part of a text to show. Pure.
 *
 * Scripts that put no spaces between words (Chinese, Japanese, Korean's particles, Thai and its neighbours) are indexed
 * by the character, and looked for as characters next to each other, so that any part of a sentence is found.
 */

const UNSPACED =
  /(?:\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Hangul}|\p{Script=Thai}|\p{Script=Lao}|\p{Script=Khmer}|\p{Script=Myanmar}|ー)\p{M}*/gu;
const WORD = /[\p{L}\p{N}\p{M}\p{Co}]+/gu;
/** Tokens of a query that count. */
const TERMS_MAX = 32;
/** Characters of a snippet. */
const SNIPPET = 240;

/** What the index is given. It must be worked out again just so when the text is forgotten. */
export function indexed(text: string): string {
  return text.normalize("NFKC").replace(UNSPACED, " $& ");
}

export interface Query {
  /** For `MATCH`; null: nothing in it could be found. */
  readonly match: string | null;
  /** What to show of a text. */
  readonly terms: readonly string[];
}

/** Any text is a query: nothing of it is syntax of the index. */
export function queryOf(text: string): Query {
  const wanted: string[] = [];
  const refused: string[] = [];
  const terms: string[] = [];
  for (const [, sign = "", phrase, bare] of text.matchAll(/(?<=^|\s)(-?)(?:"([^"]*)"|(\S+))/gu)) {
    const parts = phrase === undefined ? partsOf(bare ?? "") : [partsOf(phrase).join(" ")].filter((one) => one !== "");
    if (sign === "-" && wanted.length + refused.length < TERMS_MAX) {
      refused.push(...parts.map(quoted));
      continue;
    }
    for (const part of parts) {
      if (wanted.length >= TERMS_MAX) break;
      wanted.push(quoted(part));
      terms.push(part);
    }
  }
  if (wanted.length === 0) return { match: null, terms };
  const any = `(${[...new Set(wanted)].join(" OR ")})`;
  return { match: refused.length === 0 ? any : `${any} NOT (${refused.slice(0, TERMS_MAX).join(" OR ")})`, terms };
}

/** Words of a text; a run of an unspaced script is one, its characters apart. */
function partsOf(text: string): string[] {
  const runs = text.normalize("NFKC").replace(new RegExp(`(?:${UNSPACED.source})+`, "gu"), (run) => ` ${run} `);
  return (runs.match(WORD) ?? []).map((word) => indexed(word).trim().replace(/\s+/gu, " "));
}

function quoted(part: string): string {
  return `"${part}"`;
}

/** The part of a text in which most of the terms are. */
export function snippetOf(text: string, terms: readonly string[]): string {
  if (text.length <= SNIPPET) return text;
  const stems = [...new Set(terms.flatMap((term) => stemsOf(term)))];
  const places: { at: number; stem: string }[] = [];
  const tokens = stems.length === 0 ? [] : text.matchAll(/[\p{L}\p{N}\p{M}]+/gu);
  for (const { 0: token, index } of tokens) {
    const word = folded(token);
    const stem = stems.find((one) => word.includes(one));
    if (stem !== undefined) places.push({ at: index, stem });
  }
  let best = 0;
  let most = 0;
  for (const { at } of places) {
    const inside = new Set(places.filter((one) => one.at >= at && one.at < at + SNIPPET).map(({ stem }) => stem)).size;
    if (inside > most) [best, most] = [at, inside];
    if (places.length > 200) break;
  }
  const from = Math.max(0, Math.min(best - 40, text.length - SNIPPET));
  const cut = text
    .slice(from, from + SNIPPET)
    .toWellFormed()
    .replace(/^\uFFFD|\uFFFD$/gu, "");
  return `${from > 0 ? "\u2026" : ""}${cut}${from + SNIPPET < text.length ? "\u2026" : ""}`;
}

/** What the index takes for the same word begins alike. */
function stemsOf(term: string): string[] {
  return term.split(" ").map((word) => {
    const letters = folded(word);
    return letters.length > 5 ? letters.slice(0, -2) : letters;
  });
}

function folded(word: string): string {
  return word
    .normalize("NFKD")
    .replace(/\p{M}+/gu, "")
    .toLowerCase();
}

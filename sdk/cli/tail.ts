/** What was written between two looks at the end of an output. Pure. */

export interface Chunk {
  readonly stream: "stdout" | "stderr";
  readonly text: string;
}

/** How much of the end of the look before is looked for in the next, characters. */
const KNOWN = 2048;

/** The part of `now` that `before` did not have; all of it where the two have nothing in common. */
export function added(before: readonly Chunk[], now: readonly Chunk[]): Chunk[] {
  const known = textOf(before).slice(-KNOWN);
  const at = known === "" ? -1 : textOf(now).lastIndexOf(known);
  let skip = at === -1 ? 0 : at + known.length;
  const rest: Chunk[] = [];
  for (const { stream, text } of now) {
    if (skip < text.length) rest.push({ stream, text: text.slice(skip) });
    skip = Math.max(0, skip - text.length);
  }
  return rest;
}

function textOf(chunks: readonly Chunk[]): string {
  return chunks.map(({ text }) => text).join("");
}

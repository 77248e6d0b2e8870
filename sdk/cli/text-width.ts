/** How wide text is in a terminal, and making it fit. Pure. */

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });
/** What terminals show two columns wide: East Asian wide and fullwidth letters, and pictures. */
const WIDE =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{16fe0}-\u{18cff}\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}]|^\p{Emoji_Presentation}|\ufe0f/u;
/** Marks that stand on the letter before, and what joins others. */
const NOTHING = /^[\p{Mn}\p{Me}\p{Cf}]+$/u;
const ELLIPSIS = "\u2026";

/** Columns that it takes. */
export function widthOf(text: string): number {
  // Most of what is shown is ASCII.
  if (/^[ -~]*$/.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemes.segment(text)) width += columnsOf(segment);
  return width;
}

function columnsOf(grapheme: string): number {
  if (NOTHING.test(grapheme)) return 0;
  return WIDE.test(grapheme) ? 2 : 1;
}

/** The same in at most so many columns: what is cut off is an ellipsis. */
export function fitted(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let kept = "";
  let used = 0;
  for (const { segment } of graphemes.segment(text)) {
    const columns = columnsOf(segment);
    if (used + columns > width - 1) break;
    kept += segment;
    used += columns;
  }
  return width < 1 ? "" : kept + ELLIPSIS;
}

/**
 * In one line, and without anything that a terminal would obey: names and output come from others.
 */
export function plain(text: string): string {
  return text
    .replace(/\s*[\r\n]+\s*/g, " ")
    .replace(/\t/g, " ")
    .replace(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, "\ufffd");
}

/** Widths of columns that fit together: the widest give way first, none below `least`. */
export function shared(widths: readonly number[], room: number, least: number): number[] {
  const given = [...widths];
  for (let over = given.reduce((sum, one) => sum + one, 0) - room; over > 0;) {
    const widest = Math.max(...given);
    if (widest <= least) break;
    const next = Math.max(least, ...given.filter((one) => one < widest));
    const those = given.flatMap((one, at) => (one === widest ? [at] : []));
    for (const at of those) {
      const less = Math.min(widest - next, Math.ceil(over / those.length), over);
      given[at] = widest - less;
      over -= less;
      if (over <= 0) break;
    }
  }
  return given;
}

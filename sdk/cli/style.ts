/** Colours, where somebody sees them: on a terminal, unless NO_COLOR says otherwise; with FORCE_COLOR everywhere. */

const codes = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;
export type Paint = keyof typeof codes;

/** What a place to write to takes. */
export interface Look {
  /** Columns; Infinity where nobody counts them. */
  readonly width: number;
  readonly colours: boolean;
}

export const unstyled: Look = { width: Number.POSITIVE_INFINITY, colours: false };

export function lookOf(stream: { isTTY?: boolean; columns?: number }, env: NodeJS.ProcessEnv): Look {
  const tty = stream.isTTY === true;
  const forced = env["FORCE_COLOR"] !== undefined && env["FORCE_COLOR"] !== "" && env["FORCE_COLOR"] !== "0";
  const refused = (env["NO_COLOR"] ?? "") !== "" || env["TERM"] === "dumb";
  return {
    width: tty && stream.columns ? stream.columns : Number.POSITIVE_INFINITY,
    colours: forced || (tty && !refused),
  };
}

export function painted(text: string, paint: Paint | null, { colours }: Look): string {
  return colours && paint !== null && text !== "" ? `\u001b[${codes[paint]}m${text}\u001b[0m` : text;
}

const states: Readonly<Record<string, Paint>> = {
  running: "green",
  ready: "green",
  live: "green",
  delivered: "green",
  ok: "green",
  paused: "cyan",
  asleep: "cyan",
  stopped: "dim",
  deleted: "dim",
  expired: "dim",
  revoked: "dim",
  failed: "red",
  dead: "red",
  lost: "red",
  fail: "red",
  killed: "red",
  warn: "yellow",
};

/** Of a word that says how something is; what changes at the moment is yellow. */
export function paintOfState(state: string): Paint | null {
  const word = /^[a-z_]+/i.exec(state)?.[0].toLowerCase() ?? "";
  return states[word] ?? (word.endsWith("ing") ? "yellow" : null);
}

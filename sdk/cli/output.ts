/** What the command line prints: results on stdout, everything else on stderr, and exit codes. */
import { once } from "node:events";
import { AuthenticationError, RouseError } from "../src/index.ts";
import { UsageError } from "./args.ts";
import { lookOf, painted, paintOfState, unstyled, type Look, type Paint } from "./style.ts";
import { fitted, plain, shared, widthOf } from "./text-width.ts";

export const exitCodes = {
  ok: 0,
  failure: 1,
  usage: 2,
  notFound: 3,
  unauthorized: 4,
  timedOut: 124,
  signal: 128,
} as const;

export class Output {
  /** Whether results and errors are printed as JSON. */
  readonly json: boolean;
  readonly #progress: boolean;
  #progressShown = false;
  #ticks: NodeJS.Timeout | undefined;

  constructor(json: boolean) {
    this.json = json;
    this.#progress = process.stderr.isTTY === true && !json;
  }

  /** How results are shown to people. */
  get look(): Look {
    return this.json ? unstyled : lookOf(process.stdout, process.env);
  }

  /** Print a result: `text` for people, `data` with `--json`. */
  result(text: string, data: unknown): void {
    this.clearProgress();
    process.stdout.write(`${this.json ? JSON.stringify(data) : text}\n`);
  }

  /** Pass bytes on as they are, at the pace of the reader. */
  async pass(stream: "stdout" | "stderr", bytes: Uint8Array | string): Promise<void> {
    const target = stream === "stdout" ? process.stdout : process.stderr;
    if (!target.write(bytes)) await once(target, "drain");
  }

  /**
   * Say what is being waited for, on one line that the next replaces; only to people. A text that ends in three dots has
   * the seconds after it.
   */
  progress(text: string): void {
    if (!this.#progress) return;
    clearInterval(this.#ticks);
    this.#show(text);
    if (!text.endsWith("...")) return;
    const startedAt = Date.now();
    this.#ticks = setInterval(() => this.#show(`${text} ${Math.round((Date.now() - startedAt) / 1000)} s`), 1000);
    this.#ticks.unref();
  }

  #show(text: string): void {
    process.stderr.write(`\r\u001b[K${fitted(plain(text), (process.stderr.columns || 80) - 1)}`);
    this.#progressShown = true;
  }

  clearProgress(): void {
    clearInterval(this.#ticks);
    if (this.#progressShown) process.stderr.write("\r\u001b[K");
    this.#progressShown = false;
  }

  note(text: string): void {
    this.clearProgress();
    if (!this.json) process.stderr.write(`${text}\n`);
  }

  /** Say on stderr what somebody must read now, also with `--json`: then as a line of its own. */
  announce(text: string, data: unknown): void {
    this.clearProgress();
    process.stderr.write(`${this.json ? JSON.stringify(data) : text}\n`);
  }

  /** Print an error and answer its exit code. */
  error(error: unknown): number {
    this.clearProgress();
    const { code, message, hint, facts } = describe(error);
    if (this.json) {
      process.stderr.write(`${JSON.stringify({ error: { code, message, hint, ...facts } })}\n`);
    } else {
      const issues = issuesOf(facts["details"])
        .filter((issue) => !message.includes(issue))
        .map((issue) => `  ${issue}\n`)
        .join("");
      const who = painted("rouse:", "red", lookOf(process.stderr, process.env));
      process.stderr.write(`${who} ${message}\n${issues}${hint === undefined ? "" : `${hint}\n`}`);
    }
    return exitCodeOf(error);
  }
}

/** Narrowest that a column of a table gets, columns of the terminal. */
const LEAST = 8;

/**
 * Rows under a heading, in columns that together fit the terminal: what is too long ends in an ellipsis. Columns that are
 * called STATE or STATUS have colours.
 * @param look the terminal's that results go to; give `unstyled` for texts that wrap
 */
export function table(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  look: Look = lookOf(process.stdout, process.env),
): string {
  const cells = rows.map((row) => heading.map((_, column) => plain(row[column] ?? "")));
  const natural = heading.map((title, column) =>
    Math.max(widthOf(title), ...cells.map((row) => widthOf(row[column] ?? ""))),
  );
  const widths = shared(natural, look.width - 2 * (heading.length - 1), LEAST);
  const line = (row: readonly string[], paint: (cell: string, column: number) => Paint | null) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        const text = fitted(cell, width);
        const filled = column === row.length - 1 ? "" : " ".repeat(Math.max(0, width - widthOf(text)));
        return painted(text, paint(cell, column), look) + filled;
      })
      .join("  ")
      .trimEnd();
  const isState = heading.map((title) => title === "STATE" || title === "STATUS");
  return [
    line(heading, () => "bold"),
    ...cells.map((row) => line(row, (cell, column) => (isState[column] ? paintOfState(cell) : null))),
  ].join("\n");
}

/** Everything about one thing, a row for each field. */
export function fields(thing: Readonly<Record<string, unknown>>): string {
  const rows = Object.entries(thing).map(([field, value]) => [
    field,
    typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "-"),
  ]);
  return table(["FIELD", "VALUE"], rows);
}

/** Bytes in their largest unit: `512 B`, `1.5 MiB`, `20.0 GiB`. */
export function sizeOf(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const power = Math.min(4, Math.floor(Math.log2(bytes) / 10));
  return `${(bytes / 1024 ** power).toFixed(1)} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

/** Time since, in its largest unit: `12s`, `5m`, `3h`, `9d`. */
export function ago(time: string | null, nowMs: number): string {
  if (time === null) return "-";
  const seconds = Math.max(0, Math.round((nowMs - Date.parse(time)) / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

export function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError) return exitCodes.usage;
  if (!(error instanceof RouseError)) return exitCodes.failure;
  if (error instanceof AuthenticationError || error.status === 403) return exitCodes.unauthorized;
  if (error.status === 404 || error.status === 410) return exitCodes.notFound;
  if (error.code === "invalid_argument") return exitCodes.usage;
  return exitCodes.failure;
}

interface Description {
  code: string;
  message: string;
  hint: string | undefined;
  facts: Record<string, unknown>;
}

function describe(error: unknown): Description {
  if (error instanceof RouseError) {
    const { code, message, hint, name: _name, ...facts } = error.toJSON();
    return { code: String(code), message: String(message), hint: typeof hint === "string" ? hint : undefined, facts };
  }
  if (error instanceof UsageError) return { code: "usage", message: error.message, hint: error.hint, facts: {} };
  const code = error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "failed";
  return { code, message: error instanceof Error ? error.message : String(error), hint: undefined, facts: {} };
}

/** What an invalid request's details say about each field. */
function issuesOf(details: unknown): string[] {
  if (typeof details !== "object" || details === null || !("issues" in details) || !Array.isArray(details.issues))
    return [];
  return details.issues.map((issue: unknown) => {
    if (typeof issue !== "object" || issue === null) return String(issue);
    const { path, message } = issue as { path?: unknown; message?: unknown };
    return `${String(path ?? "")}: ${String(message ?? "")}`;
  });
}

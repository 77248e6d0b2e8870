/** What a test project reports, one JSON object per line, and how the runner counts it. No I/O. */

/** The environment variable that tells the reporter where to write its records. */
export const RECORD_FILE = "ROUSE_TEST_RECORD";

export type TestRecord =
  | {
      readonly type: "test";
      readonly state: "passed" | "failed" | "skipped";
      /** Relative to the project's root folder. */
      readonly file: string;
      readonly name: string;
      /** Why it failed. */
      readonly message?: string;
      /** Where it failed, `file:line`. */
      readonly at?: string;
      /** Why it was skipped. */
      readonly reason?: string;
    }
  /** A failure outside a test: a file that does not load, a hook, a stray rejection. */
  | { readonly type: "error"; readonly file: string; readonly name: string; readonly message: string }
  /** The project came to its end. */
  | { readonly type: "end" };

export interface Failed {
  readonly title: string;
  readonly message: string;
}

export interface Outcome {
  readonly project: string;
  readonly passed: number;
  readonly failed: readonly Failed[];
  readonly skipped: readonly { readonly title: string; readonly reason: string }[];
}

/** How the project's process ended; `stopped` says why the runner ended it. */
export interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stopped?: string;
}

/**
 * Count one project. A process that ends badly without having said why is one more failure, so nothing that
 * crashes can look green.
 */
export function outcomeOf(project: string, records: readonly TestRecord[], exit: Exit): Outcome {
  const failed: Failed[] = [];
  const skipped: { title: string; reason: string }[] = [];
  let passed = 0;
  let ended = false;
  for (const record of records) {
    if (record.type === "end") {
      ended = true;
      continue;
    }
    const title = `${project} > ${record.file} > ${record.name}`;
    if (record.type === "error") failed.push({ title, message: record.message });
    else if (record.state === "passed") passed += 1;
    else if (record.state === "skipped") skipped.push({ title, reason: record.reason ?? "no reason given" });
    else failed.push({ title, message: [record.message, record.at && `at ${record.at}`].filter(Boolean).join("\n") });
  }
  const clean = ended && exit.code === 0 && !exit.stopped;
  if (!clean && (failed.length === 0 || !ended || exit.stopped)) {
    const how = exit.signal ? `signal ${exit.signal}` : `exit code ${exit.code}`;
    failed.push({ title: `${project} > the project itself`, message: exit.stopped ?? `ended early with ${how}` });
  }
  return { project, passed, failed, skipped };
}

export function parseRecords(text: string): TestRecord[] {
  // A killed process leaves its last line unfinished.
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  return whole
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as TestRecord);
}

/** `N passed, N failed`, and `, N skipped` when some were. */
export function countLine(outcomes: readonly Outcome[]): string {
  const sum = (count: (outcome: Outcome) => number) => outcomes.reduce((total, outcome) => total + count(outcome), 0);
  const skipped = sum((outcome) => outcome.skipped.length);
  const line = `${sum((outcome) => outcome.passed)} passed, ${sum((outcome) => outcome.failed.length)} failed`;
  return skipped > 0 ? `${line}, ${skipped} skipped` : line;
}

/** The end of a run's output; its last line is `countLine`. */
export function report(outcomes: readonly Outcome[]): string {
  const lines: string[] = [];
  const skipped = outcomes.flatMap((outcome) => outcome.skipped);
  const failed = outcomes.flatMap((outcome) => outcome.failed);
  if (skipped.length > 0) lines.push("", "Skipped:", ...skipped.map(({ title, reason }) => `  ${title}: ${reason}`));
  if (failed.length > 0) lines.push("", "Failed:");
  for (const { title, message } of failed)
    lines.push(`  ${title}`, ...message.split("\n").map((line) => `      ${line}`));
  if (failed.length === 0 && outcomes.every((outcome) => outcome.passed === 0)) lines.push("", "No test ran.");
  lines.push("", countLine(outcomes));
  return lines.join("\n");
}

/** Green means that something ran and nothing failed. */
export function isGreen(outcomes: readonly Outcome[]): boolean {
  return outcomes.some((outcome) => outcome.passed > 0) && outcomes.every((outcome) => outcome.failed.length === 0);
}

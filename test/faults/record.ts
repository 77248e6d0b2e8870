/** What happened: faults, calls, errors, violations; and how it is told at the end. */
import { closeSync, existsSync, fstatSync, openSync, readSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export type FaultKind = "host" | "edge" | "qemu";

export interface Fault {
  readonly round: number;
  readonly kind: FaultKind;
  /** What the sandbox was made to do when it struck. */
  readonly during: string;
  readonly target: string;
  /** Unix milliseconds. */
  readonly killedAt: number;
  upAt: number | null;
}

export interface CallNote {
  readonly at: string;
  readonly round: number;
  readonly sandbox: string;
  readonly action: string;
  readonly ms: number;
  /** `ok`, or the error's code. */
  readonly outcome: string;
  readonly message?: string;
}

/** A part that is just up again has to be found by the others first, milliseconds. */
const GRACE_MS = 5000;
/** Of a system that is quite broken the first violations say it all. */
const SHOWN_MAX = 30;
const LOG_TAIL_BYTES = 512 * 1024;

export class Record {
  readonly seed: string;
  readonly faults: Fault[] = [];
  readonly calls: CallNote[] = [];
  readonly violations: string[] = [];
  round = 0;

  constructor(seed: string) {
    this.seed = seed;
  }

  violation(text: string): void {
    this.violations.push(`round ${this.round}: ${text}`);
    if (this.violations.length <= SHOWN_MAX) console.log(`  VIOLATION ${text}`);
  }

  /** Whether a part was down, or only just up again, in a span of time. */
  wasDown(kind: "host" | "edge", from: number, to: number): boolean {
    return this.faults.some(
      (fault) => fault.kind === kind && fault.killedAt <= to && (fault.upAt ?? Infinity) + GRACE_MS >= from,
    );
  }

  /** The table, and as the last line the result as JSON. */
  print(): void {
    const lines = (title: string, keys: readonly string[]) => {
      console.log(title);
      for (const [key, count] of tally(keys)) console.log(`  ${key.padEnd(28)}${String(count).padStart(6)}`);
    };
    lines(
      "faults",
      this.faults.map((fault) => `${fault.kind} ${fault.during}`),
    );
    lines(
      "actions",
      this.calls.map((call) => call.action),
    );
    const failed = this.calls.filter((call) => call.outcome !== "ok");
    lines(
      "errors that callers saw",
      failed.map((call) => call.outcome),
    );
    if (this.violations.length > SHOWN_MAX)
      console.log(`${this.violations.length - SHOWN_MAX} violations more are in violations.txt`);
    const { seed, faults, calls, violations } = this;
    console.log(JSON.stringify({ seed, faults: faults.length, actions: calls.length, violations: violations.length }));
  }

  /** Keep in a folder what explains a violation. Synchronous, for an exit. */
  keep(stateDir: string, folder: string): void {
    const rows = (list: readonly object[]) => list.map((one) => `${JSON.stringify(one)}\n`).join("");
    writeFileSync(join(folder, "faults.jsonl"), rows(this.faults));
    writeFileSync(join(folder, "calls.jsonl"), rows(this.calls));
    writeFileSync(join(folder, "violations.txt"), this.violations.join("\n"));
    for (const name of ["host.log", "edge.log"])
      writeFileSync(join(folder, name), tail(join(stateDir, name), LOG_TAIL_BYTES));
  }
}

function tally(keys: readonly string[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return [...counts].toSorted(([a], [b]) => a.localeCompare(b));
}

function tail(path: string, bytes: number): Uint8Array {
  if (!existsSync(path)) return new Uint8Array();
  const file = openSync(path, "r");
  try {
    const buffer = Buffer.alloc(bytes);
    return buffer.subarray(0, readSync(file, buffer, 0, bytes, Math.max(0, fstatSync(file).size - bytes)));
  } finally {
    closeSync(file);
  }
}

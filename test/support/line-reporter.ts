/**
 * A Vitest reporter for logs: whole lines, no cursor tricks. Prints each file as it ends, each slow or failed test at
 * once, and appends a record of everything to the file named by ROUSE_TEST_RECORD.
 */
import { appendFileSync } from "node:fs";
import { relative } from "node:path";
import type { Reporter, TestCase, TestModule, TestRunEndReason, TestSuite } from "vitest/node";
import { RECORD_FILE, type TestRecord } from "./test-record.ts";

/** Tests that take longer, in milliseconds, get a line of their own when they end. */
const SLOW_MS = 3000;

interface RunError {
  readonly message?: string;
  readonly name?: string;
  readonly diff?: string;
  readonly stack?: string;
  readonly stacks?: readonly { readonly file: string; readonly line: number }[];
}

export default class LineReporter implements Reporter {
  readonly #recordFile = process.env[RECORD_FILE];

  onTestCaseResult(test: TestCase): void {
    const result = test.result();
    if (result.state === "pending") return;
    const file = fileOf(test.module);
    const durationMs = test.diagnostic()?.duration ?? 0;
    if (result.state === "failed") {
      const [first] = result.errors;
      const at = placeOf(first);
      this.#record({
        type: "test",
        state: "failed",
        file,
        name: test.fullName,
        message: result.errors.map(textOf).join("\n"),
        ...(at ? { at } : {}),
      });
      print(`  FAILED ${test.fullName} (${seconds(durationMs)})`);
      for (const error of result.errors) print(indent(textOf(error), error.diff, placeOf(error)));
      return;
    }
    if (result.state === "passed") {
      this.#record({ type: "test", state: "passed", file, name: test.fullName });
      if (durationMs > SLOW_MS) print(`  ok ${test.fullName} (${seconds(durationMs)})`);
      return;
    }
    const reason = result.note ?? (test.options.mode === "todo" ? "to be written" : undefined);
    this.#record({ type: "test", state: "skipped", file, name: test.fullName, ...(reason ? { reason } : {}) });
  }

  onTestSuiteResult(suite: TestSuite): void {
    for (const error of suite.errors()) this.#outside(fileOf(suite.module), suite.fullName, error);
  }

  onTestModuleEnd(module: TestModule): void {
    const file = fileOf(module);
    for (const error of module.errors()) this.#outside(file, "the file", error);
    const tests = [...module.children.allTests()];
    const failed = tests.filter((test) => test.result().state === "failed").length;
    const skipped = tests.filter((test) => test.result().state === "skipped").length;
    const { duration, collectDuration, setupDuration } = module.diagnostic();
    const facts = [
      `${tests.length} tests`,
      ...(failed > 0 ? [`${failed} failed`] : []),
      ...(skipped > 0 ? [`${skipped} skipped`] : []),
      seconds(duration + collectDuration + setupDuration),
    ];
    print(`${module.ok() && module.errors().length === 0 ? "ok" : "FAILED"} ${file} (${facts.join(", ")})`);
  }

  onTestRunEnd(_modules: readonly TestModule[], errors: readonly RunError[], reason: TestRunEndReason): void {
    for (const error of errors) this.#outside(placeOf(error) ?? "-", "outside of any test", error);
    if (reason !== "interrupted") this.#record({ type: "end" });
  }

  onUserConsoleLog(log: { content: string }): void {
    print(log.content.trimEnd());
  }

  #outside(file: string, name: string, error: RunError): void {
    this.#record({ type: "error", file, name, message: textOf(error) });
    print(`  FAILED ${name || "the file"}`);
    print(indent(textOf(error), error.diff, placeOf(error) ?? error.stack));
  }

  #record(record: TestRecord): void {
    if (this.#recordFile) appendFileSync(this.#recordFile, `${JSON.stringify(record)}\n`);
  }
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

function fileOf(module: TestModule): string {
  return relative(process.cwd(), module.moduleId);
}

function textOf(error: RunError): string {
  return error.message || error.name || "unknown error";
}

function placeOf(error: RunError | undefined): string | undefined {
  const [frame] = error?.stacks ?? [];
  if (frame) return `${relative(process.cwd(), frame.file)}:${frame.line}`;
  const own = error?.stack
    ?.split("\n")
    .find((line) => line.includes(`${process.cwd()}/`) && !line.includes("/node_modules/"));
  const [, file, line] = /(\/[^\s():]+):(\d+):\d+/.exec(own ?? "") ?? [];
  return file && `${relative(process.cwd(), file)}:${line}`;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(ms < 9950 ? 2 : 0)} s`;
}

function indent(...parts: (string | undefined)[]): string {
  return parts
    .filter((part) => part !== undefined && part !== "")
    .join("\n")
    .replace(/^/gm, "    ");
}

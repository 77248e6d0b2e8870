/** Reading the fields of a body or query: every fault is collected, and all are told together. */
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { guestLimits, type TerminalSize } from "../../sdk/contract/guest-limits.ts";

interface Issue {
  readonly path: string;
  readonly message: string;
}

export class Fields {
  readonly #value: (name: string) => unknown;
  readonly #names: readonly string[];
  readonly #isQuery: boolean;
  readonly #issues: Issue[] = [];

  constructor(from: Record<string, unknown> | URLSearchParams) {
    this.#isQuery = from instanceof URLSearchParams;
    this.#names = from instanceof URLSearchParams ? [...from.keys()] : Object.keys(from);
    this.#value =
      from instanceof URLSearchParams
        ? (name) => from.get(name) ?? undefined
        : (name) => (Object.hasOwn(from, name) ? from[name] : undefined);
  }

  fault(path: string, message: string): void {
    this.#issues.push({ path, message });
  }

  has(name: string): boolean {
    return this.#value(name) !== undefined;
  }

  /** Whatever else came is a fault. */
  only(...names: readonly string[]): void {
    for (const name of this.#names) if (!names.includes(name)) this.fault(name, "is no field of this request");
  }

  text(name: string): string | undefined {
    return this.#read(name, "a string", (value): value is string => typeof value === "string");
  }

  flag(name: string): boolean {
    const value = this.#value(name);
    if (this.#isQuery) return value === "true";
    return this.#read(name, "true or false", (given): given is boolean => typeof given === "boolean") ?? false;
  }

  integer(name: string, min: number, max: number): number | undefined {
    const given = this.#value(name);
    if (given === undefined) return undefined;
    const value = this.#isQuery && typeof given === "string" && /^\d{1,15}$/.test(given) ? Number(given) : given;
    if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return value;
    this.fault(name, `expected a whole number from ${min} to ${max}`);
    return undefined;
  }

  /** Permission bits: three octal digits. */
  mode(name: string): string | undefined {
    const value = this.text(name);
    if (value === undefined || /^[0-7]{3}$/.test(value)) return value;
    this.fault(name, "expected three octal digits");
    return undefined;
  }

  oneOf<T extends string>(name: string, values: readonly T[]): T | undefined {
    return this.#read(name, `expected one of ${values.join(", ")}`, (value): value is T =>
      values.some((one) => one === value),
    );
  }

  strings(name: string): string[] | undefined {
    return this.#read(
      name,
      "a list of strings without NUL",
      (value): value is string[] =>
        Array.isArray(value) && value.every((one) => typeof one === "string" && !one.includes("\0")),
    );
  }

  env(name: string): Record<string, string> | undefined {
    return this.#read(name, "variables: names without = and NUL, values of text without NUL", isEnv);
  }

  /** An object with the size of a terminal, of which each part has a default. */
  terminal(name: string): TerminalSize | undefined {
    const value = this.#read(
      name,
      "an object with cols and rows",
      (given): given is Record<string, unknown> => typeof given === "object" && given !== null && !Array.isArray(given),
    );
    if (value === undefined) return undefined;
    const size = new Fields(value);
    size.only("cols", "rows");
    const { cols = guestLimits.terminalCols, rows = guestLimits.terminalRows } = size.size();
    for (const { path, message } of size.#issues) this.fault(`${name}.${path}`, message);
    return { cols, rows };
  }

  /** `cols` and `rows`, as far as they are there. */
  size(): Partial<TerminalSize> {
    const cols = this.integer("cols", 1, guestLimits.terminalSizeMax);
    const rows = this.integer("rows", 1, guestLimits.terminalSizeMax);
    return { ...(cols === undefined ? {} : { cols }), ...(rows === undefined ? {} : { rows }) };
  }

  /** @throws RouseFailure `invalid_request` with every fault */
  check(): void {
    if (this.#issues.length === 0) return;
    const faults = this.#issues.map(({ path, message }) => `${path}: ${message}`).join("; ");
    throw new RouseFailure("invalid_request", `The request is not valid: ${faults}`, {
      details: { issues: this.#issues },
    });
  }

  #read<T>(name: string, expected: string, is: (value: unknown) => value is T): T | undefined {
    const value = this.#value(name);
    if (value === undefined || is(value)) return value;
    this.fault(name, expected.startsWith("expected") ? expected : `expected ${expected}`);
    return undefined;
  }
}

function isEnv(value: unknown): value is Record<string, string> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return Object.entries(value).every(
    ([name, text]) => /^[^=\0]+$/.test(name) && typeof text === "string" && !text.includes("\0"),
  );
}

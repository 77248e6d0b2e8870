/** Dollars as people write them, and whole microdollars. Exact: no floating point. Pure. */
import { UsageError } from "./args.ts";

/** Most that accounts deal with at once, microdollars. */
const MOST = 1_000_000_000_000_000n;
const MICROS = 1_000_000n;

/** @param name what the words are called, for the error. @throws UsageError unless 0 or more, with at most 6 decimals */
export function microsOf(name: string, text: string, most?: bigint): number;
export function microsOf(name: string, text: string | undefined, most?: bigint): number | undefined;
export function microsOf(name: string, text: string | undefined, most = MOST): number | undefined {
  if (text === undefined) return undefined;
  const [, whole, decimals = ""] = /^(\d{1,12})(?:\.(\d{1,6}))?$/.exec(text) ?? [];
  if (whole === undefined)
    throw new UsageError(
      `${name} is ${JSON.stringify(text)}, not an amount in dollars`,
      "Digits with at most 6 decimals, such as 12.50",
    );
  const micros = BigInt(whole) * MICROS + BigInt(decimals.padEnd(6, "0"));
  if (micros > most) throw new UsageError(`${name} is more than ${usd(Number(most))}`, "Pass a smaller amount.");
  return Number(micros);
}

/** Microdollars to the last digit: `$12.50`, `$0.010833`. */
export function usd(micros: number): string {
  const all = BigInt(Math.abs(micros));
  const whole = (all / MICROS).toString().replace(/\B(?=(\d{3})+$)/g, ",");
  const decimals = (all % MICROS)
    .toString()
    .padStart(6, "0")
    .replace(/0{1,4}$/, "");
  return `${micros < 0 ? "-" : ""}$${whole}.${decimals}`;
}

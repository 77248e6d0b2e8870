/** How times, sizes and money are said. Pure. */

const relative = new Intl.RelativeTimeFormat("en", { numeric: "always" });
const units = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
] as const;

/** `3 minutes ago`, `in 2 days`, `now`. */
export function ago(iso: string, now: number): string {
  const seconds = (Date.parse(iso) - now) / 1000;
  for (const [unit, length] of units)
    if (Math.abs(seconds) >= length) return relative.format(Math.trunc(seconds / length), unit);
  return Math.abs(seconds) < 10 ? "now" : relative.format(Math.trunc(seconds), "second");
}

const full = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat("en", {
  ...{ month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" },
});

export const fullTime = (iso: string): string => full.format(new Date(iso));
/** `Nov 30, 18:27:05`. */
export const clockTime = (iso: string): string => clock.format(new Date(iso));

/** `2 h 5 min`, `340 ms`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} days`;
}

/** `1.2 MiB`. */
export function bytes(count: number): string {
  if (count < 1024) return `${count} B`;
  let value = count;
  let unit = "B";
  for (const next of ["KiB", "MiB", "GiB", "TiB"]) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return `${value < 10 ? value.toFixed(1).replace(".0", "") : Math.round(value)} ${unit}`;
}

/** Microdollars as dollars: two digits, or as many as the first that counts. */
export function money(micros: number): string {
  const dollars = micros / 1_000_000;
  if (micros === 0 || Math.abs(dollars) >= 1) return `$${dollars.toFixed(2)}`;
  if (Math.abs(dollars) < 0.0001) return "<$0.0001";
  return `$${dollars.toFixed(Math.abs(dollars) < 0.01 ? 4 : 3)}`;
}

export const mebibytes = (mib: number): string => bytes(mib * 1_048_576);

export const count = (n: number, one: string, many = `${one}s`): string =>
  `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

/** Labels as people write them: `team=web stage=prod`. */
export const labelsText = (labels: Record<string, string>): string =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(" ");

/** @throws Error naming what is not `key=value` */
export function parseLabels(text: string): Record<string, string> {
  const parts = text.split(/[\s,]+/).filter((part) => part !== "");
  return Object.fromEntries(
    parts.map((part) => {
      const at = part.indexOf("=");
      if (at < 1) throw new Error(`"${part}" is no label: write key=value, with spaces between labels.`);
      return [part.slice(0, at), part.slice(at + 1)];
    }),
  );
}

/** The reasons of the API as people say them. */
export function reasonText(reason: string | null): string {
  if (reason === null) return "";
  return (REASONS as Record<string, string>)[reason] ?? reason.replaceAll("_", " ");
}

const REASONS = {
  idle: "nobody used it",
  requested: "somebody asked for it",
  time_limit: "its time limit ran out",
  paused_expired: "it slept longer than it is kept",
  startup_failed: "it did not start",
  pause_failed: "its memory could not be saved",
  wake_failed: "its memory could not be loaded",
  vm_crashed: "its machine crashed",
  host_lost: "its host was lost",
  host_stopped: "its host stopped",
  insufficient_funds: "the credit was used up",
  spending_limit: "a spending limit was reached",
  lifetime_cap: "it cost as much as it may",
  operator_stopped: "the operator stopped it",
};

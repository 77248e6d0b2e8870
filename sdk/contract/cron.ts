/** The grammar of cron expressions: five fields, or a word such as `@daily`. When they are due is `durable/schedules`'s. Pure. */

/** Longest expression, characters. */
export const CRON_MAX = 256;

/** What the fields allow, each in rising order. Sunday is 0. */
export interface Cron {
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  readonly days: readonly number[];
  readonly months: readonly number[];
  readonly weekdays: readonly number[];
  /** Day of month and day of week both begin with something else than `*`: either is enough. */
  readonly eitherDay: boolean;
}

interface Field {
  readonly name: string;
  readonly least: number;
  readonly most: number;
  /** The first stands for `least`. */
  readonly words: readonly string[];
}

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const fields = [
  { name: "minute", least: 0, most: 59, words: [] },
  { name: "hour", least: 0, most: 23, words: [] },
  { name: "day of month", least: 1, most: 31, words: [] },
  { name: "month", least: 1, most: 12, words: MONTHS },
  { name: "day of week", least: 0, most: 7, words: WEEKDAYS },
] as const satisfies readonly Field[];

const WORDS: Readonly<Record<string, string>> = {
  "@hourly": "0 * * * *",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@weekly": "0 0 * * 0",
  "@monthly": "0 0 1 * *",
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
};
/** Days of each month, in a leap year. */
const LENGTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

export type ParsedCron =
  | { readonly ok: true; readonly cron: Cron }
  /** Each names its field. */
  | { readonly ok: false; readonly faults: readonly string[] };

export function parseCron(text: string): ParsedCron {
  const fail = (...faults: string[]): ParsedCron => ({ ok: false, faults });
  if (text.length > CRON_MAX) return fail(`at most ${CRON_MAX} characters`);
  const trimmed = text.trim().toLowerCase();
  if (trimmed.startsWith("@") && !Object.hasOwn(WORDS, trimmed))
    return fail(`${trimmed} is none of ${Object.keys(WORDS).join(", ")}`);
  const parts = (WORDS[trimmed] ?? trimmed).split(/[ \t]+/);
  if (parts.length !== fields.length)
    return fail(
      `five fields (minute, hour, day of month, month, day of week), not ${trimmed === "" ? 0 : parts.length}`,
    );
  const faults: string[] = [];
  const [minutes = [], hours = [], days = [], months = [], weekdays = []] = fields.map((field, index) =>
    valuesOf(parts[index] ?? "", field, (fault) => faults.push(`${field.name}: ${fault}`)),
  );
  if (faults.length > 0) return { ok: false, faults };
  const eitherDay = [parts[2], parts[4]].every((part) => part?.startsWith("*") === false);
  const cron = { minutes, hours, days, months, weekdays, eitherDay };
  const [firstDay = 1] = days;
  if (!eitherDay && !months.some((month) => firstDay <= (LENGTHS[month - 1] ?? 0)))
    return fail("day of month: no month that is meant has that day, so it would never run");
  return { ok: true, cron };
}

/** In rising order, each once. */
function valuesOf(part: string, field: Field, onFault: (fault: string) => void): number[] {
  const values = new Set<number>();
  for (const item of part.split(",")) {
    const range = rangeOf(item, field);
    if (typeof range === "string") {
      onFault(range);
      continue;
    }
    for (let value = range.from; value <= range.to; value += range.step)
      values.add(field.name === "day of week" ? value % 7 : value);
  }
  return [...values].toSorted((a, b) => a - b);
}

/** Or why it is none. */
function rangeOf(item: string, field: Field): { from: number; to: number; step: number } | string {
  const { least, most, name } = field;
  const match = /^(?:(\*)|([a-z0-9]+)(?:-([a-z0-9]+))?)(?:\/(\d{1,4}))?$/.exec(item);
  if (!match) return `${JSON.stringify(item)} is no number, name, range or step`;
  const [, star, first, last, every] = match;
  const step = every === undefined ? 1 : Number(every);
  if (step === 0) return `${item}: a step is at least 1`;
  // Not "every 90 minutes": a field begins anew each time.
  if (step > most - least) return `${item}: a step is at most ${most - least} here`;
  if (star) return { from: least, to: name === "day of week" ? 6 : most, step };
  const from = numberOf(first ?? "", field);
  if (typeof from === "string") return from;
  if (last === undefined) return every === undefined ? { from, to: from, step } : `${item}: a step needs * or a range`;
  const end = numberOf(last, field);
  if (typeof end === "string") return end;
  // A week may end on a Sunday.
  const to = name === "day of week" && end === 0 && from > 0 ? 7 : end;
  return to < from ? `${item}: it ends before it begins` : { from, to, step };
}

function numberOf(text: string, { least, most, words }: Field): number | string {
  const word = words.indexOf(text);
  if (word !== -1) return least + word;
  if (!/^\d{1,4}$/.test(text)) return `${JSON.stringify(text)} is no number${words.length === 0 ? "" : " or name"}`;
  const value = Number(text);
  return value < least || value > most ? `${value} is not within ${least}-${most}` : value;
}

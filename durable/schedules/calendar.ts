/**
 * When a cron expression is due in a time zone, over the changes of its clock. Pure.
 *
 * A schedule whose hour is `*` goes by real time: it runs in both of the hours that come twice, and not in the one that
 * is left out. Any other has local times, each of which runs once a day: the first time when it comes twice, and at the
 * first moment after the gap when it does not exist; several of one gap are one.
 */
import type { Cron } from "../../sdk/contract/cron.ts";

const MINUTE = 60_000;
const HOUR = 3_600_000;
const DAY = 86_400_000;
/** Days that are looked at: 29 February may be 8 years off, and on a weekday of its own 40. */
const DAYS_MAX = 41 * 366;
const ZONES_MAX = 100;

/** The first time after another, Unix milliseconds; null when there is none. */
export function nextTime(cron: Cron, zone: string, after: number): number | null {
  return cron.hours.length === 24 ? nextByClock(cron, zone, after) : nextOfDay(cron, zone, after);
}

/** The newest time that is not after `now`, and not before `from`; null when there is none. */
export function newestTime(cron: Cron, zone: string, from: number, now: number): number | null {
  let newest: number | null = null;
  for (let time = nextTime(cron, zone, from - 1); time !== null && time <= now; time = nextTime(cron, zone, time))
    newest = time;
  return newest;
}

function nextByClock(cron: Cron, zone: string, after: number): number | null {
  let time = (Math.floor(after / MINUTE) + 1) * MINUTE;
  const end = after + DAYS_MAX * DAY;
  while (time < end) {
    const local = time + offsetAt(zone, time);
    const day = Math.floor(local / DAY);
    if (!isDue(cron, day)) {
      const next = dayAfter(cron, day);
      if (next === null) return null;
      time = Math.max(instantOf(zone, next * DAY), time + MINUTE);
      continue;
    }
    const minute = Math.floor((local % HOUR) / MINUTE);
    const found = cron.minutes.find((one) => one >= minute);
    if (found === minute) return time;
    time += ((found ?? 60) - minute) * MINUTE;
  }
  return null;
}

function nextOfDay(cron: Cron, zone: string, after: number): number | null {
  // The day before may have a time that its zone's clock left out.
  const first = Math.floor((after + offsetAt(zone, after)) / DAY) - 1;
  for (let day: number | null = isDue(cron, first) ? first : dayAfter(cron, first); day !== null;) {
    const time = timesOf(cron, zone, day).find((one) => one > after);
    if (time !== undefined) return time;
    day = day - first > DAYS_MAX ? null : dayAfter(cron, day);
  }
  return null;
}

/** In rising order. @param day since 1970, local */
function timesOf({ hours, minutes }: Cron, zone: string, day: number): number[] {
  const begin = day * DAY;
  const [before, later] = [offsetAt(zone, begin - DAY), offsetAt(zone, begin + 2 * DAY)];
  return hours.flatMap((hour) => {
    const local = begin + hour * HOUR;
    if (before === later) return minutes.map((minute) => local + minute * MINUTE - before);
    const [first, last] = [instantOf(zone, local), instantOf(zone, local + 59 * MINUTE)];
    const isWhole = last - first === 59 * MINUTE;
    return minutes.map((minute) => (isWhole ? first + minute * MINUTE : instantOf(zone, local + minute * MINUTE)));
  });
}

/** The next day that is meant. */
function dayAfter(cron: Cron, day: number): number | null {
  for (let next = day + 1; next <= day + DAYS_MAX; next++) if (isDue(cron, next)) return next;
  return null;
}

/** @param day since 1970, local */
function isDue({ days, months, weekdays, eitherDay }: Cron, day: number): boolean {
  const date = new Date(day * DAY);
  if (!months.includes(date.getUTCMonth() + 1)) return false;
  const byDay = days.includes(date.getUTCDate());
  const byWeekday = weekdays.includes(date.getUTCDay());
  return eitherDay ? byDay || byWeekday : byDay && byWeekday;
}

/** When a local time is: the first time when it comes twice, the first moment after the gap when it does not exist. */
function instantOf(zone: string, local: number): number {
  const [before, later] = [offsetAt(zone, local - DAY), offsetAt(zone, local + DAY)];
  // Ahead of UTC by more is earlier.
  for (const offset of [Math.max(before, later), Math.min(before, later)])
    if (offsetAt(zone, local - offset) === offset) return local - offset;
  // The change is between what it would be by the one and by the other.
  let [low, high] = [local - Math.max(before, later), local - Math.min(before, later)];
  while (high - low > MINUTE) {
    const middle = Math.floor((low + high) / 2 / MINUTE) * MINUTE;
    if (offsetAt(zone, middle) === before) low = middle;
    else high = middle;
  }
  return high;
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** How far a zone's clock is ahead of UTC then, milliseconds. */
function offsetAt(zone: string, time: number): number {
  if (zone === "UTC") return 0;
  let format = formats.get(zone);
  if (!format) {
    const date = { year: "numeric", month: "numeric", day: "numeric" } as const;
    const clock = { hour: "numeric", minute: "numeric", second: "numeric", hourCycle: "h23" } as const;
    format = new Intl.DateTimeFormat("en-US", { timeZone: zone, calendar: "gregory", ...date, ...clock });
    if (formats.size >= ZONES_MAX) formats.clear();
    formats.set(zone, format);
  }
  const parts = Object.fromEntries(format.formatToParts(time).map(({ type, value }) => [type, Number(value)]));
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
  return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(time / 1000) * 1000;
}

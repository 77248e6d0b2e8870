/** When schedules are due: what the fields mean, over both changes of a clock. */
import { describe, expect, it } from "vitest";
import { newestTime, nextTime } from "../../durable/schedules/calendar.ts";
import { parseCron, type Cron } from "../../sdk/contract/cron.ts";
import { seeded } from "../support/random.ts";

function cron(text: string): Cron {
  const parsed = parseCron(text);
  if (!parsed.ok) throw new Error(parsed.faults.join("; "));
  return parsed.cron;
}

function times(text: string, zone: string, after: string, count: number): string[] {
  const all: string[] = [];
  for (let time: number | null = Date.parse(after); all.length < count;) {
    time = nextTime(cron(text), zone, time);
    if (time === null) break;
    all.push(new Date(time).toISOString().replace(":00.000Z", "Z"));
  }
  return all;
}

const BERLIN = "Europe/Berlin";
const NEW_YORK = "America/New_York";
const LORD_HOWE = "Australia/Lord_Howe";

describe("the fields of an expression", () => {
  it.each([
    ["61 * * * *", "minute: 61 is not within 0-59"],
    ["*/0 * * * *", "minute: */0: a step is at least 1"],
    ["*/90 * * * *", "minute: */90: a step is at most 59 here"],
    ["5/15 * * * *", "minute: 5/15: a step needs * or a range"],
    ["0 24 * * *", "hour: 24 is not within 0-23"],
    ["0 9-5 * * *", "hour: 9-5: it ends before it begins"],
    ["0 0 0 * *", "day of month: 0 is not within 1-31"],
    ["0 0 L * *", 'day of month: "l" is no number'],
    ["0 0 * foo *", 'month: "foo" is no number or name'],
    ["0 0 * * 8", "day of week: 8 is not within 0-7"],
    ["0 0 * * 5#2", 'day of week: "5#2" is no number, name, range or step'],
    ["0 0 * * ,", 'day of week: "" is no number, name, range or step'],
    ["0 0 30 2 *", "day of month: no month that is meant has that day, so it would never run"],
    ["0 0 31 4,6,9,11 *", "day of month: no month that is meant has that day, so it would never run"],
    ["0 0 30 2 */2", "day of month: no month that is meant has that day, so it would never run"],
    ["* * * * * *", "five fields (minute, hour, day of month, month, day of week), not 6"],
    ["", "five fields (minute, hour, day of month, month, day of week), not 0"],
    ["@reboot", "@reboot is none of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually"],
    [`${"1,".repeat(200)}1 * * * *`, "at most 256 characters"],
  ])("%j is refused: it says which field and why", (text, fault) => {
    expect(parseCron(text)).toMatchObject({ ok: false, faults: expect.arrayContaining([fault]) });
  });

  it("are refused all at once", () => {
    expect(parseCron("60 25 * 13 *")).toEqual({
      ok: false,
      faults: ["minute: 60 is not within 0-59", "hour: 25 is not within 0-23", "month: 13 is not within 1-12"],
    });
  });

  it.each([
    ["0 9 * jan-mar MON-Fri", ["2026-01-01T09:00Z", "2026-01-02T09:00Z", "2026-01-05T09:00Z"]],
    ["5,50-52 3-6/2 * * *", ["2026-01-01T03:05Z", "2026-01-01T03:50Z", "2026-01-01T03:51Z"]],
    ["0 0 * * 7", ["2026-01-04T00:00Z", "2026-01-11T00:00Z"]],
    ["0 0 * * sat-sun", ["2026-01-03T00:00Z", "2026-01-04T00:00Z", "2026-01-10T00:00Z"]],
    // Either day is enough where both are restricted, and both are needed where one begins with *.
    ["0 0 13 * 5", ["2026-01-02T00:00Z", "2026-01-09T00:00Z", "2026-01-13T00:00Z"]],
    ["0 0 */10 * 1", ["2026-05-11T00:00Z", "2026-06-01T00:00Z", "2026-08-31T00:00Z"]],
    ["0 0 31 * *", ["2026-01-31T00:00Z", "2026-03-31T00:00Z", "2026-05-31T00:00Z"]],
    ["0 0 29 2 *", ["2028-02-29T00:00Z", "2032-02-29T00:00Z"]],
    ["0 0 30 2 1", ["2026-02-02T00:00Z", "2026-02-09T00:00Z"]],
    ["@hourly", ["2026-01-01T01:00Z", "2026-01-01T02:00Z"]],
    ["@weekly", ["2026-01-04T00:00Z", "2026-01-11T00:00Z"]],
    ["@monthly", ["2026-02-01T00:00Z", "2026-03-01T00:00Z"]],
    ["@yearly", ["2027-01-01T00:00Z", "2028-01-01T00:00Z"]],
  ])("%s", (text, expected) => {
    expect(times(text, "UTC", "2026-01-01T00:00:30Z", expected.length)).toEqual(expected);
  });
});

describe("a local time that does not exist", () => {
  it.each([
    ["30 2 * * *", BERLIN, "2026-03-28T12:00Z", ["2026-03-29T01:00Z", "2026-03-30T00:30Z"]],
    // Several of one gap are one.
    ["0,30 2 * * *", BERLIN, "2026-03-28T12:00Z", ["2026-03-29T01:00Z", "2026-03-30T00:00Z"]],
    ["0,30 2-3 * * *", BERLIN, "2026-03-28T12:00Z", ["2026-03-29T01:00Z", "2026-03-29T01:30Z", "2026-03-30T00:00Z"]],
    ["0 */2 * * *", BERLIN, "2026-03-28T22:30Z", ["2026-03-28T23:00Z", "2026-03-29T01:00Z", "2026-03-29T02:00Z"]],
    ["30 2 8 3 *", NEW_YORK, "2026-03-01T00:00Z", ["2026-03-08T07:00Z", "2027-03-08T07:30Z"]],
    ["15 2 * * *", LORD_HOWE, "2026-10-02T20:00Z", ["2026-10-03T15:30Z", "2026-10-04T15:15Z"]],
    // At midnight.
    ["0 0 * * sun", "America/Santiago", "2026-09-05T12:00Z", ["2026-09-06T04:00Z", "2026-09-13T03:00Z"]],
    // A whole day.
    ["0 12 30 12 *", "Pacific/Apia", "2011-12-28T00:00Z", ["2011-12-30T10:00Z", "2012-12-29T22:00Z"]],
  ])("runs at the first moment after: %s in %s", (text, zone, after, expected) => {
    expect(times(text, zone, after, expected.length)).toEqual(expected);
  });
});

describe("a local time that comes twice", () => {
  it.each([
    ["30 2 * * *", BERLIN, "2026-10-24T12:00Z", ["2026-10-25T00:30Z", "2026-10-26T01:30Z"]],
    ["30 2 * * *", BERLIN, "2026-10-25T00:45Z", ["2026-10-26T01:30Z"]],
    ["*/30 2 * * *", BERLIN, "2026-10-24T12:00Z", ["2026-10-25T00:00Z", "2026-10-25T00:30Z", "2026-10-26T01:00Z"]],
    ["0 */2 * * *", BERLIN, "2026-10-24T23:30Z", ["2026-10-25T00:00Z", "2026-10-25T03:00Z"]],
    ["30 1 * * *", NEW_YORK, "2026-10-31T12:00Z", ["2026-11-01T05:30Z", "2026-11-02T06:30Z"]],
    ["45 1 * * *", LORD_HOWE, "2026-04-04T02:00Z", ["2026-04-04T14:45Z", "2026-04-05T15:15Z"]],
    ["30 23 * * sat", "America/Santiago", "2026-04-03T12:00Z", ["2026-04-05T02:30Z", "2026-04-12T03:30Z"]],
  ])("runs the first time: %s in %s", (text, zone, after, expected) => {
    expect(times(text, zone, after, expected.length)).toEqual(expected);
  });
});

describe("a schedule of every hour", () => {
  it.each([
    ["30 * * * *", BERLIN, "2026-10-24T23:50Z", ["2026-10-25T00:30Z", "2026-10-25T01:30Z", "2026-10-25T02:30Z"]],
    ["*/30 * * * *", BERLIN, "2026-03-29T00:10Z", ["2026-03-29T00:30Z", "2026-03-29T01:00Z", "2026-03-29T01:30Z"]],
    ["*/30 * * * *", NEW_YORK, "2026-11-01T05:10Z", ["2026-11-01T05:30Z", "2026-11-01T06:00Z", "2026-11-01T06:30Z"]],
    ["*/15 * * * *", LORD_HOWE, "2026-04-04T14:50Z", ["2026-04-04T15:00Z", "2026-04-04T15:15Z", "2026-04-04T15:30Z"]],
    ["40 * * * *", LORD_HOWE, "2026-04-04T14:00Z", ["2026-04-04T14:40Z", "2026-04-04T15:10Z", "2026-04-04T16:10Z"]],
    ["15 * * * *", LORD_HOWE, "2026-10-03T14:50Z", ["2026-10-03T16:15Z", "2026-10-03T17:15Z"]],
    ["0 * * * mon", BERLIN, "2026-10-25T22:30Z", ["2026-10-25T23:00Z", "2026-10-26T00:00Z"]],
  ])("goes on by real time: %s in %s", (text, zone, after, expected) => {
    expect(times(text, zone, after, expected.length)).toEqual(expected);
  });
});

describe("whatever the expression", () => {
  const MINUTE = 60_000;
  const windows: readonly (readonly [string, string])[] = [
    ["UTC", "2026-03-28T12:00Z"],
    ["Asia/Kathmandu", "2026-03-28T12:00Z"],
    [BERLIN, "2026-03-28T12:00Z"],
    [BERLIN, "2026-10-24T12:00Z"],
    [NEW_YORK, "2026-03-07T18:00Z"],
    [NEW_YORK, "2026-10-31T18:00Z"],
    [LORD_HOWE, "2026-10-03T02:00Z"],
    [LORD_HOWE, "2026-04-04T02:00Z"],
    ["America/Santiago", "2026-09-05T16:00Z"],
    ["America/Santiago", "2026-04-04T16:00Z"],
  ];
  const random = seeded(7);
  const between = (least: number, most: number) => least + Math.floor(random() * (most - least + 1));
  const some = (least: number, most: number) => {
    const one = between(least, most);
    const range = `${one}-${between(one, most)}`;
    return (
      ["*", `*/${between(1, most - least)}`, `${one}`, range, `${between(least, most)},${one}`][between(0, 4)] ?? "*"
    );
  };

  /** What a clock on the wall shows at each minute of 36 hours, as minutes since 1970. */
  function shown(zone: string, from: number): number[] {
    const date = { year: "numeric", month: "2-digit", day: "2-digit" } as const;
    const clock = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
    const format = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, ...date, ...clock });
    const walls = [];
    for (let at = 0; at < 36 * 60; at++)
      walls.push(Date.parse(`${format.format(from + at * MINUTE).replace(" ", "T")}Z`) / MINUTE);
    return walls;
  }

  /** By looking at that clock every minute. */
  function expected({ minutes, hours, days, months, weekdays, eitherDay }: Cron, walls: readonly number[]): number[] {
    const isMeant = (wall: number) => {
      const date = new Date(wall * MINUTE);
      const [byDay, byWeekday] = [days.includes(date.getUTCDate()), weekdays.includes(date.getUTCDay())];
      return (
        minutes.includes(date.getUTCMinutes()) &&
        hours.includes(date.getUTCHours()) &&
        months.includes(date.getUTCMonth() + 1) &&
        (eitherDay ? byDay || byWeekday : byDay && byWeekday)
      );
    };
    if (hours.length === 24) return walls.flatMap((wall, at) => (isMeant(wall) ? [at] : []));
    let latest = (walls[0] ?? 0) - 1;
    return walls.flatMap((wall, at) => {
      let due = false;
      // What was not shown yet; where the clock was set ahead that is more than a minute.
      while (latest < wall) due = isMeant(++latest) || due;
      return due ? [at] : [];
    });
  }

  it.each(windows)("a clock in %s from %s on says the same, minute by minute", (zone, begin) => {
    const from = Date.parse(begin);
    const walls = shown(zone, from);
    for (let round = 0; round < 30; round++) {
      const text = `${some(0, 59)} ${some(0, 23)} ${some(1, 28)} ${some(1, 12)} ${some(0, 6)}`;
      const parsed = cron(text);
      const got: number[] = [];
      for (let time = from - 1; got.length <= walls.length;) {
        const next = nextTime(parsed, zone, time);
        if (next === null || next >= from + walls.length * MINUTE) break;
        got.push((next - from) / MINUTE);
        time = next;
      }
      expect([text, got]).toEqual([text, expected(parsed, walls)]);
      const newest = newestTime(parsed, zone, from, from + walls.length * MINUTE - 1);
      expect(newest === null ? undefined : (newest - from) / MINUTE).toBe(got.at(-1));
    }
  });

  it("times rise, and go on for ever", () => {
    for (let round = 0; round < 150; round++) {
      const parsed = cron(`${some(0, 59)} ${some(0, 23)} ${some(1, 28)} ${some(1, 12)} ${some(0, 6)}`);
      const [zone] = windows[between(0, windows.length - 1)] ?? ["UTC"];
      let time: number | null = Date.UTC(2026, between(0, 11), between(1, 28), between(0, 23), 17);
      const all = [time];
      while (all.length < 12 && time !== null) {
        time = nextTime(parsed, zone, time);
        all.push(time ?? 0);
      }
      expect(all).toEqual([...new Set(all)].toSorted((a, b) => a - b));
    }
  });
});

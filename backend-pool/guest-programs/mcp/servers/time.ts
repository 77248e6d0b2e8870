/** Times here and elsewhere. */
import { z } from "zod";
import { tool, type Tool } from "./tool.ts";

const Zone = z
  .string()
  .max(64)
  .refine(isZone, "a time zone such as Europe/Berlin")
  .describe("A time zone such as Europe/Berlin; UTC unless given");

export function timeTools(): readonly Tool[] {
  return [
    tool({
      name: "get_current_time",
      description: "What time it is.",
      input: z.strictObject({ timezone: Zone.optional() }),
      readOnly: true,
      act: async ({ timezone }) => shown(new Date(), timezone),
    }),
    tool({
      name: "convert_time",
      description: "What a time is in another time zone.",
      input: z.strictObject({
        time: z.iso.datetime({ offset: true }).describe("With its offset, such as 2027-01-31T09:00:00+01:00"),
        timezone: Zone,
      }),
      readOnly: true,
      act: async ({ time, timezone }) => shown(new Date(time), timezone),
    }),
  ];
}

function isZone(zone: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return true;
  } catch {
    return false;
  }
}

function shown(time: Date, timezone = "UTC"): string {
  const format = { timeZone: timezone, dateStyle: "full", timeStyle: "long" } as const;
  return JSON.stringify({
    utc: time.toISOString(),
    timezone,
    local: new Intl.DateTimeFormat("en-GB", format).format(time),
  });
}

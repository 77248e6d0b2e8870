/** Times as people write them. Pure. */
import { z } from "zod";
import { UsageError } from "./args.ts";

/** A day means its first moment (UTC); a time of day needs its zone. @throws UsageError for what is neither */
export function endOf(name: string, text: string): Date {
  if (z.union([z.iso.date(), z.iso.datetime({ offset: true })]).safeParse(text).success) return new Date(text);
  throw new UsageError(`${name} is ${JSON.stringify(text)}, not a time`, "Such as 2026-12-31 or 2026-12-31T18:00:00Z");
}

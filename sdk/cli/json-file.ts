/** A file with JSON that a contract describes, or standard input. */
import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import type { ZodType } from "zod";
import { UsageError } from "./args.ts";

/**
 * @param file a path; `-` for stdin
 * @param what it holds, such as `rules`
 * @param see where the form is described
 * @throws UsageError with every fault of the file
 */
export async function jsonFrom<T>(file: string, schema: ZodType<T>, what: string, see: string): Promise<T> {
  const json = file === "-" ? await text(process.stdin) : await readFile(file, "utf8").catch(() => null);
  if (json === null) throw new UsageError(`${file} can't be read`, "A file with a JSON list, or - for stdin.");
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw new UsageError(`The ${what} are not JSON`, see);
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
  throw new UsageError(faults.join("; "), see);
}

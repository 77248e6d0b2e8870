/** Errors at the boundaries: the wire schema and parsing. The registry itself is in `error-codes.ts`. */
import { z } from "zod";
import { RouseFailure } from "./error-codes.ts";

export * from "./error-codes.ts";

export const ErrorBody = z
  .object({
    error: z.object({
      code: z.string(),
      status: z.int(),
      message: z.string(),
      hint: z.string().optional(),
      details: z.record(z.string(), z.unknown()).optional(),
      requestId: z.string().optional(),
      /** Milliseconds after which a retry makes sense. */
      retryAfterMs: z.number().optional(),
    }),
  })
  .meta({ id: "Error" });
export type ErrorBody = z.infer<typeof ErrorBody>;

/**
 * Parse at a boundary: all faults of the input are reported together.
 * @throws RouseFailure `invalid_request` with `details.issues: [{path, message}]`
 */
export function parseOrFail<T extends z.ZodType>(schema: T, input: unknown, what = "request"): z.infer<T> {
  const parsed = schema.safeParse(input);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map((issue) => ({
    path: issue.path.map(String).join("."),
    message: issue.message,
  }));
  const faults = issues.map((issue) => (issue.path ? `${issue.path}: ${issue.message}` : issue.message)).join("; ");
  throw new RouseFailure("invalid_request", `The ${what} is not valid: ${faults}`, { details: { issues } });
}

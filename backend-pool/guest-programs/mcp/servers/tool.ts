/** A tool of a server that is a part of the gateway. */
import type { z } from "zod";

export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly input: z.ZodType;
  readonly readOnly: boolean;
  /** What it throws is the answer, as an error. */
  run(input: unknown, signal: AbortSignal): Promise<string>;
}

export function tool<T extends z.ZodType>(
  facts: Omit<Tool, "input" | "run"> & {
    readonly input: T;
    readonly act: (input: z.infer<T>, signal: AbortSignal) => Promise<string>;
  },
): Tool {
  const { act, ...rest } = facts;
  // The caller has parsed it by the same schema.
  return { ...rest, run: (input, signal) => act(input as z.infer<T>, signal) };
}

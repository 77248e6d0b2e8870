/** What a tool of the edge's MCP server is. */
import type { z } from "zod";
import { ErrorBody } from "../../sdk/contract/errors.ts";
import { isErrorCode, RouseFailure } from "../../sdk/contract/error-codes.ts";

/** Calls of the API as the caller: what their key may not do, no tool does. */
export type Send = (
  method: string,
  path: string,
  init: { headers: Headers; body: string | Uint8Array | null },
) => Promise<Response>;

export interface Picture {
  readonly mimeType: string;
  /** Base64. */
  readonly data: string;
}

export interface Result {
  readonly structured: Record<string, unknown>;
  /** What a model should see beside the text. */
  readonly pictures?: readonly Picture[];
}

export interface Tool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly input: z.ZodObject;
  readonly output: z.ZodObject;
  /** It changes nothing. */
  readonly readOnly: boolean;
  /** What it takes away can't be had back. */
  readonly destructive?: true;
  /** Once more changes nothing more. */
  readonly idempotent?: true;
  /** It runs what the caller wrote, or lets others in. */
  readonly open?: true;
  /** @throws RouseFailure */
  run(api: Api, input: unknown): Promise<Result>;
}

type Facts<I, O> = Omit<Tool, "input" | "output" | "run"> & { readonly input: I; readonly output: O };

/** A tool whose answer is its structure. */
export function tool<I extends z.ZodObject, O extends z.ZodObject>(
  facts: Facts<I, O> & {
    readonly act: (api: Api, input: z.infer<I>) => Promise<z.infer<O> & { pictures?: readonly Picture[] }>;
  },
): Tool {
  const { act, ...rest } = facts;
  return {
    ...rest,
    async run(api, input) {
      // The caller has parsed it by the same schema.
      const { pictures, ...answer } = await act(api, input as z.infer<I>);
      return { structured: rest.output.parse(answer), ...(pictures ? { pictures } : {}) };
    },
  };
}

export class Api {
  readonly #send: Send;

  constructor(send: Send) {
    this.#send = send;
  }

  /** @throws RouseFailure whatever the API refused */
  async json<T extends z.ZodType>(schema: T, method: string, path: string, body?: unknown): Promise<z.infer<T>> {
    const response = await this.bytes(method, path, body === undefined ? null : JSON.stringify(body));
    return schema.parse(await response.json());
  }

  /** @throws RouseFailure whatever the API refused */
  async bytes(method: string, path: string, body: string | Uint8Array | null = null): Promise<Response> {
    // A model has nothing to do with what is under way: each change is waited for.
    const headers = new Headers({ prefer: "wait=120" });
    if (body !== null)
      headers.set("content-type", typeof body === "string" ? "application/json" : "application/octet-stream");
    const response = await this.#send(method, path, { headers, body });
    if (response.ok) return response;
    throw failureOf(response.status, await response.text());
  }
}

/** What a program or host answered, in the API's form. */
function failureOf(status: number, text: string): RouseFailure {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = null;
  }
  const parsed = ErrorBody.safeParse(value);
  if (!parsed.success || !isErrorCode(parsed.data.error.code))
    return new RouseFailure("internal_error", `The call was answered with ${status}.`);
  const { code, message, details, retryAfterMs } = parsed.data.error;
  return new RouseFailure(code, message, {
    ...(details ? { details } : {}),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

/** The path of a sandbox and what is below it. */
export function at(sandbox: string, rest = ""): string {
  return `/v1/sandboxes/${encodeURIComponent(sandbox)}${rest}`;
}

/** A query, without what is not given. */
export function query(values: Readonly<Record<string, string | number | boolean | undefined>>): string {
  const given = Object.entries(values).flatMap(([key, value]): [string, string][] =>
    value === undefined ? [] : [[key, String(value)]],
  );
  return given.length === 0 ? "" : `?${new URLSearchParams(given).toString()}`;
}

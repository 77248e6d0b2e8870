/** Reading what a request says: query, JSON body, preferences. All faults of an input are reported together. */
import { z } from "zod";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { parseOrFail } from "../../sdk/contract/errors.ts";
import { limits } from "../../sdk/contract/sandbox.ts";

/** Longest JSON body, bytes. */
export const JSON_MAX = 8 * 1_048_576;
/** How long a change is waited for when the client says nothing of waiting, seconds. */
const HOLD_SECONDS = 60;

/** Parse a query: keys whose schema is a list may repeat. */
export function readQuery<T extends z.ZodType>(schema: T, params: URLSearchParams): z.infer<T> {
  const shape = schema instanceof z.ZodObject ? schema.shape : {};
  const values: Record<string, string | string[]> = {};
  for (const key of params.keys()) {
    const all = params.getAll(key);
    const isList = Object.hasOwn(shape, key) && isArray((shape as Record<string, z.ZodType>)[key]);
    values[key] = isList || all.length > 1 ? all : (all[0] ?? "");
  }
  return parseOrFail(schema, values, "query");
}

function isArray(schema: z.ZodType | undefined): boolean {
  return schema instanceof z.ZodOptional ? schema.unwrap() instanceof z.ZodArray : schema instanceof z.ZodArray;
}

/** The text of a JSON body and what it says; no body is an empty object. */
export async function readJson<T extends z.ZodType>(
  schema: T,
  request: Request,
): Promise<{ text: string; value: z.infer<T> }> {
  const text = await readText(request);
  return { text: text.trim() === "" ? "{}" : text, value: parseOrFail(schema, parseJson(text), "body") };
}

function parseJson(text: string): unknown {
  if (text.trim() === "") return {};
  try {
    return JSON.parse(text);
  } catch {
    throw new RouseFailure("invalid_request", "The body is not JSON.", {
      details: { issues: [{ path: "", message: "not JSON" }] },
    });
  }
}

async function readText(request: Request): Promise<string> {
  if (!request.body) return "";
  const tooLarge = () =>
    new RouseFailure("payload_too_large", `A JSON body has at most ${JSON_MAX} bytes.`, {
      details: { maxBytes: JSON_MAX },
    });
  if (Number(request.headers.get("content-length") ?? 0) > JSON_MAX) throw tooLarge();
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  for await (const chunk of request.body as ReadableStream<Uint8Array>) {
    size += chunk.byteLength;
    if (size > JSON_MAX) throw tooLarge();
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

/**
 * How long to wait for a change to be done, milliseconds. A client that names itself says when it wants to wait; a
 * plain one, such as curl, gets the finished state.
 */
export function holdMs(headers: Headers): number {
  const wait = /(?:^|,)\s*wait\s*=\s*(\d{1,6})\s*(?:,|;|$)/i.exec(headers.get("prefer") ?? "")?.[1];
  if (wait !== undefined) return Math.min(Number(wait), limits.waitSecondsMax) * 1000;
  return headers.has("x-runtime-client") ? 0 : HOLD_SECONDS * 1000;
}

/** The Idempotency-Key, or null. */
export function idempotencyKey(headers: Headers): string | null {
  const key = headers.get("idempotency-key");
  if (key === null || key === "") return null;
  if (key.length > 256) throw new RouseFailure("invalid_request", "An Idempotency-Key has at most 256 characters.");
  return key;
}

/** JSON with its keys in order, so that the same content has the same text. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const entries = Object.entries(value).filter(([, one]) => one !== undefined);
  entries.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, one]) => `${JSON.stringify(key)}:${canonical(one)}`).join(",")}}`;
}

/** What the handlers of homes of state are given (`homes.ts`). */
import type { Asker, Condition } from "../../durable/state/api.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import type { Operation } from "../api/operation.ts";
import type { RequestNote } from "../log.ts";
import type { Caller } from "../middleware/auth.ts";

/** Whose home is meant, and who means it. */
export interface Place {
  readonly account: string;
  readonly sandboxId: string;
  readonly label: string;
  /** The run of the machine that asks; null: somebody outside asks, with a key. */
  readonly generation: number | null;
}

/** What the handler of a home is given. */
export interface HomeContext {
  readonly env: Env;
  readonly request: Request;
  readonly url: URL;
  readonly note: RequestNote;
  readonly operation: Operation;
  /** Those of the path after the sandbox. */
  readonly params: readonly string[];
  readonly account: string;
  /** null: the path names no sandbox, and a key asks. */
  readonly place: Place | null;
  /** null: the machine asks. */
  readonly caller: Caller | null;
  /** Who asks, where the place is a store that others have too. */
  readonly asker?: Asker;
}

/** @throws RouseFailure `not_found` where a path names no sandbox */
export function placeOf({ place }: HomeContext): Place {
  if (!place) throw new RouseFailure("not_found", "There is no such sandbox.");
  return place;
}

/** As the keepers of state know who asks. */
export function askerOf(context: HomeContext): Asker {
  if (context.asker) return context.asker;
  const { sandboxId, label, generation } = placeOf(context);
  return { by: context.caller?.keyId ?? `sandbox:${label}`, sandboxId, generation };
}

/** Of `If-Match` and `If-None-Match: *`. @throws RouseFailure `invalid_request` */
export function conditionOf(headers: Headers): Condition {
  const match = headers.get("if-match");
  const none = headers.get("if-none-match");
  const text = match?.trim().replace(/^"(.*)"$/, "$1") ?? null;
  const issues = [
    ...(text !== null && !/^(?:\*|[0-9a-f]{1,64}(?:-\d{1,4})?)$/.test(text)
      ? [{ path: "if-match", message: "one ETag as it was told, or *" }]
      : []),
    ...(none !== null && none.trim() !== "*" ? [{ path: "if-none-match", message: "only * for a write" }] : []),
  ];
  if (issues.length > 0)
    throw new RouseFailure("invalid_request", "The condition is not one of ours.", { details: { issues } });
  return { match: text, absent: none !== null };
}

/** What senders say of what they send; what forms say is what curl says of anything. */
export function contentTypeOf(headers: Headers): string {
  const given = headers.get("content-type")?.trim() ?? "";
  const isNone = given === "" || given.startsWith("application/x-www-form-urlencoded");
  return isNone ? "application/octet-stream" : given.slice(0, 255);
}

export function entityTag(version: string | number): string {
  return `"${version}"`;
}

/** With what programs wrote: whatever it says that it is, no browser runs it as the API's. */
export const guardHeaders = {
  "content-security-policy": "sandbox; default-src 'none'",
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
} as const;

/** What every API handler is given. */
import { isPlainName, labelFor, labelOfId, SandboxName } from "../../sdk/contract/names.ts";
import { RouseFailure, type Failure } from "../../sdk/contract/error-codes.ts";
import type { Once } from "../../durable/account/api.ts";
import type { Ask, Change, SandboxAnswer } from "../../durable/sandbox/api.ts";
import { sha256Hex } from "../../durable/hash.ts";
import { canonical, holdMs, idempotencyKey } from "../api/input.ts";
import type { Operation } from "../api/operation.ts";
import { causeOf } from "../cause.ts";
import { thrown } from "../errors.ts";
import type { RequestNote } from "../log.ts";
import type { Caller } from "../middleware/auth.ts";

export interface Context {
  readonly env: Env;
  readonly request: Request;
  readonly url: URL;
  readonly note: RequestNote;
  readonly caller: Caller;
  readonly operation: Operation;
  readonly params: readonly string[];
}

/** A sandbox as a path names it. */
export interface Reference extends Ask {
  readonly label: string;
}

/** The label behind an id or a name. @throws RouseFailure `not_found` for what can be neither */
export async function referenceOf(idOrName: string): Promise<Reference> {
  const label = labelOfId(idOrName);
  if (label !== null) return { label, id: idOrName };
  if (isPlainName(idOrName)) return { label: idOrName, id: null };
  if (!SandboxName.safeParse(idOrName).success) throw new RouseFailure("not_found", "There is no such sandbox.");
  return { label: await labelFor(idOrName), id: null };
}

/** A change with its terms: how long to wait, and under which Idempotency-Key. */
export async function changeOf(context: Context, id: string | null, body: unknown): Promise<Change> {
  const { headers, method } = context.request;
  const key = idempotencyKey(headers);
  const fingerprint = key === null ? "" : await sha256Hex(`${method} ${context.url.pathname}\n${canonical(body)}`);
  const cause = causeOf("api", context.request, context.url, context.note, context.caller.keyId);
  return { id, holdMs: holdMs(headers), idempotencyKey: key, fingerprint, cause };
}

/** What a change of the account is remembered by. */
export async function onceOf(context: Context, body: unknown): Promise<Once> {
  const { idempotencyKey: key, fingerprint } = await changeOf(context, null, body);
  return { key, fingerprint };
}

export function sandboxResponse(answer: SandboxAnswer): Response {
  const { sandbox } = okOrThrow(answer);
  return Response.json(sandbox, sandbox.replayed ? { headers: { "idempotency-replayed": "true" } } : {});
}

/** @throws RouseFailure the failure */
export function okOrThrow<T extends { readonly ok: true }>(
  result: T | { readonly ok: false; readonly failure: Failure },
): T {
  if (!result.ok) throw thrown(result.failure);
  return result;
}

/** `Prefer: respond-async`: a request to a named URL that is stored, and answered when somebody asks for its receipt. */
import { inboxObject } from "../../durable/inbox/api.ts";
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { hookLimits } from "../../sdk/contract/hook.ts";
import type { RequestNote } from "../log.ts";
import { readBytes } from "../read-bytes.ts";
import { okOrThrow } from "../routes/context.ts";
import { isUpgrade } from "./headers.ts";
import type { Target } from "./target.ts";

/** Longest time for a body to arrive, milliseconds. */
const BODY_MS = 30_000;
/** What is worked out anew when it is sent on. */
const DROPPED = new Set(["content-length", "host"]);

export function wantsReceipt(headers: Headers): boolean {
  return /(?:^|,)\s*respond-async\s*(?:[,;]|$)/i.test(headers.get("prefer") ?? "") && !isUpgrade(headers);
}

/**
 * Take a request that was let in by an API key: who asks for the receipt needs one.
 * @param path of the program, with the query
 * @throws RouseFailure `payload_too_large`, `body_too_slow`, `inbox_full`, and what a sandbox that is gone answers
 */
export async function takeRequest(
  env: Env,
  request: Request,
  { account, label, id, port }: Target,
  path: string,
  headers: Headers,
  note: RequestNote,
): Promise<Response> {
  const { sandbox } = okOrThrow(await sandboxObject(env.SANDBOX, account, label).get({ id: id ?? null }));
  const body = await readBytes(request, hookLimits.requestBytesMax, BODY_MS);
  const kept = [...headers].filter(([name]) => !DROPPED.has(name));
  const target = { method: request.method, port, path };
  const inbox = inboxObject(env.INBOX, account, label);
  const { event } = okOrThrow(await inbox.takeRequest(sandbox.id, { target, headers: kept, body }));
  const location = `/v1/sandboxes/${encodeURIComponent(sandbox.id)}/receipts/${event.id}`;
  return Response.json(
    { id: event.id, state: event.state, receipt: location },
    { status: 202, headers: { location, "preference-applied": "respond-async", "x-request-id": note.id } },
  );
}

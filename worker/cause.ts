/** Who has a sandbox wake, as its timeline shows it. Never a query: it may hold secrets. */
import { CAUSE_REQUEST_MAX, type Cause } from "../sdk/contract/timeline.ts";
import type { RequestNote } from "./log.ts";

export function causeOf(
  kind: "request" | "api",
  request: Request,
  url: URL,
  note: RequestNote,
  keyId: string | null,
  port: number | null = null,
): Cause {
  const text = `${request.method} ${url.pathname}`.slice(0, CAUSE_REQUEST_MAX);
  return { kind, keyId, request: text, port, requestId: note.id };
}

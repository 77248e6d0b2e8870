/** Operations on session tokens. */
import { z } from "zod";
import { CreateSession, NewSession, Session, SessionList } from "../../sdk/contract/session.ts";
import type { Operation } from "./operation.ts";

const NoQuery = z.strictObject({});
const SESSIONS = "/v1/sandboxes/{id}/sessions";

export const sessions: readonly Omit<Operation, "work">[] = [
  {
    method: "POST",
    path: SESSIONS,
    summary: "Make a session token for web pages or other programs; the answer is the only place that shows it.",
    query: NoQuery,
    body: CreateSession,
    answer: NewSession,
  },
  { method: "GET", path: SESSIONS, summary: "List sessions, the newest first.", query: NoQuery, answer: SessionList },
  {
    method: "POST",
    path: `${SESSIONS}/{session}:revoke`,
    summary: "End a session at once, open connections too.",
    query: NoQuery,
    body: z.strictObject({}),
    answer: Session,
  },
];

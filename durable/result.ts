/** Answers between objects and edge. Expected failures are answers: an error's class does not survive RPC. */
import type { ErrorCode, Failure } from "../sdk/contract/error-codes.ts";

export type Result<T> = ({ readonly ok: true } & T) | { readonly ok: false; readonly failure: Failure };

/** An expected failure, as an answer. */
export function refuse(
  code: ErrorCode,
  message: string,
  details?: Record<string, unknown>,
): { ok: false; failure: Failure } {
  return { ok: false, failure: { code, message, ...(details ? { details } : {}) } };
}

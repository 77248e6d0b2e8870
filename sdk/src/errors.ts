/** What the SDK throws. Every error is a {@link RouseError}; dispatch on its class or on `code`. */
import type { ErrorCode } from "../contract/errors.ts";

/** Codes that the SDK itself gives, next to those of the server's registry. */
export type ClientErrorCode =
  | "missing_api_key"
  | "invalid_base_url"
  | "credentials_file"
  | "access_denied"
  | "expired_token"
  | "login_failed"
  | "login_disabled"
  | "invalid_argument"
  | "connection_error"
  | "timeout"
  | "cancelled"
  | "request_failed"
  | "unexpected_answer"
  | "download_incomplete"
  | "backup_failed"
  | "command_failed"
  | "command_timeout";

/** What an error is made of; all but `code` and `message` may be absent. */
export interface ErrorFacts {
  code: ErrorCode | ClientErrorCode | (string & {});
  message: string;
  status?: number | undefined;
  hint?: string | undefined;
  details?: Record<string, unknown> | undefined;
  requestId?: string | undefined;
  retryAfterMs?: number | undefined;
  idempotencyKey?: string | undefined;
  retryable?: boolean | undefined;
  cause?: unknown;
}

/**
 * Base of everything the SDK throws.
 *
 * @example
 * try {
 *   await Sandbox.connect("agent-u-42");
 * } catch (error) {
 *   if (error instanceof RouseError) console.error(error.code, error.hint);
 * }
 */
export class RouseError extends Error {
  override readonly name: string = "RouseError";
  /** Machine-readable reason: a code of the server's registry, or one of {@link ClientErrorCode}. */
  readonly code: string;
  /** HTTP status of the answer; 0 when there was no answer. */
  readonly status: number;
  /** What can be done about it, one sentence. */
  readonly hint: string | undefined;
  /** More facts, such as `issues` of an invalid request. */
  readonly details: Record<string, unknown>;
  /** The id under which the server's log has the request. */
  readonly requestId: string | undefined;
  /** Milliseconds after which another try makes sense, when the server said so. */
  readonly retryAfterMs: number | undefined;
  /** The key under which the change was sent: sending it again with the same key and body never does it twice. */
  readonly idempotencyKey: string | undefined;
  /** Whether the same request may succeed later without being changed. */
  readonly retryable: boolean;

  constructor(facts: ErrorFacts) {
    super(facts.message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.code = facts.code;
    this.status = facts.status ?? 0;
    this.hint = facts.hint;
    this.details = facts.details ?? {};
    this.requestId = facts.requestId;
    this.retryAfterMs = facts.retryAfterMs;
    this.idempotencyKey = facts.idempotencyKey;
    this.retryable = facts.retryable ?? false;
  }

  /** The error as plain data, without stack: what `--json` of the CLI prints. */
  toJSON(): Record<string, unknown> {
    return {
      name: this.name,
      code: this.code,
      status: this.status,
      message: this.message,
      hint: this.hint,
      details: this.details,
      requestId: this.requestId,
      retryAfterMs: this.retryAfterMs,
      retryable: this.retryable,
    };
  }
}

/** 401, no API key found, or no login: the key is missing, wrong or revoked. */
export class AuthenticationError extends RouseError {
  override readonly name: string = "AuthenticationError";
}

/** 403: the key is good but does not reach this. */
export class PermissionDeniedError extends RouseError {
  override readonly name: string = "PermissionDeniedError";
}

/** 404: no such sandbox, volume, file, process, context or route. */
export class NotFoundError extends RouseError {
  override readonly name: string = "NotFoundError";
}

/** 409: the thing is in a state that does not allow it, such as `name_taken` or `sandbox_stopped`. */
export class ConflictError extends RouseError {
  override readonly name: string = "ConflictError";
}

/** 400, 413, 422, or an argument the SDK refused; `details.issues` lists every fault. */
export class InvalidRequestError extends RouseError {
  override readonly name: string = "InvalidRequestError";
}

/** 429: too many requests, also after waiting and resending. */
export class RateLimitError extends RouseError {
  override readonly name: string = "RateLimitError";
}

/** 500 and above: the server or the machine could not do it. */
export class ServiceUnavailableError extends RouseError {
  override readonly name: string = "ServiceUnavailableError";
}

/** No usable answer: refused, reset, cut, or slower than the time limit (`code` `timeout`). */
export class ConnectionError extends RouseError {
  override readonly name: string = "ConnectionError";
}

/** A command run with `check: true` failed: exit code other than 0 (`command_failed`), or out of time (`command_timeout`). */
export class CommandError extends RouseError {
  override readonly name: string = "CommandError";
  /** As in {@link ExecResult}: null when it never ended by itself, negative for a signal. */
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;

  constructor(result: { exitCode: number | null; stdout: string; stderr: string; timedOut: boolean }) {
    const last = result.stderr.trimEnd().split("\n").at(-1) ?? "";
    super({
      code: result.timedOut ? "command_timeout" : "command_failed",
      message:
        (result.timedOut ? "The command ran out of time" : `The command ended with exit code ${result.exitCode}`) +
        (last === "" ? "." : `: ${last.slice(0, 500)}`),
    });
    this.exitCode = result.exitCode;
    this.stdout = result.stdout;
    this.stderr = result.stderr;
  }
}

/** The class for an HTTP status. */
export function errorOfStatus(facts: ErrorFacts & { status: number }): RouseError {
  const { status } = facts;
  if (status === 401) return new AuthenticationError(facts);
  if (status === 403) return new PermissionDeniedError(facts);
  if (status === 404) return new NotFoundError(facts);
  if (status === 409) return new ConflictError(facts);
  if (status === 400 || status === 413 || status === 422) return new InvalidRequestError(facts);
  if (status === 429) return new RateLimitError(facts);
  if (status >= 500) return new ServiceUnavailableError(facts);
  return new RouseError(facts);
}

/** An argument that the SDK refuses before any call. */
export function invalidArgument(message: string, hint?: string): InvalidRequestError {
  return new InvalidRequestError({ code: "invalid_argument", message, hint });
}

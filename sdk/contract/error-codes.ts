/**
 * The one registry of error codes: what each means on the wire (HTTP status) and what its reader can do (hint).
 *
 * Every error that leaves Rouse has the body `{"error":{code,status,message,hint,details,requestId,retryAfterMs}}`.
 */

interface ErrorFacts {
  /** HTTP status that carries the code. */
  readonly status: number;
  /** What the caller can do about it, one sentence. */
  readonly hint: string;
}

const registry = {
  invalid_request: { status: 400, hint: "Correct every field named in details.issues and send the request again." },
  invalid_path: { status: 400, hint: "Use an absolute path without NUL, or one relative to /workspace." },
  invalid_archive: { status: 400, hint: "Send a whole tar archive, plain or gzipped; what came before it stays." },
  invalid_port: { status: 400, hint: "Use a port from 1 to 65535 that the guest agent does not reserve." },
  invalid_image: { status: 400, hint: "Use an image that GET /v1/hosts lists." },
  disk_too_small: { status: 400, hint: "Ask for at least the disk that details name: what is stored must fit." },
  unauthorized: { status: 401, hint: "Send a valid API key as 'Authorization: Bearer <key>', or a valid link token." },
  sql_failed: { status: 400, hint: "The statement failed, and nothing of its transaction was done; details say why." },
  unknown_preset: { status: 400, hint: "Use a preset that details.presets lists, or give one of your own by file." },
  wrong_provider: { status: 400, hint: "This preset takes keys of the providers in details.providers." },
  signature_invalid: { status: 401, hint: "Sign the body as it is sent, with the hook's secret; rotate a lost one." },
  signature_expired: {
    status: 401,
    hint: "Its time is more than 5 minutes away: sign anew, by a clock that is right.",
  },
  insufficient_funds: { status: 402, hint: "Add credit for the account; details say how much is missing." },
  spending_limit_reached: { status: 402, hint: "Raise the limit that details name, or wait for the next day (UTC)." },
  account_blocked: { status: 402, hint: "The account is suspended; ask the operator of this installation." },
  permission_denied: { status: 403, hint: "Use a key with the access that details name." },
  egress_refused: {
    status: 403,
    hint: "The sandbox's network rules do not let it out; the x-rouse-egress header says which.",
  },
  forbidden: { status: 403, hint: "This credential does not reach what was asked; use one that does." },
  origin_not_allowed: {
    status: 403,
    hint: "A web page needs a session token made for its exact origin; API keys and other tokens are for servers.",
  },
  not_found: { status: 404, hint: "Check the id or name; list what exists with GET /v1/sandboxes." },
  snapshot_not_found: { status: 404, hint: "Check the id; list snapshots with GET /v1/snapshots." },
  volume_not_found: { status: 404, hint: "Check the id or name; list volumes with GET /v1/volumes." },
  backup_not_found: { status: 404, hint: "Check the id; list backups with GET /v1/volume-backups." },
  attachment_not_found: { status: 404, hint: "Read the volume: it lists its attachments." },
  hook_not_found: { status: 404, hint: "Check the id, name or URL; list hooks with GET .../{id}/hooks." },
  hook_event_not_found: { status: 404, hint: "Check the id; list events with GET .../{id}/hook-events." },
  event_endpoint_not_found: { status: 404, hint: "Check the id; list endpoints with GET /v1/event-endpoints." },
  event_delivery_not_found: { status: 404, hint: "Check the id; list with GET .../event-endpoints/{id}/deliveries." },
  schedule_not_found: { status: 404, hint: "Check the id or name; list schedules with GET .../{id}/schedules." },
  schedule_run_not_found: { status: 404, hint: "Check the id; list runs with GET .../schedules/{schedule}/runs." },
  socket_not_found: {
    status: 404,
    hint: "It is closed, or was never held; list those that are with GET .../{id}/sockets.",
  },
  domain_not_found: { status: 404, hint: "Check the host name; list domains with GET .../{id}/domains." },
  secret_not_found: { status: 404, hint: "Check the name; list names with GET /v1/secrets or .../{id}/secrets." },
  state_not_found: { status: 404, hint: "There is no such key, or it has expired; list keys with GET .../state/keys." },
  object_not_found: { status: 404, hint: "Check the key; list objects with GET .../objects." },
  task_not_found: { status: 404, hint: "It is done, or was never put; list tasks with GET .../queues/{queue}/tasks." },
  watch_not_found: {
    status: 404,
    hint: "It ended with its machine, or long ago; list them with GET .../files/watches.",
  },
  checkpoint_not_found: { status: 404, hint: "Nothing was saved under that name or version; list checkpoints first." },
  memory_not_found: { status: 404, hint: "Check the id; list entries with GET .../memory." },
  store_not_found: { status: 404, hint: "Check the name; list what the organisation shares with GET /v1/stores." },
  mcp_server_not_found: { status: 404, hint: "Use an id of the catalog, or give a command of your own." },
  link_not_found: { status: 404, hint: "Check the id; list links with GET .../{id}/links." },
  session_not_found: { status: 404, hint: "Check the id; list sessions with GET .../{id}/sessions." },
  point_not_found: { status: 404, hint: "List the points that can be rolled back to with GET .../{id}/history." },
  route_not_found: { status: 404, hint: "Check method and path against the API guide." },
  file_not_found: { status: 404, hint: "Check the path; list the folder with GET .../files/list." },
  process_not_found: { status: 404, hint: "List processes with GET .../processes." },
  context_not_found: { status: 404, hint: "List interpreter contexts with GET .../interpreter/contexts." },
  upload_not_found: { status: 404, hint: "Begin the upload again." },
  sandbox_stopped: { status: 409, hint: "Start it with POST .../{id}:restart or Sandbox.getOrCreate(name)." },
  sandbox_paused: { status: 409, hint: "autoWake is off, or a wake rule says so: wake it with POST .../{id}:wake." },
  sandbox_gone: { status: 410, hint: "The sandbox was deleted; create it again." },
  hook_disabled: { status: 410, hint: "Turn it on with POST .../{id}/hooks/{hook}:update." },
  method_not_allowed: { status: 405, hint: "Use a method that this route has." },
  body_too_slow: { status: 408, hint: "Send the whole body within 30 seconds." },
  name_taken: { status: 409, hint: "Use getOrCreate, or another name; details.sandboxId says who holds it." },
  not_paused: { status: 409, hint: "Only a paused sandbox can be woken; this one is not." },
  not_running: { status: 409, hint: "Wake or restart the sandbox first." },
  conflict: { status: 409, hint: "The sandbox is in another state; read it again and decide anew." },
  version_mismatch: {
    status: 409,
    hint: "It was changed meanwhile: read it again, and write with the version it has now.",
  },
  lease_lost: { status: 409, hint: "The lease of the task has run out, and another may have taken it: take it anew." },
  stale_generation: { status: 409, hint: "A newer run of the sandbox has taken over; this one writes no more." },
  is_a_directory: { status: 409, hint: "Name a file, or read the folder with GET .../files/list." },
  not_a_directory: { status: 409, hint: "A part of the path is a file; choose another path." },
  directory_not_empty: { status: 409, hint: "Pass recursive to remove a folder with its contents." },
  file_exists: { status: 409, hint: "Pass overwrite, or choose another path." },
  upload_incomplete: { status: 409, hint: "Send the chunks that are missing, then commit again." },
  process_limit: { status: 409, hint: "Stop some processes first." },
  incompatible_host: {
    status: 409,
    hint: "No host that is up can load this RAM. Add a host of the kind in details, or boot from disk with :restart.",
  },
  snapshot_not_ready: { status: 409, hint: "Wait until the snapshot's state is ready; GET it to see." },
  volume_attached: { status: 409, hint: "Detach the volume from the sandbox in details first." },
  volume_not_ready: { status: 409, hint: "Wait until the volume's state is ready; GET it to see." },
  volume_busy: { status: 409, hint: "A program uses the volume: end it or leave the folder, then detach again." },
  volume_releasing: { status: 409, hint: "The volume is being let go; retry after the time given." },
  quota_exceeded: { status: 409, hint: "Give up something that counts towards the limit in details, and retry." },
  no_capacity: { status: 409, hint: "No host has room now; retry after the time given." },
  digest_mismatch: {
    status: 422,
    hint: "The bytes that arrived are not the bytes that were announced; send them again.",
  },
  idempotency_key_reused: { status: 422, hint: "Use a new Idempotency-Key for a different request." },
  payload_too_large: { status: 413, hint: "Use the upload routes for files, or send a smaller body." },
  file_access_denied: { status: 403, hint: "The guest user may not touch that path." },
  disk_full: { status: 507, hint: "Free some space in the guest, or create a sandbox with a larger diskMiB." },
  wake_limit_reached: {
    status: 429,
    hint: "Retry after the time given, raise maxWakesPerHour, or wake it with :wake.",
  },
  storage_full: {
    status: 507,
    hint: "Nothing was written. Remove something, or ask for a larger quota; details say how much is held.",
  },
  rate_limited: { status: 429, hint: "Slow down and retry after the time given." },
  misdirected: { status: 421, hint: "The host does not hold this generation; ask for a new route." },
  inbox_full: {
    status: 503,
    hint: "Nothing was stored. See why events wait with GET .../{id}/hook-events?state=waiting.",
  },
  sandbox_waking: { status: 503, hint: "The sandbox is waking; retry after the time given." },
  guest_busy: { status: 503, hint: "Nothing ran; retry after the time given." },
  host_unavailable: { status: 503, hint: "The host did not answer; retry after the time given." },
  no_host: { status: 503, hint: "No host is registered; start a host agent and retry." },
  unavailable: { status: 503, hint: "This installation does not offer that; leave the field or route out." },
  service_not_ready: { status: 503, hint: "A service of the sandbox is starting; retry after the time given." },
  service_failed: { status: 502, hint: "A service of the sandbox ended or did not get ready; look at its output." },
  boot_failed: { status: 502, hint: "The onBoot command failed; its output is in GET .../{id}:resume." },
  mcp_failed: { status: 502, hint: "The MCP server ended or did not answer; look at its output." },
  port_not_listening: { status: 502, hint: "Start a server on that port in the sandbox, or use another port." },
  upstream_closed: {
    status: 502,
    hint: "The program in the sandbox closed the connection before it answered; look at its output.",
  },
  guest_failed: { status: 502, hint: "The guest agent failed; restart the sandbox if it happens again." },
  interpreter_failed: { status: 502, hint: "Restart the context with POST .../interpreter/contexts/{id}:restart." },
  start_failed: { status: 502, hint: "The machine did not start; look at the host agent's log." },
  wake_failed: {
    status: 502,
    hint: "The machine did not wake; nothing was lost, retry or look at the host agent's log.",
  },
  state_damaged: {
    status: 502,
    hint: "A part of the saved state is missing or damaged. Roll back to another point, or boot from disk with :restart.",
  },
  volume_failed: { status: 502, hint: "The volume could not be plugged in or out; details say why. Nothing was lost." },
  snapshot_failed: { status: 502, hint: "The snapshot was not taken; the sandbox is as it was. Try again." },
  pause_failed: { status: 502, hint: "The machine could not be paused and runs on; look at the host agent's log." },
  internal_error: { status: 500, hint: "This is a fault of the server; its log has the request id." },
} as const satisfies Record<string, ErrorFacts>;

/** A machine-readable reason; the wire's `error.code`. */
export type ErrorCode = keyof typeof registry;

export const errorCodes = Object.keys(registry) as readonly ErrorCode[];

export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(registry, code);
}

/** HTTP status of a code. */
export function statusOf(code: ErrorCode): number {
  return registry[code].status;
}

/** What the reader of a code can do. */
export function hintOf(code: ErrorCode): string {
  return registry[code].hint;
}

/** An expected failure as data: what crosses RPC and runtime boundaries, where classes do not survive. */
export interface Failure {
  readonly code: ErrorCode;
  readonly message: string;
  readonly details?: Record<string, unknown> | undefined;
  readonly retryAfterMs?: number | undefined;
}

/** An expected failure inside one runtime. Dispatch on `code`; the class does not survive RPC. */
export class RouseFailure extends Error implements Failure {
  override readonly name = "RouseFailure";
  readonly code: ErrorCode;
  readonly details: Record<string, unknown> | undefined;
  readonly retryAfterMs: number | undefined;
  constructor(
    code: ErrorCode,
    message: string,
    extra: { details?: Record<string, unknown>; retryAfterMs?: number; cause?: unknown } = {},
  ) {
    super(message, extra.cause === undefined ? undefined : { cause: extra.cause });
    this.code = code;
    this.details = extra.details;
    this.retryAfterMs = extra.retryAfterMs;
  }
}

/** The wire body of a failure; `ErrorBody` in `errors.ts` is its schema. */
interface ErrorBodyShape {
  error: {
    code: ErrorCode;
    status: number;
    message: string;
    hint: string;
    details?: Record<string, unknown>;
    requestId?: string;
    retryAfterMs?: number;
  };
}

/** The wire body of a failure. */
export function errorBody(failure: Failure, requestId?: string): ErrorBodyShape {
  return {
    error: {
      code: failure.code,
      status: statusOf(failure.code),
      message: failure.message,
      hint: hintOf(failure.code),
      ...(failure.details ? { details: failure.details } : {}),
      ...(requestId ? { requestId } : {}),
      ...(failure.retryAfterMs === undefined ? {} : { retryAfterMs: failure.retryAfterMs }),
    },
  };
}

/** The HTTP answer of a failure, with `Retry-After` (whole seconds, at least 1) where a retry makes sense. */
export function errorResponse(failure: Failure, requestId?: string, headers: Record<string, string> = {}): Response {
  const out = new Headers({ "content-type": "application/json; charset=utf-8", ...headers });
  if (requestId) out.set("x-request-id", requestId);
  if (failure.retryAfterMs !== undefined)
    out.set("retry-after", String(Math.max(1, Math.ceil(failure.retryAfterMs / 1000))));
  return new Response(JSON.stringify(errorBody(failure, requestId)), { status: statusOf(failure.code), headers: out });
}

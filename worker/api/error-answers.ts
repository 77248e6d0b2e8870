/**
 * Which error codes an operation can answer with: what applies to all of them, what each kind of work adds, and what
 * single operations add. Pure.
 */
import { errorCodes, type ErrorCode } from "../../sdk/contract/error-codes.ts";
import type { Operation, Work } from "./operation.ts";

type Codes = readonly ErrorCode[];

/** What every operation can answer with. */
export const usualCodes: Codes = [
  "invalid_request",
  "unauthorized",
  "permission_denied",
  "origin_not_allowed",
  "rate_limited",
  "internal_error",
];

/** Where a run may begin or go on. */
const running: Codes = [
  ...(["insufficient_funds", "spending_limit_reached", "account_blocked", "quota_exceeded", "no_capacity"] as const),
  ...(["incompatible_host", "sandbox_waking", "host_unavailable", "no_host", "start_failed", "wake_failed"] as const),
  ...(["state_damaged", "volume_failed", "conflict"] as const),
];
/** Where a change is one of at most so many, and is made once per Idempotency-Key. */
const made: Codes = ["quota_exceeded", "idempotency_key_reused", "conflict"];
/** Where what is written is kept outside of machines. */
const kept: Codes = ["storage_full", "version_mismatch", "stale_generation", "idempotency_key_reused", "unavailable"];
const files: Codes = [
  ...(["invalid_path", "file_not_found", "file_access_denied", "is_a_directory", "not_a_directory"] as const),
  ...(["directory_not_empty", "file_exists", "disk_full", "payload_too_large", "conflict"] as const),
  "digest_mismatch",
];

/** What each kind of work adds; `change`: to what is not only read. */
const ofWork: Record<Work, { readonly all?: Codes; readonly change?: Codes }> = {
  account: {},
  keys: { all: ["not_found"], change: made },
  operator: { all: ["not_found", "forbidden"], change: ["name_taken", ...made] },
  agents: {},
  sandbox: {
    change: ["idempotency_key_reused", "secret_not_found", "sandbox_stopped", "not_running", "unavailable", ...running],
  },
  copies: {
    all: ["snapshot_not_found", "point_not_found"],
    change: [
      ...(["name_taken", "snapshot_not_ready", "snapshot_failed", "not_running", "sandbox_stopped"] as const),
      ...(["idempotency_key_reused", "unavailable", "disk_too_small", ...running] as const),
    ],
  },
  preview: { all: ["invalid_port"], change: made },
  links: { all: ["link_not_found"], change: made },
  sessions: { all: ["session_not_found"], change: made },
  hooks: { all: ["hook_not_found", "hook_event_not_found"], change: ["name_taken", "state_damaged", ...made] },
  schedules: { all: ["schedule_not_found", "schedule_run_not_found"], change: ["name_taken", ...made] },
  domains: { all: ["domain_not_found"], change: ["unavailable", ...made] },
  network: { change: made },
  sandboxSecrets: { all: ["secret_not_found"], change: made },
  secrets: { all: ["secret_not_found"], change: made },
  events: {
    all: ["event_endpoint_not_found", "event_delivery_not_found"],
    change: [...made],
  },
  drills: { all: ["not_found"], change: [...made, ...running] },
  mcp: {
    all: ["mcp_server_not_found"],
    change: [
      "mcp_failed",
      "secret_not_found",
      "invalid_port",
      "sandbox_stopped",
      "sandbox_paused",
      "wake_limit_reached",
      ...made,
      ...running,
    ],
  },
  sockets: { all: ["socket_not_found"], change: ["conflict"] },
  volumes: {
    all: ["volume_not_found", "backup_not_found", "attachment_not_found"],
    change: [
      ...(["name_taken", "disk_too_small", "volume_attached", "volume_not_ready", "volume_busy"] as const),
      ...([
        "volume_releasing",
        "volume_failed",
        "host_unavailable",
        "not_running",
        "not_found",
        "disk_full",
        ...made,
      ] as const),
    ],
  },
  state: { all: ["state_not_found", "sandbox_gone"], change: ["sql_failed", "payload_too_large", ...kept] },
  sharedState: {
    all: ["state_not_found", "store_not_found", "forbidden"],
    change: ["sql_failed", "payload_too_large", "task_not_found", "lease_lost", ...kept],
  },
  queues: {
    all: ["task_not_found"],
    change: ["lease_lost", "quota_exceeded", "payload_too_large", "conflict", ...kept],
  },
  objects: {
    all: ["object_not_found", "upload_not_found", "unavailable"],
    change: ["upload_incomplete", "digest_mismatch", "payload_too_large", "body_too_slow", "conflict", ...kept],
  },
  memory: { all: ["memory_not_found"], change: ["payload_too_large", ...kept] },
  sharedMemory: { all: ["memory_not_found", "store_not_found", "forbidden"], change: ["payload_too_large", ...kept] },
  stores: { all: ["store_not_found"], change: made },
  checkpoints: { all: ["checkpoint_not_found"], change: ["digest_mismatch", "payload_too_large", ...kept] },
  guest: {
    all: [
      ...(["sandbox_stopped", "sandbox_paused", "wake_limit_reached", ...running] as const),
      ...(["forbidden", "misdirected", "upstream_closed", "guest_busy", "guest_failed"] as const),
    ],
    change: ["payload_too_large"],
  },
};

/** What parts of the guest's and the edge's paths add. */
const ofPath: readonly { readonly at: RegExp; readonly codes: Codes }[] = [
  { at: /^POST .*(:exec|\/processes)$/, codes: ["file_not_found", "not_a_directory", "file_access_denied"] },
  { at: /^POST .*(:exec|\/processes|\/uploads)$/, codes: ["idempotency_key_reused", "process_limit"] },
  { at: /\/processes\/\{pid\}/, codes: ["process_not_found", "not_running", "conflict"] },
  { at: /\{id\}\/(files|uploads)/, codes: files },
  { at: /archive/, codes: ["invalid_archive", "unavailable"] },
  { at: /\/files\/watches/, codes: ["watch_not_found", "quota_exceeded"] },
  {
    at: /\{id\}\/(files\/archive\/)?uploads/,
    codes: ["upload_not_found", "upload_incomplete", "digest_mismatch", "quota_exceeded"],
  },
  { at: /\/interpreter/, codes: ["context_not_found", "interpreter_failed", "file_not_found", "quota_exceeded"] },
  { at: /^POST .*\/interpreter(:run|\/contexts)$/, codes: ["idempotency_key_reused"] },
  { at: /\{id\}\/services/, codes: ["process_not_found", "not_running", "conflict"] },
  { at: /^POST \/v1\/sandboxes$/, codes: ["name_taken", "invalid_image", "disk_too_small", "snapshot_not_found"] },
  { at: /^POST \/v1\/sandboxes$/, codes: ["snapshot_not_ready", "volume_not_found", "volume_attached"] },
  { at: /\/diff$/, codes: ["no_capacity", "no_host", "host_unavailable", "state_damaged"] },
  { at: /:pause$/, codes: ["pause_failed"] },
  { at: /:wake$/, codes: ["not_paused"] },
  { at: /:update$/, codes: ["name_taken"] },
];

/** All codes that an operation can answer with, in the registry's order. */
export function codesOf({ method, path, work, body }: Operation): ErrorCode[] {
  const { all = [], change = [] } = ofWork[work];
  const codes = new Set<ErrorCode>([...usualCodes, ...all, ...(method === "GET" || method === "HEAD" ? [] : change)]);
  for (const { at, codes: more } of ofPath) if (at.test(`${method} ${path}`)) for (const one of more) codes.add(one);
  if (body !== undefined) codes.add("payload_too_large");
  if (path.startsWith("/v1/sandboxes/{id}")) for (const one of ["not_found", "sandbox_gone"] as const) codes.add(one);
  return errorCodes.filter((code) => codes.has(code));
}

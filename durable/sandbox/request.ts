/** One request to a machine: what the edge does for clients, and an inbox or a held socket for what waits in it. */
import { isErrorCode, type ErrorCode, type Failure } from "../../sdk/contract/error-codes.ts";
import { hostHeaders } from "../../sdk/contract/host.ts";
import { readBoard, type Board } from "../hosts/board-facade.ts";
import type { RouteGrant } from "./api.ts";

/** A request that waits for its answer looks after its host so often, milliseconds. */
const HOST_LOOK_MS = 10_000;

/** A host's error is no longer than this, bytes. */
export const ERROR_MAX = 16_384;

export interface MachineRequest {
  readonly method: string;
  /** Below `/m/<id>`, with the query. */
  readonly path: string;
  /** The ticket is added to these. */
  readonly headers: Headers;
  readonly body: string | ArrayBuffer | Uint8Array<ArrayBuffer> | ReadableStream | null;
  readonly signal?: AbortSignal;
}

/** @throws when the connection breaks, or the host turns out to be lost */
export async function sendToMachine(
  env: Env,
  id: string,
  grant: RouteGrant,
  { method, path, headers, body, signal }: MachineRequest,
): Promise<Response> {
  headers.set(hostHeaders.ticket, grant.ticket);
  const lost = Promise.withResolvers<never>();
  const unwatch = watchHost(env, grant.hostId, () => lost.reject(new Error("the host is lost")));
  const answer = fetch(`${grant.hostUrl}/m/${encodeURIComponent(id)}${path}`, {
    ...{ method, headers, body },
    // Only where asked for: a signal costs every request something.
    ...(signal ? { signal } : {}),
    // A redirect is the program's answer, not an instruction to us.
    redirect: "manual",
  });
  return Promise.race([answer, lost.promise]).finally(unwatch);
}

/** The answer to a 421: null when the host does not hold that generation; as it was when the program itself said so. */
export async function readMisdirected(response: Response): Promise<Response | null> {
  const text = await response.text();
  try {
    const body = JSON.parse(text) as { error?: { code?: unknown } } | null;
    if (body?.error?.code === "misdirected") return null;
  } catch {
    // Not the host's: its errors are JSON.
  }
  return new Response(text, { status: 421, headers: response.headers });
}

/** What a host, not the program, may answer on the way to a port. */
export const HOST_FAULTS: ReadonlySet<ErrorCode> = new Set([
  "port_not_listening",
  "upstream_closed",
  "guest_busy",
  "guest_failed",
  "host_unavailable",
  "sandbox_waking",
  "service_not_ready",
  "service_failed",
  "boot_failed",
]);

/** The failure that a host answered in the program's place; null for what is the program's own answer. */
export function hostFault(bytes: Uint8Array): Failure | null {
  if (bytes.length > ERROR_MAX) return null;
  const error = errorIn(bytes);
  // A key that is over is refused with the latter.
  return error && (HOST_FAULTS.has(error.code) || error.code === "unauthorized") ? { ...error, message: "" } : null;
}

/** The error that an answer is, in our form; null for any other. */
export function errorIn(bytes: Uint8Array): Pick<Failure, "code" | "retryAfterMs"> | null {
  try {
    const parsed = JSON.parse(new TextDecoder().decode(bytes)) as {
      error?: { code?: unknown; retryAfterMs?: unknown };
    };
    const { code, retryAfterMs } = parsed.error ?? {};
    if (typeof code !== "string" || !isErrorCode(code)) return null;
    return { code, ...(typeof retryAfterMs === "number" ? { retryAfterMs } : {}) };
  } catch {
    return null;
  }
}

/** The body, or null when it is longer; the rest is not read. */
export async function readUpTo(response: Response, most: number): Promise<Uint8Array<ArrayBuffer> | null> {
  if (!response.body) return new Uint8Array();
  if (most === 0) {
    await response.body.cancel();
    return null;
  }
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body as ReadableStream<Uint8Array>) {
    length += chunk.byteLength;
    if (length > most) return null;
    chunks.push(chunk);
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes;
}

let latest: { readonly at: number; readonly board: Board } | undefined;

/** However many requests wait, this isolate asks the board once in a while only. */
async function boardLately(env: Env): Promise<Board> {
  if (latest && Date.now() - latest.at < HOST_LOOK_MS / 2) return latest.board;
  const board = await readBoard(env);
  latest = { at: Date.now(), board };
  return board;
}

/** An answer may take as long as the program likes, but not past the end of its host: one that hangs never answers. */
function watchHost(env: Env, hostId: string, onLost: () => void): () => void {
  let over = false;
  const look = async () => {
    const isLost = await boardLately(env).then(
      (board) => board.isLost(hostId),
      () => false,
    );
    if (over) return;
    if (isLost) onLost();
    else timer = setTimeout(() => void look(), HOST_LOOK_MS);
  };
  let timer = setTimeout(() => void look(), HOST_LOOK_MS);
  return () => {
    over = true;
    clearTimeout(timer);
  };
}

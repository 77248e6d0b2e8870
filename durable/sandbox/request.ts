/** One request to a machine: what the edge does for clients, and an inbox for what waits in it. */
import { hostHeaders } from "../../sdk/contract/host.ts";
import { readBoard, type Board } from "../hosts/board-facade.ts";
import type { RouteGrant } from "./api.ts";

/** A request that waits for its answer looks after its host so often, milliseconds. */
const HOST_LOOK_MS = 10_000;

export interface MachineRequest {
  readonly method: string;
  /** Below `/m/<id>`, with the query. */
  readonly path: string;
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
  const sent = new Headers(headers);
  sent.set(hostHeaders.ticket, grant.ticket);
  const lost = Promise.withResolvers<never>();
  const unwatch = watchHost(env, grant.hostId, () => lost.reject(new Error("the host is lost")));
  const answer = fetch(`${grant.hostUrl}/m/${encodeURIComponent(id)}${path}`, {
    ...{ method, headers: sent, body },
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

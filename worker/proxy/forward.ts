/** Carries one request to the machine that a route leads to, asking the sandbox's object only when the route is not good. */
import { readBoard, type Board } from "../../durable/hosts/board-facade.ts";
import { sandboxObject, type RouteFacts, type RouteGrant } from "../../durable/sandbox/api.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { hostHeaders } from "../../sdk/contract/host.ts";
import { thrown } from "../errors.ts";
import type { RequestNote } from "../log.ts";
import { cachedGrant, forgetRoute, rememberRoute } from "./route-cache.ts";

/** A larger body, or one of unknown length, is sent once and never kept for a second try, bytes. */
const KEPT_BODY_MAX = 1_048_576;
/** A request that waits for its answer looks after its host so often, milliseconds. */
const HOST_LOOK_MS = 10_000;
/** Tries of one request, of which each but the first asked the object anew. */
const TRIES = 3;

export interface Destination {
  readonly account: string;
  readonly label: string;
  /** null for whatever holds the label now. */
  readonly id: string | null;
}

export interface Outgoing {
  readonly method: string;
  /** Below `/m/<id>`, with the query. */
  readonly path: string;
  readonly headers: Headers;
  readonly body: OutgoingBody;
  /** Longest wait for a wake, milliseconds. */
  readonly waitMs: number;
}

export interface OutgoingBody {
  readonly data: string | ArrayBuffer | ReadableStream | null;
  /** It can be sent once only. */
  readonly once: boolean;
}

interface Route {
  readonly facts: RouteFacts;
  readonly grant: RouteGrant;
}

export function routeKey({ account, label }: { account: string; label: string }): string {
  return `${account}/${label}`;
}

/** The body in a form that can be sent again, where it is small. */
export async function outgoingBody(request: Request): Promise<OutgoingBody> {
  if (!request.body) return { data: null, once: false };
  const length = request.headers.get("content-length");
  if (length === null || Number(length) > KEPT_BODY_MAX) return { data: request.body, once: true };
  return { data: await request.arrayBuffer(), once: false };
}

/** @throws RouseFailure what the object answered, `host_unavailable`, `upstream_closed` */
export async function forward(env: Env, to: Destination, out: Outgoing, note: RequestNote): Promise<Response> {
  const key = routeKey(to);
  const startedAt = Date.now();
  let woken = false;
  let wakeMs = 0;
  let route: Route | null = out.body.once ? null : cachedGrant(key, to.id, startedAt);
  for (let attempt = 1; ; attempt++) {
    if (!route) {
      // What can be sent once only must not meet a machine that is not there.
      const asked = await askRoute(env, to, out.waitMs, out.body.once || attempt > 1);
      route = asked;
      woken ||= asked.woken;
      if (woken) wakeMs = Date.now() - startedAt;
    }
    let response: Response;
    try {
      response = await send(env, route, out);
    } catch {
      forgetRoute(key);
      if (attempt < TRIES && isRepeatable(out.method)) {
        route = null;
        continue;
      }
      // Whether the program saw the request is not known. A host that is away says so in better words.
      await askRoute(env, to, out.waitMs, true);
      throw new RouseFailure("upstream_closed", "The connection to the sandbox ended before it answered.");
    }
    if (response.status === 421) {
      const misdirected = await readMisdirected(response);
      if (misdirected === null) {
        forgetRoute(key);
        if (out.body.once || attempt >= TRIES) {
          throw new RouseFailure(
            "sandbox_waking",
            "The sandbox changed while the request was on its way; nothing ran.",
            { retryAfterMs: 500 },
          );
        }
        route = null;
        continue;
      }
      response = misdirected;
    }
    if (woken) note.woken = true;
    return answer(response, note, woken, wakeMs);
  }
}

async function askRoute(
  env: Env,
  to: Destination,
  waitMs: number,
  verify: boolean,
): Promise<Route & { woken: boolean }> {
  const key = routeKey(to);
  const result = await sandboxObject(env.SANDBOX, to.account, to.label).route({
    id: to.id,
    wake: true,
    waitMs,
    verify,
  });
  if (!result.ok) {
    forgetRoute(key);
    throw thrown(result.failure);
  }
  const { facts, grant, woken } = result;
  if (!grant) throw new RouseFailure("host_unavailable", "The sandbox has no host.", { retryAfterMs: 1000 });
  rememberRoute(key, { facts, grant }, Date.now());
  return { facts, grant, woken };
}

/** @throws when the connection breaks, or the host turns out to be lost */
async function send(env: Env, { facts, grant }: Route, out: Outgoing): Promise<Response> {
  const headers = new Headers(out.headers);
  headers.set(hostHeaders.ticket, grant.ticket);
  const lost = Promise.withResolvers<never>();
  const unwatch = watchHost(env, grant.hostId, () => lost.reject(new Error("the host is lost")));
  // Not a signal: that would cost every request something, and one that is given up ends with this request anyway.
  const answer = fetch(`${grant.hostUrl}/m/${encodeURIComponent(facts.id)}${out.path}`, {
    method: out.method,
    headers,
    body: out.body.data,
    // A redirect is the program's answer, not an instruction to the edge.
    redirect: "manual",
  });
  return Promise.race([answer, lost.promise]).finally(unwatch);
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

function isRepeatable(method: string): boolean {
  return method === "GET" || method === "HEAD" || method === "OPTIONS";
}

/** null when the host does not hold that generation; the answer as it was when the program itself said 421. */
async function readMisdirected(response: Response): Promise<Response | null> {
  const text = await response.text();
  try {
    const body = JSON.parse(text) as { error?: { code?: unknown } } | null;
    if (body?.error?.code === "misdirected") return null;
  } catch {
    // Not the host's: its errors are JSON.
  }
  return new Response(text, { status: 421, headers: response.headers });
}

function answer(response: Response, note: RequestNote, woken: boolean, wakeMs: number): Response {
  const headers = new Headers(response.headers);
  const waited = headers.get(hostHeaders.waited);
  headers.delete(hostHeaders.waited);
  headers.set("x-request-id", note.id);
  headers.set("x-rouse-state", woken ? "woken" : "running");
  if (woken) headers.append("server-timing", `wake;dur=${wakeMs}`);
  if (waited !== null && waited !== "0" && woken) headers.append("server-timing", `listen;dur=${waited}`);
  if (response.webSocket) return new Response(null, { status: 101, headers, webSocket: response.webSocket });
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}

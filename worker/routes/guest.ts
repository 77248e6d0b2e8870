/** Commands, processes, files, interpreter: checked here, done by the guest agent. */
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { hostHeaders } from "../../sdk/contract/host.ts";
import { readJson, readQuery } from "../api/input.ts";
import { causeOf } from "../cause.ts";
import { credentialOf } from "../middleware/auth.ts";
import { mustSee } from "../middleware/permission.ts";
import { mustBeWellFormed } from "../proxy/form.ts";
import { forward, outgoingBody, type OutgoingBody } from "../proxy/forward.ts";
import { isUpgrade, protocolsForProgram, withProtocol } from "../proxy/headers.ts";
import { referenceOf, type Context } from "./context.ts";
import { toItsLastLine } from "./watch-stream.ts";

/** How long a call is held while the sandbox wakes, milliseconds. */
const HOLD_MS = 30_000;
const LINES = "application/x-ndjson";
/** Headers of a call that mean something to the guest agent. */
const PASSED = ["content-type", "content-length", "accept", "idempotency-key", "x-runtime-client"] as const;

export async function guestRoute({ env, caller, operation, params, request, url, note }: Context): Promise<Response> {
  const { label, id } = await referenceOf(params[0] ?? "");
  note.sandbox = label;
  await mustSee(env, caller, label, id);
  if (operation.query) readQuery(operation.query, url.searchParams);
  const credential = credentialOf(caller);
  const headers = new Headers({ "x-request-id": note.id, [hostHeaders.keyId]: credential });
  if (caller.expiresAt !== null) headers.set(hostHeaders.endsAt, String(caller.expiresAt));
  for (const name of PASSED) {
    const value = request.headers.get(name);
    if (value !== null) headers.set(name, value);
  }
  if (operation.socket) mustBeSocket(request, headers, url);
  if (operation.socket === "messages") headers.set(hostHeaders.byMessage, "1");
  let body: OutgoingBody = { data: null, once: false };
  if (operation.body === "bytes") {
    body = await outgoingBody(request);
  } else if (operation.body) {
    const { text } = await readJson(operation.body, request);
    body = { data: text, once: false };
    headers.delete("content-length");
    headers.set("content-type", "application/json");
  }
  const out = {
    method: request.method,
    path: `/agent${agentPath(url.pathname)}${url.search}`,
    headers,
    body,
    waitMs: HOLD_MS,
    wake: operation.quiet === undefined,
    cause: causeOf("api", request, url, note, credential),
    subject: null,
  };
  const to = { account: caller.account, label, id };
  if (!operation.quiet) return withProtocol(await forward(env, to, out, note), request.headers);
  headers.set(hostHeaders.noKeep, "1");
  try {
    const answer = await forward(env, to, out, note);
    if (!answer.body || answer.headers.get("content-type") !== LINES) return answer;
    return new Response(toItsLastLine(answer.body, cursorOf(url)), answer);
  } catch (fault) {
    if (!(fault instanceof RouseFailure) || fault.code !== "sandbox_paused") throw fault;
    const state = String(fault.details?.["state"]);
    if (!state.startsWith("stop")) return asleep(url, note.id);
    throw new RouseFailure("sandbox_stopped", "The sandbox is stopped, and what it watched has ended.", {
      details: { state },
    });
  }
}

/** Where a reader of a watch begins. */
function cursorOf({ searchParams }: URL): number {
  return Number(searchParams.get("cursor") ?? 0);
}

/** What a sleeper's watch says: to go on from the same place once it is awake. */
function asleep(url: URL, requestId: string): Response {
  const cursor = cursorOf(url);
  const notice = { k: "paused", cursor };
  const headers = { "x-request-id": requestId, "x-rouse-state": "paused", "cache-control": "no-store" };
  if (url.searchParams.get("follow") === "true")
    return new Response(`${JSON.stringify(notice)}\n`, { headers: { ...headers, "content-type": LINES } });
  return Response.json({ events: [], notices: [notice], nextCursor: cursor, lostBytes: 0, ended: false }, { headers });
}

/** @throws RouseFailure `invalid_request` for what does not begin a WebSocket, before anything wakes */
function mustBeSocket(request: Request, headers: Headers, { pathname, search }: URL): void {
  if (!isUpgrade(request.headers)) {
    const issues = [{ path: "upgrade", message: "websocket" }];
    throw new RouseFailure("invalid_request", "This is a WebSocket: upgrade to it.", { details: { issues } });
  }
  headers.set("upgrade", "websocket");
  const protocols = protocolsForProgram(request.headers);
  if (protocols !== "") headers.set("sec-websocket-protocol", protocols);
  mustBeWellFormed(request, true, headers, `${pathname}${search}`);
}

/**
 * `/v1/sandboxes/{id}:exec` is the agent's `/exec`; below the id its paths are those of the API, but for one: between host
 * and agent a tunnel is the way out.
 */
function agentPath(pathname: string): string {
  const rest = pathname.slice("/v1/sandboxes/".length);
  const slash = rest.indexOf("/");
  if (slash !== -1 && rest.slice(slash) === "/tunnel") return "/forward";
  return slash === -1 ? `/${rest.slice(rest.lastIndexOf(":") + 1)}` : rest.slice(slash);
}

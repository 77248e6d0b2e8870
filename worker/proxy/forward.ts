/** Carries one request to the machine that a route leads to, asking the sandbox's object only when the route is not good. */
import { sandboxObject, type RouteFacts, type RouteGrant } from "../../durable/sandbox/api.ts";
import { asLocalhost, fromLocalhost } from "../../durable/localhost.ts";
import { readMisdirected, sendToMachine } from "../../durable/sandbox/request.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { hostHeaders } from "../../sdk/contract/host.ts";
import type { Cause } from "../../sdk/contract/timeline.ts";
import { isKeptBack, ruleFor, type RuleSubject, type WakeRule } from "../../sdk/contract/wake-rule.ts";
import { thrown } from "../errors.ts";
import type { RequestNote } from "../log.ts";
import { cachedGrant, forgetRoute, rememberRoute } from "./route-cache.ts";

/** A larger body, or one of unknown length, is sent once and never kept for a second try, bytes. */
const KEPT_BODY_MAX = 1_048_576;
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
  /** Whether it may wake the machine. */
  readonly wake: boolean;
  /** Who has the machine wake. */
  readonly cause: Cause;
  /** What the sandbox's rules are to look at; null where they are not asked. */
  readonly subject: RuleSubject | null;
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
      const asked = await askRoute(env, to, out, out.body.once || attempt > 1);
      if ("rule" in asked) return edgeAnswer(asked.rule, out, note);
      route = asked;
      woken ||= asked.woken;
      if (woken) wakeMs = Date.now() - startedAt;
    }
    const { method, path, subject } = out;
    const rule = subject && ruleFor(route.facts.rules, subject);
    if (rule && isKeptBack(rule, true)) return edgeAnswer(rule, out, note);
    const local = subject !== null && route.facts.localhostPorts.includes(subject.port) ? subject.port : null;
    const headers = changed(out.headers, rule?.action === "no_keep", local);
    let response: Response;
    try {
      response = await sendToMachine(env, route.facts.id, route.grant, { method, path, headers, body: out.body.data });
    } catch {
      forgetRoute(key);
      if (attempt < TRIES && isRepeatable(out.method)) {
        route = null;
        continue;
      }
      // Whether the program saw the request is not known. A host that is away says so in better words.
      await askRoute(env, to, out, true);
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
    const answered = answer(response, note, route.facts.generation, woken ? wakeMs : null);
    if (local !== null) fromLocalhost(answered.headers, local, out.headers.get("x-forwarded-prefix") ?? "");
    return answered;
  }
}

async function askRoute(
  env: Env,
  to: Destination,
  { waitMs, wake, cause, subject }: Outgoing,
  verify: boolean,
): Promise<(Route & { woken: boolean }) | { readonly rule: WakeRule }> {
  const key = routeKey(to);
  const result = await sandboxObject(env.SANDBOX, to.account, to.label).route({
    id: to.id,
    wake,
    waitMs,
    verify,
    cause,
    subject,
  });
  if (!result.ok) {
    forgetRoute(key);
    throw thrown(result.failure);
  }
  const { facts, grant, woken } = result;
  const rule = grant === null && subject ? ruleFor(facts.rules, subject) : null;
  if (rule) return { rule };
  if (!grant && !wake)
    throw new RouseFailure("sandbox_paused", "The sandbox sleeps, and this link does not wake it.", {
      details: { state: facts.state },
    });
  if (!grant) throw new RouseFailure("host_unavailable", "The sandbox has no host.", { retryAfterMs: 1000 });
  rememberRoute(key, { facts, grant }, Date.now());
  return { facts, grant, woken };
}

/** @throws RouseFailure `sandbox_paused` for a rule that only keeps it asleep */
function edgeAnswer(rule: WakeRule, { method }: Outgoing, note: RequestNote): Response {
  const headers = new Headers({ "x-request-id": note.id, "x-rouse-rule": rule.action });
  if (rule.action === "ignore") return new Response(null, { status: 204, headers });
  if (rule.action !== "answer")
    throw new RouseFailure("sandbox_paused", "The sandbox sleeps, and by its rules this request does not wake it.");
  const { status = 200, body = "", contentType = "text/plain; charset=utf-8" } = rule;
  if (body !== "") headers.set("content-type", contentType);
  const none = method === "HEAD" || [204, 205, 304].includes(status);
  return new Response(none ? null : body, { status, headers });
}

/** @param local the port of a program that takes requests for `localhost` only */
function changed(from: Headers, noKeep: boolean, local: number | null): Headers {
  if (!noKeep && local === null) return from;
  const headers = new Headers(from);
  if (noKeep) headers.set(hostHeaders.noKeep, "1");
  if (local !== null) asLocalhost(headers, local);
  return headers;
}

function isRepeatable(method: string): boolean {
  return method === "GET" || method === "HEAD" || method === "OPTIONS";
}

/** @param wakeMs null: it ran already */
function answer(response: Response, note: RequestNote, generation: number, wakeMs: number | null): Response {
  const { webSocket } = response;
  const answered = webSocket
    ? new Response(null, { status: 101, headers: response.headers, webSocket })
    : new Response(response.body, response);
  const { headers } = answered;
  const waited = headers.get(hostHeaders.waited);
  headers.delete(hostHeaders.waited);
  headers.set("x-request-id", note.id);
  headers.set("x-rouse-state", wakeMs === null ? "running" : "woken");
  headers.set("x-rouse-generation", String(generation));
  if (wakeMs !== null) headers.set("x-rouse-wake-ms", String(wakeMs));
  if (wakeMs !== null) headers.append("server-timing", `wake;dur=${wakeMs}`);
  if (waited !== null && waited !== "0" && wakeMs !== null) headers.append("server-timing", `listen;dur=${waited}`);
  return answered;
}

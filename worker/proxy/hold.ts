/** WebSockets that are held: their client ends in an object that stays while the machine sleeps. */
import type { RouteFacts } from "../../durable/sandbox/api.ts";
import { holdSocket } from "../../durable/sockets/api.ts";
import type { SocketRecord } from "../../durable/sockets/record.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { SOCKET_PARAMETER, socketLimits, socketRuleFor } from "../../sdk/contract/socket.ts";
import type { Cause } from "../../sdk/contract/timeline.ts";
import { isKeptBack, ruleFor, type RuleSubject } from "../../sdk/contract/wake-rule.ts";
import { thrown } from "../errors.ts";
import type { RequestNote } from "../log.ts";
import { factsOf, type Admission } from "./access.ts";
import { lengthOf, upgradeIssues } from "./form.ts";
import { routeKey } from "./forward.ts";
import { cachedGrant } from "./route-cache.ts";
import type { Target } from "./target.ts";

const PROTOCOLS = "sec-websocket-protocol";
/** A subprotocol is a token of HTTP. */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

export interface HoldAsk {
  readonly target: Target;
  /** For the program, with the query. */
  readonly pathAndQuery: string;
  readonly subject: RuleSubject;
  readonly headers: Headers;
  readonly admission: Admission;
  readonly cause: Cause;
}

/** What is known of the sandbox, at whatever age a route is good: a warm upgrade asks no object. */
export async function factsForUpgrade(env: Env, target: Target): Promise<RouteFacts> {
  const now = Date.now();
  return cachedGrant(routeKey(target), target.id ?? null, now)?.facts ?? factsOf(env, target, now, false);
}

/** The query without the parameter by which a client asks for its socket to be held, and whether it did. */
export function withoutAsk(search: string): { search: string; asked: boolean } {
  const { name, value } = SOCKET_PARAMETER;
  const kept = search
    .slice(1)
    .split("&")
    .filter((part) => part !== `${name}=${value}`);
  const asked = kept.length < search.slice(1).split("&").length;
  return { search: !asked ? search : kept.length === 0 ? "" : `?${kept.join("&")}`, asked };
}

/**
 * How a WebSocket is to be held; null: not at all.
 * @param asked by its client
 * @throws RouseFailure `forbidden`: who has shown no credential may not ask for it
 */
export function heldBy(
  facts: RouteFacts,
  subject: RuleSubject,
  asked: boolean,
  { pass }: Admission,
): SocketRecord["rule"] | null {
  const wakeRule = ruleFor(facts.rules, subject);
  // The edge answers it.
  if (wakeRule && isKeptBack(wakeRule, facts.state === "running")) return null;
  const rule = socketRuleFor(facts.sockets, subject);
  // It would outlive the session that it came with.
  const isOfSession = pass.by === "session";
  if (rule && !isOfSession) {
    const { path: _path, port: _port, keep: _keep, ...kept } = rule;
    return kept;
  }
  if (!asked) return null;
  if (pass.by === "public" || isOfSession)
    throw new RouseFailure("forbidden", "Only who shows a key or a link may ask for a socket to be held.");
  return {};
}

/** @throws RouseFailure `invalid_request` for what is no upgrade, `quota_exceeded`, and what waking and reaching the program ends with */
export async function hold(
  env: Env,
  ask: HoldAsk,
  rule: SocketRecord["rule"],
  sandboxId: string,
  asked: Request,
  note: RequestNote,
): Promise<Response> {
  mustBeUpgrade(asked, ask);
  const { target, admission, subject, headers, pathAndQuery, cause } = ask;
  const answer = await holdSocket(
    env.SOCKETS,
    target,
    { path: pathAndQuery, headers },
    {
      ...{ sandboxId, port: target.port, path: subject.path, userAgent: subject.userAgent },
      ...{ pass: admission.pass, wake: admission.wake, rule, cause },
    },
  );
  if ("failure" in answer) throw thrown(answer.failure);
  const { response, woken } = answer;
  if (woken) note.woken = true;
  const answered = new Headers(response.headers);
  answered.set("x-request-id", note.id);
  answered.set("x-rouse-state", woken ? "woken" : "running");
  return response.webSocket
    ? new Response(null, { status: 101, headers: answered, webSocket: response.webSocket })
    : new Response(response.body, { status: response.status, headers: answered });
}

/** Everything that is wrong, before anything is asked or woken. */
function mustBeUpgrade(asked: Request, { headers, pathAndQuery }: HoldAsk): void {
  const issues = upgradeIssues(asked);
  const wrong = (path: string, message: string) => issues.push({ path, message });
  const protocols = headers.get(PROTOCOLS);
  if (protocols !== null && protocols.length > socketLimits.protocolsMax)
    wrong(PROTOCOLS, `at most ${socketLimits.protocolsMax} characters`);
  else if (protocols !== null && protocols.split(",").some((name) => !TOKEN.test(name.trim())))
    wrong(PROTOCOLS, "tokens with commas between them");
  if (lengthOf(headers, pathAndQuery) > socketLimits.requestMax)
    wrong("headers", `at most ${socketLimits.requestMax} characters with the path`);
  if (issues.length === 0) return;
  const message = `This is no WebSocket upgrade: ${issues.map(({ path, message: text }) => `${path}: ${text}`).join("; ")}`;
  throw new RouseFailure("invalid_request", message, { details: { issues } });
}

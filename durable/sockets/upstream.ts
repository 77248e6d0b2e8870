/** Opening a program's connection of a held socket: the way that the edge goes for a client, and what came of it. */
import type { Failure } from "../../sdk/contract/error-codes.ts";
import { hostHeaders } from "../../sdk/contract/host.ts";
import { BASE36, randomText } from "../../sdk/contract/random.ts";
import { socketHeaders } from "../../sdk/contract/socket.ts";
import type { Cause } from "../../sdk/contract/timeline.ts";
import { ruleFor, type RuleSubject } from "../../sdk/contract/wake-rule.ts";
import { asLocalhost } from "../localhost.ts";
import { sandboxObject, type RouteFacts, type RouteGrant, type SandboxApi } from "../sandbox/api.ts";
import { ERROR_MAX, hostFault, readMisdirected, readUpTo, sendToMachine } from "../sandbox/request.ts";
import { credentialOf, isAdmitted, type SocketRecord, type UpgradeRequest } from "./record.ts";
import type { Whose } from "./store.ts";

/** Longest wait for a wake, and for a program to take a connection, milliseconds. */
const WAKE_MS = 30_000;
const ANSWER_MS = 35_000;
/** A ticket that ends sooner is renewed first, milliseconds. */
const RENEW_MS = 30_000;
/** How long it is believed that the sandbox sleeps, milliseconds: when it wakes, it says so. */
const GLANCE_MS = 1000;
/** Ways that are asked for anew before a machine is taken to change all the time. */
const TRIES = 3;

type Route = { readonly facts: RouteFacts; readonly grant: RouteGrant | null; readonly woken: boolean };

/** A connection to the program. */
export interface Connection {
  readonly socket: WebSocket;
  /** Opens the host's messages of what has reached the program; null where it tells nothing. */
  readonly word: string | null;
  readonly hostId: string;
  readonly generation: number;
  /** Of the answer. */
  readonly headers: Headers;
}

export type Opened = { readonly woken: boolean } & (
  | { readonly kind: "open"; readonly connection: Connection }
  /** The program said no; the body is not read. */
  | { readonly kind: "refused"; readonly response: Response }
  | { readonly kind: "failed"; readonly failure: Failure }
);

export interface OpenAsk {
  readonly record: Pick<SocketRecord, "id" | "port" | "path" | "userAgent" | "pass">;
  readonly request: UpgradeRequest;
  readonly wake: boolean;
  readonly resumed: number;
  readonly delivered: number;
  readonly cause: Cause;
}

const paused: Failure = { code: "sandbox_paused", message: "The sandbox sleeps, and this does not wake it." };

const silent: Failure = { code: "upstream_closed", message: "The program does not answer the upgrade." };

export class Upstreams {
  readonly #env: Env;
  #whose: Whose | null = null;
  #sandbox: SandboxApi | null = null;
  #known: (Route & { readonly grant: RouteGrant }) | null = null;
  #waking: Promise<unknown> | null = null;
  /** What the sandbox said last to somebody who was not to wake it, and when that was asked, Unix milliseconds. */
  #glance: { readonly at: number; readonly answer: ReturnType<SandboxApi["route"]> } | null = null;
  /** Whether the machine is where it was is not sure. */
  #doubt = false;

  constructor(env: Env) {
    this.#env = env;
  }

  /** What is known of the way may not be true any more. */
  forget(): void {
    this.#known = null;
  }

  /** The sandbox as it is now, without waking it. @param holds whether it is to tell of changes */
  async look(whose: Whose, holds: boolean): Promise<Awaited<ReturnType<SandboxApi["route"]>>> {
    this.forget();
    this.#glance = null;
    const ask = { wake: false, waitMs: 0, verify: false, cause: null, subject: null, holdsSockets: holds };
    const answer = await this.#object(whose).route({ id: whose.sandboxId, ...ask });
    if (answer.ok) this.#remember(answer);
    return answer;
  }

  async open(whose: Whose, ask: OpenAsk): Promise<Opened> {
    const { record, wake } = ask;
    const { port, path, userAgent } = record;
    const credential = credentialOf(record.pass);
    const subject: RuleSubject = { method: "GET", path, userAgent, port, credential };
    let woken = false;
    for (let tries = 0; tries < TRIES; tries++) {
      const routed = await this.#route(whose, wake, ask.cause, subject);
      if (!routed.ok) return { kind: "failed", failure: routed.failure, woken };
      const { facts, grant } = routed;
      woken ||= routed.woken;
      if (!isAdmitted(record, facts, Date.now()))
        return { kind: "failed", failure: { code: "forbidden", message: "The credential is over." }, woken };
      if (!grant) return { kind: "failed", failure: paused, woken };
      const noKeep = ruleFor(facts.rules, subject)?.action === "no_keep";
      const opened = await this.#send(facts, grant, ask, noKeep).catch(() => null);
      if (opened === "misdirected" || opened === null) {
        this.forget();
        this.#doubt = true;
        continue;
      }
      return { ...opened, woken };
    }
    const failure: Failure = { code: "host_unavailable", message: "The connection to the sandbox's host breaks." };
    return { kind: "failed", failure, woken };
  }

  #object(whose: Whose): SandboxApi {
    const { account, label } = whose;
    if (this.#whose?.account !== account || this.#whose.label !== label) this.#sandbox = null;
    this.#whose = whose;
    // One stub: its calls arrive in the order in which they are made.
    this.#sandbox ??= sandboxObject(this.#env.SANDBOX, account, label);
    return this.#sandbox;
  }

  #remember(route: Route): void {
    const { grant } = route;
    this.#known = grant && { ...route, grant, woken: false };
  }

  async #route(whose: Whose, wake: boolean, cause: Cause, subject: RuleSubject) {
    // However many sockets wait for it, one of them has it wake.
    await this.#waking;
    const known = this.#known;
    if (known?.facts.id === whose.sandboxId && known.grant.ticketExpiresAt - Date.now() > RENEW_MS)
      return { ok: true, ...known } as const;
    // A thousand connections break at once when the machine goes to sleep.
    if (!wake && !this.#doubt && this.#glance && Date.now() - this.#glance.at < GLANCE_MS) return this.#glance.answer;
    const verify = this.#doubt;
    this.#doubt = false;
    const asked = this.#object(whose).route({
      ...{ id: whose.sandboxId, wake, waitMs: wake ? WAKE_MS : 0, verify, cause, subject, holdsSockets: true },
    });
    this.#glance = wake ? null : { at: Date.now(), answer: asked };
    const settled = asked.then(
      () => undefined,
      () => undefined,
    );
    if (wake) {
      this.#waking = settled;
      void settled.then(() => {
        if (this.#waking === settled) this.#waking = null;
      });
    }
    const answer = await asked;
    if (answer.ok) this.#remember(answer);
    return answer;
  }

  async #send(
    facts: RouteFacts,
    grant: RouteGrant,
    { record, request, resumed, delivered }: OpenAsk,
    noKeep: boolean,
  ): Promise<
    | { kind: "open"; connection: Connection }
    | { kind: "refused"; response: Response }
    | { kind: "failed"; failure: Failure }
    | "misdirected"
  > {
    const word = randomText(BASE36, 24);
    const headers = new Headers(request.headers.map(([name, value]): [string, string] => [name, value]));
    headers.set(socketHeaders.id, record.id);
    headers.set(socketHeaders.resumed, String(resumed));
    headers.set(socketHeaders.delivered, String(delivered));
    headers.set(hostHeaders.socketWord, word);
    if (noKeep) headers.set(hostHeaders.noKeep, "1");
    if (facts.localhostPorts.includes(record.port)) asLocalhost(headers, record.port);
    const path = `/port/${record.port}${request.path}`;
    const asked = sendToMachine(this.#env, facts.id, grant, { method: "GET", path, headers, body: null });
    const response = await inTime(asked);
    if (!response) return { kind: "failed", failure: silent };
    if (response.webSocket) {
      response.webSocket.binaryType = "arraybuffer";
      const tells = response.headers.get(hostHeaders.socketWord) !== null;
      const { hostId } = grant;
      const { generation } = facts;
      const connection = { socket: response.webSocket, hostId, generation, headers: response.headers };
      return { kind: "open", connection: { ...connection, word: tells ? word : null } };
    }
    if (response.status === 421) {
      const own = await readMisdirected(response);
      return own ? { kind: "refused", response: own } : "misdirected";
    }
    const { status } = response;
    if (status !== 401 && status < 500) return { kind: "refused", response };
    const bytes = await readUpTo(response, ERROR_MAX);
    const failure = bytes && hostFault(bytes);
    if (failure) return { kind: "failed", failure: { ...failure, message: messageOf(bytes) } };
    return { kind: "refused", response: new Response(bytes, { status, headers: response.headers }) };
  }
}

function messageOf(bytes: Uint8Array): string {
  const { error } = JSON.parse(new TextDecoder().decode(bytes)) as { error: { message?: unknown } };
  return typeof error.message === "string" ? error.message : "";
}

/** null: a program that neither takes nor refuses a connection. */
async function inTime(asked: Promise<Response>): Promise<Response | null> {
  const late = Promise.withResolvers<null>();
  const timer = setTimeout(() => late.resolve(null), ANSWER_MS);
  const response = await Promise.race([asked, late.promise]).finally(() => clearTimeout(timer));
  if (!response)
    asked.then(
      ({ webSocket }) => {
        webSocket?.accept();
        webSocket?.close();
      },
      () => undefined,
    );
  return response;
}

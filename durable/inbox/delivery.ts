/**
 * Delivering what waits: one event of a hook at a time, in the order of arrival, each until the program took it. Other
 * hooks go on meanwhile. What a try does is stored before and after, so that one that breaks off is made again.
 */
import type { ErrorCode, Failure } from "../../sdk/contract/error-codes.ts";
import { hookLimits } from "../../sdk/contract/hook.ts";
import { CAUSE_REQUEST_MAX, type Cause } from "../../sdk/contract/timeline.ts";
import { sandboxObject, type RouteGrant } from "../sandbox/api.ts";
import { signedHeaders } from "../standard-webhooks.ts";
import {
  ERROR_MAX,
  hostFault,
  readMisdirected,
  readUpTo,
  sendToMachine,
  type MachineRequest,
} from "../sandbox/request.ts";
import type { Bodies } from "./bodies.ts";
import type { Hooks } from "./hooks.ts";
import { DAY_MS, ended, REQUESTS, withStep, type EventRecord, type HookRecord, type Step } from "./record.ts";
import { judge, type Outcome } from "./retry.ts";
import type { InboxStore, ProgramAnswer } from "./store.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** Longest wait for a wake, milliseconds. */
const WAKE_MS = 30_000;
/** After a wake, programs may take so long until they listen, milliseconds. */
const SETTLING_MS = 60_000;
/** How long what a program answered is kept, milliseconds. */
const ANSWER_KEPT_MS = DAY_MS;
/** Whoever else was at fault, the program was not: tries that end so count only when they go on for a minute. */
const NOT_REACHED: ReadonlySet<ErrorCode> = new Set(["sandbox_waking", "host_unavailable"]);
/** Bodies above this are carried one at a time, bytes: each is in memory several times. */
const LARGE_MIN = 1_048_576;
/** Headers of a program's answer that are not for who asks for it later. */
const ANSWER_DROPPED = new Set(["connection", "keep-alive", "set-cookie", "transfer-encoding", "content-length"]);

interface Tried {
  readonly outcome: Outcome;
  readonly woken: boolean;
  /** null: nobody is to be told, or it was too long. */
  readonly answer: ProgramAnswer | null;
}

export class Delivery {
  readonly #store: InboxStore;
  readonly #env: Env;
  readonly #hooks: Hooks;
  readonly #bodies: Bodies;
  /** When this object last saw the sandbox wake, Unix milliseconds. */
  #wokenAt = 0;
  #large: Promise<unknown> = Promise.resolve();

  constructor(store: InboxStore, env: Env, hooks: Hooks, bodies: Bodies) {
    this.#store = store;
    this.#env = env;
    this.#hooks = hooks;
    this.#bodies = bodies;
  }

  /** Deliver whatever is due. Resolves when nothing is, any more. */
  async run(): Promise<void> {
    await Promise.all(this.#store.senders().map((id) => this.#deliver(id)));
  }

  async #deliver(hookId: string): Promise<void> {
    const store = this.#store;
    if (store.busy.has(hookId)) return;
    store.busy.add(hookId);
    try {
      for (;;) {
        const hook = store.hook(hookId);
        const event = store.heads(hookId)[0];
        if (!event || (hook ? !hook.enabled : hookId !== REQUESTS) || (event.nextAt ?? 0) > Date.now()) return;
        await this.#attempt(event, hook);
      }
    } finally {
      store.busy.delete(hookId);
      store.arm();
    }
  }

  async #attempt(due: EventRecord, hook: HookRecord | null): Promise<void> {
    const startedAt = Date.now();
    let event = due;
    if (event.begunAt !== null) {
      const next = this.#conclude(
        event.id,
        { status: null, reason: "broke_off", settling: false },
        event.begunAt,
        false,
      );
      // One that broke off is made again at once, but not for ever: it may be what breaks the object.
      if (!next || next.late || next.state !== "waiting") return;
      this.#store.saveEvent({ ...next, nextAt: startedAt });
      event = { ...next, nextAt: startedAt };
    }
    this.#store.saveEvent({ ...event, begunAt: startedAt });
    const tried = await this.#try(event, hook).catch((fault: unknown): Tried => {
      console.error(JSON.stringify({ level: "error", event: event.id, fault: String(fault) }));
      return { outcome: { status: null, reason: "internal_error", settling: false }, woken: false, answer: null };
    });
    if (tried.woken) this.#wokenAt = Date.now();
    if (tried.answer && this.#store.event(event.id))
      this.#store.saveAnswer(event.id, tried.answer, Date.now() + ANSWER_KEPT_MS);
    this.#conclude(event.id, tried.outcome, startedAt, tried.woken);
  }

  /** Store what a try came to. null: the event is gone, or is not waited for any more. */
  #conclude(id: string, outcome: Outcome, startedAt: number, woken: boolean): EventRecord | null {
    const now = Date.now();
    const event = this.#store.event(id);
    if (event?.state !== "waiting") return null;
    // Whatever a program answers to a request is the answer to it.
    const isAnswer = event.hookId === REQUESTS && outcome.status !== null;
    const next = isAnswer ? ({ next: "delivered" } as const) : judge(event, outcome, now, Math.random());
    const step: Step = {
      ...{ at: startedAt, what: "attempt", status: outcome.status, ms: Math.max(0, now - startedAt), woken },
      ...(next.next === "delivered" ? {} : { reason: next.reason }),
      ...(next.next === "retry" ? { nextAt: next.at } : {}),
    };
    const tried = withStep({ ...event, begunAt: null }, step);
    if (next.next === "retry") {
      const { attempts, settling, late, at: nextAt } = next;
      return this.#saved({ ...tried, attempts, settling, late, nextAt });
    }
    if (next.next === "delivered") {
      // A request is answered once.
      if (event.hookId === REQUESTS) this.#store.dropBody(id);
      return this.#saved(ended({ ...tried, attempts: event.attempts + 1 }, "delivered", now));
    }
    const hook = this.#store.hook(event.hookId);
    if (next.disable && hook)
      this.#store.saveHook({ ...hook, enabled: false, disabledReason: "gone", disabledAt: now });
    return this.#saved(ended({ ...tried, attempts: next.attempts }, "dead", now, next.reason));
  }

  #saved(event: EventRecord): EventRecord {
    this.#store.saveEvent(event);
    return event;
  }

  async #try(event: EventRecord, hook: HookRecord | null): Promise<Tried> {
    if (event.bytes <= LARGE_MIN) return this.#carry(event, hook);
    const turn = this.#large.then(() => this.#carry(event, hook));
    this.#large = turn.catch(() => undefined);
    return turn;
  }

  async #carry(event: EventRecord, hook: HookRecord | null): Promise<Tried> {
    const { whose } = this.#store;
    const missing = { outcome: failed({ code: "state_damaged", message: "" }), woken: false, answer: null };
    if (!whose) return missing;
    const body = event.blob === null ? this.#store.bodyOf(event.id) : await this.#bodies.get(event.blob);
    if (!body) return missing;
    const request = await this.#request(event, hook, body);
    let woken = false;
    let broken = null as { readonly hostId: string; readonly generation: number } | null;
    const fail = (failure: Failure, settling = false): Tried => ({
      ...{ outcome: failed(failure, settling), woken, answer: null },
    });
    for (const verify of [false, true]) {
      const routed = await sandboxObject(this.#env.SANDBOX, whose.account, whose.label).route({
        ...{ id: whose.sandboxId, wake: true, waitMs: WAKE_MS, verify, cause: causeOf(event, hook), subject: null },
      });
      if (!routed.ok) return fail(routed.failure, NOT_REACHED.has(routed.failure.code));
      woken ||= routed.woken;
      const { grant, facts } = routed;
      if (!grant) return fail({ code: "host_unavailable", message: "The sandbox has no host." }, true);
      // Its host still has that very run: it is the program that closed the connection.
      if (broken?.hostId === grant.hostId && broken.generation === facts.generation) break;
      const settling = woken || event.settling > 0 || Date.now() - this.#wokenAt < SETTLING_MS;
      const sent = await this.#send(facts.id, grant, request, hook, settling);
      if (typeof sent === "object") return { ...sent, woken };
      if (sent === "timeout") return { outcome: { status: null, reason: sent, settling: false }, woken, answer: null };
      broken = sent === "broken" ? { hostId: grant.hostId, generation: facts.generation } : null;
    }
    return broken
      ? fail({ code: "upstream_closed", message: "The program closed the connection." })
      : fail({ code: "sandbox_waking", message: "The sandbox changes all the time." }, true);
  }

  /** @param settling the sandbox woke a moment ago */
  async #send(
    id: string,
    grant: RouteGrant,
    request: MachineRequest,
    hook: HookRecord | null,
    settling: boolean,
  ): Promise<Omit<Tried, "woken"> | "broken" | "misdirected" | "timeout"> {
    const abort = new AbortController();
    const limitMs = (hook?.timeoutSeconds ?? hookLimits.timeoutSecondsMax) * 1000;
    const timer = setTimeout(() => abort.abort(), limitMs);
    try {
      let response = await sendToMachine(this.#env, id, grant, { ...request, signal: abort.signal });
      if (response.status === 421) {
        const own = await readMisdirected(response);
        if (!own) return "misdirected";
        response = own;
      }
      const { status, headers } = response;
      const wanted = hook === null || hook.mode === "sync";
      const most = wanted ? hookLimits.answerBytesMax : status === 502 || status === 503 ? ERROR_MAX : 0;
      const bytes = await readUpTo(response, most);
      const fault = status >= 500 && bytes ? hostFault(bytes) : null;
      const starts = fault?.code === "port_not_listening" || fault?.code === "service_not_ready";
      if (fault) return { outcome: failed(fault, settling && starts), answer: null };
      const kept = [...headers].filter(([name]) => !ANSWER_DROPPED.has(name) && !name.startsWith("x-rouse-"));
      return {
        outcome: { status, retryAfter: headers.get("retry-after") },
        answer: wanted && bytes ? { status, headers: kept, bytes } : null,
      };
    } catch {
      return abort.signal.aborted ? "timeout" : "broken";
    } finally {
      clearTimeout(timer);
    }
  }

  async #request(event: EventRecord, hook: HookRecord | null, body: Bytes): Promise<MachineRequest> {
    const headers = new Headers(event.headers.map(([name, value]): [string, string] => [name, value]));
    if (!hook) {
      const { method = "POST", port = 0, path = "/" } = event.request ?? {};
      headers.set("webhook-id", event.id);
      return { method, path: `/port/${port}${path}`, headers, body: body.length === 0 ? null : body };
    }
    const signed = await signedHeaders(event.id, body, await this.#hooks.deliverySecrets(hook), Date.now());
    for (const [name, value] of Object.entries(signed)) headers.set(name, value);
    headers.set("x-rouse-hook", hook.id);
    headers.set("x-rouse-attempt", String(event.attempts + 1));
    const query = hook.path.includes("?") ? event.query.replace(/^\?/, "&") : event.query;
    return { method: "POST", path: `/port/${hook.port}${hook.path}${query}`, headers, body };
  }
}

/** Why the sandbox wakes, as its timeline shows it. */
function causeOf(event: EventRecord, hook: HookRecord | null): Cause {
  const { method = "POST", path = "/", port = 0 } = event.request ?? {};
  const request = hook ? `${hook.name} ${event.type ?? ""}`.trim() : `${method} ${path.split("?")[0]}`;
  return {
    ...{ kind: hook ? "hook" : "request", keyId: null, request: request.slice(0, CAUSE_REQUEST_MAX) },
    ...{ port: hook?.port ?? port, requestId: event.id },
  };
}

function failed({ code, retryAfterMs }: Failure, settling = false): Outcome {
  return { status: null, reason: code, retryAfterMs, settling };
}

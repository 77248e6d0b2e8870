/**
 * Sending what waits: of one endpoint and subject one event at a time, in their order, each until it was taken or given
 * up. Other subjects, and other endpoints, go on meanwhile. What a try does is stored before and after, so that one that
 * breaks off is made again.
 */
import { eventLimits } from "../../sdk/contract/event.ts";
import { signedHeaders } from "../standard-webhooks.ts";
import type { Endpoints } from "./endpoints.ts";
import { ended, withTry, type DeliveryRecord, type EndpointRecord } from "./record.ts";
import { isHopeless, judge, type FailedReason, type Outcome } from "./retry.ts";
import type { OutboxStore } from "./store.ts";
import { targetFault } from "./target.ts";

/** Tries to one endpoint at once: a slow one has no more than this of the platform's connections. */
const PARALLEL = 4;

type Answered = Outcome & { readonly body: string | null };

export class Delivery {
  readonly #store: OutboxStore;
  readonly #env: Env;
  readonly #endpoints: Endpoints;
  readonly #background: (work: Promise<unknown>) => void;
  readonly #onDisabled: () => void;
  /** Subjects with a try under way here, by endpoint. */
  readonly #busy = new Map<string, Set<string>>();

  /** @param onDisabled an endpoint was turned off, because of what it answers */
  constructor(
    store: OutboxStore,
    env: Env,
    endpoints: Endpoints,
    { background, onDisabled }: { background: (work: Promise<unknown>) => void; onDisabled: () => void },
  ) {
    this.#store = store;
    this.#env = env;
    this.#endpoints = endpoints;
    this.#background = background;
    this.#onDisabled = onDisabled;
  }

  /** Begin whatever is due and has room. */
  run(): void {
    const now = Date.now();
    for (const { id, enabled } of this.#store.endpoints()) {
      const busy = this.#busy.get(id) ?? new Set();
      this.#busy.set(id, busy);
      if (!enabled || busy.size >= PARALLEL) continue;
      const due = this.#store.due(id, now, 2 * PARALLEL).filter((subject) => !busy.has(subject));
      for (const subject of due.slice(0, PARALLEL - busy.size)) {
        busy.add(subject);
        this.#background(
          this.#attempt(id, subject).finally(() => {
            busy.delete(subject);
            this.run();
          }),
        );
      }
    }
    this.#store.arm();
  }

  async #attempt(endpointId: string, subject: string): Promise<void> {
    const head = this.#store.head(endpointId, subject);
    const endpoint = this.#store.endpoint(endpointId);
    const now = Date.now();
    if (!endpoint?.enabled) return;
    if (!head) return this.#store.requeue(endpointId, subject);
    if (head.begunAt !== null) {
      // One that broke off is made again at once, but not for ever: it may be what breaks the object.
      const next = this.#conclude(head.id, { status: null, reason: "broke_off", body: null }, head.begunAt);
      if (next?.state === "waiting") this.#store.saveDelivery({ ...next, nextAt: now });
      return;
    }
    if ((head.nextAt ?? 0) > now) return this.#store.requeue(endpointId, subject);
    this.#store.saveDelivery({ ...head, begunAt: now, triedAt: head.triedAt ?? now });
    const outcome = await this.#send(endpoint, head).catch((fault: unknown): Answered => {
      console.error(JSON.stringify({ level: "error", delivery: head.id, fault: String(fault) }));
      return { status: null, reason: "internal_error", body: null };
    });
    this.#conclude(head.id, outcome, now);
  }

  /** Store what a try came to. null: the delivery is gone, or is not waited for any more. */
  #conclude(id: string, outcome: Answered, startedAt: number): DeliveryRecord | null {
    const now = Date.now();
    const record = this.#store.delivery(id);
    if (record?.state !== "waiting") return null;
    const next = judge(record.attempts, record.triedAt ?? startedAt, outcome, now, Math.random());
    const reason = next.next === "delivered" ? null : next.reason;
    const ms = Math.max(0, now - startedAt);
    const tried = withTry(
      { ...record, begunAt: null, lastAnswer: outcome.body },
      { at: startedAt, ms, status: outcome.status, reason },
    );
    const after = next.next === "retry" ? { ...tried, nextAt: next.at } : ended(tried, next.next, reason, now);
    const disabled = this.#store.transaction(() => {
      this.#store.saveDelivery(after);
      return this.#note(record.endpointId, next.next === "delivered", next.next === "dead" && next.gone, now);
    });
    if (disabled) this.#onDisabled();
    return after;
  }

  /** How an endpoint does. Answers whether it is turned off. */
  #note(endpointId: string, isTaken: boolean, isGone: boolean, now: number): boolean {
    const endpoint = this.#store.endpoint(endpointId);
    if (!endpoint) return false;
    if (isTaken) {
      this.#store.saveEndpoint({ ...endpoint, failingSince: null, failures: 0, lastSuccessAt: now });
      return false;
    }
    const failing = { failingSince: endpoint.failingSince ?? now, failures: endpoint.failures + 1 };
    const isOver = isGone || isHopeless(failing.failingSince, failing.failures, now);
    if (!isOver || !endpoint.enabled) {
      this.#store.saveEndpoint({ ...endpoint, ...failing });
      return false;
    }
    const disabledReason = isGone ? "gone" : "failing";
    this.#store.saveEndpoint({ ...endpoint, ...failing, enabled: false, disabledReason, disabledAt: now });
    this.#store.giveUpWaiting(endpointId, "endpoint_disabled", now);
    return true;
  }

  async #send(endpoint: EndpointRecord, { id, eventId }: DeliveryRecord): Promise<Answered> {
    const fail = (reason: FailedReason): Answered => ({ status: null, reason, body: null });
    const text = this.#store.eventText(eventId);
    if (text === null) throw new Error("the event of a delivery is gone");
    // What is allowed may have changed since the endpoint was made.
    if (targetFault(endpoint.url, this.#endpoints.targets) !== null) return fail("url_not_allowed");
    const body = new Uint8Array(new TextEncoder().encode(text));
    const headers = {
      "content-type": "application/json",
      "user-agent": "Rouse-Events/1",
      "x-rouse-delivery": id,
      ...(await signedHeaders(eventId, body, await this.#endpoints.secrets(endpoint), Date.now())),
    };
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), eventLimits.timeoutSeconds * 1000);
    try {
      // Nothing is followed: where it leads to was not agreed on.
      const init = { method: "POST", headers, body, redirect: "manual" as const, signal: abort.signal };
      const { EVENTS_OUT: out } = this.#env;
      const response = await (out ? out.fetch(endpoint.url, init) : fetch(endpoint.url, init));
      return {
        status: response.status,
        retryAfter: response.headers.get("retry-after"),
        body: await beginningOf(response, abort.signal),
      };
    } catch {
      return fail(abort.signal.aborted ? "timeout" : "unreachable");
    } finally {
      clearTimeout(timer);
    }
  }
}

/** The beginning of a body as text; the rest is not read. The status counts, whatever becomes of the body. */
async function beginningOf(response: Response, signal: AbortSignal): Promise<string | null> {
  const reader = response.body?.getReader();
  if (!reader) return null;
  const bytes = new Uint8Array(eventLimits.answerBytesMax);
  let length = 0;
  try {
    while (length < bytes.length && !signal.aborted) {
      const { done, value } = await reader.read();
      if (done) break;
      const part = (value as Uint8Array).subarray(0, bytes.length - length);
      bytes.set(part, length);
      length += part.length;
    }
    await reader.cancel();
  } catch {
    // What came of it is enough.
  }
  return length === 0 ? null : new TextDecoder().decode(bytes.subarray(0, length));
}

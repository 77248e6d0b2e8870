/** Taking events in: known ones are told from new ones, and what is answered for is stored first. */
import { hookLimits } from "../../sdk/contract/hook.ts";
import { hookEventId } from "../../sdk/contract/names.ts";
import { toBase64Url } from "../../sdk/contract/ticket.ts";
import { refuse, type Result } from "../result.ts";
import type { Accepted, Arrival, AsyncRequest } from "./api.ts";
import { hookNotFound } from "./hooks.ts";
import { newEvent, REQUESTS, type EventRecord } from "./record.ts";
import type { InboxStore } from "./store.ts";

/** What is being stored and no event has is dropped after this, milliseconds. */
const RESERVED_MS = 900_000;
/** Events that have ended and are remembered; then the oldest are forgotten sooner: an object has room for 10 GB. */
const ENDED_MAX = 50_000;
/** When a full inbox may be tried again, milliseconds. */
const FULL_RETRY_MS = 60_000;

export class Intake {
  readonly #store: InboxStore;

  constructor(store: InboxStore) {
    this.#store = store;
  }

  reserve(
    hookId: string,
    providerId: string | null,
    bytes: number,
  ): Result<{ known: Accepted; key: null } | { known: null; key: string }> {
    const now = Date.now();
    const refusal = this.#refusal(hookId);
    if (refusal) return refusal;
    const known = this.#known(hookId, providerId, now);
    if (known) return { ok: true, known, key: null };
    const full = this.#full(bytes);
    const { whose } = this.#store;
    if (full || !whose) return full ?? hookNotFound;
    const random = toBase64Url(crypto.getRandomValues(new Uint8Array(18)));
    const key = `inbox/${whose.account}/${whose.label}/${random}`;
    this.#store.dropAt(key, now + RESERVED_MS);
    return { ok: true, known: null, key };
  }

  async receive(arrival: Arrival): Promise<Result<{ event: Accepted }>> {
    const id = await hookEventId();
    const now = Date.now();
    // From here on nothing comes between: of two of one id at once the second finds the first.
    const refusal = this.#refusal(arrival.hookId);
    if (refusal) return refusal;
    const known = this.#known(arrival.hookId, arrival.providerId, now);
    if (known) {
      if (arrival.blob !== null) this.#store.dropAt(arrival.blob, now);
      return { ok: true, event: known };
    }
    const { ignored, body, ...rest } = arrival;
    const full = ignored ? null : this.#full(arrival.bytes);
    if (full) return full;
    const event = newEvent({ ...rest, id, request: null }, ignored, now);
    const hook = this.#store.hook(arrival.hookId);
    const stored = this.#store.transaction(() => {
      if (event.blob !== null && !this.#store.keep(event.blob, now)) return false;
      this.#store.addEvent(event, body);
      if (hook) this.#store.saveHook({ ...hook, lastEventAt: now });
      this.#store.trim(ENDED_MAX);
      return true;
    });
    if (!stored) return refuse("unavailable", "The body took too long to store.");
    return { ok: true, event: accepted(event, false) };
  }

  async takeRequest({ target, headers, body }: AsyncRequest): Promise<Result<{ event: Accepted }>> {
    const id = await hookEventId();
    const full = this.#full(body.length);
    if (full) return full;
    const event = newEvent(
      {
        ...{ id, hookId: REQUESTS, type: target.method, providerId: null, bytes: body.length, headers, query: "" },
        ...{ request: target, interaction: null, blob: null },
      },
      false,
      Date.now(),
    );
    this.#store.transaction(() => {
      this.#store.addEvent(event, body);
      this.#store.trim(ENDED_MAX);
    });
    return { ok: true, event: accepted(event, false) };
  }

  #known(hookId: string, providerId: string | null, now: number): Accepted | null {
    const seen = providerId === null ? null : this.#store.eventSeen(hookId, providerId, now);
    return seen && accepted(seen, true);
  }

  #refusal(hookId: string): ReturnType<typeof refuse> | null {
    const hook = this.#store.hook(hookId);
    if (!hook) return hookNotFound;
    return hook.enabled ? null : refuse("hook_disabled", "The hook takes no events.");
  }

  #full(bytes: number): ReturnType<typeof refuse> | null {
    const waiting = this.#store.total("waiting");
    const { waitingMax, waitingBytesMax } = hookLimits;
    if (waiting.count < waitingMax && waiting.bytes + bytes <= waitingBytesMax) return null;
    const message = `${waiting.count} events of ${waiting.bytes} bytes wait for the sandbox.`;
    const details = { waiting: waiting.count, bytes: waiting.bytes, max: waitingMax, maxBytes: waitingBytesMax };
    return { ok: false, failure: { code: "inbox_full", message, details, retryAfterMs: FULL_RETRY_MS } };
  }
}

function accepted({ id, state, interaction }: EventRecord, duplicate: boolean): Accepted {
  return { id, state, interaction, duplicate };
}

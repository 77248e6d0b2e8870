/** Endpoints themselves: made, changed, their secrets replaced, deleted. Secrets are stored sealed. */
import {
  eventLimits,
  type CreateEventEndpoint,
  type DeletedEventEndpoint,
  type EventEndpoint,
  type NewEventEndpoint,
  type RotateEventEndpoint,
  type UpdateEventEndpoint,
} from "../../sdk/contract/event.ts";
import { newId } from "../../sdk/contract/names.ts";
import type { Once } from "../account/api.ts";
import { previousOf, secretsOf } from "../replaced-secret.ts";
import { refuse, type Result } from "../result.ts";
import { replayed } from "../sandbox/api.ts";
import { Sealer } from "../sealed-secret.ts";
import { newStandardSecret } from "../standard-webhooks.ts";
import { newEndpoint, toEndpoint, updatedEndpoint, type EndpointRecord } from "./record.ts";
import type { OutboxStore } from "./store.ts";
import { targetFault, targetsOf, type Targets } from "./target.ts";

/** How long changes with an Idempotency-Key are remembered, milliseconds. */
const CHANGES_KEPT_MS = 86_400_000;

type Refusal = ReturnType<typeof refuse>;
type Known = { readonly ok: true; readonly id: string; readonly shown: string | null } | Refusal | null;
export const endpointNotFound = refuse("event_endpoint_not_found", "There is no such endpoint.");

export class Endpoints {
  readonly #store: OutboxStore;
  readonly #sealer: Sealer;
  readonly targets: Targets;

  constructor(store: OutboxStore, env: Env) {
    this.#store = store;
    this.#sealer = new Sealer(env.ROUSE_SECRET, "outbox-secrets");
    this.targets = targetsOf(env.ROUSE_EVENT_TARGETS);
  }

  /** The outbox is open. */
  async create(input: CreateEventEndpoint, once: Once): Promise<Result<{ endpoint: NewEventEndpoint }>> {
    const known = this.#known(once);
    if (known) return known.ok ? this.#again(known.id, known.shown) : known;
    const fault = this.#fault(input.url);
    if (fault) return fault;
    const id = await newId("ep", "event endpoint", this.#store.account, once.key);
    const { secret, sealed, shown } = await this.#newSecret(id);
    const now = Date.now();
    // Nothing comes between here and the end: of two calls at once the second finds what the first has made.
    if (this.#known(once)) return this.create(input, once);
    // Made under the key so long ago that what was shown then is forgotten.
    if (this.#store.endpoint(id)) return this.#again(id, null);
    if (this.#store.endpoints().length >= eventLimits.endpoints) return quotaExceeded;
    const record = newEndpoint(id, input, sealed, now);
    this.#store.transaction(() => {
      this.#store.saveEndpoint(record);
      this.#remember(once, id, shown, now);
    });
    return { ok: true, endpoint: { ...this.shown(record), secret } };
  }

  update(id: string, input: UpdateEventEndpoint, once: Once): Result<{ endpoint: EventEndpoint }> {
    const known = this.#known(once);
    if (known) return known.ok ? this.#now(known.id) : known;
    const record = this.#store.endpoint(id);
    if (!record) return endpointNotFound;
    const fault = input.url === undefined ? null : this.#fault(input.url);
    if (fault) return fault;
    const now = Date.now();
    const changed = updatedEndpoint(record, input, now);
    this.#store.transaction(() => {
      this.#store.saveEndpoint(changed);
      if (!changed.enabled) this.#store.giveUpWaiting(id, "endpoint_disabled", now);
      this.#remember(once, id, null, now);
    });
    return { ok: true, endpoint: this.shown(changed) };
  }

  async rotate(
    id: string,
    { overlapSeconds = eventLimits.overlapSecondsDefault }: RotateEventEndpoint,
    once: Once,
  ): Promise<Result<{ endpoint: NewEventEndpoint }>> {
    const known = this.#known(once);
    if (known) return known.ok ? this.#again(known.id, known.shown) : known;
    const { secret, sealed, shown } = await this.#newSecret(id);
    const now = Date.now();
    if (this.#known(once)) return this.rotate(id, { overlapSeconds }, once);
    const record = this.#store.endpoint(id);
    if (!record) return endpointNotFound;
    const changed = { ...record, secret: sealed, previousSecret: previousOf(record.secret, overlapSeconds, now) };
    this.#store.transaction(() => {
      this.#store.saveEndpoint(changed);
      this.#remember(once, id, shown, now);
    });
    return { ok: true, endpoint: { ...this.shown(changed), secret } };
  }

  remove(id: string, once: Once): Result<{ endpoint: DeletedEventEndpoint }> {
    const known = this.#known(once);
    if (known) return known.ok ? { ok: true, endpoint: { id: known.id, deleted: true, replayed: true } } : known;
    if (!this.#store.endpoint(id)) return endpointNotFound;
    this.#store.transaction(() => {
      this.#store.removeEndpoint(id);
      this.#remember(once, id, null, Date.now());
    });
    return { ok: true, endpoint: { id, deleted: true } };
  }

  /** What deliveries to an endpoint are signed with. */
  secrets({ id, secret, previousSecret }: EndpointRecord): Promise<string[]> {
    const sealed = secretsOf(secret, previousSecret, Date.now());
    return Promise.all(sealed.map((one) => this.#sealer.openText(id, one)));
  }

  shown(record: EndpointRecord): EventEndpoint {
    const counts = { waiting: this.#store.waiting(record.id), dead: this.#store.dead(record.id) };
    return toEndpoint(record, counts, Date.now());
  }

  #fault(url: string): Refusal | null {
    const message = targetFault(url, this.targets);
    if (message === null) return null;
    return refuse("invalid_request", `The URL is not sent to: ${message}.`, { issues: [{ path: "url", message }] });
  }

  async #newSecret(id: string): Promise<{ secret: string; sealed: string; shown: string }> {
    const secret = newStandardSecret();
    const [sealed, shown] = await Promise.all([
      this.#sealer.sealText(id, secret),
      this.#sealer.sealText(`${id} shown`, secret),
    ]);
    return { secret, sealed, shown };
  }

  /** What the first call of an Idempotency-Key changed, or that it was another call. */
  #known({ key, fingerprint }: Once): Known {
    const known = key === null ? null : this.#store.change(key, Date.now() - CHANGES_KEPT_MS);
    if (!known) return null;
    if (known.fingerprint !== fingerprint)
      return refuse("idempotency_key_reused", "The Idempotency-Key was used for another request.");
    return { ok: true, id: known.endpointId, shown: known.shown };
  }

  #remember({ key, fingerprint }: Once, id: string, shown: string | null, now: number): void {
    if (key !== null) this.#store.saveChange(key, fingerprint, id, shown, now, CHANGES_KEPT_MS);
  }

  async #again(id: string, shown: string | null): Promise<Result<{ endpoint: NewEventEndpoint }>> {
    const secret = shown === null ? null : await this.#sealer.openText(`${id} shown`, shown);
    const now = this.#now(id);
    return now.ok ? { ok: true, endpoint: { ...now.endpoint, secret } } : now;
  }

  #now(id: string): Result<{ endpoint: EventEndpoint }> {
    const record = this.#store.endpoint(id);
    return record ? replayed({ ok: true, endpoint: this.shown(record) }) : endpointNotFound;
  }
}

const quotaExceeded = refuse("quota_exceeded", `An account has at most ${eventLimits.endpoints} event endpoints.`, {
  max: eventLimits.endpoints,
});

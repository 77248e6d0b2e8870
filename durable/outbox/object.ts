/** The outbox of one account: knows who wants events, and delivers them to their endpoints. */
import { DurableObject } from "cloudflare:workers";
import type { Notice } from "../../sdk/contract/account.ts";
import {
  type CreateEventEndpoint,
  type DeletedEventEndpoint,
  type EventDelivery,
  type EventDeliveryList,
  type EventDeliveryListQuery,
  type EventEndpoint,
  type NewEventEndpoint,
  type RotateEventEndpoint,
  type RouseEvent,
  type UpdateEventEndpoint,
} from "../../sdk/contract/event.ts";
import { newId } from "../../sdk/contract/names.ts";
import { BASE36, randomText } from "../../sdk/contract/random.ts";
import { accountObject, type Once } from "../account/api.ts";
import { page } from "../page.ts";
import { refuse, type Result } from "../result.ts";
import { iso } from "../time.ts";
import type { OutboxApi } from "./api.ts";
import { Delivery } from "./delivery.ts";
import { endpointNotFound, Endpoints } from "./endpoints.ts";
import { again, isWanted, newDelivery, noticeOf, toDelivery, type DeliveryRecord } from "./record.ts";
import { OutboxStore, SAFETY_MS } from "./store.ts";

/** Deliveries that may wait for one endpoint; more are given up as they come. */
const BACKLOG_MAX = 20_000;
/** Deliveries that have ended, of all endpoints, that are kept. */
const ENDED_MAX = 100_000;
/** How often it is looked whether there are more, deliveries. */
const TRIM_EVERY = 1000;
/** What the account did not take note of is told again after this, milliseconds. */
const TELL_RETRY_MS = 30_000;

const deliveryNotFound = refuse("event_delivery_not_found", "There is no such delivery.");
const endpointOff = refuse("conflict", "The endpoint is off; :update it with enabled: true first.");

export class OutboxObject extends DurableObject<Env> implements OutboxApi {
  readonly #store: OutboxStore;
  readonly #endpoints: Endpoints;
  readonly #delivery: Delivery;
  /** Endpoints that are about to be there: whoever has events is told before. */
  #opening = 0;
  #telling: Promise<void> | null = null;
  #added = 0;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#store = new OutboxStore(ctx);
    this.#endpoints = new Endpoints(this.#store, env);
    this.#delivery = new Delivery(this.#store, env, this.#endpoints, {
      background: (work) => ctx.waitUntil(work.catch(logged)),
      onDisabled: () => ctx.waitUntil(this.#tellAccount().catch(logged)),
    });
  }

  async take(events: readonly RouseEvent[]): Promise<void> {
    const endpoints = this.#store.endpoints();
    // An account without endpoints gets no rows for what nobody wants.
    if (!endpoints.some(({ enabled }) => enabled)) {
      if (this.#store.told !== false) this.ctx.waitUntil(this.#tellAccount().catch(logged));
      return;
    }
    const now = Date.now();
    this.#store.transaction(() => {
      for (const event of events) {
        if (!this.#store.take(event, now)) continue;
        const wanted = endpoints.filter((endpoint) => isWanted(endpoint, event));
        if (wanted.length > 0) this.#store.addEvent(event);
        for (const { id } of wanted) this.#add(id, event, now);
      }
    });
    this.#delivery.run();
  }

  async create(input: CreateEventEndpoint, once: Once): Promise<Result<{ endpoint: NewEventEndpoint }>> {
    this.#store.open(this.ctx.id.name ?? "");
    return this.#listening(input.enabled !== false, () => this.#endpoints.create(input, once));
  }

  async list(): Promise<EventEndpoint[]> {
    return this.#store.endpoints().map((record) => this.#endpoints.shown(record));
  }

  async get(id: string): Promise<Result<{ endpoint: EventEndpoint }>> {
    const record = this.#store.endpoint(id);
    return record ? { ok: true, endpoint: this.#endpoints.shown(record) } : endpointNotFound;
  }

  async update(id: string, input: UpdateEventEndpoint, once: Once): Promise<Result<{ endpoint: EventEndpoint }>> {
    if (!this.#store.endpoint(id)) return endpointNotFound;
    return this.#listening(input.enabled === true, async () => this.#endpoints.update(id, input, once));
  }

  async rotate(id: string, input: RotateEventEndpoint, once: Once): Promise<Result<{ endpoint: NewEventEndpoint }>> {
    return this.#store.endpoint(id) ? this.#endpoints.rotate(id, input, once) : endpointNotFound;
  }

  async remove(id: string, once: Once): Promise<Result<{ endpoint: DeletedEventEndpoint }>> {
    if (!this.#store.isOpen) return endpointNotFound;
    return this.#listening(false, async () => this.#endpoints.remove(id, once));
  }

  async sendTest(id: string, waitMs: number): Promise<Result<{ delivery: EventDelivery }>> {
    const endpoint = this.#store.endpoint(id);
    if (!endpoint) return endpointNotFound;
    if (!endpoint.enabled) return endpointOff;
    const now = Date.now();
    const event = {
      ...{ id: `ev-${randomText(BASE36, 20)}`, type: "endpoint.test", timestamp: iso(now), subject: id },
      ...{ sequence: this.#store.taken(id) + 1, sandbox: null, data: { endpointId: id } },
    } satisfies RouseEvent as RouseEvent;
    const delivery = await newId("dlv", "delivery", "", null);
    this.#store.transaction(() => {
      this.#store.take(event, now);
      this.#store.addEvent(event);
      this.#store.addDelivery(newDelivery(delivery, id, event, null, now));
    });
    this.#delivery.run();
    const isTried = () => (this.#store.delivery(delivery)?.tries.length ?? 1) > 0;
    await this.#store.until(delivery, isTried, waitMs);
    return this.#shown(id, delivery);
  }

  async deliveries(id: string, query: EventDeliveryListQuery): Promise<Result<{ page: EventDeliveryList | null }>> {
    if (!this.#store.endpoint(id)) return endpointNotFound;
    const found = page(
      query,
      /^(\d{1,15})\.(dlv-[0-9a-z]{20})$/,
      (at, before) => this.#store.deliveriesBefore(id, at, before, query),
      () => true,
      toDelivery,
    );
    return { ok: true, page: found };
  }

  async delivery(id: string, delivery: string): Promise<Result<{ delivery: EventDelivery }>> {
    const record = this.#found(id, delivery);
    if (!record) return deliveryNotFound;
    const text = this.#store.eventText(record.eventId);
    const event = text === null ? {} : { event: JSON.parse(text) as RouseEvent };
    return { ok: true, delivery: { ...toDelivery(record), ...event } };
  }

  async redeliver(id: string, delivery: string): Promise<Result<{ delivery: EventDelivery }>> {
    const record = this.#found(id, delivery);
    if (!record) return deliveryNotFound;
    if (!this.#store.endpoint(id)?.enabled) return endpointOff;
    this.#store.saveDelivery(again(record, Date.now()));
    const shown = this.#shown(id, delivery);
    this.#delivery.run();
    return shown;
  }

  async redeliverDead(id: string, since: number): Promise<Result<{ redelivered: number }>> {
    const endpoint = this.#store.endpoint(id);
    if (!endpoint) return endpointNotFound;
    if (!endpoint.enabled) return endpointOff;
    const redelivered = this.#store.transaction(() => this.#store.againSince(id, since, Date.now()));
    this.#delivery.run();
    return { ok: true, redelivered };
  }

  async notices(): Promise<Notice[]> {
    return this.#store.endpoints().flatMap((endpoint) => noticeOf(endpoint) ?? []);
  }

  override async alarm(): Promise<void> {
    if (!this.#store.isOpen) return;
    const now = Date.now();
    await this.ctx.storage.setAlarm(now + SAFETY_MS);
    this.#store.sweep(now);
    // Not waited for: an alarm that goes on keeps the next from going off.
    this.#delivery.run();
    if (this.#store.told !== this.#isListening) this.ctx.waitUntil(this.#tellAccount().catch(logged));
  }

  #add(endpointId: string, event: RouseEvent, now: number): void {
    const isFull = this.#store.waiting(endpointId) >= BACKLOG_MAX;
    const id = `dlv-${randomText(BASE36, 20)}`;
    this.#store.addDelivery(newDelivery(id, endpointId, event, isFull ? "backlog_full" : null, now));
    this.#added += 1;
    if (this.#added % TRIM_EVERY === 0) this.#store.trim(ENDED_MAX);
  }

  #found(endpointId: string, id: string): DeliveryRecord | null {
    const record = this.#store.delivery(id);
    return record?.endpointId === endpointId ? record : null;
  }

  #shown(endpointId: string, id: string): Result<{ delivery: EventDelivery }> {
    const record = this.#found(endpointId, id);
    return record ? { ok: true, delivery: toDelivery(record) } : deliveryNotFound;
  }

  get #isListening(): boolean {
    return this.#opening > 0 || this.#store.endpoints().some(({ enabled }) => enabled);
  }

  /**
   * A change after which somebody may listen who did not: the account knows it before, so that no event is missed that
   * comes after the answer.
   */
  async #listening<T>(on: boolean, change: () => Promise<T>): Promise<T> {
    this.#opening += on ? 1 : 0;
    try {
      if (on) await this.#tellAccount();
      return await change();
    } finally {
      this.#opening -= on ? 1 : 0;
      this.#delivery.run();
      this.ctx.waitUntil(this.#tellAccount().catch(logged));
    }
  }

  /** Have the account know whether anybody listens. One call at a time, as the last one counts. */
  #tellAccount(): Promise<void> {
    this.#telling ??= this.#tell().finally(() => {
      this.#telling = null;
    });
    return this.#telling;
  }

  async #tell(): Promise<void> {
    while (this.#store.isOpen && this.#store.told !== this.#isListening) {
      const on = this.#isListening;
      // If this breaks off, the alarm finds it undone.
      this.#store.setTold(null);
      this.#store.arm(Date.now() + TELL_RETRY_MS);
      await accountObject(this.env.ACCOUNT, this.#store.account).setListening(on);
      this.#store.setTold(on);
    }
    this.#store.arm();
  }
}

function logged(fault: unknown): void {
  console.error(JSON.stringify({ level: "error", what: "outbox", fault: String(fault) }));
}

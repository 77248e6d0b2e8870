/** Endpoints of an account: URLs that its events are sent to, and what became of each delivery. */
import {
  DeletedEventEndpoint as DeletedSchema,
  EventDelivery as DeliverySchema,
  EventDeliveryList,
  EventEndpoint as EndpointSchema,
  EventEndpointList,
  NewEventEndpoint as NewSchema,
  Redelivered,
} from "../contract/event.ts";
import type {
  CreateEventEndpoint,
  DeletedEventEndpoint,
  DeliveryState,
  EventDelivery,
  EventEndpoint,
  NewEventEndpoint,
  RotateEventEndpoint,
  UpdateEventEndpoint,
} from "../contract/event.ts";
import { invalidArgument } from "./errors.ts";
import { Page } from "./page.ts";
import { parseAnswer } from "./remote.ts";
import { timeText } from "./time-text.ts";
import type { RequestOptions, Transport } from "./transport.ts";

/** Which deliveries to list. */
export interface DeliveryFilter {
  state?: DeliveryState | undefined;
  /** Deliveries per page, 1 to 100; 50 unless given. */
  limit?: number | undefined;
}

/**
 * URLs that events are sent to, signed (Standard Webhooks), of each sandbox in order, at least once.
 * {@link verifyWebhook} is for whoever receives them.
 *
 * @example
 * const { id, secret } = await rouse.eventEndpoints.create({ url: "https://example.com/rouse", events: ["sandbox.*"] });
 */
export class EventEndpoints {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Make an endpoint; it gets all events unless `events` or `sandboxes` say otherwise. Its secret is in this answer only.
   * @throws InvalidRequestError `invalid_request` for a URL that is not sent to; details say why
   * @throws ConflictError `quota_exceeded`: an account has at most 20
   */
  async create(input: CreateEventEndpoint, options: RequestOptions = {}): Promise<NewEventEndpoint> {
    return parseAnswer(NewSchema, await this.#post("", input, options));
  }

  /** The oldest first. */
  async list(options: RequestOptions = {}): Promise<EventEndpoint[]> {
    return parseAnswer(EventEndpointList, await this.#get("", {}, options)).data;
  }

  /** @throws NotFoundError `event_endpoint_not_found` */
  async get(id: string, options: RequestOptions = {}): Promise<EventEndpoint> {
    return parseAnswer(EndpointSchema, await this.#get(pathOf(id), {}, options));
  }

  /** Change where it is or what it gets. What waits is given up when it is turned off, and can be sent again later. */
  async update(id: string, changes: UpdateEventEndpoint, options: RequestOptions = {}): Promise<EventEndpoint> {
    return parseAnswer(EndpointSchema, await this.#post(`${pathOf(id)}:update`, changes, options));
  }

  /** Replace its secret; both sign for `overlapSeconds` more, a day unless given. The new one is in this answer only. */
  async rotate(id: string, input: RotateEventEndpoint = {}, options: RequestOptions = {}): Promise<NewEventEndpoint> {
    return parseAnswer(NewSchema, await this.#post(`${pathOf(id)}:rotate`, input, options));
  }

  /** Send it an event of the type `endpoint.test`. Answers after the first try, with what it answered. */
  async test(id: string, options: RequestOptions = {}): Promise<EventDelivery> {
    return parseAnswer(DeliverySchema, await this.#post(`${pathOf(id)}:test`, {}, options)) as EventDelivery;
  }

  /** Delete it with its deliveries. */
  async delete(id: string, options: RequestOptions = {}): Promise<DeletedEventEndpoint> {
    const call = { method: "DELETE", path: `/v1/event-endpoints${pathOf(id)}`, ...options } as const;
    return parseAnswer(DeletedSchema, await this.#transport.json(call));
  }

  /** Its deliveries that match, the newest first, page by page. */
  deliveries(id: string, filter: DeliveryFilter = {}, options: RequestOptions = {}): Promise<Page<EventDelivery>> {
    return this.#page(id, filter, undefined, options);
  }

  /** A delivery with its event. @throws NotFoundError `event_delivery_not_found` */
  async delivery(id: string, delivery: string, options: RequestOptions = {}): Promise<EventDelivery> {
    const path = `${pathOf(id)}/deliveries/${encodeURIComponent(delivery)}`;
    return parseAnswer(DeliverySchema, await this.#get(path, {}, options));
  }

  /** Send one again, under the same event id. @throws ConflictError `conflict` while the endpoint is off */
  async redeliver(id: string, delivery: string, options: RequestOptions = {}): Promise<EventDelivery> {
    const path = `${pathOf(id)}/deliveries/${encodeURIComponent(delivery)}:redeliver`;
    return parseAnswer(DeliverySchema, await this.#post(path, {}, options));
  }

  /** Send all that was given up, since a time, again, 10,000 at most at once. Answers how many. */
  async redeliverDead(
    id: string,
    { since, ...options }: RequestOptions & { since?: string | Date | undefined } = {},
  ): Promise<number> {
    const answer = await this.#post(`${pathOf(id)}:redeliver`, { since: timeText(since) }, options);
    return parseAnswer(Redelivered, answer).redelivered;
  }

  async #page(
    id: string,
    filter: DeliveryFilter,
    cursor: string | undefined,
    options: RequestOptions,
  ): Promise<Page<EventDelivery>> {
    const answer = await this.#get(`${pathOf(id)}/deliveries`, { ...filter, cursor }, options);
    const { data, nextCursor } = parseAnswer(EventDeliveryList, answer);
    return new Page(data, nextCursor === null ? null : () => this.#page(id, filter, nextCursor, options));
  }

  #get(path: string, query: Record<string, string | number | undefined>, options: RequestOptions): Promise<unknown> {
    return this.#transport.json({ method: "GET", path: `/v1/event-endpoints${path}`, query, ...options });
  }

  #post(path: string, json: unknown, options: RequestOptions): Promise<unknown> {
    return this.#transport.json({ method: "POST", path: `/v1/event-endpoints${path}`, json, ...options });
  }
}

function pathOf(id: string): string {
  if (!id.startsWith("ep-")) throw invalidArgument(`${JSON.stringify(id)} is not the id of an event endpoint.`);
  return `/${encodeURIComponent(id)}`;
}

/** What the edge, and objects in which something happened, may ask of an account's outbox. */
import type { Notice } from "../../sdk/contract/account.ts";
import type {
  CreateEventEndpoint,
  DeletedEventEndpoint,
  EventDelivery,
  EventDeliveryList,
  EventDeliveryListQuery,
  EventEndpoint,
  NewEventEndpoint,
  RotateEventEndpoint,
  RouseEvent,
  UpdateEventEndpoint,
} from "../../sdk/contract/event.ts";
import type { Once } from "../account/api.ts";
import type { Result } from "../result.ts";

export interface OutboxApi {
  /**
   * Take events, those of one subject in their order. Once this is answered they will be delivered to whoever wants
   * them; what came before is known, and does nothing.
   */
  take(events: readonly RouseEvent[]): Promise<void>;

  /** @returns `invalid_request` for a URL that is not sent to, `quota_exceeded` */
  create(input: CreateEventEndpoint, once: Once): Promise<Result<{ readonly endpoint: NewEventEndpoint }>>;
  /** The oldest first. */
  list(): Promise<EventEndpoint[]>;
  get(id: string): Promise<Result<{ readonly endpoint: EventEndpoint }>>;
  update(id: string, input: UpdateEventEndpoint, once: Once): Promise<Result<{ readonly endpoint: EventEndpoint }>>;
  rotate(id: string, input: RotateEventEndpoint, once: Once): Promise<Result<{ readonly endpoint: NewEventEndpoint }>>;
  /** With its deliveries. */
  remove(id: string, once: Once): Promise<Result<{ readonly endpoint: DeletedEventEndpoint }>>;
  /** Send a test event to it. Answers after the first try, or when the time is up. @returns `conflict` while it is off */
  sendTest(id: string, waitMs: number): Promise<Result<{ readonly delivery: EventDelivery }>>;

  /** The newest first; `page` is null when the cursor is not one of ours. */
  deliveries(id: string, query: EventDeliveryListQuery): Promise<Result<{ readonly page: EventDeliveryList | null }>>;
  delivery(id: string, delivery: string): Promise<Result<{ readonly delivery: EventDelivery }>>;
  /** Deliver it again, under the same event id. @returns `conflict` while the endpoint is off */
  redeliver(id: string, delivery: string): Promise<Result<{ readonly delivery: EventDelivery }>>;
  /** All that were given up since then, Unix milliseconds. */
  redeliverDead(id: string, since: number): Promise<Result<{ readonly redelivered: number }>>;

  /** Endpoints that were turned off because they failed. */
  notices(): Promise<Notice[]>;
}

export function outboxObject(namespace: DurableObjectNamespace<never>, account: string): OutboxApi {
  return namespace.getByName(account) as unknown as OutboxApi;
}

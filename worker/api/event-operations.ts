/** Operations on the endpoints that events are sent to, and on deliveries. */
import { z } from "zod";
import {
  CreateEventEndpoint,
  DeletedEventEndpoint,
  EventDelivery,
  EventDeliveryList,
  EventDeliveryListQuery,
  EventEndpoint,
  EventEndpointList,
  NewEventEndpoint,
  RedeliverDead,
  Redelivered,
  RotateEventEndpoint,
  UpdateEventEndpoint,
} from "../../sdk/contract/event.ts";
import type { Operation } from "./operation.ts";

const Empty = z.strictObject({});
const NoQuery = z.strictObject({});
const E = "/v1/event-endpoints";
const ID = `${E}/{endpoint}`;
const D = `${ID}/deliveries`;

export const events: readonly Omit<Operation, "work">[] = [
  {
    method: "POST",
    path: E,
    summary: "Make an endpoint that events are sent to. Its secret is shown once.",
    query: NoQuery,
    body: CreateEventEndpoint,
    answer: NewEventEndpoint,
  },
  { method: "GET", path: E, summary: "List endpoints, the oldest first.", query: NoQuery, answer: EventEndpointList },
  { method: "GET", path: ID, summary: "Read an endpoint.", query: NoQuery, answer: EventEndpoint },
  {
    method: "POST",
    path: `${ID}:update`,
    summary: "Change where it is, what it gets, or turn it on or off.",
    query: NoQuery,
    body: UpdateEventEndpoint,
    answer: EventEndpoint,
  },
  {
    method: "POST",
    path: `${ID}:rotate`,
    summary: "Replace its secret; both sign for a day more.",
    query: NoQuery,
    body: RotateEventEndpoint,
    answer: NewEventEndpoint,
  },
  {
    method: "POST",
    path: `${ID}:test`,
    summary: "Send it a test event, and say what it answered.",
    query: NoQuery,
    body: Empty,
    answer: EventDelivery,
  },
  {
    method: "POST",
    path: `${ID}:redeliver`,
    summary: "Send all that was given up, since a time, again.",
    query: NoQuery,
    body: RedeliverDead,
    answer: Redelivered,
  },
  {
    method: "POST",
    path: `${ID}:delete`,
    summary: "Delete an endpoint with its deliveries.",
    query: NoQuery,
    body: Empty,
    answer: DeletedEventEndpoint,
  },
  {
    method: "DELETE",
    path: ID,
    summary: "Delete an endpoint with its deliveries.",
    query: NoQuery,
    answer: DeletedEventEndpoint,
  },
  {
    method: "GET",
    path: D,
    summary: "List its deliveries, the newest first.",
    query: EventDeliveryListQuery,
    answer: EventDeliveryList,
  },
  {
    method: "GET",
    path: `${D}/{delivery}`,
    summary: "Read a delivery with its event.",
    query: NoQuery,
    answer: EventDelivery,
  },
  {
    method: "POST",
    path: `${D}/{delivery}:redeliver`,
    summary: "Send it again, under the same event id.",
    query: NoQuery,
    body: Empty,
    answer: EventDelivery,
  },
];

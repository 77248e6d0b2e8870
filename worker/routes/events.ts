/** Endpoints that the account's events are sent to, and what became of each delivery. */
import { outboxObject, type OutboxApi } from "../../durable/outbox/api.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import {
  CreateEventEndpoint,
  EventDeliveryListQuery,
  RedeliverDead,
  RotateEventEndpoint,
  UpdateEventEndpoint,
} from "../../sdk/contract/event.ts";
import { holdMs, readJson, readQuery } from "../api/input.ts";
import { okOrThrow, onceOf, type Context } from "./context.ts";

/** Longest wait for the first try of a test event, milliseconds: one try takes 15 seconds at most. */
const TEST_MS = 20_000;

export async function eventRoute(context: Context): Promise<Response> {
  const { env, caller, operation, url } = context;
  const outbox = outboxObject(env.OUTBOX, caller.account);
  if (operation.path.includes("/deliveries")) return deliveries(context, outbox);
  if (operation.query) readQuery(operation.query, url.searchParams);
  return endpoints(context, outbox);
}

async function endpoints(context: Context, outbox: OutboxApi): Promise<Response> {
  const { operation, params, request } = context;
  const { method, path } = operation;
  const [id] = params;
  if (id === undefined) {
    if (method === "GET") return Response.json({ data: await outbox.list() });
    const { value } = await readJson(CreateEventEndpoint, request);
    return answer(okOrThrow(await outbox.create(value, await onceOf(context, value))).endpoint);
  }
  if (method === "GET") return answer(okOrThrow(await outbox.get(id)).endpoint);
  switch (method === "DELETE" ? "delete" : path.slice(path.lastIndexOf(":") + 1)) {
    case "update": {
      const { value } = await readJson(UpdateEventEndpoint, request);
      return answer(okOrThrow(await outbox.update(id, value, await onceOf(context, value))).endpoint);
    }
    case "rotate": {
      const { value } = await readJson(RotateEventEndpoint, request);
      return answer(okOrThrow(await outbox.rotate(id, value, await onceOf(context, value))).endpoint);
    }
    case "test": {
      const waitMs = Math.min(holdMs(request.headers) || TEST_MS, TEST_MS);
      return Response.json(okOrThrow(await outbox.sendTest(id, waitMs)).delivery);
    }
    case "redeliver": {
      const { value } = await readJson(RedeliverDead, request);
      const since = value.since === undefined ? 0 : Date.parse(value.since);
      return Response.json({ redelivered: okOrThrow(await outbox.redeliverDead(id, since)).redelivered });
    }
    default:
      return answer(okOrThrow(await outbox.remove(id, await onceOf(context, {}))).endpoint);
  }
}

async function deliveries({ operation, params, url }: Context, outbox: OutboxApi): Promise<Response> {
  const [endpoint = "", id] = params;
  if (id === undefined) {
    const query = readQuery(EventDeliveryListQuery, url.searchParams);
    const { page } = okOrThrow(await outbox.deliveries(endpoint, query));
    if (page) return Response.json(page);
    throw new RouseFailure("invalid_request", "The cursor is not one of ours.", {
      details: { issues: [{ path: "cursor", message: "not a cursor" }] },
    });
  }
  if (operation.query) readQuery(operation.query, url.searchParams);
  const call = operation.method === "GET" ? outbox.delivery(endpoint, id) : outbox.redeliver(endpoint, id);
  return Response.json(okOrThrow(await call).delivery);
}

function answer(value: { readonly replayed?: boolean | undefined }): Response {
  return Response.json(value, value.replayed ? { headers: { "idempotency-replayed": "true" } } : {});
}

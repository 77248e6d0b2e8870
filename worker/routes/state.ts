/** Keys and SQL of a sandbox. */
import { databaseObject, stateObject } from "../../durable/state/api.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { parseOrFail } from "../../sdk/contract/errors.ts";
import {
  PutStateQuery,
  RunSql,
  StateBatch,
  StateKey,
  stateLimits,
  StateListQuery,
  type StateUsage,
} from "../../sdk/contract/state.ts";
import { readJson, readQuery } from "../api/input.ts";
import { readBytes } from "../read-bytes.ts";
import { okOrThrow } from "./context.ts";
import { askerOf, conditionOf, contentTypeOf, entityTag, guardHeaders, placeOf, type HomeContext } from "./place.ts";

/** Longest time for a value to arrive, milliseconds. */
const BODY_MS = 30_000;

export async function stateRoute(context: HomeContext): Promise<Response> {
  const { env, operation, request, url } = context;
  const { account, sandboxId } = placeOf(context);
  const asker = askerOf(context);
  const object = stateObject(env.STATE, account, sandboxId);
  const { path, query } = operation;
  if (path.endsWith("/{key*}")) return value(context);
  if (path.endsWith("/sql")) {
    readQuery(query ?? RunSql, url.searchParams);
    const { value: input } = await readJson(RunSql, request);
    const { results } = okOrThrow(await databaseObject(env.DATABASE, account, sandboxId).run(asker, input));
    return Response.json({ results });
  }
  if (path.endsWith("/keys:batch")) {
    readQuery(query ?? StateBatch, url.searchParams);
    const { value: input } = await readJson(StateBatch, request);
    return Response.json(okOrThrow(await object.batch(asker, input)).batched);
  }
  if (path.endsWith("/keys"))
    return Response.json(okOrThrow(await object.values(asker, readQuery(StateListQuery, url.searchParams))).page);
  readQuery(query ?? StateListQuery, url.searchParams);
  const database = databaseObject(env.DATABASE, account, sandboxId);
  const [held, sql] = await Promise.all([object.usage(asker), database.bytes(asker)]);
  const { usage } = okOrThrow(held);
  const { bytes } = okOrThrow(sql);
  const { keys, queues, objects } = usage;
  return Response.json({
    ...usage,
    sql: { bytes, maxBytes: stateLimits.sqlBytesMax },
    bytes: keys.bytes + queues.bytes + objects.bytes + objects.reservedBytes + bytes,
  } satisfies StateUsage);
}

async function value(context: HomeContext): Promise<Response> {
  const { env, request, url, operation, params } = context;
  const { account, sandboxId } = placeOf(context);
  const asker = askerOf(context);
  const object = stateObject(env.STATE, account, sandboxId);
  const key = parseOrFail(StateKey, params[0], "key");
  const isPut = operation.method === "PUT";
  const { ttlSeconds } = readQuery(
    isPut ? PutStateQuery : PutStateQuery.omit({ ttlSeconds: true }),
    url.searchParams,
  ) as {
    ttlSeconds?: number;
  };
  switch (operation.method) {
    case "PUT": {
      const condition = conditionOf(request.headers);
      const contentType = contentTypeOf(request.headers);
      const bytes = await readBytes(request, stateLimits.valueBytesMax, BODY_MS);
      mustBeJson(contentType, bytes);
      const put = { ...condition, value: bytes, contentType, ttlSeconds: ttlSeconds ?? null };
      const { entry } = okOrThrow(await object.putValue(asker, key, put));
      return Response.json(entry, { headers: { etag: entityTag(entry.version) } });
    }
    case "DELETE": {
      const { deleted } = okOrThrow(await object.deleteValue(asker, key, conditionOf(request.headers)));
      return Response.json({ key, deleted });
    }
    default: {
      const found = okOrThrow(await object.value(asker, key));
      const { entry } = found;
      const headers = new Headers({
        ...guardHeaders,
        "content-type": entry.contentType,
        etag: entityTag(entry.version),
        "last-modified": new Date(entry.updatedAt).toUTCString(),
      });
      return new Response(found.value, { headers });
    }
  }
}

/** What says that it is JSON is. */
function mustBeJson(contentType: string, bytes: Uint8Array): void {
  if (!/^application\/json\s*(;|$)/i.test(contentType)) return;
  try {
    JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    const details = { issues: [{ path: "", message: "not JSON" }] };
    throw new RouseFailure("invalid_request", "The value says that it is JSON, and is not.", { details });
  }
}

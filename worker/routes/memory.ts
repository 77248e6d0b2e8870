/** Memory, of a sandbox or of a store: the same for keys outside and for machines inside. */
import { z } from "zod";
import type { MemoryPageAsk } from "../../durable/memory/api.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { parseOrFail } from "../../sdk/contract/errors.ts";
import {
  AddMemories,
  ForgetMatching,
  ForgetMemories,
  MemoryGetQuery,
  MemoryListQuery,
  NewMemory,
  SearchMemory,
  UpdateMemory,
} from "../../sdk/contract/memory.ts";
import { idempotencyKey, readJson, readQuery } from "../api/input.ts";
import { okOrThrow } from "./context.ts";
import { additionsOf, doorOf, type Door } from "./memory-door.ts";
import { exported, imported } from "./memory-lines.ts";
import { memoryMcp } from "./memory-mcp.ts";
import type { HomeContext } from "./place.ts";

const LIMIT = 50;

export async function memoryRoute(context: HomeContext): Promise<Response> {
  const { operation, request, url } = context;
  const door = await doorOf(context);
  const { memory } = door;
  const verb = operation.path.slice(operation.path.indexOf("/memory") + "/memory".length);
  if (verb === "/mcp") return memoryMcp(request, door);
  if (verb.startsWith("/{entry}")) return one(context, door);
  if (verb !== "" || operation.method !== "GET") readQuery(operation.query ?? MemoryGetQuery, url.searchParams);
  switch (verb) {
    case ":search": {
      const { value } = await readJson(SearchMemory, request);
      return Response.json(okOrThrow(await memory.search(value)).hits);
    }
    case ":forget": {
      const { value } = await readJson(z.unknown(), request);
      const which = has(value, "ids")
        ? parseOrFail(ForgetMemories, value, "body").ids
        : parseOrFail(ForgetMatching, value, "body").filter;
      return Response.json({ forgotten: okOrThrow(await memory.forget(await door.writer(), which)).forgotten });
    }
    case ":usage":
      return Response.json(await memory.usage());
    case ":export":
      return new Response(exported(memory), { headers: { "content-type": "application/x-ndjson" } });
    case ":import":
      return Response.json(await imported(request, memory, await door.writer()));
  }
  if (operation.method === "GET") return list(context, door);
  // Of either form all faults are named, which a union does not.
  const { value } = await readJson(z.unknown(), request);
  const inputs = has(value, "entries")
    ? parseOrFail(AddMemories, value, "body").entries
    : [parseOrFail(NewMemory, value, "body")];
  const additions = await additionsOf(inputs, idempotencyKey(request.headers));
  const { entries } = okOrThrow(await memory.add(await door.writer(), additions));
  const isReplay = entries.every(({ replayed }) => replayed);
  return Response.json({ data: entries }, isReplay ? { headers: { "idempotency-replayed": "true" } } : {});
}

async function list({ url }: HomeContext, { memory }: Door): Promise<Response> {
  const query = readQuery(MemoryListQuery, url.searchParams);
  const page = await memory.list(pageAsk(query));
  if (page) return Response.json(page);
  const details = { issues: [{ path: "cursor", message: "not a cursor" }] };
  throw new RouseFailure("invalid_request", "The cursor is not one of ours.", { details });
}

export function pageAsk(query: MemoryListQuery): MemoryPageAsk {
  const { order = "newest", limit = LIMIT, cursor = null, tag, author, since, until, metadata, embeddings } = query;
  const filter = { tags: tag, author, since, until, metadata };
  return { filter, order, limit, cursor, embeddings: embeddings === "1" };
}

async function one({ operation, params, request, url }: HomeContext, door: Door): Promise<Response> {
  const id = params.at(-1) ?? "";
  const { memory } = door;
  // No session, so there is no stream to listen to, and none to end.
  if (id === "mcp") throw new RouseFailure("method_not_allowed", "The MCP endpoint takes POST alone.");
  if (operation.method === "GET") {
    const { embeddings } = readQuery(MemoryGetQuery, url.searchParams);
    return Response.json(okOrThrow(await memory.get(id, embeddings === "1")).entry);
  }
  if (operation.query) readQuery(operation.query, url.searchParams);
  if (operation.method === "POST") {
    const { value } = await readJson(UpdateMemory, request);
    const { entry } = okOrThrow(await memory.update(await door.writer(), id, value));
    return Response.json(entry, entry.replayed ? { headers: { "idempotency-replayed": "true" } } : {});
  }
  const { forgotten } = okOrThrow(await memory.forget(await door.writer(), [id]));
  if (forgotten === 0) throw new RouseFailure("memory_not_found", "There is no such memory.");
  return Response.json({ forgotten });
}

function has(value: unknown, field: string): boolean {
  return typeof value === "object" && value !== null && Object.hasOwn(value, field);
}

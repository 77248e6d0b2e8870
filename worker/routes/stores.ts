/** Stores that an organisation's agents share, and who may what in them. From inside, which are open to the machine. */
import { storesObject } from "../../durable/stores/api.ts";
import { sha256Hex } from "../../durable/hash.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { parseOrFail } from "../../sdk/contract/errors.ts";
import { DeleteStoreQuery, GrantStore, PutStore, RevokeStore, StoreName } from "../../sdk/contract/store.ts";
import { idempotencyKey, readJson, readQuery } from "../api/input.ts";
import { okOrThrow } from "./context.ts";
import type { HomeContext } from "./place.ts";

export async function storeRoute(context: HomeContext): Promise<Response> {
  const { env, account, caller, operation, params, place, request, url } = context;
  const stores = storesObject(env.STORES, account);
  const { method, path } = operation;
  const [given] = params;
  if (method !== "DELETE" && operation.query) readQuery(operation.query, url.searchParams);
  if (given === undefined) return Response.json({ data: await stores.list(caller ? null : (place?.label ?? "")) });
  if (!caller) throw new RouseFailure("forbidden", "Stores are made and opened to others from outside, with a key.");
  const name = parseOrFail(StoreName, given, "store");
  if (method === "GET") return Response.json(okOrThrow(await stores.get(name)).store);
  if (method === "PUT") {
    const { value } = await readJson(PutStore, request);
    return Response.json(okOrThrow(await stores.put(name, value)).store);
  }
  if (path.endsWith(":grant")) {
    const { value } = await readJson(GrantStore, request);
    return Response.json(okOrThrow(await stores.grant(name, value)).store);
  }
  if (path.endsWith(":revoke")) {
    const { value } = await readJson(RevokeStore, request);
    return Response.json(okOrThrow(await stores.revoke(name, value.agent)).store);
  }
  const { confirm } = readQuery(DeleteStoreQuery, url.searchParams);
  if (confirm !== name) {
    const issues = [{ path: "confirm", message: "the store's name once more" }];
    throw new RouseFailure("invalid_request", "All that is in the store goes: confirm says its name once more.", {
      details: { issues },
    });
  }
  const once = { key: idempotencyKey(request.headers), fingerprint: await sha256Hex(`DELETE ${url.pathname}`) };
  const { replayed } = okOrThrow(await stores.remove(name, once));
  return Response.json({ name, deleted: true }, replayed ? { headers: { "idempotency-replayed": "true" } } : {});
}

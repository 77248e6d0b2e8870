/** State of a store that agents share: the same keys, SQL and queues as a sandbox has of its own, with one keeper. */
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { openStore } from "./memory-door.ts";
import { askerOf, type HomeContext } from "./place.ts";
import { queueRoute } from "./queues.ts";
import { stateRoute } from "./state.ts";

export async function sharedStateRoute(context: HomeContext): Promise<Response> {
  const { account, caller, operation, params, place } = context;
  const [name = "", ...rest] = params;
  const { storeId, access } = await openStore(context, name, "state");
  if (access === "read" && operation.method !== "GET")
    throw new RouseFailure("forbidden", "The store is open to this sandbox for reading alone.");
  const kept = `store:${storeId}`;
  const asker = place ? askerOf(context) : { by: caller?.keyId ?? "", sandboxId: kept, generation: null };
  const shared = { account, sandboxId: kept, label: place?.label ?? "", generation: null };
  const route = operation.path.includes("/queues") ? queueRoute : stateRoute;
  return route({ ...context, params: rest, place: shared, asker });
}

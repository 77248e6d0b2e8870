/**
 * Homes of state: what a sandbox keeps outside of its machine. Each is reached by two ways that end in one handler: with
 * a key below `/v1/sandboxes/{id}/`, and by the machine itself at `http://rouse.internal/` (`inside.ts`). Neither wakes it.
 */
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import type { Work } from "../api/operation.ts";
import { mustSee } from "../middleware/permission.ts";
import { checkpointHome } from "./checkpoints.ts";
import { okOrThrow, referenceOf, type Context } from "./context.ts";
import { memoryRoute } from "./memory.ts";
import { objectRoute } from "./objects.ts";
import type { HomeContext } from "./place.ts";
import { queueRoute } from "./queues.ts";
import { sharedStateRoute } from "./shared-state.ts";
import { stateRoute } from "./state.ts";
import { storeRoute } from "./stores.ts";

type Home = (context: HomeContext) => Promise<Response>;

/** The handler of each kind of work that is a home's. */
const homes: Partial<Record<Work, Home>> = {
  checkpoints: checkpointHome,
  state: stateRoute,
  queues: queueRoute,
  objects: objectRoute,
  memory: memoryRoute,
  sharedMemory: memoryRoute,
  sharedState: sharedStateRoute,
  stores: storeRoute,
};

/** What the machine is told of its homes, in a line each. */
export const homeGuide: Readonly<Record<string, string>> = {
  "/checkpoints": "Mirror of what rouse-checkpoint and the SDKs save: /checkpoints/{name} has the newest version.",
  "/state": "How much is kept here, and how much may be.",
  "/state/keys": "Keys with values: GET, PUT and DELETE /state/keys/<key>; If-Match for compare and set.",
  "/state/sql": 'A SQLite of its own: POST {"statements":[{"sql":"...","params":[]}]}, one transaction.',
  "/queues": "Tasks: POST /queues/<queue>/tasks, /queues/<queue>:take, :ack, :nack, :extend.",
  "/objects": "Bytes under keys: GET, PUT and DELETE /objects/<key>; POST /objects:sign for a URL.",
  "/memory": "What is worth knowing later: add entries, and search them by words or by embedding.",
  "/memory/mcp": "The memory as an MCP server (Streamable HTTP).",
  "/stores": "What other agents share with this machine: /stores/{name}/memory, .../memory/mcp, .../state, .../queues.",
};

/** null: no home does that work. */
export function homeOf(work: Work): Home | null {
  return homes[work] ?? null;
}

/** A call with a key. The sandbox has to be there; it sleeps on. */
export async function homeRoute(context: Context): Promise<Response> {
  const { env, caller, operation, request, url, note } = context;
  const home = homeOf(operation.work);
  if (!home) throw new RouseFailure("route_not_found", "There is no such home of state.");
  const { account } = caller;
  const common = { env, request, url, note, operation, account, caller };
  if (!operation.path.startsWith("/v1/sandboxes/")) return home({ ...common, params: context.params, place: null });
  const [idOrName = "", ...params] = context.params;
  const { label, id } = await referenceOf(idOrName);
  note.sandbox = label;
  await mustSee(env, caller, label, id);
  const { sandbox } = okOrThrow(await sandboxObject(env.SANDBOX, account, label).get({ id }));
  return home({ ...common, params, place: { account, sandboxId: sandbox.id, label, generation: null } });
}

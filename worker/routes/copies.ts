/** Snapshots, forks, and going back. */
import { snapshotsObject } from "../../durable/snapshots/api.ts";
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import {
  CreateSnapshot,
  DiffQuery,
  ExtendSnapshot,
  ForkSandbox,
  Rollback,
  SnapshotListQuery,
  UpdateSnapshot,
} from "../../sdk/contract/snapshot.ts";
import { readJson, readQuery } from "../api/input.ts";
import { mustSee } from "../middleware/permission.ts";
import { routeKey } from "../proxy/forward.ts";
import { forgetRoute } from "../proxy/route-cache.ts";
import { changeOf, okOrThrow, referenceOf, sandboxResponse, type Context } from "./context.ts";

export async function copyRoute(context: Context): Promise<Response> {
  const { operation, url } = context;
  const query = readQuery(operation.query ?? SnapshotListQuery, url.searchParams);
  if (operation.path.startsWith("/v1/snapshots")) return snapshots(context, query);
  return ofSandbox(context, query);
}

async function ofSandbox(context: Context, query: unknown): Promise<Response> {
  const { env, caller, operation, params, request, note } = context;
  const { label, id } = await referenceOf(params[0] ?? "");
  note.sandbox = label;
  await mustSee(env, caller, label, id);
  const { account } = caller;
  const object = sandboxObject(env.SANDBOX, account, label);
  if (operation.path.endsWith("/diff"))
    return Response.json(okOrThrow(await object.diff(DiffQuery.parse(query), { id })).diff);
  if (operation.method === "GET") return Response.json({ data: okOrThrow(await object.history({ id })).points });
  const verb = operation.path.slice(operation.path.lastIndexOf(":") + 1);
  switch (verb) {
    case "snapshot": {
      const { value } = await readJson(CreateSnapshot, request);
      return answer(okOrThrow(await object.snapshot(value, await changeOf(context, id, value))).snapshot);
    }
    case "fork": {
      const { value } = await readJson(ForkSandbox, request);
      const { namePrefix, governed, keyId, retentionDays } = caller;
      if (namePrefix !== null && !value.name?.startsWith(namePrefix)) {
        const message = `This key makes only sandboxes whose name begins with ${JSON.stringify(namePrefix)}.`;
        throw new RouseFailure("permission_denied", message, { details: { namePrefix } });
      }
      const terms = { governed, keyId, retentionDays };
      return answer(okOrThrow(await object.fork(value, terms, await changeOf(context, id, value))).forks);
    }
    default: {
      const { value } = await readJson(Rollback, request);
      try {
        return sandboxResponse(await object.rollback(value.point, await changeOf(context, id, value)));
      } finally {
        forgetRoute(routeKey({ account, label }));
      }
    }
  }
}

async function snapshots(context: Context, query: unknown): Promise<Response> {
  const { env, caller, operation, params, request } = context;
  const { namePrefix } = caller;
  const object = snapshotsObject(env.SNAPSHOTS, caller.account);
  const [id] = params;
  if (id === undefined) {
    const page = await object.list(SnapshotListQuery.parse(query), namePrefix);
    if (page) return Response.json(page);
    const details = { issues: [{ path: "cursor", message: "not a cursor" }] };
    throw new RouseFailure("invalid_request", "The cursor is not one of ours.", { details });
  }
  if (operation.method === "GET") return answer(okOrThrow(await object.get(id, namePrefix, 0)).snapshot);
  if (operation.path.endsWith(":update")) {
    const { value } = await readJson(UpdateSnapshot, request);
    return answer(okOrThrow(await object.update(id, value, namePrefix)).snapshot);
  }
  if (operation.path.endsWith(":extend")) {
    const { value } = await readJson(ExtendSnapshot, request);
    return answer(okOrThrow(await object.extend(id, value, namePrefix)).snapshot);
  }
  return answer(okOrThrow(await object.remove(id, namePrefix)).snapshot);
}

function answer(body: { readonly replayed?: boolean | undefined }): Response {
  return Response.json(body, body.replayed ? { headers: { "idempotency-replayed": "true" } } : {});
}

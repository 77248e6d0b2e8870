/** What a sandbox may reach outside. */
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { SetNetwork } from "../../sdk/contract/network-settings.ts";
import { readJson, readQuery } from "../api/input.ts";
import { mustSee } from "../middleware/permission.ts";
import { changeOf, okOrThrow, referenceOf, type Context } from "./context.ts";

export async function networkRoute(context: Context): Promise<Response> {
  const { env, caller, operation, params, request, url, note } = context;
  const { label, id } = await referenceOf(params[0] ?? "");
  note.sandbox = label;
  if (operation.query) readQuery(operation.query, url.searchParams);
  await mustSee(env, caller, label, id);
  const object = sandboxObject(env.SANDBOX, caller.account, label);
  if (operation.method === "GET") return Response.json(okOrThrow(await object.network({ id })).network);
  const { value } = await readJson(SetNetwork, request);
  const { network } = okOrThrow(await object.setNetwork(value, await changeOf(context, id, value)));
  return Response.json(network, network.replayed ? { headers: { "idempotency-replayed": "true" } } : {});
}

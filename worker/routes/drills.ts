/** The drills of a sandbox. */
import { drillsObject } from "../../durable/drills/api.ts";
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { CreateDrill } from "../../sdk/contract/drill.ts";
import { readJson, readQuery } from "../api/input.ts";
import { mustSee } from "../middleware/permission.ts";
import { okOrThrow, onceOf, referenceOf, type Context } from "./context.ts";

export async function drillRoute(context: Context): Promise<Response> {
  const { env, caller, operation, params, request, url, note } = context;
  const { label, id } = await referenceOf(params[0] ?? "");
  note.sandbox = label;
  if (operation.query) readQuery(operation.query, url.searchParams);
  await mustSee(env, caller, label, id);
  const { sandbox } = okOrThrow(await sandboxObject(env.SANDBOX, caller.account, label).get({ id }));
  const object = drillsObject(env.DRILLS, caller.account, label);
  const drill = params[1];
  if (drill !== undefined) return Response.json(okOrThrow(await object.get(sandbox.id, drill)).drill);
  if (operation.method === "GET") return Response.json({ data: await object.list(sandbox.id) });
  const { value } = await readJson(CreateDrill, request);
  const begun = okOrThrow(await object.begin(sandbox.id, value, await onceOf(context, value))).drill;
  return Response.json(begun, begun.replayed ? { headers: { "idempotency-replayed": "true" } } : {});
}

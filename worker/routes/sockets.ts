/** Held sockets of a sandbox. */
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { socketsObject } from "../../durable/sockets/api.ts";
import { readQuery } from "../api/input.ts";
import { mustSee } from "../middleware/permission.ts";
import { okOrThrow, referenceOf, type Context } from "./context.ts";

export async function socketRoute(context: Context): Promise<Response> {
  const { env, caller, operation, params, url, note } = context;
  const [reference = "", socket] = params;
  const { label, id } = await referenceOf(reference);
  note.sandbox = label;
  await mustSee(env, caller, label, id);
  if (operation.query) readQuery(operation.query, url.searchParams);
  const { sandbox } = okOrThrow(await sandboxObject(env.SANDBOX, caller.account, label).get({ id }));
  const object = socketsObject(env.SOCKETS, caller.account, label);
  if (socket === undefined) return Response.json({ data: await object.list(sandbox.id) });
  return Response.json(okOrThrow(await object.close(sandbox.id, socket)).socket);
}

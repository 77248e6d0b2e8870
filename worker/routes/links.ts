/** Share links of a sandbox. */
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { CreateLink } from "../../sdk/contract/link.ts";
import { readJson, readQuery } from "../api/input.ts";
import { mustSee } from "../middleware/permission.ts";
import { routeKey } from "../proxy/forward.ts";
import { forgetRoute } from "../proxy/route-cache.ts";
import { changeOf, okOrThrow, referenceOf, type Context } from "./context.ts";

export async function linkRoute(context: Context): Promise<Response> {
  const { env, caller, operation, params, request, url, note } = context;
  const [reference = "", link] = params;
  const { label, id } = await referenceOf(reference);
  note.sandbox = label;
  await mustSee(env, caller, label, id);
  if (operation.query) readQuery(operation.query, url.searchParams);
  const object = sandboxObject(env.SANDBOX, caller.account, label);
  if (operation.method === "GET") {
    const answer =
      link === undefined
        ? { data: okOrThrow(await object.listLinks({ id })).links }
        : okOrThrow(await object.getLink(link, { id })).link;
    return Response.json(answer);
  }
  try {
    if (link !== undefined) return Response.json(okOrThrow(await object.revokeLink(link, { id })).link);
    const { value } = await readJson(CreateLink, request);
    const made = okOrThrow(await object.createLink(value, await changeOf(context, id, value))).link;
    return Response.json(made, made.replayed ? { headers: { "idempotency-replayed": "true" } } : {});
  } finally {
    forgetRoute(routeKey({ account: caller.account, label }));
  }
}

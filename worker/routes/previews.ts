/** Ports opened to people without a key. */
import { may } from "../../durable/account/key.ts";
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { CreatePreview, PreviewQuery, type Preview } from "../../sdk/contract/sandbox.ts";
import { readJson, readQuery } from "../api/input.ts";
import type { Caller } from "../middleware/auth.ts";
import { mustSee } from "../middleware/permission.ts";
import { routeKey } from "../proxy/forward.ts";
import { forgetRoute } from "../proxy/route-cache.ts";
import { isReachable } from "../proxy/target.ts";
import { okOrThrow, referenceOf, type Context } from "./context.ts";

export async function previewRoute(context: Context): Promise<Response> {
  const { env, caller, operation, params, request, url, note } = context;
  const { label, id } = await referenceOf(params[0] ?? "");
  note.sandbox = label;
  await mustSee(env, caller, label, id);
  const object = sandboxObject(env.SANDBOX, caller.account, label);
  const query = readQuery(operation.query ?? PreviewQuery, url.searchParams);
  try {
    if (params[1] === undefined) {
      if (operation.method === "GET")
        return Response.json({
          data: okOrThrow(await object.listPorts({ id })).previews.map((one) =>
            shown(caller.session ? withoutToken(one) : one, caller),
          ),
        });
      const { value } = await readJson(CreatePreview, request);
      return Response.json(okOrThrow(await object.openPort(value.port, value.visibility, value, { id })).preview);
    }
    const port = portOf(params[1]);
    switch (operation.method) {
      case "GET": {
        const terms = caller.session ? untilEndOf(caller) : PreviewQuery.parse(query);
        return Response.json(shown(okOrThrow(await object.getPort(port, terms, { id })).preview, caller));
      }
      case "POST":
        return Response.json(okOrThrow(await object.rotatePort(port, { id })).preview);
      default: {
        const closed = okOrThrow(await object.closePort(port, { id }));
        return Response.json({ id: closed.id, sandboxId: closed.sandboxId, port, deleted: true });
      }
    }
  } finally {
    if (operation.method !== "GET") forgetRoute(routeKey({ account: caller.account, label }));
  }
}

/** A token reaches the machine, which not every key may. */
function shown(preview: Preview, { access }: Caller): Preview {
  return may(access, "use_sandboxes") ? preview : withoutToken(preview);
}

function withoutToken(preview: Preview): Preview {
  return { ...preview, token: null, tokenExpiresAt: null, urlWithToken: null };
}

/** A token that is had by a session does not outlive it. */
function untilEndOf({ expiresAt }: Caller): { expiresAt: string } {
  return { expiresAt: new Date(expiresAt ?? 0).toISOString() };
}

function portOf(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (!isReachable(port))
    throw new RouseFailure("invalid_port", "That is not a port of a sandbox.", { details: { port: text } });
  return port;
}

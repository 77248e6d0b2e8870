/** Session tokens of a sandbox: made with a key, for those who are given none. None of it wakes the sandbox. */
import { accountObject } from "../../durable/account/api.ts";
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { CreateSession, type NewSession } from "../../sdk/contract/session.ts";
import { z } from "zod";
import { readJson, readQuery } from "../api/input.ts";
import { forgetToken } from "../middleware/auth.ts";
import { mustSee } from "../middleware/permission.ts";
import { endConnections } from "../revoke.ts";
import { okOrThrow, onceOf, referenceOf, type Context } from "./context.ts";

export async function sessionRoute(context: Context): Promise<Response> {
  const { env, caller, operation, params, request, url, note } = context;
  const [reference = "", sessionId] = params;
  const { label, id } = await referenceOf(reference);
  note.sandbox = label;
  await mustSee(env, caller, label, id);
  readQuery(operation.query ?? z.strictObject({}), url.searchParams);
  const object = sandboxObject(env.SANDBOX, caller.account, label);
  const account = accountObject(env.ACCOUNT, caller.account);
  const { keyId } = caller;
  const { sandbox } = okOrThrow(await object.get({ id }));
  if (operation.method === "GET") return Response.json({ data: await account.listTokens(sandbox.id) });
  if (sessionId === undefined) {
    const { value } = await readJson(CreateSession, request);
    const made = okOrThrow(await account.createToken(sandbox.id, value, keyId, await onceOf(context, value))).session;
    const { id: session, scopes, origins, servers, expiresAt } = made;
    const data = { sessionId: session, keyId, scopes, origins, servers, expiresAt };
    await object.note(sandbox.id, { type: "session.created", data, key: `session ${session}` });
    return Response.json({ ...made, apiUrl: url.origin, url: sandbox.url } satisfies NewSession);
  }
  await readJson(z.strictObject({}), request);
  const { session, reach } = okOrThrow(await account.revokeToken(sandbox.id, sessionId));
  forgetToken(caller.account, session.id);
  await endConnections(env, caller.account, reach, [session.id]);
  const data = { sessionId: session.id, keyId };
  await object.note(sandbox.id, { type: "session.revoked", data, key: `session revoked ${session.id}` });
  return Response.json(session);
}

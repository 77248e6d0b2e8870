/** Keys and members of an account. */
import { accountObject } from "../../durable/account/api.ts";
import { CreateKey, CreateMember } from "../../sdk/contract/account.ts";
import { readJson, readQuery } from "../api/input.ts";
import { forgetKeys } from "../middleware/auth.ts";
import { okOrThrow, onceOf, type Context } from "./context.ts";
import { endConnections } from "../revoke.ts";
import { z } from "zod";

export async function keyRoute(context: Context): Promise<Response> {
  const { env, operation, caller, request, params, url } = context;
  readQuery(operation.query ?? z.strictObject({}), url.searchParams);
  const object = accountObject(env.ACCOUNT, caller.account);
  const isKey = operation.path.startsWith("/v1/keys");
  switch (operation.method) {
    case "POST": {
      if (isKey) {
        const { value } = await readJson(CreateKey, request);
        return Response.json(okOrThrow(await object.createKey(value, caller.keyId, await onceOf(context, value))).key);
      }
      const { value } = await readJson(CreateMember, request);
      return Response.json(okOrThrow(await object.createMember(value, await onceOf(context, value))).member);
    }
    case "DELETE": {
      if (isKey) {
        const { key, reach } = okOrThrow(await object.revokeKey(params[0] ?? ""));
        forgetKeys(caller.account, [key.id]);
        await endConnections(env, caller.account, reach, [key.id]);
        return Response.json(key);
      }
      const { member, keyIds, reach } = okOrThrow(await object.removeMember(params[0] ?? ""));
      forgetKeys(caller.account, keyIds);
      await endConnections(env, caller.account, reach, keyIds);
      return Response.json(member);
    }
    default:
      return Response.json({ data: await (isKey ? object.listKeys() : object.listMembers()) });
  }
}

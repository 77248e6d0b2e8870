/** Secrets of the account, and of a sandbox. Values come in, and go nowhere but to hosts. */
import type { Once } from "../../durable/account/api.ts";
import { hmacHex } from "../../durable/hash.ts";
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { secretsObject } from "../../durable/secrets/api.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { parseOrFail } from "../../sdk/contract/errors.ts";
import { PutSecret, SecretName } from "../../sdk/contract/secret.ts";
import { readJson, readQuery } from "../api/input.ts";
import type { Caller } from "../middleware/auth.ts";
import { mustSee } from "../middleware/permission.ts";
import { okOrThrow, onceOf, referenceOf, type Context } from "./context.ts";

/** Of the account. */
export function secretRoute(context: Context): Promise<Response> {
  return secrets(context, "", context.params[0]);
}

export async function sandboxSecretRoute(context: Context): Promise<Response> {
  const { env, caller, params, note } = context;
  const [reference = "", name] = params;
  const { label, id } = await referenceOf(reference);
  note.sandbox = label;
  await mustSee(env, caller, label, id);
  const { sandbox } = okOrThrow(await sandboxObject(env.SANDBOX, caller.account, label).get({ id }));
  return secrets(context, sandbox.id, name);
}

/** @param scope a sandbox's id, or empty for the account */
async function secrets(context: Context, scope: string, called: string | undefined): Promise<Response> {
  const { env, caller, operation, request, url } = context;
  if (operation.query) readQuery(operation.query, url.searchParams);
  const object = secretsObject(env.SECRETS, caller.account);
  if (called === undefined) return Response.json({ data: await object.list(scope) });
  const name = parseOrFail(SecretName, called, "secret's name");
  switch (operation.method) {
    case "GET":
      return Response.json(okOrThrow(await object.get(scope, name)).secret);
    case "DELETE":
      return answer(okOrThrow(await object.remove(scope, name, await onceOf(context, {}))).secret);
    default: {
      const { value } = await readJson(PutSecret, request);
      return answer(okOrThrow(await object.put(scope, name, value, await keyedOnce(context, value))).secret);
    }
  }
}

/** A plain hash of a value that is stored would tell whether a guess is right. */
async function keyedOnce(context: Context, value: PutSecret): Promise<Once> {
  const { key, fingerprint } = await onceOf(context, value);
  return { key, fingerprint: key === null ? "" : await hmacHex(context.env.ROUSE_SECRET, `secret\n${fingerprint}`) };
}

function answer(body: { readonly replayed?: boolean | undefined }): Response {
  return Response.json(body, body.replayed ? { headers: { "idempotency-replayed": "true" } } : {});
}

/**
 * A sandbox is to have the account's secrets of those names.
 * @throws RouseFailure `secret_not_found` names all that there are none of; `permission_denied`
 */
export async function mustHaveSecrets(env: Env, caller: Caller, names: readonly string[] = []): Promise<void> {
  if (names.length === 0) return;
  if (caller.namePrefix !== null) {
    const message = "Secrets are the whole account's: a key limited to a name prefix gives sandboxes none of them.";
    throw new RouseFailure("permission_denied", message, { details: { namePrefix: caller.namePrefix } });
  }
  const missing = await secretsObject(env.SECRETS, caller.account).missing(names);
  if (missing.length > 0)
    throw new RouseFailure("secret_not_found", `The account has no secret ${missing.join(", ")}.`, {
      details: { names: missing },
    });
}

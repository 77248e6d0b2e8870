/** Domains of a sandbox. */
import { claimsObject, type ClaimsApi } from "../../durable/claims/api.ts";
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { createDomain, DomainName, UpdateDomain } from "../../sdk/contract/domain.ts";
import { parseOrFail } from "../../sdk/contract/errors.ts";
import { readJson, readQuery } from "../api/input.ts";
import { mustSee } from "../middleware/permission.ts";
import { forgetDomain, hostnamePolicy } from "../proxy/custom-domain.ts";
import { okOrThrow, onceOf, referenceOf, type Context } from "./context.ts";

export async function domainRoute(context: Context): Promise<Response> {
  const { env, caller, operation, params, request, url, note } = context;
  const [reference = "", name] = params;
  const { label, id } = await referenceOf(reference);
  note.sandbox = label;
  if (operation.query) readQuery(operation.query, url.searchParams);
  await mustSee(env, caller, label, id);
  const { sandbox } = okOrThrow(await sandboxObject(env.SANDBOX, caller.account, label).get({ id }));
  const claims = claimsObject(env.CLAIMS, caller.account);
  if (name !== undefined) return one(context, claims, sandbox.id, parseOrFail(DomainName, name, "domain"));
  if (operation.method === "GET") return Response.json({ data: await claims.list(sandbox.id) });
  const { value } = await readJson(createDomain(hostnamePolicy(env, url.hostname)), request);
  return answer(okOrThrow(await claims.create(sandbox.id, value, await onceOf(context, value))).domain);
}

async function one(context: Context, claims: ClaimsApi, sandboxId: string, hostname: string): Promise<Response> {
  const { operation, request } = context;
  const { method, path } = operation;
  if (method === "GET") return answer(okOrThrow(await claims.get(sandboxId, hostname)).domain);
  try {
    switch (method === "DELETE" ? "delete" : path.slice(path.lastIndexOf(":") + 1)) {
      case "update": {
        const { value } = await readJson(UpdateDomain, request);
        return answer(okOrThrow(await claims.setPort(sandboxId, hostname, value.port)).domain);
      }
      case "verify":
        return answer(okOrThrow(await claims.verify(sandboxId, hostname)).domain);
      default:
        return answer(okOrThrow(await claims.remove(sandboxId, hostname, await onceOf(context, {}))).domain);
    }
  } finally {
    forgetDomain(hostname);
  }
}

function answer(body: { readonly replayed?: boolean | undefined }): Response {
  return Response.json(body, body.replayed ? { headers: { "idempotency-replayed": "true" } } : {});
}

/** The webhook inbox of a sandbox: its hooks, its events, and receipts of requests that are answered later. */
import { may } from "../../durable/account/key.ts";
import { inboxObject, type InboxApi } from "../../durable/inbox/api.ts";
import { Bodies } from "../../durable/inbox/bodies.ts";
import { toBase64 } from "../../durable/standard-webhooks.ts";
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import {
  CreateHook,
  HookEventListQuery,
  HookEventQuery,
  RotateHook,
  UpdateHook,
  type HookEvent,
  type Receipt,
} from "../../sdk/contract/hook.ts";
import { readJson, readQuery } from "../api/input.ts";
import { mustSee } from "../middleware/permission.ts";
import { okOrThrow, onceOf, referenceOf, type Context } from "./context.ts";

export async function hookRoute(context: Context): Promise<Response> {
  const { env, caller, operation, params, note } = context;
  const { label, id } = await referenceOf(params[0] ?? "");
  note.sandbox = label;
  await mustSee(env, caller, label, id);
  const { sandbox } = okOrThrow(await sandboxObject(env.SANDBOX, caller.account, label).get({ id }));
  const inbox = inboxObject(env.INBOX, caller.account, label);
  if (operation.path.includes("/receipts/")) return receipt(context, inbox, sandbox.id);
  return operation.path.includes("/hook-events")
    ? events(context, inbox, sandbox.id)
    : hooks(context, inbox, sandbox.id);
}

async function hooks(context: Context, inbox: InboxApi, sandboxId: string): Promise<Response> {
  const { operation, params, request, url } = context;
  const { method, path } = operation;
  const hook = params[1];
  readQuery(operation.query ?? HookEventQuery, url.searchParams);
  if (hook === undefined) {
    if (method === "GET") return Response.json({ data: await inbox.list(sandboxId) });
    const { value } = await readJson(CreateHook, request);
    return answer(okOrThrow(await inbox.create(sandboxId, value, url.origin, await onceOf(context, value))).hook);
  }
  if (method === "GET") return answer(okOrThrow(await inbox.get(sandboxId, hook)).hook);
  switch (method === "DELETE" ? "delete" : path.slice(path.lastIndexOf(":") + 1)) {
    case "update": {
      const { value } = await readJson(UpdateHook, request);
      return answer(okOrThrow(await inbox.update(sandboxId, hook, value, await onceOf(context, value))).hook);
    }
    case "rotate": {
      const { value } = await readJson(RotateHook, request);
      const once = await onceOf(context, value);
      return answer(okOrThrow(await inbox.rotate(sandboxId, hook, value, url.origin, once)).hook);
    }
    case "replay-dead": {
      const { replayed } = okOrThrow(await inbox.replayDead(sandboxId, hook));
      return Response.json({ replayed });
    }
    default:
      return answer(okOrThrow(await inbox.remove(sandboxId, hook, await onceOf(context, {}))).hook);
  }
}

async function events(context: Context, inbox: InboxApi, sandboxId: string): Promise<Response> {
  const { caller, env, operation, params, url } = context;
  const event = params[1];
  if (event === undefined) {
    const page = await inbox.events(sandboxId, readQuery(HookEventListQuery, url.searchParams));
    if (page) return Response.json(page);
    const details = { issues: [{ path: "cursor", message: "not a cursor" }] };
    throw new RouseFailure("invalid_request", "The cursor is not one of ours.", { details });
  }
  if (operation.method === "POST") return answer(okOrThrow(await inbox.replay(sandboxId, event)).event);
  const { body: wanted } = readQuery(HookEventQuery, url.searchParams);
  const withBody = wanted === "1";
  if (withBody && !may(caller.access, "use_sandboxes"))
    throw new RouseFailure("permission_denied", `A key with the access "${caller.access}" reads no bodies.`);
  const found = okOrThrow(await inbox.event(sandboxId, event, withBody));
  if (!withBody) return answer(found.event);
  const bytes = found.blob === null ? found.body : await new Bodies(env).get(found.blob);
  return Response.json({ ...found.event, body: bytes && encoded(bytes) } satisfies HookEvent);
}

async function receipt(context: Context, inbox: InboxApi, sandboxId: string): Promise<Response> {
  const found = okOrThrow(await inbox.receipt(sandboxId, context.params[1] ?? ""));
  const { answer: from } = found;
  const response = from && {
    status: from.status,
    headers: from.headers.map(([name, value]): [string, string] => [name, value]),
    body: encoded(from.bytes),
  };
  return Response.json({ ...found.receipt, response } satisfies Receipt);
}

function encoded(bytes: Uint8Array): { encoding: "text" | "base64"; data: string } {
  try {
    const data = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return { encoding: "text", data };
  } catch {
    return { encoding: "base64", data: toBase64(bytes) };
  }
}

function answer(body: { readonly replayed?: boolean | undefined }): Response {
  return Response.json(body, body.replayed ? { headers: { "idempotency-replayed": "true" } } : {});
}

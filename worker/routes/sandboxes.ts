/** Sandboxes: create, read, list, change, delete. None of these reads wakes anything. */
import { accountObject } from "../../durable/account/api.ts";
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { eventLimits, EventListQuery } from "../../sdk/contract/event.ts";
import { labelFor, labelForKey, randomLabel } from "../../sdk/contract/names.ts";
import {
  ChangesQuery,
  CreateSandbox,
  DeleteQuery,
  ExtendSandbox,
  GetQuery,
  HoldSandbox,
  ListQuery,
  ReleaseSandbox,
  SetRetention,
  UpdateSandbox,
  WakeSandbox,
  type Sandbox,
} from "../../sdk/contract/sandbox.ts";
import { idempotencyKey, readJson, readQuery } from "../api/input.ts";
import { mustSee } from "../middleware/permission.ts";
import { routeKey } from "../proxy/forward.ts";
import { forgetRoute } from "../proxy/route-cache.ts";
import { mustHaveSecrets } from "./secrets.ts";
import { changeOf, okOrThrow, referenceOf, sandboxResponse, type Context } from "./context.ts";

/** Longest wait of `waitFor` when the query says none, milliseconds. */
const WAIT_MS = 60_000;

export async function sandboxRoute(context: Context): Promise<Response> {
  const { method, path } = context.operation;
  if (path === "/v1/sandboxes") return method === "POST" ? create(context) : list(context);
  if (path === "/v1/sandboxes:changes") return changes(context);
  if (method === "GET") {
    if (path.endsWith(":resume")) return resume(context);
    return path.endsWith(":why") ? why(context) : path.endsWith("/events") ? events(context) : read(context);
  }
  return change(context);
}

async function create(context: Context): Promise<Response> {
  const { env, caller, request } = context;
  readQuery(context.operation.query ?? CreateSandbox, context.url.searchParams);
  const { value: input } = await readJson(CreateSandbox, request);
  const key = idempotencyKey(request.headers);
  const { account } = caller;
  const label =
    input.name !== undefined
      ? await labelFor(input.name)
      : key === null
        ? randomLabel()
        : await labelForKey(account, key);
  context.note.sandbox = label;
  const terms = await changeOf(context, null, input);
  if (caller.namePrefix !== null && !input.name?.startsWith(caller.namePrefix)) {
    const message = `This key makes only sandboxes whose name begins with ${JSON.stringify(caller.namePrefix)}.`;
    throw new RouseFailure("permission_denied", message, { details: { namePrefix: caller.namePrefix } });
  }
  if (caller.namePrefix !== null && input.volumes?.length) {
    const message = "Volumes are the whole account's: a key limited to a name prefix makes sandboxes without.";
    throw new RouseFailure("permission_denied", message, { details: { namePrefix: caller.namePrefix } });
  }
  await mustHaveSecrets(env, caller, input.secrets);
  const { governed, keyId, retentionDays } = caller;
  const object = sandboxObject(env.SANDBOX, account, label);
  return sandboxResponse(await object.create(input, { governed, keyId, retentionDays }, terms));
}

async function list({ env, caller, url }: Context): Promise<Response> {
  const query = readQuery(ListQuery, url.searchParams);
  const page = await accountObject(env.ACCOUNT, caller.account).list(query, caller.namePrefix);
  if (!page)
    throw new RouseFailure("invalid_request", "The cursor is not one of ours.", {
      details: { issues: [{ path: "cursor", message: "not a cursor" }] },
    });
  return Response.json({ ...page, data: page.data.map(inList) });
}

/** Names of variables, rules, and what a sandbox starts with, are for single reads. */
function inList(sandbox: Sandbox): Sandbox {
  const { envNames: _names, network: _network, onBoot: _boot, onWake: _wake, services: _services, ...shown } = sandbox;
  return shown;
}

async function changes({ env, caller, url }: Context): Promise<Response> {
  const { after = null, waitSeconds = 0 } = readQuery(ChangesQuery, url.searchParams);
  const object = accountObject(env.ACCOUNT, caller.account);
  const found = await object.changes(after, caller.namePrefix, waitSeconds * 1000);
  const data = found.data.map(({ label, sandbox }) => ({ label, sandbox: sandbox && inList(sandbox) }));
  return Response.json({ ...found, data });
}

async function read({ env, caller, url, params, note }: Context): Promise<Response> {
  const { label, id } = await referenceOf(params[0] ?? "");
  note.sandbox = label;
  const { waitFor, timeoutSeconds } = readQuery(GetQuery, url.searchParams);
  await mustSee(env, caller, label, id);
  const object = sandboxObject(env.SANDBOX, caller.account, label);
  const waitMs = timeoutSeconds === undefined ? WAIT_MS : timeoutSeconds * 1000;
  const answer = okOrThrow(
    await (waitFor === undefined ? object.get({ id }) : object.waitFor({ id }, waitFor, waitMs)),
  );
  const { sandbox } = answer;
  const chargedMicros = await accountObject(env.ACCOUNT, caller.account).chargedMicros(sandbox.id);
  const shown = { ...sandbox, chargedMicros };
  return sandboxResponse({ ok: true, sandbox: caller.session ? forSession(shown) : shown });
}

/** How it is set up is not for everybody who may use it. */
function forSession(sandbox: Sandbox): Sandbox {
  const { secrets: _secrets, volumes: _volumes, wakeRules: _rules, sockets: _sockets, ...shown } = inList(sandbox);
  return { ...shown, labels: {} };
}

async function why({ env, caller, operation, url, params, note }: Context): Promise<Response> {
  const { label, id } = await referenceOf(params[0] ?? "");
  note.sandbox = label;
  if (operation.query) readQuery(operation.query, url.searchParams);
  await mustSee(env, caller, label, id);
  const { id: known, ...facts } = okOrThrow(await sandboxObject(env.SANDBOX, caller.account, label).why({ id })).why;
  const chargedMicros = await accountObject(env.ACCOUNT, caller.account).chargedMicros(known);
  return Response.json({ ...facts, chargedMicros });
}

async function resume({ env, caller, operation, url, params, note }: Context): Promise<Response> {
  const { label, id } = await referenceOf(params[0] ?? "");
  note.sandbox = label;
  if (operation.query) readQuery(operation.query, url.searchParams);
  await mustSee(env, caller, label, id);
  return Response.json(okOrThrow(await sandboxObject(env.SANDBOX, caller.account, label).resume({ id })).resume);
}

async function events({ env, caller, url, params, note }: Context): Promise<Response> {
  const { label, id } = await referenceOf(params[0] ?? "");
  note.sandbox = label;
  const { after = 0, limit = eventLimits.eventsListMax, waitSeconds = 0 } = readQuery(EventListQuery, url.searchParams);
  await mustSee(env, caller, label, id);
  const object = sandboxObject(env.SANDBOX, caller.account, label);
  const found = okOrThrow(await object.events({ id }, after, limit + 1, waitSeconds * 1000)).events;
  const data = found.slice(0, limit);
  return Response.json({ data, nextAfter: data.at(-1)?.sequence ?? after, hasMore: found.length > limit });
}

async function change(context: Context): Promise<Response> {
  const { env, caller, operation, params, request, note } = context;
  const { label, id } = await referenceOf(params[0] ?? "");
  note.sandbox = label;
  await mustSee(env, caller, label, id);
  const object = sandboxObject(env.SANDBOX, caller.account, label);
  const verb = operation.method === "DELETE" ? "delete" : operation.path.slice(operation.path.lastIndexOf(":") + 1);
  const query = readQuery(operation.query ?? GetQuery, context.url.searchParams);
  const body = operation.body && operation.body !== "bytes" ? (await readJson(operation.body, request)).value : {};
  const terms = await changeOf(context, id, body);
  try {
    switch (verb) {
      case "delete":
        return Response.json(okOrThrow(await object.remove(DeleteQuery.parse(query).graceSeconds ?? 0, terms)).deleted);
      case "update": {
        const input = UpdateSandbox.parse(body);
        await mustHaveSecrets(env, caller, input.secrets);
        return sandboxResponse(await object.update(input, terms));
      }
      case "pause":
        return sandboxResponse(await object.pause(terms));
      case "wake":
        return sandboxResponse(await object.wake(WakeSandbox.parse(body).timeoutSeconds, terms));
      case "extend":
        return sandboxResponse(await object.extend(ExtendSandbox.parse(body).seconds, terms));
      case "hold": {
        const { name, seconds } = HoldSandbox.parse(body);
        return sandboxResponse(await object.hold(name, seconds, terms));
      }
      case "release":
        return sandboxResponse(await object.hold(ReleaseSandbox.parse(body).name, 0, terms));
      case "stop":
        return sandboxResponse(await object.stop(terms));
      case "recover":
        return sandboxResponse(await object.recover(terms));
      case "undelete":
        return sandboxResponse(await object.undelete(terms));
      case "restart":
        return sandboxResponse(await object.restart(terms));
      default:
        return sandboxResponse(await object.setRetention(SetRetention.parse(body).days ?? caller.retentionDays, terms));
    }
  } finally {
    forgetRoute(routeKey({ account: caller.account, label }));
  }
}

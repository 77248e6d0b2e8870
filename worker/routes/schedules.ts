/** The schedules of a sandbox, and what became of their runs. */
import { may } from "../../durable/account/key.ts";
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { schedulesObject, type SchedulesApi } from "../../durable/schedules/api.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import {
  CreateSchedule,
  ScheduleRunListQuery,
  UpdateSchedule,
  type Schedule,
  type ScheduleAction,
} from "../../sdk/contract/schedule.ts";
import { readJson, readQuery } from "../api/input.ts";
import { mustSee } from "../middleware/permission.ts";
import { okOrThrow, onceOf, referenceOf, type Context } from "./context.ts";

export async function scheduleRoute(context: Context): Promise<Response> {
  const { env, caller, operation, params, url, note } = context;
  const { label, id } = await referenceOf(params[0] ?? "");
  note.sandbox = label;
  if (operation.query && !operation.path.endsWith("/runs")) readQuery(operation.query, url.searchParams);
  await mustSee(env, caller, label, id);
  const { sandbox } = okOrThrow(await sandboxObject(env.SANDBOX, caller.account, label).get({ id }));
  const object = schedulesObject(env.SCHEDULES, caller.account, label);
  return operation.path.includes("/runs") ? runs(context, object, sandbox.id) : schedules(context, object, sandbox.id);
}

async function schedules(context: Context, object: SchedulesApi, sandboxId: string): Promise<Response> {
  const { operation, params, request } = context;
  const { method, path } = operation;
  const schedule = params[1];
  const shown = (one: Schedule) => (isUser(context) ? one : { ...one, action: withoutSecrets(one.action) });
  if (schedule === undefined) {
    if (method === "GET") return Response.json({ data: (await object.list(sandboxId)).map(shown) });
    const { value } = await readJson(CreateSchedule, request);
    mayDrill(context, value.action);
    return answer(okOrThrow(await object.create(sandboxId, value, await onceOf(context, value))).schedule);
  }
  if (method === "GET") return answer(shown(okOrThrow(await object.get(sandboxId, schedule)).schedule));
  switch (method === "DELETE" ? "delete" : path.slice(path.lastIndexOf(":") + 1)) {
    case "update": {
      const { value } = await readJson(UpdateSchedule, request);
      mayDrill(context, value.action);
      return answer(okOrThrow(await object.update(sandboxId, schedule, value, await onceOf(context, value))).schedule);
    }
    case "run":
      return answer(okOrThrow(await object.runNow(sandboxId, schedule, await onceOf(context, {}))).run);
    default:
      return answer(okOrThrow(await object.remove(sandboxId, schedule, await onceOf(context, {}))).schedule);
  }
}

async function runs(context: Context, object: SchedulesApi, sandboxId: string): Promise<Response> {
  const { params, url } = context;
  const [, schedule = "", run] = params;
  if (run !== undefined) return answer(okOrThrow(await object.run(sandboxId, schedule, run, isUser(context))).run);
  const query = readQuery(ScheduleRunListQuery, url.searchParams);
  const { page } = okOrThrow(await object.runs(sandboxId, schedule, query));
  if (page) return Response.json(page);
  const details = { issues: [{ path: "cursor", message: "not a cursor" }] };
  throw new RouseFailure("invalid_request", "The cursor is not one of ours.", { details });
}

/** A kill is the business of who answers for it. @throws RouseFailure `permission_denied` */
function mayDrill({ caller }: Context, action: ScheduleAction | undefined): void {
  if (action?.kind === "drill" && !may(caller.access, "administer"))
    throw new RouseFailure("permission_denied", `A key with the access "${caller.access}" runs no drills.`);
}

/** Keys that only read see neither what a run wrote nor what may be a secret. */
function isUser({ caller }: Context): boolean {
  return may(caller.access, "use_sandboxes");
}

function withoutSecrets(action: ScheduleAction): ScheduleAction {
  switch (action.kind) {
    case "command": {
      const { env: _, ...rest } = action;
      return rest;
    }
    case "request": {
      const { headers: _, body: __, ...rest } = action;
      return rest;
    }
    case "drill":
    case "wake":
      return action;
  }
}

function answer(body: { readonly replayed?: boolean | undefined }): Response {
  return Response.json(body, body.replayed ? { headers: { "idempotency-replayed": "true" } } : {});
}

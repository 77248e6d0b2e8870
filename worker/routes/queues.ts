/** Queues of a sandbox. */
import { stateObject, type StateApi } from "../../durable/state/api.ts";
import { sha256Hex } from "../../durable/hash.ts";
import { parseOrFail } from "../../sdk/contract/errors.ts";
import {
  AckTask,
  ExtendTask,
  NackTask,
  PutTask,
  QueueName,
  TakeTasks,
  TaskListQuery,
  type Task,
} from "../../sdk/contract/queue.ts";
import { canonical, idempotencyKey, readJson, readQuery } from "../api/input.ts";
import { okOrThrow } from "./context.ts";
import { askerOf, placeOf, type HomeContext } from "./place.ts";

export async function queueRoute(context: HomeContext): Promise<Response> {
  const { env, operation, request, url, params } = context;
  const { account, sandboxId } = placeOf(context);
  const asker = askerOf(context);
  const object = stateObject(env.STATE, account, sandboxId);
  const { method, path } = operation;
  const isList = method === "GET" && path.endsWith("/tasks");
  if (!isList && operation.query) readQuery(operation.query, url.searchParams);
  if (params[0] === undefined) return Response.json({ data: okOrThrow(await object.queues(asker)).queues });
  const queue = parseOrFail(QueueName, params[0], "queue");
  if (path.includes("/tasks")) return tasks(context, object, queue);
  if (method === "GET") return Response.json(okOrThrow(await object.queueCounts(asker, queue)).queue);
  switch (path.slice(path.lastIndexOf(":") + 1)) {
    case "take": {
      const { value } = await readJson(TakeTasks, request);
      return Response.json({ data: okOrThrow(await object.takeTasks(asker, queue, value)).tasks });
    }
    case "ack": {
      const { value } = await readJson(AckTask, request);
      return Response.json(okOrThrow(await object.ackTask(asker, queue, value)).task);
    }
    case "nack": {
      const { value } = await readJson(NackTask, request);
      return Response.json(okOrThrow(await object.nackTask(asker, queue, value)).task);
    }
    case "extend": {
      const { value } = await readJson(ExtendTask, request);
      return Response.json(okOrThrow(await object.extendTask(asker, queue, value)).task);
    }
    default:
      return Response.json({ retried: okOrThrow(await object.retryDead(asker, queue)).retried });
  }
}

async function tasks(context: HomeContext, object: StateApi, queue: string): Promise<Response> {
  const { operation, request, url, params } = context;
  const asker = askerOf(context);
  const id = params[1];
  if (id === undefined) {
    if (operation.method === "GET") {
      const query = readQuery(TaskListQuery, url.searchParams);
      return Response.json(okOrThrow(await object.tasks(asker, queue, query)).page);
    }
    const { value } = await readJson(PutTask, request);
    const once = { key: idempotencyKey(request.headers), fingerprint: await sha256Hex(canonical(value)) };
    return answer(okOrThrow(await object.putTask(asker, queue, value, once)).task);
  }
  switch (operation.method) {
    case "GET":
      return answer(okOrThrow(await object.task(asker, queue, id)).task);
    case "DELETE":
      return Response.json(okOrThrow(await object.deleteTask(asker, queue, id)).task);
    default:
      return answer(okOrThrow(await object.retryTask(asker, queue, id)).task);
  }
}

function answer(task: Task): Response {
  return Response.json(task, task.replayed ? { headers: { "idempotency-replayed": "true" } } : {});
}

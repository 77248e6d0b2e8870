/** Operations on the homes of state of a sandbox: keys, SQL, queues, objects. */
import { z } from "zod";
import {
  AbortedObjectUpload,
  BeginObjectUpload,
  CompleteObjectUpload,
  DeletedObject,
  ObjectList,
  ObjectListQuery,
  ObjectUpload,
  PutObjectQuery,
  SignedObject,
  SignObject,
  StoredObject,
} from "../../sdk/contract/object.ts";
import {
  AckTask,
  DeletedTask,
  ExtendTask,
  LeasedTask,
  LeasedTasks,
  NackTask,
  PutTask,
  Queue,
  QueueList,
  RetriedTasks,
  TakeTasks,
  Task,
  TaskList,
  TaskListQuery,
} from "../../sdk/contract/queue.ts";
import {
  DeletedState,
  PutStateQuery,
  RunSql,
  SqlResults,
  StateBatch,
  StateBatched,
  StateEntry,
  StateList,
  StateListQuery,
  StateUsage,
} from "../../sdk/contract/state.ts";
import type { Operation } from "./operation.ts";

const Empty = z.strictObject({});
const NoQuery = z.strictObject({});
const ID = "/v1/sandboxes/{id}";
const S = `${ID}/state`;
const Q = `${ID}/queues`;
const O = `${ID}/objects`;
const U = `${ID}/object-uploads`;

export const state: readonly Omit<Operation, "work">[] = [
  {
    method: "GET",
    path: S,
    summary: "How much a sandbox keeps outside of its machine, and how much it may.",
    query: NoQuery,
    answer: StateUsage,
  },
  {
    method: "GET",
    path: `${S}/keys`,
    summary: "List keys in order, without their values.",
    query: StateListQuery,
    answer: StateList,
  },
  {
    method: "POST",
    path: `${S}/keys:batch`,
    summary: "Writes to several keys, all or none, where every key has the version that is checked.",
    query: NoQuery,
    body: StateBatch,
    answer: StateBatched,
  },
  {
    method: "GET",
    path: `${S}/keys/{key*}`,
    summary: "Read a value, as it was put; its version is the ETag.",
    query: NoQuery,
    answer: "bytes",
  },
  {
    method: "PUT",
    path: `${S}/keys/{key*}`,
    summary: "Set a value, with If-Match (a version) or If-None-Match: * only if nobody else did meanwhile.",
    query: PutStateQuery,
    body: "bytes",
    answer: StateEntry,
  },
  {
    method: "DELETE",
    path: `${S}/keys/{key*}`,
    summary: "Delete a key, with If-Match only at that version.",
    query: NoQuery,
    answer: DeletedState,
  },
  {
    method: "POST",
    path: `${S}/sql`,
    summary: "Run statements in the sandbox's own SQLite, as one transaction.",
    query: NoQuery,
    body: RunSql,
    answer: SqlResults,
  },
];

export const queues: readonly Omit<Operation, "work">[] = [
  { method: "GET", path: Q, summary: "List queues that have tasks.", query: NoQuery, answer: QueueList },
  { method: "GET", path: `${Q}/{queue}`, summary: "How many tasks a queue has.", query: NoQuery, answer: Queue },
  {
    method: "POST",
    path: `${Q}/{queue}/tasks`,
    summary: "Put a task; under an Idempotency-Key once.",
    query: NoQuery,
    body: PutTask,
    answer: Task,
  },
  {
    method: "GET",
    path: `${Q}/{queue}/tasks`,
    summary: "List tasks that are not done, in the order they were put; state=dead for dead letters.",
    query: TaskListQuery,
    answer: TaskList,
  },
  { method: "GET", path: `${Q}/{queue}/tasks/{task}`, summary: "Read a task.", query: NoQuery, answer: Task },
  {
    method: "DELETE",
    path: `${Q}/{queue}/tasks/{task}`,
    summary: "Delete a task, whatever its state.",
    query: NoQuery,
    answer: DeletedTask,
  },
  {
    method: "POST",
    path: `${Q}/{queue}/tasks/{task}:retry`,
    summary: "Make a dead task ready again.",
    query: NoQuery,
    body: Empty,
    answer: Task,
  },
  {
    method: "POST",
    path: `${Q}/{queue}:take`,
    summary: "Take the oldest tasks that are ready, each under a lease; may wait for one.",
    query: NoQuery,
    body: TakeTasks,
    answer: LeasedTasks,
  },
  {
    method: "POST",
    path: `${Q}/{queue}:ack`,
    summary: "A task is done.",
    query: NoQuery,
    body: AckTask,
    answer: Task,
  },
  {
    method: "POST",
    path: `${Q}/{queue}:nack`,
    summary: "A task failed: it can be taken again, or is dead after its last attempt.",
    query: NoQuery,
    body: NackTask,
    answer: Task,
  },
  {
    method: "POST",
    path: `${Q}/{queue}:extend`,
    summary: "Keep a task longer.",
    query: NoQuery,
    body: ExtendTask,
    answer: LeasedTask,
  },
  {
    method: "POST",
    path: `${Q}/{queue}:retry-dead`,
    summary: "Make all dead tasks of a queue ready again.",
    query: NoQuery,
    body: Empty,
    answer: RetriedTasks,
  },
];

export const objects: readonly Omit<Operation, "work">[] = [
  {
    method: "GET",
    path: O,
    summary: "List objects in order of their keys; with delimiter=/ as folders.",
    query: ObjectListQuery,
    answer: ObjectList,
  },
  {
    method: "POST",
    path: `${O}:sign`,
    summary: "A URL that reads or writes one object without a key, until a time.",
    query: NoQuery,
    body: SignObject,
    answer: SignedObject,
  },
  {
    method: "GET",
    path: `${O}/{key*}`,
    summary: "Read an object, or with Range a part of it.",
    query: NoQuery,
    answer: "bytes",
  },
  {
    method: "HEAD",
    path: `${O}/{key*}`,
    summary: "Size, type and ETag of an object.",
    query: NoQuery,
    answer: "bytes",
  },
  {
    method: "PUT",
    path: `${O}/{key*}`,
    summary: "Store an object of up to 100 MiB; If-Match (an ETag) and If-None-Match: * as with keys.",
    query: PutObjectQuery,
    body: "bytes",
    answer: StoredObject,
  },
  { method: "DELETE", path: `${O}/{key*}`, summary: "Delete an object.", query: NoQuery, answer: DeletedObject },
  {
    method: "POST",
    path: U,
    summary: "Begin an object of up to 5 GiB, in parts of up to 100 MiB.",
    query: NoQuery,
    body: BeginObjectUpload,
    answer: ObjectUpload,
  },
  {
    method: "GET",
    path: `${U}/{upload}`,
    summary: "Which parts of an upload are there.",
    query: NoQuery,
    answer: ObjectUpload,
  },
  {
    method: "PUT",
    path: `${U}/{upload}/parts/{part}`,
    summary: "Store a part, 1 to 1,000; again for another in its place.",
    query: PutObjectQuery,
    body: "bytes",
    answer: ObjectUpload,
  },
  {
    method: "POST",
    path: `${U}/{upload}:complete`,
    summary: "Its parts are the object from here on.",
    query: NoQuery,
    body: CompleteObjectUpload,
    answer: StoredObject,
  },
  {
    method: "DELETE",
    path: `${U}/{upload}`,
    summary: "Give an upload up.",
    query: NoQuery,
    answer: AbortedObjectUpload,
  },
];

/** The same of a store that agents share, but for objects. */
export const sharedState = [...state, ...queues].map((one) => ({
  ...one,
  path: one.path.replace(ID, "/v1/stores/{store}"),
  summary: `Of a store: ${one.summary}`,
}));

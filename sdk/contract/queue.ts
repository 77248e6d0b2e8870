/** Queues of tasks that are kept outside of the machine. Each task is done at least once, or ends among the dead ones. */
import { z } from "zod";

export const queueLimits = {
  /** Tasks of all queues of one sandbox that are not done, dead ones too; and their payloads together, bytes. */
  tasksMax: 10_000,
  bytesMax: 256 * 1_048_576,
  /** A payload, bytes of JSON. */
  payloadBytesMax: 65_536,
  /** Takes of one task before it is dead. */
  attemptsDefault: 5,
  attemptsMax: 100,
  delaySecondsMax: 30 * 86_400,
  leaseSecondsDefault: 60,
  leaseSecondsMax: 12 * 3600,
  /** Tasks of one take. */
  takeMax: 100,
  /** Longest wait for a task, seconds. */
  waitSecondsMax: 20,
  /** Characters of what a worker says of its failure. */
  errorMax: 1024,
  listMax: 100,
  /** A task that is done is known so long by the key it was put with, seconds. */
  keySeconds: 86_400,
} as const;

const Time = z.iso.datetime();

export const QueueName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, "1 to 64 of A-Z a-z 0-9 _ . -, a letter or digit first");

/** Names a task of a queue. */
export const TaskId = z.string().regex(/^task-[0-9a-z]{20}$/, "a task id such as task-...");

/** `delayed`: not before its time. `leased`: a worker has it. `dead`: it was taken too often. `done` is forgotten soon. */
export const TaskState = z.enum(["ready", "delayed", "leased", "dead", "done"]);
export type TaskState = z.infer<typeof TaskState>;

const Delay = z.int().min(0).max(queueLimits.delaySecondsMax);
const LeaseSeconds = z.int().min(1).max(queueLimits.leaseSecondsMax);
const Lease = z.string().min(1).max(64);

/** Body of `POST .../queues/{queue}/tasks`. An `Idempotency-Key` header makes a repeated put the same task. */
export const PutTask = z
  .strictObject({
    payload: z.json(),
    /** Not before so many seconds; at once unless given. */
    delaySeconds: Delay.optional(),
    /** Takes before it is dead; 5 unless given, at most 100. */
    maxAttempts: z.int().min(1).max(queueLimits.attemptsMax).optional(),
  })
  .meta({ id: "PutTask" });
export type PutTask = z.infer<typeof PutTask>;

export const Task = z
  .object({
    id: TaskId,
    kind: z.literal("task"),
    queue: z.string(),
    state: TaskState,
    /** null when it is done. */
    payload: z.json(),
    /** Times that it was taken. */
    attempts: z.int(),
    maxAttempts: z.int(),
    putAt: Time,
    /** Who put it: a key's id, or `sandbox:` with a label. */
    by: z.string(),
    /** When it can be taken, or is given back: of `delayed` and `leased`. */
    readyAt: Time.nullable(),
    /** What the last worker said, or `lease expired`; null before a failure. */
    lastError: z.string().nullable(),
    replayed: z.boolean().optional(),
  })
  .meta({ id: "Task" });
export type Task = z.infer<typeof Task>;

/** Body of `.../queues/{queue}:take`. */
export const TakeTasks = z
  .strictObject({
    /** 1 unless given, at most 100. */
    max: z.int().min(1).max(queueLimits.takeMax).optional(),
    /** 60 unless given. */
    leaseSeconds: LeaseSeconds.optional(),
    /** Longest wait for a first one; 0 unless given, at most 20. */
    waitSeconds: z.int().min(0).max(queueLimits.waitSecondsMax).optional(),
  })
  .meta({ id: "TakeTasks" });
export type TakeTasks = z.infer<typeof TakeTasks>;

/** A task with the right to it until `leaseUntil`. */
export const LeasedTask = Task.extend({ lease: z.string(), leaseUntil: Time }).meta({ id: "LeasedTask" });
export type LeasedTask = z.infer<typeof LeasedTask>;

export const LeasedTasks = z.object({ data: z.array(LeasedTask) }).meta({ id: "LeasedTasks" });
export type LeasedTasks = z.infer<typeof LeasedTasks>;

/** Body of `:ack`: it is done. Repeated with the same lease it says so again. */
export const AckTask = z.strictObject({ id: TaskId, lease: Lease }).meta({ id: "AckTask" });
export type AckTask = z.infer<typeof AckTask>;

/** Body of `:nack`: it failed, and can be taken again, after its last attempt is dead. */
export const NackTask = z
  .strictObject({
    id: TaskId,
    lease: Lease,
    delaySeconds: Delay.optional(),
    error: z.string().max(queueLimits.errorMax).optional(),
  })
  .meta({ id: "NackTask" });
export type NackTask = z.infer<typeof NackTask>;

/** Body of `:extend`: so many seconds from now. */
export const ExtendTask = z
  .strictObject({ id: TaskId, lease: Lease, leaseSeconds: LeaseSeconds.optional() })
  .meta({ id: "ExtendTask" });
export type ExtendTask = z.infer<typeof ExtendTask>;

export const TaskListQuery = z.strictObject({
  state: z.enum(["ready", "delayed", "leased", "dead"]).optional(),
  limit: z.coerce.number().int().min(1).max(queueLimits.listMax).optional(),
  cursor: z.string().max(64).optional(),
});
export type TaskListQuery = z.infer<typeof TaskListQuery>;

export const TaskList = z.object({ data: z.array(Task), nextCursor: z.string().nullable() }).meta({ id: "TaskList" });
export type TaskList = z.infer<typeof TaskList>;

export const DeletedTask = z.object({ id: TaskId, deleted: z.literal(true) }).meta({ id: "DeletedTask" });
export type DeletedTask = z.infer<typeof DeletedTask>;

/** Answer of `:retry-dead`. */
export const RetriedTasks = z.object({ retried: z.int() }).meta({ id: "RetriedTasks" });
export type RetriedTasks = z.infer<typeof RetriedTasks>;

/** How many tasks of each state a queue has. One without tasks is as one that is not there. */
export const Queue = z
  .object({
    name: z.string(),
    ready: z.int(),
    delayed: z.int(),
    leased: z.int(),
    dead: z.int(),
    /** When the oldest that is ready was put. */
    oldestPutAt: Time.nullable(),
  })
  .meta({ id: "Queue" });
export type Queue = z.infer<typeof Queue>;

export const QueueList = z.object({ data: z.array(Queue) }).meta({ id: "QueueList" });
export type QueueList = z.infer<typeof QueueList>;

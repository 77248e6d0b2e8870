/** Queues of tasks that are kept outside of the machine. */
import {
  DeletedTask,
  LeasedTask as LeasedSchema,
  LeasedTasks,
  Queue as QueueSchema,
  QueueList,
  RetriedTasks,
  Task as TaskSchema,
  TaskList,
} from "../contract/queue.ts";
import type { LeasedTask, Queue, TakeTasks, Task, TaskListQuery } from "../contract/queue.ts";
import { Page } from "./page.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import type { RequestOptions } from "./transport.ts";

export interface PutTaskOptions extends RequestOptions {
  /** Not before so many seconds. */
  delaySeconds?: number | undefined;
  /** Takes before it is dead; 5 unless given. */
  maxAttempts?: number | undefined;
}

export interface NackOptions extends RequestOptions {
  delaySeconds?: number | undefined;
  /** What went wrong, at most 1,024 characters. */
  error?: string | undefined;
}

/** A task that was taken. */
type Held = Pick<LeasedTask, "id" | "lease">;

/** Queues of a sandbox: `sandbox.queues("mail")` is one of them. */
export interface Queues {
  (name: string): TaskQueue;
  /** Those that have tasks. */
  list(options?: RequestOptions): Promise<Queue[]>;
}

/** @internal */
export function queuesOf(remote: Remote): Queues {
  const list = async (options: RequestOptions = {}) =>
    parseAnswer(QueueList, await remote.get("/queues", options)).data;
  return Object.assign((name: string) => new TaskQueue(remote, name), { list });
}

/**
 * A queue. A task is taken under a lease; who does not say in time that it is done loses it to the next, and after its
 * last attempt it is dead. So each is done at least once, and workers should bear one that comes again.
 *
 * @example
 * const mail = sandbox.queues("mail");
 * await mail.put({ to: "ada@example.com" });
 * for (const task of await mail.take({ waitSeconds: 20 })) await mail.ack(task);
 */
export class TaskQueue {
  readonly name: string;
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote, name: string) {
    this.#remote = remote;
    this.name = name;
  }

  /**
   * Put a task with a JSON payload of at most 64 KiB. Under an `idempotencyKey` it is put once.
   * @throws RouseError `storage_full`
   */
  async put(payload: unknown, { delaySeconds, maxAttempts, ...options }: PutTaskOptions = {}): Promise<Task> {
    const body = { payload, delaySeconds, maxAttempts };
    return parseAnswer(TaskSchema, await this.#remote.post(this.#path("/tasks"), body, options));
  }

  /** The oldest that are ready, under a lease of 60 seconds unless given. Empty when there is none. */
  async take(input: TakeTasks = {}, options: RequestOptions = {}): Promise<LeasedTask[]> {
    return parseAnswer(LeasedTasks, await this.#remote.post(this.#path(":take"), input, options)).data;
  }

  /** It is done. @throws ConflictError `lease_lost` */
  async ack({ id, lease }: Held, options: RequestOptions = {}): Promise<Task> {
    return parseAnswer(TaskSchema, await this.#remote.post(this.#path(":ack"), { id, lease }, options));
  }

  /** It failed, and can be taken again. @throws ConflictError `lease_lost` */
  async nack({ id, lease }: Held, { delaySeconds, error, ...options }: NackOptions = {}): Promise<Task> {
    const body = { id, lease, delaySeconds, error };
    return parseAnswer(TaskSchema, await this.#remote.post(this.#path(":nack"), body, options));
  }

  /** Keep it so many seconds from now, 60 unless given. @throws ConflictError `lease_lost` */
  async extend({ id, lease }: Held, leaseSeconds?: number, options: RequestOptions = {}): Promise<LeasedTask> {
    const body = { id, lease, leaseSeconds };
    return parseAnswer(LeasedSchema, await this.#remote.post(this.#path(":extend"), body, options));
  }

  /** How many tasks it has. */
  async counts(options: RequestOptions = {}): Promise<Queue> {
    return parseAnswer(QueueSchema, await this.#remote.get(this.#path(), options));
  }

  /** Tasks that are not done, in the order that they were put. `state: "dead"` for dead letters. */
  async list(query: Omit<TaskListQuery, "cursor"> = {}, options: RequestOptions = {}): Promise<Page<Task>> {
    return await this.#page(query, undefined, options);
  }

  /** @throws NotFoundError `task_not_found` */
  async get(id: string, options: RequestOptions = {}): Promise<Task> {
    return parseAnswer(TaskSchema, await this.#remote.get(this.#task(id), options));
  }

  /** A dead one is ready again. @throws ConflictError `conflict` for one that is not dead */
  async retry(id: string, options: RequestOptions = {}): Promise<Task> {
    return parseAnswer(TaskSchema, await this.#remote.post(this.#task(id, ":retry"), {}, options));
  }

  /** All dead ones are ready again. Answers how many. */
  async retryDead(options: RequestOptions = {}): Promise<number> {
    return parseAnswer(RetriedTasks, await this.#remote.post(this.#path(":retry-dead"), {}, options)).retried;
  }

  /** Whatever its state: who has it loses it. */
  async delete(id: string, options: RequestOptions = {}): Promise<DeletedTask> {
    return parseAnswer(DeletedTask, await this.#remote.delete(this.#task(id), options));
  }

  async #page(
    query: Omit<TaskListQuery, "cursor">,
    cursor: string | undefined,
    options: RequestOptions,
  ): Promise<Page<Task>> {
    const answer = await this.#remote.get(this.#path("/tasks"), { query: { ...query, cursor }, ...options });
    const { data, nextCursor } = parseAnswer(TaskList, answer);
    return new Page(data, nextCursor === null ? null : () => this.#page(query, nextCursor, options));
  }

  #path(rest = ""): string {
    return `/queues/${encodeURIComponent(this.name)}${rest}`;
  }

  #task(id: string, verb = ""): string {
    return this.#path(`/tasks/${encodeURIComponent(id)}${verb}`);
  }
}

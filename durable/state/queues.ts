/** Queues: tasks in the order that they were put, each with one worker at a time. */
import {
  queueLimits,
  type AckTask,
  type DeletedTask,
  type ExtendTask,
  type LeasedTask,
  type NackTask,
  type PutTask,
  type Queue,
  type TakeTasks,
  type Task,
  type TaskList,
  type TaskListQuery,
} from "../../sdk/contract/queue.ts";
import { newId } from "../../sdk/contract/names.ts";
import { toBase64Url } from "../../sdk/contract/ticket.ts";
import type { Once } from "../account/api.ts";
import { refuse, type Result } from "../result.ts";
import { iso, isoOrNull } from "../time.ts";
import { Watchers } from "../watchers.ts";
import type { Asker } from "./api.ts";
import * as rules from "./queue-rules.ts";
import { refused, type StateStore } from "./store.ts";

interface Row extends Record<string, SqlStorageValue>, rules.TaskFacts {
  seq: number;
  id: string;
  queue: string;
  state: "ready" | "leased" | "dead" | "done";
  payload: string | null;
  bytes: number;
  attempts: number;
  maxAttempts: number;
  readyAt: number;
  lease: string | null;
  leaseUntil: number | null;
  key: string | null;
  fingerprint: string;
  by: string;
  putAt: number;
  lastError: string | null;
  forgetAt: number | null;
}

const SELECT = `SELECT seq, id, queue, state, payload, bytes, attempts, max_attempts AS maxAttempts,
  ready_at AS readyAt, lease, lease_until AS leaseUntil, idempotency_key AS key, fingerprint, put_by AS "by",
  put_at AS putAt, last_error AS lastError, forget_at AS forgetAt FROM tasks`;
const PAGE = 50;
const encoder = new TextEncoder();
const noTask = refuse("task_not_found", "There is no such task.");
const lost = (): never => refused("lease_lost", "The lease is not the task's, or it has run out.");

export class Queues {
  readonly #store: StateStore;
  readonly #sql: SqlStorage;
  readonly #watchers = new Watchers();

  constructor(store: StateStore) {
    this.#store = store;
    this.#sql = store.sql;
  }

  async put(asker: Asker, queue: string, input: PutTask, once: Once): Promise<Result<{ task: Task }>> {
    const id = await newId("task", "task", "", null);
    const put = this.#write<{ task: Task }>(asker, (now) => {
      if (once.key !== null) {
        const known = this.#one("WHERE queue = ? AND idempotency_key = ?", queue, once.key);
        if (known && known.fingerprint !== once.fingerprint)
          refused("idempotency_key_reused", "The Idempotency-Key was used for another task.");
        if (known) return { ok: true, task: { ...shown(known, now), replayed: true } };
      }
      const payload = JSON.stringify(input.payload);
      const bytes = encoder.encode(payload).length;
      if (bytes > queueLimits.payloadBytesMax)
        refused("payload_too_large", `The payload has more than ${queueLimits.payloadBytesMax} bytes.`, {
          maxBytes: queueLimits.payloadBytesMax,
        });
      this.#makeRoom(bytes);
      const { delaySeconds = 0, maxAttempts = queueLimits.attemptsDefault } = input;
      this.#sql.exec(
        `INSERT INTO tasks (id, queue, state, payload, bytes, attempts, max_attempts, ready_at, idempotency_key,
           fingerprint, put_by, put_at) VALUES (?, ?, 'ready', ?, ?, 0, ?, ?, ?, ?, ?, ?)`,
        ...[id, queue, payload, bytes, maxAttempts, now + delaySeconds * 1000],
        ...[once.key, once.fingerprint, asker.by, now],
      );
      this.#store.count({ tasks: 1, taskBytes: bytes });
      return { ok: true, task: shown(this.#found(queue, id), now) };
    });
    this.#watchers.changed(queue);
    return put;
  }

  async take(asker: Asker, queue: string, input: TakeTasks): Promise<Result<{ tasks: LeasedTask[] }>> {
    const endsAt = Date.now() + (input.waitSeconds ?? 0) * 1000;
    for (;;) {
      const took = this.#takeNow(asker, queue, input);
      const now = Date.now();
      if (!took.ok || took.tasks.length > 0 || now >= endsAt) return took;
      // One that is put, or given back, is told of; one that gets due is not.
      const due = this.#nextAt(queue);
      const until = due === null ? endsAt : Math.min(endsAt, Math.max(due, now + 1));
      await this.#watchers.until(queue, () => this.#isReady(queue, Date.now()), until - now);
    }
  }

  ack(asker: Asker, queue: string, { id, lease }: AckTask): Result<{ task: Task }> {
    return this.#write<{ task: Task }>(asker, (now) => {
      const task = this.#one("WHERE queue = ? AND id = ?", queue, id);
      if (!task) return noTask;
      if (task.state === "done" && task.lease === lease) return { ok: true, task: shown(task, now) };
      if (!rules.holds(task, lease, now)) lost();
      this.#store.count({ tasks: -1, taskBytes: -task.bytes });
      const forgetAt = now + rules.rememberedMs(task.key !== null);
      return { ok: true, task: shown(this.#save({ ...rules.done(task), payload: null, forgetAt }), now) };
    });
  }

  nack(asker: Asker, queue: string, { id, lease, delaySeconds = 0, error }: NackTask): Result<{ task: Task }> {
    const given = this.#write<{ task: Task }>(asker, (now) => {
      const task = this.#one("WHERE queue = ? AND id = ?", queue, id);
      if (!task) return noTask;
      if (!rules.holds(task, lease, now)) lost();
      return { ok: true, task: shown(this.#save(rules.returned(task, now + delaySeconds * 1000, error ?? null)), now) };
    });
    this.#watchers.changed(queue);
    return given;
  }

  extend(asker: Asker, queue: string, input: ExtendTask): Result<{ task: LeasedTask }> {
    const { id, lease, leaseSeconds = queueLimits.leaseSecondsDefault } = input;
    return this.#write<{ task: LeasedTask }>(asker, (now) => {
      const task = this.#one("WHERE queue = ? AND id = ?", queue, id);
      if (!task) return noTask;
      if (!rules.holds(task, lease, now)) lost();
      return { ok: true, task: leased(this.#save({ ...task, leaseUntil: now + leaseSeconds * 1000 }), now) };
    });
  }

  queues(asker: Asker): Result<{ queues: Queue[] }> {
    return this.#read<{ queues: Queue[] }>(asker, { ok: true, queues: [] }, (now) => {
      const names = this.#sql
        .exec<{ queue: string }>("SELECT DISTINCT queue FROM tasks WHERE state <> 'done' ORDER BY queue")
        .toArray();
      return { ok: true, queues: names.map(({ queue }) => this.#counts(queue, now)) };
    });
  }

  queue(asker: Asker, name: string): Result<{ queue: Queue }> {
    const empty = { name, ready: 0, delayed: 0, leased: 0, dead: 0, oldestPutAt: null };
    return this.#read<{ queue: Queue }>(asker, { ok: true, queue: empty }, (now) => ({
      ok: true,
      queue: this.#counts(name, now),
    }));
  }

  list(asker: Asker, queue: string, { state, limit = PAGE, cursor }: TaskListQuery): Result<{ page: TaskList }> {
    return this.#read<{ page: TaskList }>(asker, { ok: true, page: { data: [], nextCursor: null } }, (now) => {
      const after = /^\d{1,15}$/.test(cursor ?? "") ? Number(cursor) : 0;
      const is = {
        ready: "state = 'ready' AND ready_at <= ?",
        delayed: "state = 'ready' AND ready_at > ?",
        leased: "state = 'leased' AND ? > 0",
        dead: "state = 'dead' AND ? > 0",
        any: "state <> 'done' AND ? > 0",
      }[state ?? "any"];
      const rows = this.#all(
        `WHERE queue = ? AND ${is} AND seq > ? ORDER BY seq LIMIT ?`,
        queue,
        now,
        after,
        limit + 1,
      );
      const data = rows.slice(0, limit);
      const nextCursor = rows.length > limit ? String(data.at(-1)?.seq ?? 0) : null;
      return { ok: true, page: { data: data.map((row) => shown(row, now)), nextCursor } };
    });
  }

  get(asker: Asker, queue: string, id: string): Result<{ task: Task }> {
    return this.#read<{ task: Task }>(asker, noTask, (now) => {
      const task = this.#one("WHERE queue = ? AND id = ?", queue, id);
      return task ? { ok: true, task: shown(task, now) } : noTask;
    });
  }

  retry(asker: Asker, queue: string, id: string): Result<{ task: Task }> {
    const retried = this.#write<{ task: Task }>(asker, (now) => {
      const task = this.#one("WHERE queue = ? AND id = ?", queue, id);
      if (!task) return noTask;
      if (task.state !== "dead") refused("conflict", "The task is not dead.", { state: rules.shownState(task, now) });
      return { ok: true, task: shown(this.#save(rules.revived(task, now)), now) };
    });
    this.#watchers.changed(queue);
    return retried;
  }

  retryDead(asker: Asker, queue: string): Result<{ retried: number }> {
    const retried = this.#write<{ retried: number }>(asker, (now) => {
      const dead = this.#all("WHERE queue = ? AND state = 'dead' ORDER BY seq", queue);
      for (const task of dead) this.#save(rules.revived(task, now));
      return { ok: true, retried: dead.length };
    });
    this.#watchers.changed(queue);
    return retried;
  }

  delete(asker: Asker, queue: string, id: string): Result<{ task: DeletedTask }> {
    return this.#write<{ task: DeletedTask }>(asker, () => {
      const task = this.#one("WHERE queue = ? AND id = ? AND state <> 'done'", queue, id);
      if (!task) return noTask;
      this.#sql.exec("DELETE FROM tasks WHERE id = ?", id);
      this.#store.count({ tasks: -1, taskBytes: -task.bytes });
      return { ok: true, task: { id, deleted: true } };
    });
  }

  /** Leases that have run out, and what is remembered no more. */
  sweep(now: number): void {
    this.#settle(now);
    this.#sql.exec("DELETE FROM tasks WHERE forget_at <= ?", now);
  }

  #takeNow(asker: Asker, queue: string, input: TakeTasks): Result<{ tasks: LeasedTask[] }> {
    const { max = 1, leaseSeconds = queueLimits.leaseSecondsDefault } = input;
    return this.#write<{ tasks: LeasedTask[] }>(asker, (now) => {
      const ready = this.#all(
        "WHERE queue = ? AND state = 'ready' AND ready_at <= ? ORDER BY seq LIMIT ?",
        queue,
        now,
        max,
      );
      const tasks = ready.map((task) => {
        const lease = toBase64Url(crypto.getRandomValues(new Uint8Array(18)));
        return leased(this.#save(rules.taken(task, lease, now + leaseSeconds * 1000)), now);
      });
      return { ok: true, tasks };
    });
  }

  /** With leases as they are now. */
  #write<T>(asker: Asker, work: (now: number) => Result<T>): Result<T> {
    return this.#store.write<T>(asker, () => {
      const now = Date.now();
      this.#settle(now);
      return work(now);
    });
  }

  #read<T>(asker: Asker, empty: Result<T>, work: (now: number) => Result<T>): Result<T> {
    return this.#store.read<T>(asker, empty, () => {
      const now = Date.now();
      this.#store.transaction(() => {
        this.#settle(now);
      });
      return work(now);
    });
  }

  #settle(now: number): void {
    const expired = this.#all("WHERE state = 'leased' AND lease_until <= ? ORDER BY seq", now);
    for (const task of expired) this.#save(rules.returned(task, now, rules.EXPIRED));
    for (const queue of new Set(expired.map((task) => task.queue))) this.#watchers.changed(queue);
  }

  #makeRoom(bytes: number): void {
    const { tasks, taskBytes } = this.#store.totals();
    const { tasksMax: maxTasks, bytesMax: maxBytes } = queueLimits;
    if (tasks + 1 <= maxTasks && taskBytes + bytes <= maxBytes) return;
    const details = { heldBytes: taskBytes, maxBytes, neededBytes: bytes, tasks, maxTasks };
    refused("storage_full", `The queues hold ${tasks} tasks of ${taskBytes} bytes.`, details);
  }

  #counts(name: string, now: number): Queue {
    const row = this.#sql
      .exec<Record<"ready" | "delayed" | "leased" | "dead", number | null> & { oldest: number | null }>(
        `SELECT SUM(state = 'ready' AND ready_at <= ?1) AS ready, SUM(state = 'ready' AND ready_at > ?1) AS delayed,
           SUM(state = 'leased') AS leased, SUM(state = 'dead') AS dead,
           MIN(CASE WHEN state = 'ready' AND ready_at <= ?1 THEN put_at END) AS oldest
         FROM tasks WHERE queue = ?2 AND state <> 'done'`,
        ...[now, name],
      )
      .one();
    const { ready, delayed, leased: inHand, dead, oldest } = row;
    const counts = { ready: ready ?? 0, delayed: delayed ?? 0, leased: inHand ?? 0, dead: dead ?? 0 };
    return { name, ...counts, oldestPutAt: isoOrNull(oldest) };
  }

  #isReady(queue: string, now: number): boolean {
    if (!this.#store.exists || this.#store.goneAt !== null) return true;
    return this.#one("WHERE queue = ? AND state = 'ready' AND ready_at <= ? LIMIT 1", queue, now) !== null;
  }

  /** When one of the queue gets ready by itself. */
  #nextAt(queue: string): number | null {
    return this.#sql
      .exec<{ at: number | null }>(
        `SELECT MIN(CASE state WHEN 'ready' THEN ready_at ELSE lease_until END) AS at
         FROM tasks WHERE queue = ? AND state IN ('ready', 'leased')`,
        queue,
      )
      .one().at;
  }

  #save(task: Row): Row {
    this.#sql.exec(
      `UPDATE tasks SET state = ?, payload = ?, attempts = ?, ready_at = ?, lease = ?, lease_until = ?, last_error = ?,
         forget_at = ? WHERE id = ?`,
      ...[task.state, task.payload, task.attempts, task.readyAt, task.lease, task.leaseUntil, task.lastError],
      ...[task.forgetAt, task.id],
    );
    return task;
  }

  #found(queue: string, id: string): Row {
    const task = this.#one("WHERE queue = ? AND id = ?", queue, id);
    if (!task) throw new Error("the task is not there");
    return task;
  }

  #one(where: string, ...bindings: SqlStorageValue[]): Row | null {
    return this.#all(where, ...bindings)[0] ?? null;
  }

  #all(where: string, ...bindings: SqlStorageValue[]): Row[] {
    return this.#sql.exec<Row>(`${SELECT} ${where}`, ...bindings).toArray();
  }
}

function shown(task: Row, now: number): Task {
  const { id, queue, payload, attempts, maxAttempts, putAt, by, lastError } = task;
  const state = rules.shownState(task, now);
  const readyAt = state === "leased" ? task.leaseUntil : state === "delayed" ? task.readyAt : null;
  return {
    ...{ id, kind: "task", queue, state, attempts, maxAttempts, by, lastError },
    payload: payload === null ? null : (JSON.parse(payload) as Task["payload"]),
    putAt: iso(putAt),
    readyAt: isoOrNull(readyAt),
  };
}

function leased(task: Row, now: number): LeasedTask {
  return { ...shown(task, now), lease: task.lease ?? "", leaseUntil: iso(task.leaseUntil ?? now) };
}

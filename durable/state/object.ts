/** What one sandbox, or an organisation under one name, keeps outside of machines: keys, queues, and which objects. */
import { DurableObject } from "cloudflare:workers";
import { objectLimits, type BeginObjectUpload, type ObjectListQuery } from "../../sdk/contract/object.ts";
import {
  queueLimits,
  type AckTask,
  type ExtendTask,
  type NackTask,
  type PutTask,
  type TakeTasks,
  type TaskListQuery,
} from "../../sdk/contract/queue.ts";
import { stateLimits, type StateBatch, type StateListQuery } from "../../sdk/contract/state.ts";
import type { Once } from "../account/api.ts";
import { blobStore, DELETE_MAX, type BlobStore } from "../vault/blob-store.ts";
import type { Asker, Condition, PutValue, StateApi, Usage } from "./api.ts";
import { Entries } from "./entries.ts";
import { ObjectIndex } from "./object-index.ts";
import { Queues } from "./queues.ts";
import { StateStore } from "./store.ts";

/** An alarm that dies is followed by another after this, milliseconds. */
const SAFETY_MS = 30_000;
/** Blobs that could not be deleted are tried again after this, milliseconds. */
const DROP_RETRY_MS = 300_000;

type Answer<Method extends keyof StateApi> = ReturnType<StateApi[Method]>;

export class StateObject extends DurableObject<Env> implements StateApi {
  /** Where blobs of objects are. Tests put one in its place that fails. */
  blobs: BlobStore;
  readonly #store: StateStore;
  readonly #entries: Entries;
  readonly #queues: Queues;
  readonly #objects: ObjectIndex;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.blobs = blobStore(env);
    this.#store = new StateStore(ctx.storage);
    this.#entries = new Entries(this.#store);
    this.#queues = new Queues(this.#store);
    this.#objects = new ObjectIndex(this.#store, placeOf(ctx.id.name ?? ctx.id.toString()));
  }

  async value(asker: Asker, key: string): Answer<"value"> {
    return this.#entries.value(asker, key);
  }

  async putValue(asker: Asker, key: string, put: PutValue): Answer<"putValue"> {
    return this.#entries.put(asker, key, put);
  }

  async deleteValue(asker: Asker, key: string, condition: Condition): Answer<"deleteValue"> {
    return this.#entries.delete(asker, key, condition);
  }

  async values(asker: Asker, query: StateListQuery): Answer<"values"> {
    return this.#entries.list(asker, query);
  }

  async batch(asker: Asker, batch: StateBatch): Answer<"batch"> {
    return this.#entries.batch(asker, batch);
  }

  async usage(asker: Asker): Answer<"usage"> {
    const shown = () => ({ ok: true, usage: this.#usage() }) as const;
    return this.#store.read<{ usage: Usage }>(asker, shown(), shown);
  }

  async putTask(asker: Asker, queue: string, input: PutTask, once: Once): Answer<"putTask"> {
    return this.#queues.put(asker, queue, input, once);
  }

  async takeTasks(asker: Asker, queue: string, input: TakeTasks): Answer<"takeTasks"> {
    return this.#queues.take(asker, queue, input);
  }

  async ackTask(asker: Asker, queue: string, input: AckTask): Answer<"ackTask"> {
    return this.#queues.ack(asker, queue, input);
  }

  async nackTask(asker: Asker, queue: string, input: NackTask): Answer<"nackTask"> {
    return this.#queues.nack(asker, queue, input);
  }

  async extendTask(asker: Asker, queue: string, input: ExtendTask): Answer<"extendTask"> {
    return this.#queues.extend(asker, queue, input);
  }

  async queues(asker: Asker): Answer<"queues"> {
    return this.#queues.queues(asker);
  }

  async queueCounts(asker: Asker, queue: string): Answer<"queueCounts"> {
    return this.#queues.queue(asker, queue);
  }

  async tasks(asker: Asker, queue: string, query: TaskListQuery): Answer<"tasks"> {
    return this.#queues.list(asker, queue, query);
  }

  async task(asker: Asker, queue: string, id: string): Answer<"task"> {
    return this.#queues.get(asker, queue, id);
  }

  async retryTask(asker: Asker, queue: string, id: string): Answer<"retryTask"> {
    return this.#queues.retry(asker, queue, id);
  }

  async retryDead(asker: Asker, queue: string): Answer<"retryDead"> {
    return this.#queues.retryDead(asker, queue);
  }

  async deleteTask(asker: Asker, queue: string, id: string): Answer<"deleteTask"> {
    return this.#queues.delete(asker, queue, id);
  }

  async object(asker: Asker, key: string): Answer<"object"> {
    return this.#objects.object(asker, key);
  }

  async objects(asker: Asker, query: ObjectListQuery): Answer<"objects"> {
    return this.#objects.list(asker, query);
  }

  async berthObject(
    asker: Asker,
    key: string,
    bytes: number,
    contentType: string,
    condition: Condition,
  ): Answer<"berthObject"> {
    return this.#objects.berth(asker, key, bytes, contentType, condition);
  }

  async landObject(asker: Asker, upload: string, sha256: string, condition: Condition): Answer<"landObject"> {
    return this.#objects.land(asker, upload, sha256, condition);
  }

  async sinkObject(blob: string): Promise<void> {
    this.#objects.sink(blob);
  }

  async deleteObject(asker: Asker, key: string, condition: Condition): Answer<"deleteObject"> {
    return this.#objects.delete(asker, key, condition);
  }

  async beginUpload(asker: Asker, input: BeginObjectUpload): Answer<"beginUpload"> {
    return this.#objects.begin(asker, input);
  }

  async upload(asker: Asker, id: string): Answer<"upload"> {
    return this.#objects.upload(asker, id);
  }

  async berthPart(asker: Asker, id: string, part: number, bytes: number): Answer<"berthPart"> {
    return this.#objects.berthPart(asker, id, part, bytes);
  }

  async landPart(asker: Asker, blob: string, sha256: string): Answer<"landPart"> {
    return this.#objects.landPart(asker, blob, sha256);
  }

  async completeUpload(asker: Asker, id: string, parts: number, condition: Condition): Answer<"completeUpload"> {
    return this.#objects.complete(asker, id, parts, condition);
  }

  async abortUpload(asker: Asker, id: string): Answer<"abortUpload"> {
    return this.#objects.abort(asker, id);
  }

  async purge(): Promise<void> {
    await this.#store.close(Date.now());
  }

  override async alarm(): Promise<void> {
    const store = this.#store;
    if (!store.exists) return;
    const now = Date.now();
    await store.armSafely(now, SAFETY_MS);
    const { goneAt } = store;
    store.transaction(() => {
      this.#queues.sweep(now);
      this.#entries.sweep(now);
      this.#objects.sweep(now);
      if (goneAt !== null) while (this.#objects.dropSome(now));
    });
    await this.#drop(goneAt === null ? now : Infinity);
    if (goneAt !== null && !this.#objects.hasDrops()) {
      await store.clear();
      return;
    }
    store.arm();
  }

  #usage(): Usage {
    const totals = this.#store.totals();
    const { keysMax, bytesMax } = stateLimits;
    return {
      keys: { count: totals.keys, maxCount: keysMax, bytes: totals.keyBytes, maxBytes: bytesMax },
      queues: {
        ...{ tasks: totals.tasks, maxTasks: queueLimits.tasksMax },
        ...{ bytes: totals.taskBytes, maxBytes: queueLimits.bytesMax },
      },
      objects: {
        ...{ count: totals.objects, maxCount: objectLimits.countMax, reservedBytes: totals.reservedBytes },
        ...{ bytes: totals.objectBytes, maxBytes: objectLimits.totalBytesMax },
      },
    };
  }

  async #drop(upTo: number): Promise<void> {
    for (;;) {
      const blobs = this.#objects.dropsDue(Math.min(upTo, Number.MAX_SAFE_INTEGER), DELETE_MAX);
      if (blobs.length === 0) return;
      try {
        await this.blobs.delete(blobs);
        this.#objects.dropped(blobs, null);
      } catch (fault) {
        console.error(JSON.stringify({ level: "error", what: "objects", fault: String(fault) }));
        this.#objects.dropped(blobs, Date.now() + DROP_RETRY_MS);
        return;
      }
    }
  }
}

/** As blobs can be named: an id has a `~`, what is shared a colon. */
function placeOf(name: string): string {
  const [account = "", ...rest] = name.split("/");
  return `${account}/${rest.join("_").replaceAll(/[^A-Za-z0-9_-]/g, "_")}`;
}

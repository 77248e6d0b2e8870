/** What all homes of one sandbox share: its tables, who may still write, how much is held, and its alarm. */
import { refuse, type Result } from "../result.ts";
import { Tables } from "../migrations.ts";
import { earliest } from "../time.ts";
import type { Asker } from "./api.ts";
import { migrations } from "./schema.ts";

export interface Totals extends Record<string, SqlStorageValue> {
  version: number;
  keys: number;
  keyBytes: number;
  tasks: number;
  taskBytes: number;
  objects: number;
  objectBytes: number;
  reservedBytes: number;
}

const none: Readonly<Totals> = {
  ...{ version: 0, keys: 0, keyBytes: 0, tasks: 0, taskBytes: 0 },
  ...{ objects: 0, objectBytes: 0, reservedBytes: 0 },
};

/** When the sandbox was deleted for good, Unix milliseconds: all that is kept of it then. */
const GONE = "gone";

/** Thrown within a transaction: nothing of it was done, and this is the answer. */
class Refused extends Error {
  readonly answer: ReturnType<typeof refuse>;

  constructor(answer: ReturnType<typeof refuse>) {
    super("refused");
    this.answer = answer;
  }
}

/** Leave a transaction, with nothing of it done. @throws always */
export function refused(...terms: Parameters<typeof refuse>): never {
  throw new Refused(refuse(...terms));
}

export class StateStore {
  readonly sql: SqlStorage;
  readonly #storage: DurableObjectStorage;
  readonly #tables: Tables;
  /** The alarm as it was set last; undefined: not known. */
  #armedAt: number | null | undefined;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.sql = storage.sql;
    this.#tables = new Tables(storage, migrations);
  }

  /** When nothing came in any more; null: it still does. */
  get goneAt(): number | null {
    return this.#storage.kv.get<number>(GONE) ?? null;
  }

  /** Whether anything is stored. */
  get exists(): boolean {
    return this.#tables.exist;
  }

  totals(): Readonly<Totals> {
    if (!this.exists) return none;
    return this.sql
      .exec<Totals>(
        `SELECT version, keys, key_bytes AS keyBytes, tasks, task_bytes AS taskBytes,
           objects, object_bytes AS objectBytes, reserved_bytes AS reservedBytes FROM totals`,
      )
      .one();
  }

  /** To be called in the transaction that changes what is counted. */
  count(change: Partial<Record<Exclude<keyof Totals, "version">, number>>): void {
    const {
      keys = 0,
      keyBytes = 0,
      tasks = 0,
      taskBytes = 0,
      objects = 0,
      objectBytes = 0,
      reservedBytes = 0,
    } = change;
    this.sql.exec(
      `UPDATE totals SET keys = keys + ?, key_bytes = key_bytes + ?, tasks = tasks + ?, task_bytes = task_bytes + ?,
         objects = objects + ?, object_bytes = object_bytes + ?, reserved_bytes = reserved_bytes + ?`,
      ...[keys, keyBytes, tasks, taskBytes, objects, objectBytes, reservedBytes],
    );
  }

  nextVersion(): number {
    return this.sql.exec<{ version: number }>("UPDATE totals SET version = version + 1 RETURNING version").one()
      .version;
  }

  /**
   * Do it all or nothing, if who asks may still write: the run of a machine that another has followed may not.
   * `work` refuses by `refused`.
   */
  write<T>(asker: Asker, work: () => Result<T>): Result<T> {
    if (this.goneAt !== null) return gone;
    this.#tables.make();
    try {
      // Whatever becomes of the work, its run was seen.
      this.#admit(asker);
      return this.#storage.transactionSync(() => {
        const done = work();
        this.arm();
        return done;
      });
    } catch (fault) {
      if (!(fault instanceof Refused)) throw fault;
      // What was set within is not known any more.
      this.#armedAt = undefined;
      return fault.answer;
    }
  }

  /** Read, if who asks may. An object that nobody wrote to is not made by that. @param empty what it says then */
  read<T>(asker: Asker, empty: Result<T>, work: () => Result<T>): Result<T> {
    // What a machine's new run has seen its older one may not change.
    if (asker.generation !== null) return this.write(asker, work);
    if (this.goneAt !== null) return gone;
    return this.exists ? work() : empty;
  }

  /** A step of our own. */
  transaction<T>(work: () => T): T {
    return this.#storage.transactionSync(work);
  }

  /** Nothing comes in from here on. Blobs may be many: the alarm deletes them, and then all the rest. */
  async close(now: number): Promise<void> {
    if (this.goneAt !== null) return;
    this.#storage.kv.put(GONE, now);
    if (this.exists) await this.#storage.setAlarm(now + 1);
  }

  /** Everything goes but the knowledge that it was there. */
  async clear(): Promise<void> {
    const { goneAt } = this;
    await this.#tables.drop();
    this.#storage.kv.put(GONE, goneAt);
    this.#armedAt = null;
  }

  /** Set the alarm to when something is due. At once, so that it is stored with what asks for it. */
  arm(): void {
    if (!this.exists) return;
    const times = this.sql
      .exec<Record<string, number | null>>(
        `SELECT (SELECT MIN(expires_at) FROM entries WHERE expires_at IS NOT NULL) AS entries,
           (SELECT MIN(lease_until) FROM tasks WHERE state = 'leased') AS leases,
           (SELECT MIN(forget_at) FROM tasks WHERE forget_at IS NOT NULL) AS done,
           (SELECT MIN(expires_at) FROM uploads) AS uploads,
           (SELECT MIN(expires_at) FROM parts WHERE expires_at IS NOT NULL) AS parts,
           (SELECT MIN(due_at) FROM drops) AS drops`,
      )
      .one();
    const due = earliest(...Object.values(times));
    const at = due === null ? null : Math.max(due, Date.now() + 1);
    if (at === this.#armedAt) return;
    this.#armedAt = at;
    void (at === null ? this.#storage.deleteAlarm() : this.#storage.setAlarm(at));
  }

  /** An alarm goes off: another follows if this one dies. */
  async armSafely(now: number, safetyMs: number): Promise<void> {
    this.#armedAt = undefined;
    await this.#storage.setAlarm(now + safetyMs);
  }

  #admit({ sandboxId, generation }: Asker): void {
    if (generation === null) return;
    const [row] = this.sql
      .exec<{ generation: number }>("SELECT generation FROM fences WHERE sandbox_id = ?", sandboxId)
      .toArray();
    const newest = row?.generation ?? 0;
    if (generation < newest)
      throw new Refused(refuse("stale_generation", `Run ${newest} has followed run ${generation}.`, { newest }));
    if (generation > newest)
      this.sql.exec("INSERT OR REPLACE INTO fences (sandbox_id, generation) VALUES (?, ?)", sandboxId, generation);
  }
}

export const gone = refuse("sandbox_gone", "The sandbox was deleted.");

/** Rows from a key on that begin with the prefix, in order; read as they are asked for. */
export function* withPrefix<R extends Record<string, SqlStorageValue> & { key: string }>(
  rows: Iterable<R>,
  prefix: string,
): Generator<R> {
  for (const row of rows) {
    if (!row.key.startsWith(prefix)) return;
    yield row;
  }
}

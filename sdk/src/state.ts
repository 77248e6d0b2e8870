/** Keys with values, and a database, that a sandbox keeps outside of its machine. */
import {
  DeletedState,
  SqlResults,
  StateBatched,
  StateEntry as EntrySchema,
  StateList,
  StateUsage,
} from "../contract/state.ts";
import type { SqlParam, SqlResult, StateBatch, StateEntry, StateListQuery, StateWrite } from "../contract/state.ts";
import { bytesOf } from "./bytes.ts";
import type { Data } from "./bytes.ts";
import { NotFoundError, RouseError } from "./errors.ts";
import { Page } from "./page.ts";
import { parseAnswer } from "./remote.ts";
import type { Remote } from "./remote.ts";
import type { RequestOptions } from "./transport.ts";

/** Tries of a transaction that others come between. */
const TRIES = 10;

export interface SetStateOptions extends RequestOptions {
  /** Seconds until the value ends; for good unless given. */
  ttlSeconds?: number | undefined;
  /** Only when the key has that version; null: only when it is not there. */
  ifVersion?: number | null | undefined;
}

export interface SetBytesOptions extends SetStateOptions {
  /** `application/octet-stream` unless given. */
  contentType?: string | undefined;
}

/** A value with what is known of it. */
export interface StateValue<T> {
  value: T;
  version: number;
  contentType: string;
}

/** What a transaction may do: it reads what is there, and its writes are done together at the end. */
export interface StateTransaction {
  /** undefined: the key is not there. */
  get<T = unknown>(key: string): Promise<T | undefined>;
  set(key: string, value: unknown, options?: { ttlSeconds?: number }): void;
  delete(key: string): void;
}

/**
 * Keys with values, each with a version, and a SQLite database, outside of the machine: they are there while it sleeps,
 * and after it is lost. Programs inside have the same at `http://rouse.internal/state`, without a key.
 *
 * @example
 * await sandbox.data.set("plan", { step: 8 });
 * const plan = await sandbox.data.get<{ step: number }>("plan");
 * const [people] = await sandbox.data.sql("SELECT * FROM people WHERE age > ?", [30]);
 */
export class State {
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote) {
    this.#remote = remote;
  }

  /** The JSON value of a key; undefined where there is none. @throws RouseError `unexpected_answer` for what is no JSON */
  async get<T = unknown>(key: string, options: RequestOptions = {}): Promise<T | undefined> {
    return (await this.read<T>(key, options))?.value;
  }

  /** The JSON value with its version, for `cas`; undefined where there is none. */
  async read<T = unknown>(key: string, options: RequestOptions = {}): Promise<StateValue<T> | undefined> {
    const found = await this.readBytes(key, options);
    if (found === undefined) return undefined;
    try {
      return { ...found, value: JSON.parse(new TextDecoder().decode(found.value)) as T };
    } catch (cause) {
      throw new RouseError({ code: "unexpected_answer", message: `The value of ${key} is not JSON.`, cause });
    }
  }

  /** The value as it is; undefined where there is none. */
  async readBytes(key: string, options: RequestOptions = {}): Promise<StateValue<Uint8Array> | undefined> {
    const call = { method: "GET", path: this.#path(key), accept: "application/octet-stream", ...options } as const;
    try {
      return await this.#remote.transport.send(call, async (response) => ({
        value: new Uint8Array(await response.arrayBuffer()),
        version: Number((response.headers.get("etag") ?? "").replaceAll('"', "")),
        contentType: response.headers.get("content-type") ?? "application/octet-stream",
      }));
    } catch (error) {
      if (error instanceof NotFoundError && error.code === "state_not_found") return undefined;
      throw error;
    }
  }

  /**
   * Set a key to a value, as JSON of at most 128 KiB.
   * @throws ConflictError `version_mismatch`, with `ifVersion`
   * @throws RouseError `storage_full`
   */
  set(key: string, value: unknown, options: SetStateOptions = {}): Promise<StateEntry> {
    return this.#put(key, JSON.stringify(value), "application/json", options);
  }

  setBytes(key: string, data: Data, { contentType, ...options }: SetBytesOptions = {}): Promise<StateEntry> {
    return this.#put(key, data, contentType ?? "application/octet-stream", options);
  }

  /**
   * Compare and set: the value is set if the key has that version (null: if it is not there). Answers the new version,
   * or null: somebody else was faster.
   * @throws ConnectionError when the answer was lost: whether it was set is then not known; read the key
   */
  async cas(key: string, version: number | null, value: unknown, options: RequestOptions = {}): Promise<number | null> {
    try {
      return (await this.set(key, value, { ...options, ifVersion: version })).version;
    } catch (error) {
      if (error instanceof RouseError && error.code === "version_mismatch") return null;
      throw error;
    }
  }

  /** Whether it was there. */
  async delete(key: string, { ifVersion, ...options }: Omit<SetStateOptions, "ttlSeconds"> = {}): Promise<boolean> {
    const extras = { ...conditional(ifVersion), ...options };
    const call = { method: "DELETE", path: this.#path(key), ...extras } as const;
    return parseAnswer(DeletedState, await this.#remote.transport.json(call)).deleted;
  }

  /** Keys in order, page by page, without their values. */
  async list(query: Omit<StateListQuery, "cursor"> = {}, options: RequestOptions = {}): Promise<Page<StateEntry>> {
    return await this.#page(query, undefined, options);
  }

  /**
   * Writes to several keys, all or none.
   * @throws ConflictError `version_mismatch`; `details.mismatches` says where
   */
  async batch(batch: StateBatch, options: RequestOptions = {}): Promise<StateBatched["data"]> {
    // Nobody can tell a repeated one from another: what is added would be added twice.
    const answer = await this.#remote.post("/state/keys:batch", batch, { maxRetries: 0, ...options });
    return parseAnswer(StateBatched, answer).data;
  }

  /** Add to a whole number; one that is not there is 0. Answers the sum. */
  async add(key: string, by = 1, options: RequestOptions = {}): Promise<number> {
    const [done] = await this.batch({ writes: [{ op: "add", key, by }] }, options);
    return done?.value ?? 0;
  }

  /**
   * Read keys, then write keys, as if nobody else had been there: where somebody has changed what was read, `work` is
   * done again, up to 10 times.
   * @throws ConflictError `version_mismatch` after that
   */
  async transaction<R>(
    work: (transaction: StateTransaction) => Promise<R> | R,
    options: RequestOptions = {},
  ): Promise<R> {
    for (let left = TRIES - 1; ; left -= 1) {
      const seen = new Map<string, number | null>();
      const writes: StateWrite[] = [];
      const result = await work({
        get: async <T>(key: string) => {
          const found = await this.read<T>(key, options);
          // What changes between two reads of one transaction is found at its end.
          if (!seen.has(key)) seen.set(key, found?.version ?? null);
          return found?.value;
        },
        set: (key, value, { ttlSeconds } = {}) => {
          const more = ttlSeconds === undefined ? {} : { ttlSeconds };
          writes.push({ op: "put", key, value: value as never, ...more });
        },
        delete: (key) => writes.push({ op: "delete", key }),
      });
      const checks = [...seen].map(([key, version]) => ({ key, version }));
      try {
        if (checks.length + writes.length > 0) await this.batch({ checks, writes }, options);
        return result;
      } catch (error) {
        if (!(error instanceof RouseError) || error.code !== "version_mismatch" || left === 0) throw error;
      }
    }
  }

  /**
   * Run one statement in the sandbox's database.
   * @throws InvalidRequestError `sql_failed`, with SQLite's own text
   * @throws RouseError `storage_full`
   */
  async sql(
    sql: string,
    params: readonly SqlParam[] = [],
    options: RequestOptions = {},
  ): Promise<Record<string, unknown>[]> {
    const [result] = await this.sqlBatch([{ sql, params }], options);
    return result ? rowsOf(result) : [];
  }

  /** Run statements as one transaction: all of them, or none. It is not repeated where its answer is lost. */
  async sqlBatch(
    statements: readonly { sql: string; params?: readonly SqlParam[] }[],
    options: RequestOptions = {},
  ): Promise<SqlResult[]> {
    const answer = await this.#remote.post("/state/sql", { statements }, { maxRetries: 0, ...options });
    return parseAnswer(SqlResults, answer).results;
  }

  /** How much the sandbox keeps outside of its machine, and how much it may. */
  async usage(options: RequestOptions = {}): Promise<StateUsage> {
    return parseAnswer(StateUsage, await this.#remote.get("/state", options));
  }

  async #put(
    key: string,
    data: Data,
    contentType: string,
    { ttlSeconds, ifVersion, ...options }: SetStateOptions,
  ): Promise<StateEntry> {
    const { headers, ...extras } = conditional(ifVersion);
    const call = {
      method: "PUT",
      path: this.#path(key),
      query: { ttlSeconds },
      bytes: await bytesOf(data),
      ...extras,
      headers: { ...headers, "content-type": contentType },
      ...options,
    } as const;
    return parseAnswer(EntrySchema, await this.#remote.transport.json(call));
  }

  async #page(
    query: Omit<StateListQuery, "cursor">,
    cursor: string | undefined,
    options: RequestOptions,
  ): Promise<Page<StateEntry>> {
    const answer = await this.#remote.get("/state/keys", { query: { ...query, cursor }, ...options });
    const { data, nextCursor } = parseAnswer(StateList, answer);
    return new Page(data, nextCursor === null ? null : () => this.#page(query, nextCursor, options));
  }

  #path(key: string): string {
    return this.#remote.path(`/state/keys/${encodeURIComponent(key)}`);
  }
}

/** A repeated one would find what the first did, and take it for somebody else's: so there is none. */
function conditional(version: number | null | undefined): { headers?: Record<string, string>; maxRetries?: number } {
  if (version === undefined) return {};
  return { headers: version === null ? { "if-none-match": "*" } : { "if-match": `"${version}"` }, maxRetries: 0 };
}

function rowsOf({ columns, rows }: SqlResult): Record<string, unknown>[] {
  return rows.map((row) => Object.fromEntries(columns.map((name, at) => [name, row[at] ?? null])));
}

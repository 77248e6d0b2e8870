/** Keys with values, compared and set by version. */
import {
  stateLimits,
  type StateBatch,
  type StateBatched,
  type StateEntry,
  type StateList,
  type StateListQuery,
  type StateWrite,
} from "../../sdk/contract/state.ts";
import { refuse, type Result } from "../result.ts";
import { iso, isoOrNull } from "../time.ts";
import type { Asker, Bytes, Condition, PutValue } from "./api.ts";
import { refused, withPrefix, type StateStore } from "./store.ts";

interface Row extends Record<string, SqlStorageValue> {
  key: string;
  version: number;
  contentType: string;
  bytes: number;
  by: string;
  updatedAt: number;
  expiresAt: number | null;
}

const COLUMNS = `key, version, content_type AS contentType, LENGTH(value) AS bytes, written_by AS "by",
  updated_at AS updatedAt, expires_at AS expiresAt`;
/** Keys of a page unless the query says. */
const PAGE = 100;
/** Ended keys that one alarm forgets; the next follows at once. */
const SWEEP_MAX = 1000;
const JSON_TYPE = "application/json";

const utf8 = (text: string): Bytes => new Uint8Array(new TextEncoder().encode(text));
export const noKey = refuse("state_not_found", "There is no such key.");

export class Entries {
  readonly #store: StateStore;
  readonly #sql: SqlStorage;

  constructor(store: StateStore) {
    this.#store = store;
    this.#sql = store.sql;
  }

  value(asker: Asker, key: string): Result<{ entry: StateEntry; value: Bytes }> {
    return this.#store.read<{ entry: StateEntry; value: Bytes }>(asker, noKey, () => {
      const row = this.#row(key, Date.now());
      if (!row) return noKey;
      const { value } = this.#sql.exec<{ value: ArrayBuffer }>("SELECT value FROM entries WHERE key = ?", key).one();
      return { ok: true, entry: shown(row), value: new Uint8Array(value) };
    });
  }

  put(asker: Asker, key: string, put: PutValue): Result<{ entry: StateEntry }> {
    return this.#store.write(asker, () => {
      const now = Date.now();
      this.#check(key, put, now);
      const { value, contentType, ttlSeconds } = put;
      return { ok: true, entry: shown(this.#set(key, value, contentType, ttlSeconds, asker.by, now)) };
    });
  }

  delete(asker: Asker, key: string, condition: Condition): Result<{ deleted: boolean }> {
    return this.#store.write(asker, () => {
      const now = Date.now();
      this.#check(key, condition, now);
      const deleted = this.#row(key, now) !== null;
      this.#remove(key);
      return { ok: true, deleted };
    });
  }

  list(asker: Asker, { prefix = "", limit = PAGE, cursor }: StateListQuery): Result<{ page: StateList }> {
    return this.#store.read<{ page: StateList }>(asker, { ok: true, page: { data: [], nextCursor: null } }, () => {
      const after = cursor ?? null;
      if (after !== null && !after.startsWith(prefix))
        return refuse("invalid_request", "The cursor is not one of ours.");
      const rows = this.#sql.exec<Row>(
        `SELECT ${COLUMNS} FROM entries WHERE ${after === null ? "key >= ?" : "key > ?"}
           AND (expires_at IS NULL OR expires_at > ?) ORDER BY key LIMIT ?`,
        ...[after ?? prefix, Date.now(), limit + 1],
      );
      const found = [...withPrefix(rows, prefix)];
      const data = found.slice(0, limit).map(shown);
      return { ok: true, page: { data, nextCursor: found.length > limit ? (data.at(-1)?.key ?? null) : null } };
    });
  }

  batch(asker: Asker, { checks = [], writes }: StateBatch): Result<{ batched: StateBatched }> {
    return this.#store.write(asker, () => {
      const now = Date.now();
      const mismatches = checks
        .map(({ key, version }) => ({ key, expected: version, version: this.#row(key, now)?.version ?? null }))
        .filter(({ expected, version }) => expected !== version);
      if (mismatches.length > 0)
        refused("version_mismatch", `${mismatches.length} keys have another version.`, { mismatches });
      return { ok: true, batched: { data: writes.map((write, at) => this.#apply(write, at, asker.by, now)) } };
    });
  }

  /** Forget some of what has ended. */
  sweep(now: number): void {
    const ended = this.#sql
      .exec<{ key: string }>(
        "SELECT key FROM entries WHERE expires_at <= ? ORDER BY expires_at LIMIT ?",
        now,
        SWEEP_MAX,
      )
      .toArray();
    for (const { key } of ended) this.#remove(key);
  }

  #apply(write: StateWrite, at: number, by: string, now: number): StateBatched["data"][number] {
    const { key } = write;
    switch (write.op) {
      case "delete":
        this.#remove(key);
        return { key, version: null };
      case "put": {
        const { bytes, contentType } = given(write);
        if (bytes.length > stateLimits.valueBytesMax)
          refused("payload_too_large", `The value of writes.${at} has more than ${stateLimits.valueBytesMax} bytes.`, {
            maxBytes: stateLimits.valueBytesMax,
          });
        return { key, version: this.#set(key, bytes, contentType, write.ttlSeconds ?? null, by, now).version };
      }
      case "add": {
        const row = this.#row(key, now);
        const before = row ? this.#number(key, at) : 0;
        const value = before + write.by;
        if (!Number.isSafeInteger(value)) refuseWrite(at, key, "the sum is no whole number that JSON has room for");
        const set = this.#set(key, utf8(String(value)), JSON_TYPE, null, by, now, row?.expiresAt ?? null);
        return { key, version: set.version, value };
      }
    }
  }

  #number(key: string, at: number): number {
    const { value } = this.#sql.exec<{ value: ArrayBuffer }>("SELECT value FROM entries WHERE key = ?", key).one();
    const text = value.byteLength > 32 ? "" : new TextDecoder().decode(value);
    const number = /^-?\d{1,16}$/.test(text.trim()) ? Number(text) : NaN;
    if (!Number.isSafeInteger(number)) refuseWrite(at, key, "the value is no whole number");
    return number;
  }

  #check(key: string, { match, absent }: Condition, now: number): void {
    if (match === null && !absent) return;
    const version = this.#row(key, now)?.version ?? null;
    if (absent && version !== null) refused("version_mismatch", "The key is there already.", { key, version });
    if (match === null || (match === "*" ? version !== null : match === String(version))) return;
    refused("version_mismatch", version === null ? "The key is not there." : "The key has another version.", {
      key,
      version,
    });
  }

  /** @param expiresAt in place of what `ttlSeconds` says */
  #set(
    key: string,
    value: Bytes,
    contentType: string,
    ttlSeconds: number | null,
    by: string,
    now: number,
    expiresAt = ttlSeconds === null ? null : now + ttlSeconds * 1000,
  ): Row {
    this.#remove(key);
    const bytes = utf8(key).length + value.length;
    this.#makeRoom(bytes, now);
    this.#store.count({ keys: 1, keyBytes: bytes });
    this.#sql.exec(
      `INSERT INTO entries (key, version, content_type, value, written_by, updated_at, expires_at)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      ...[key, this.#store.nextVersion(), contentType, value, by, now, expiresAt],
    );
    return this.#sql.exec<Row>(`SELECT ${COLUMNS} FROM entries WHERE key = ?`, key).one();
  }

  #makeRoom(bytes: number, now: number): void {
    const { bytesMax: maxBytes, keysMax: maxKeys } = stateLimits;
    const isFull = () => {
      const { keys, keyBytes } = this.#store.totals();
      return keys + 1 > maxKeys || keyBytes + bytes > maxBytes;
    };
    if (!isFull()) return;
    for (;;) {
      const before = this.#store.totals().keys;
      this.sweep(now);
      if (!isFull()) return;
      if (this.#store.totals().keys === before) break;
    }
    const { keys, keyBytes } = this.#store.totals();
    const details = { heldBytes: keyBytes, maxBytes, neededBytes: bytes, keys, maxKeys };
    refused("storage_full", `The keys hold ${keyBytes} bytes in ${keys} keys.`, details);
  }

  #remove(key: string): void {
    const [row] = this.#sql
      .exec<{ bytes: number }>("DELETE FROM entries WHERE key = ? RETURNING LENGTH(value) AS bytes", key)
      .toArray();
    if (row) this.#store.count({ keys: -1, keyBytes: -(utf8(key).length + row.bytes) });
  }

  #row(key: string, now: number): Row | null {
    const [row] = this.#sql
      .exec<Row>(
        `SELECT ${COLUMNS} FROM entries WHERE key = ? AND (expires_at IS NULL OR expires_at > ?)`,
        ...[key, now],
      )
      .toArray();
    return row ?? null;
  }
}

function given(write: Extract<StateWrite, { op: "put" }>): { bytes: Bytes; contentType: string } {
  if (write.base64 === undefined)
    return { bytes: utf8(JSON.stringify(write.value)), contentType: write.contentType ?? JSON_TYPE };
  const bytes = Uint8Array.from(atob(write.base64), (char) => char.charCodeAt(0));
  return { bytes, contentType: write.contentType ?? "application/octet-stream" };
}

function refuseWrite(at: number, key: string, message: string): never {
  const issues = [{ path: `writes.${at}`, message }];
  refused("invalid_request", `The batch can't be done: ${message}.`, { issues, key });
}

function shown({ key, version, contentType, bytes, by, updatedAt, expiresAt }: Row): StateEntry {
  return { key, version, contentType, bytes, updatedAt: iso(updatedAt), expiresAt: isoOrNull(expiresAt), by };
}

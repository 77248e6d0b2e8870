/**
 * Sessions of browsers as a table: a while in which a browser acts as one of the account's keys, or as less than it. A
 * session holds no key; it is over with its own end, with its key's, and when it is signed out.
 */
import type { KeyAccess } from "../../sdk/contract/account.ts";
import { isLive, isWithin, type StoredKey } from "./key.ts";

export interface StoredSession {
  readonly hash: string;
  readonly keyId: string;
  /** No more than its key's. */
  readonly access: KeyAccess;
  /** Unix milliseconds. */
  readonly expiresAt: number;
}

export class Sessions {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  byHash(hash: string, now: number): StoredSession | null {
    const [row] = this.#sql
      .exec<{ key_id: string; access: KeyAccess; expires_at: number }>(
        "SELECT key_id, access, expires_at FROM sessions WHERE hash = ? AND expires_at > ?",
        ...[hash, now],
      )
      .toArray();
    return row ? { hash, keyId: row.key_id, access: row.access, expiresAt: row.expires_at } : null;
  }

  /** @param key the one that it names. Its access is the most that the session has; false where it is over */
  open({ hash, keyId, access, expiresAt }: StoredSession, key: StoredKey | null, now: number): boolean {
    if (!key || !isLive(key, now)) return false;
    this.#sql.exec(
      "INSERT OR REPLACE INTO sessions (hash, key_id, access, expires_at) VALUES (?, ?, ?, ?)",
      ...[hash, keyId, isWithin(access, key.access) ? access : key.access, expiresAt],
    );
    this.#sql.exec("DELETE FROM sessions WHERE expires_at < ?", now);
    return true;
  }

  end(hash: string): void {
    this.#sql.exec("DELETE FROM sessions WHERE hash = ?", hash);
  }
}

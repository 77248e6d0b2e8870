/** The keys and members of an account as tables. Keys are kept as hashes. */
import type { Member } from "../../sdk/contract/account.ts";
import type { StoredKey } from "./key.ts";

/** Revoked and ended keys are shown for so long, milliseconds. */
const ENDED_KEPT_MS = 90 * 86_400_000;

export class Keyring {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Oldest first. */
  all(): StoredKey[] {
    return this.#sql
      .exec<{ body: string }>("SELECT body FROM keys ORDER BY rowid")
      .toArray()
      .map(({ body }) => JSON.parse(body) as StoredKey);
  }

  get(id: string): StoredKey | null {
    const [row] = this.#sql.exec<{ body: string }>("SELECT body FROM keys WHERE id = ?", id).toArray();
    return row ? (JSON.parse(row.body) as StoredKey) : null;
  }

  /** Whether any key has that limit. Asked often, so no key is read for it. */
  anyLimit(name: "maxSandboxes" | "dailyLimitMicros"): boolean {
    return (
      this.#sql.exec("SELECT 1 FROM keys WHERE json_extract(body, ?) IS NOT NULL LIMIT 1", `$.${name}`).toArray()
        .length > 0
    );
  }

  byHash(hash: string): StoredKey | null {
    const [row] = this.#sql.exec<{ body: string }>("SELECT body FROM keys WHERE hash = ?", hash).toArray();
    return row ? (JSON.parse(row.body) as StoredKey) : null;
  }

  save(key: StoredKey, now: number): void {
    this.#write(key, "made");
    this.#sql.exec(
      `DELETE FROM keys WHERE COALESCE(json_extract(body, '$.revokedAt'), json_extract(body, '$.expiresAt')) < ?`,
      now - ENDED_KEPT_MS,
    );
    this.#sql.exec("DELETE FROM socket_holders WHERE key_id NOT IN (SELECT id FROM keys)");
  }

  /** The key given at installation takes the place of the one given before. */
  saveBootstrap(key: StoredKey): void {
    this.#sql.exec("DELETE FROM keys WHERE origin = 'bootstrap'");
    this.#write(key, "bootstrap");
  }

  /** Those that were removed are remembered, so that removing one again is no fault. */
  members(removed = false): Member[] {
    return this.#sql
      .exec<{ body: string }>(
        `SELECT body FROM members WHERE (json_extract(body, '$.removed') IS NOT NULL) = ? ORDER BY rowid`,
        Number(removed),
      )
      .toArray()
      .map(({ body }) => JSON.parse(body) as Member);
  }

  saveMember(member: Member): void {
    this.#sql.exec("INSERT OR REPLACE INTO members (id, body) VALUES (?, ?)", member.id, JSON.stringify(member));
  }

  removeMember(id: string): void {
    this.#sql.exec("UPDATE members SET body = json_set(body, '$.removed', 1) WHERE id = ?", id);
  }

  /** A sandbox holds sockets of a key. */
  addHolder(keyId: string, label: string): void {
    this.#sql.exec("INSERT OR IGNORE INTO socket_holders (key_id, label) VALUES (?, ?)", keyId, label);
  }

  /** Sandboxes that hold sockets of the keys; they stay noted, so that a call that is repeated finds them again. */
  holdersOf(keyIds: readonly string[]): string[] {
    const found = keyIds.flatMap((id) =>
      this.#sql.exec<{ label: string }>("SELECT label FROM socket_holders WHERE key_id = ?", id).toArray(),
    );
    return [...new Set(found.map(({ label }) => label))];
  }

  #write(key: StoredKey, origin: "bootstrap" | "made"): void {
    this.#sql.exec(
      `INSERT INTO keys (id, hash, origin, body) VALUES (?, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET hash = excluded.hash, body = excluded.body`,
      ...[key.id, key.hash, origin, JSON.stringify(key)],
    );
  }
}

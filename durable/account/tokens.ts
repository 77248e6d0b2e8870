/**
 * Session tokens as a table: each opens a part of one sandbox for a while. They are kept as hashes. One is over with its
 * own end, when it is revoked, and when the key that made it is over.
 */
import { newId } from "../../sdk/contract/names.ts";
import {
  defaultScopes,
  sessionLimits,
  type CreateSession,
  type Session,
  type SessionGrant,
} from "../../sdk/contract/session.ts";
import { sha256Hex } from "../hash.ts";
import { refuse, type Result } from "../result.ts";
import { iso, isoOrNull } from "../time.ts";
import { isLive, type StoredKey } from "./key.ts";

/** Those that are over are shown for so long, milliseconds. */
const KEPT_MS = 7 * 86_400_000;
/** How often a use is noted, milliseconds. */
const USE_NOTED_MS = 60_000;

export interface StoredToken extends SessionGrant {
  readonly hash: string;
  readonly keyId: string;
  readonly name: string | null;
  /** Unix milliseconds, as the others. */
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly revokedAt: number | null;
  readonly lastUsedAt: number | null;
}

/** With the token, which is not kept. */
export type MadeSession = Session & { readonly token: string };

interface Row extends Record<string, SqlStorageValue> {
  readonly id: string;
  readonly hash: string;
  readonly sandboxId: string;
  readonly keyId: string;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly revokedAt: number | null;
  readonly lastUsedAt: number | null;
  readonly body: string;
}

export class Tokens {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** What the hash opens now, where its key lets it; notes that it is used. */
  byHash(hash: string, now: number): StoredToken | null {
    const [found] = this.#rows("WHERE hash = ? AND expires_at > ? AND revoked_at IS NULL", hash, now);
    if (found && now - (found.lastUsedAt ?? 0) >= USE_NOTED_MS)
      this.#sql.exec("UPDATE tokens SET last_used_at = ? WHERE id = ?", now, found.id);
    return found ?? null;
  }

  /** @param key the one that makes it, which it does not outlive */
  async make(
    sandboxId: string,
    input: CreateSession,
    key: StoredKey | null,
    token: string,
  ): Promise<Result<{ session: MadeSession }>> {
    const { name = null, ttlSeconds = sessionLimits.ttlSecondsDefault } = input;
    const scopes = [...new Set(input.scopes ?? defaultScopes)];
    const origins = [...new Set(input.origins)];
    const servers = input.servers ?? origins.length === 0;
    const hash = await sha256Hex(token);
    const id = await newId("ses", "session", "", null);
    const now = Date.now();
    if (!key || !isLive(key, now)) return refuse("unauthorized", "The API key is not valid any more.");
    this.#sql.exec("DELETE FROM tokens WHERE expires_at < ?", now - KEPT_MS);
    const max = sessionLimits.activeMax;
    if (this.#active(sandboxId, now) >= max)
      return refuse("quota_exceeded", `A sandbox has at most ${max} sessions that are active.`, { max });
    const made: StoredToken = {
      ...{ id, hash, sandboxId, keyId: key.id, name, scopes, origins, servers, createdAt: now },
      expiresAt: Math.min(now + ttlSeconds * 1000, key.expiresAt ?? Infinity),
      ...{ revokedAt: null, lastUsedAt: null },
    };
    const body = JSON.stringify({ name, scopes, origins, servers });
    this.#sql.exec(
      "INSERT INTO tokens (id, hash, sandbox_id, key_id, created_at, expires_at, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
      ...[id, hash, sandboxId, key.id, now, made.expiresAt, body],
    );
    return { ok: true, session: { ...toSession(made, now), token } };
  }

  /** The newest first. */
  of(sandboxId: string, now: number): Session[] {
    const rows = this.#rows("WHERE sandbox_id = ? ORDER BY created_at DESC, id", sandboxId);
    return rows.map((token) => toSession(token, now));
  }

  /** What it is then; null: there is none. Again changes nothing. */
  revoke(sandboxId: string, id: string, now: number): Session | null {
    this.#sql.exec(
      "UPDATE tokens SET revoked_at = COALESCE(revoked_at, ?) WHERE sandbox_id = ? AND id = ?",
      ...[now, sandboxId, id],
    );
    const [revoked] = this.#rows("WHERE sandbox_id = ? AND id = ?", sandboxId, id);
    return revoked ? toSession(revoked, now) : null;
  }

  /** Ids of those that keys made and that are not over by themselves. */
  madeBy(keyIds: readonly string[], now: number): string[] {
    return keyIds.flatMap((keyId) =>
      this.#sql
        .exec<{ id: string }>("SELECT id FROM tokens WHERE key_id = ? AND expires_at > ?", keyId, now)
        .toArray()
        .map(({ id }) => id),
    );
  }

  #active(sandboxId: string, now: number): number {
    return this.#sql
      .exec<{ active: number }>(
        "SELECT COUNT(*) AS active FROM tokens WHERE sandbox_id = ? AND expires_at > ? AND revoked_at IS NULL",
        ...[sandboxId, now],
      )
      .one().active;
  }

  #rows(rest: string, ...bindings: SqlStorageValue[]): StoredToken[] {
    return this.#sql
      .exec<Row>(
        `SELECT id, hash, sandbox_id AS sandboxId, key_id AS keyId, created_at AS createdAt, expires_at AS expiresAt,
           revoked_at AS revokedAt, last_used_at AS lastUsedAt, body FROM tokens ${rest}`,
        ...bindings,
      )
      .toArray()
      .map(({ body, ...row }) => ({
        ...row,
        ...(JSON.parse(body) as Pick<StoredToken, "name" | "scopes" | "origins" | "servers">),
      }));
  }
}

export function grantOf({ id, sandboxId, scopes, origins, servers }: StoredToken): SessionGrant {
  return { id, sandboxId, scopes, origins, servers };
}

function toSession(token: StoredToken, now: number): Session {
  const { name, keyId, createdAt, expiresAt, revokedAt, lastUsedAt } = token;
  return {
    ...{ ...grantOf(token), scopes: [...token.scopes], origins: [...token.origins], name, createdBy: keyId },
    state: revokedAt !== null ? "revoked" : expiresAt <= now ? "expired" : "active",
    createdAt: iso(createdAt),
    expiresAt: iso(expiresAt),
    revokedAt: isoOrNull(revokedAt),
    lastUsedAt: isoOrNull(lastUsedAt),
  };
}

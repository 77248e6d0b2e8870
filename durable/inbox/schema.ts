/** Tables of a sandbox's inbox. */
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-inbox",
    // inbox: whose it is; an alarm is not told.
    // hooks.token_hash: SHA-256 of what only its URL says.
    // events.late: it failed so often that later ones go on without it.
    // bodies: those that are small; others are in the blob store, as `blob` of the event says.
    // answers: what programs said, where somebody may still ask for it.
    // drops: blobs to delete, and those that are being stored and that no event has yet.
    // changes: Idempotency-Keys. shown: what only the first answer shows, sealed.
    sql: `
      CREATE TABLE inbox (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        account TEXT NOT NULL,
        label TEXT NOT NULL,
        sandbox_id TEXT NOT NULL
      ) STRICT;
      CREATE TABLE hooks (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        token_hash TEXT NOT NULL UNIQUE,
        created_at INTEGER NOT NULL,
        body TEXT NOT NULL
      ) STRICT;
      CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        hook_id TEXT NOT NULL,
        provider_id TEXT,
        created_at INTEGER NOT NULL,
        state TEXT NOT NULL,
        late INTEGER NOT NULL,
        next_at INTEGER,
        expires_at INTEGER,
        bytes INTEGER NOT NULL,
        blob TEXT,
        body TEXT NOT NULL
      ) STRICT;
      CREATE UNIQUE INDEX events_seen ON events (hook_id, provider_id) WHERE provider_id IS NOT NULL;
      CREATE INDEX events_by_time ON events (created_at, id);
      CREATE INDEX events_in_order ON events (hook_id, seq) WHERE state = 'waiting' AND late = 0;
      CREATE INDEX events_late ON events (hook_id, next_at) WHERE state = 'waiting' AND late = 1;
      CREATE INDEX events_dead ON events (hook_id, seq) WHERE state = 'dead';
      CREATE INDEX events_ending ON events (expires_at) WHERE expires_at IS NOT NULL;
      CREATE TABLE bodies (event_id TEXT PRIMARY KEY, bytes BLOB NOT NULL) STRICT;
      CREATE TABLE answers (
        event_id TEXT PRIMARY KEY,
        status INTEGER NOT NULL,
        headers TEXT NOT NULL,
        bytes BLOB NOT NULL,
        expires_at INTEGER NOT NULL
      ) STRICT;
      CREATE INDEX answers_ending ON answers (expires_at);
      CREATE TABLE drops (key TEXT PRIMARY KEY, due_at INTEGER NOT NULL) STRICT;
      CREATE INDEX drops_due ON drops (due_at);
      CREATE TABLE changes (
        key TEXT PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        hook_id TEXT NOT NULL,
        shown TEXT,
        at INTEGER NOT NULL
      ) STRICT;
    `,
  },
  {
    id: "0002-notes",
    // notes: events that were given up, until the sandbox has noted it.
    sql: `
      CREATE TABLE notes (key TEXT PRIMARY KEY, body TEXT NOT NULL, attempts INTEGER NOT NULL, due_at INTEGER NOT NULL) STRICT;
    `,
  },
];

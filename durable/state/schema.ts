/** Tables of a sandbox's homes of state. The database of its own is another object (`database.ts`). */
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-state",
    // totals.version: of the newest write of a key; versions grow over all keys, so that none comes back.
    // totals.reserved_bytes: of objects that are being stored.
    // fences: the newest run of each machine that was seen.
    // tasks: those that are done stay until forget_at, so that what is repeated is known.
    // objects.parts: blobs with their bytes, in order.
    // uploads: what is being stored. put: one blob; parts: many, in `parts`.
    // parts.stored: 0 while it is being stored; reserved all the same.
    // drops: blobs to delete.
    sql: `
      CREATE TABLE totals (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        version INTEGER NOT NULL,
        keys INTEGER NOT NULL,
        key_bytes INTEGER NOT NULL,
        tasks INTEGER NOT NULL,
        task_bytes INTEGER NOT NULL,
        objects INTEGER NOT NULL,
        object_bytes INTEGER NOT NULL,
        reserved_bytes INTEGER NOT NULL
      ) STRICT;
      INSERT INTO totals VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0);
      CREATE TABLE fences (sandbox_id TEXT PRIMARY KEY, generation INTEGER NOT NULL) STRICT;
      CREATE TABLE entries (
        key TEXT PRIMARY KEY,
        version INTEGER NOT NULL,
        content_type TEXT NOT NULL,
        value BLOB NOT NULL,
        written_by TEXT NOT NULL,
        updated_at INTEGER NOT NULL,
        expires_at INTEGER
      ) STRICT;
      CREATE INDEX entries_ending ON entries (expires_at) WHERE expires_at IS NOT NULL;
      CREATE TABLE tasks (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        queue TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('ready', 'leased', 'dead', 'done')),
        payload TEXT,
        bytes INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        max_attempts INTEGER NOT NULL,
        ready_at INTEGER NOT NULL,
        lease TEXT,
        lease_until INTEGER,
        idempotency_key TEXT,
        fingerprint TEXT NOT NULL,
        put_by TEXT NOT NULL,
        put_at INTEGER NOT NULL,
        last_error TEXT,
        forget_at INTEGER
      ) STRICT;
      CREATE INDEX tasks_in_order ON tasks (queue, seq) WHERE state = 'ready';
      CREATE INDEX tasks_by_state ON tasks (queue, state, seq) WHERE state <> 'done';
      CREATE INDEX tasks_leased ON tasks (lease_until) WHERE state = 'leased';
      CREATE INDEX tasks_done ON tasks (forget_at) WHERE forget_at IS NOT NULL;
      CREATE UNIQUE INDEX tasks_known ON tasks (queue, idempotency_key) WHERE idempotency_key IS NOT NULL;
      CREATE TABLE objects (
        key TEXT PRIMARY KEY,
        etag TEXT NOT NULL,
        sha256 TEXT,
        bytes INTEGER NOT NULL,
        content_type TEXT NOT NULL,
        written_by TEXT NOT NULL,
        updated_at INTEGER NOT NULL,
        parts TEXT NOT NULL
      ) STRICT;
      CREATE TABLE uploads (
        id TEXT PRIMARY KEY,
        kind TEXT NOT NULL CHECK (kind IN ('put', 'parts')),
        key TEXT NOT NULL,
        content_type TEXT NOT NULL,
        blob TEXT,
        bytes INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL
      ) STRICT;
      CREATE INDEX uploads_ending ON uploads (expires_at);
      CREATE TABLE parts (
        upload TEXT NOT NULL,
        part INTEGER NOT NULL,
        blob TEXT NOT NULL PRIMARY KEY,
        bytes INTEGER NOT NULL,
        sha256 TEXT,
        stored INTEGER NOT NULL,
        expires_at INTEGER
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX parts_of ON parts (upload, part);
      CREATE INDEX parts_ending ON parts (expires_at) WHERE expires_at IS NOT NULL;
      CREATE TABLE drops (blob TEXT PRIMARY KEY, due_at INTEGER NOT NULL) STRICT;
      CREATE INDEX drops_due ON drops (due_at);
    `,
  },
];

/** Tables of a sandbox's object. */
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-sandbox",
    sql: `
      CREATE TABLE record (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        id TEXT NOT NULL,
        state TEXT NOT NULL,
        generation INTEGER NOT NULL CHECK (generation >= 1),
        body TEXT NOT NULL
      ) STRICT;
      CREATE TABLE past (
        ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        body TEXT NOT NULL
      ) STRICT;
      CREATE TABLE timers (kind TEXT PRIMARY KEY, due_at INTEGER NOT NULL) STRICT;
      CREATE TABLE previews (
        port INTEGER PRIMARY KEY,
        id TEXT NOT NULL,
        visibility TEXT NOT NULL CHECK (visibility IN ('private', 'public')),
        version INTEGER NOT NULL,
        created_at INTEGER NOT NULL
      ) STRICT;
      CREATE TABLE answers (
        key TEXT PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        sandbox_id TEXT NOT NULL,
        answer TEXT,
        created_at INTEGER NOT NULL
      ) STRICT;
      CREATE TABLE outbox (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        sequence INTEGER NOT NULL,
        acknowledged INTEGER NOT NULL
      ) STRICT;
      INSERT INTO outbox (one, sequence, acknowledged) VALUES (1, 0, 0);
    `,
  },
  {
    id: "0002-purges",
    sql: `
      CREATE TABLE purges (
        id TEXT NOT NULL,
        generation INTEGER NOT NULL,
        host_id TEXT NOT NULL,
        url TEXT NOT NULL,
        since INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        due_at INTEGER NOT NULL,
        PRIMARY KEY (id, host_id)
      ) STRICT;
    `,
  },
  {
    id: "0003-releases",
    sql: `
      CREATE TABLE releases (
        vault TEXT NOT NULL,
        owner TEXT NOT NULL,
        manifest TEXT NOT NULL,
        attempts INTEGER NOT NULL,
        due_at INTEGER NOT NULL,
        PRIMARY KEY (vault, owner, manifest)
      ) STRICT;
    `,
  },
  {
    id: "0004-detaches",
    sql: `
      CREATE TABLE detaches (
        attachment TEXT PRIMARY KEY,
        sandbox_id TEXT NOT NULL,
        generation INTEGER NOT NULL,
        settled INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        due_at INTEGER NOT NULL
      ) STRICT;
    `,
  },
];

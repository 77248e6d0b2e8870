/** Tables of an account's object. */
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-account",
    sql: `
      CREATE TABLE keys (
        id TEXT PRIMARY KEY,
        hash TEXT NOT NULL UNIQUE,
        origin TEXT NOT NULL CHECK (origin IN ('bootstrap')),
        created_at INTEGER NOT NULL
      ) STRICT;
      CREATE TABLE sandboxes (
        label TEXT PRIMARY KEY,
        sequence INTEGER NOT NULL,
        changed_at INTEGER NOT NULL,
        created_at TEXT,
        state TEXT,
        name TEXT,
        body TEXT
      ) STRICT;
      CREATE INDEX sandboxes_by_age ON sandboxes (created_at, label) WHERE body IS NOT NULL;
    `,
  },
  {
    id: "0002-ledger",
    sql: `
      CREATE TABLE metered (sandbox_id TEXT PRIMARY KEY, rates TEXT NOT NULL, since INTEGER NOT NULL) STRICT;
      CREATE TABLE entries (
        ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
        sandbox_id TEXT NOT NULL,
        generation INTEGER NOT NULL,
        sequence INTEGER NOT NULL,
        at INTEGER NOT NULL,
        cpu TEXT NOT NULL,
        memory TEXT NOT NULL,
        stored TEXT NOT NULL,
        UNIQUE (sandbox_id, generation, sequence)
      ) STRICT;
      CREATE TABLE booked (
        sandbox_id TEXT NOT NULL,
        generation INTEGER NOT NULL,
        sequence INTEGER NOT NULL,
        cpu TEXT NOT NULL,
        memory TEXT NOT NULL,
        stored TEXT NOT NULL,
        PRIMARY KEY (sandbox_id, generation)
      ) STRICT;
      CREATE TABLE months (
        month TEXT NOT NULL,
        sandbox_id TEXT NOT NULL,
        cpu TEXT NOT NULL,
        memory TEXT NOT NULL,
        stored TEXT NOT NULL,
        PRIMARY KEY (month, sandbox_id)
      ) STRICT;
    `,
  },
];

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
];

/** Tables of an account's shared stores. */
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-stores",
    // grants.label: of the sandbox that has the name, or `*`.
    // leaving: ids of stores that are deleted, until what they held is gone.
    // changes: Idempotency-Keys.
    sql: `
      CREATE TABLE stores (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        kinds TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL
      ) STRICT;
      CREATE TABLE grants (
        store_id TEXT NOT NULL,
        label TEXT NOT NULL,
        agent TEXT NOT NULL,
        access TEXT NOT NULL,
        PRIMARY KEY (store_id, label)
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE leaving (
        id TEXT PRIMARY KEY,
        attempts INTEGER NOT NULL,
        due_at INTEGER NOT NULL
      ) STRICT;
      CREATE TABLE changes (
        key TEXT PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        at INTEGER NOT NULL
      ) STRICT;
    `,
  },
];

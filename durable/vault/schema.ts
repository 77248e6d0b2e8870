/** Tables of a vault's object. A manifest is a blob too, so both are meant by `blobs.ordinal`. */
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-vault",
    // garbage: 0 a manifest names it, 1 none does, 2 none does and it is being removed.
    // An ordinal is never used twice, so what was found out about a blob that is gone is never said of its successor.
    // holds: who refers to a blob through committed manifests, and in which order they came (since).
    // vault: its id, which an alarm is not told, and how often in a row the store failed to remove.
    sql: `
      CREATE TABLE blobs (
        ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        bytes INTEGER NOT NULL,
        verified INTEGER NOT NULL CHECK (verified IN (0, 1)),
        garbage INTEGER NOT NULL CHECK (garbage IN (0, 1, 2))
      ) STRICT;
      CREATE INDEX blobs_garbage ON blobs (garbage) WHERE garbage > 0;
      CREATE TABLE names (
        manifest INTEGER NOT NULL,
        blob INTEGER NOT NULL,
        PRIMARY KEY (manifest, blob)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX names_by_blob ON names (blob);
      CREATE TABLE pending (owner TEXT PRIMARY KEY, manifest INTEGER NOT NULL, noted_at INTEGER NOT NULL) STRICT;
      CREATE INDEX pending_by_manifest ON pending (manifest);
      CREATE TABLE referrals (
        ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
        owner TEXT NOT NULL,
        manifest INTEGER NOT NULL,
        UNIQUE (owner, manifest)
      ) STRICT;
      CREATE INDEX referrals_by_manifest ON referrals (manifest);
      CREATE TABLE holds (
        owner TEXT NOT NULL,
        blob INTEGER NOT NULL,
        since INTEGER NOT NULL,
        PRIMARY KEY (owner, blob)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX holds_by_blob ON holds (blob, since);
      CREATE TABLE uploads (
        id TEXT PRIMARY KEY,
        blob INTEGER NOT NULL,
        until INTEGER NOT NULL
      ) STRICT;
      CREATE INDEX uploads_by_blob ON uploads (blob, until);
      CREATE TABLE vault (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        id TEXT NOT NULL,
        failures INTEGER NOT NULL,
        retry_at INTEGER NOT NULL
      ) STRICT;
    `,
  },
];

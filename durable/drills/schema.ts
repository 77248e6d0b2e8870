/** Tables of a sandbox's drills. */
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-drills",
    // due_at: the next step of one that goes on; null when it is over.
    // key, fingerprint: of the call that began it.
    sql: `
      CREATE TABLE whose (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        account TEXT NOT NULL,
        label TEXT NOT NULL,
        sandbox_id TEXT NOT NULL
      ) STRICT;
      CREATE TABLE drills (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        key TEXT UNIQUE,
        fingerprint TEXT NOT NULL,
        due_at INTEGER,
        body TEXT NOT NULL
      ) STRICT;
    `,
  },
];

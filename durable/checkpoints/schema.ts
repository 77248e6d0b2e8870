/** Tables of a sandbox's mirrored checkpoints. */
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-checkpoints",
    // whose.generation: the newest run of the machine that put something.
    // versions.hash, versions.bytes: of the whole container.
    // parts: the container, in pieces that a row has room for.
    sql: `
      CREATE TABLE whose (one INTEGER PRIMARY KEY CHECK (one = 1), sandbox_id TEXT NOT NULL, generation INTEGER NOT NULL) STRICT;
      CREATE TABLE versions (
        name TEXT NOT NULL,
        version INTEGER NOT NULL,
        saved_at INTEGER NOT NULL,
        hash TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        header TEXT NOT NULL,
        PRIMARY KEY (name, version)
      ) STRICT;
      CREATE TABLE parts (
        name TEXT NOT NULL,
        version INTEGER NOT NULL,
        part INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (name, version, part)
      ) STRICT;
    `,
  },
];

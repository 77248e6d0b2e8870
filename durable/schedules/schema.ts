/** Tables of a sandbox's schedules. */
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-schedules",
    // whose: the sandbox; an alarm is not told.
    // schedules.next_at: the time that is due next, over and done with once its run is stored.
    // runs.due_at: the next step of one that goes on.
    // outputs: what a run wrote, beside it so that lists need not read it.
    // changes: Idempotency-Keys.
    sql: `
      CREATE TABLE whose (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        account TEXT NOT NULL,
        label TEXT NOT NULL,
        sandbox_id TEXT NOT NULL
      ) STRICT;
      CREATE TABLE schedules (
        id TEXT PRIMARY KEY,
        name TEXT UNIQUE,
        created_at INTEGER NOT NULL,
        enabled INTEGER NOT NULL,
        next_at INTEGER,
        body TEXT NOT NULL
      ) STRICT;
      CREATE TABLE runs (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        schedule_id TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        state TEXT NOT NULL,
        due_at INTEGER,
        ended_at INTEGER,
        body TEXT NOT NULL
      ) STRICT;
      CREATE INDEX runs_of ON runs (schedule_id, created_at, id);
      CREATE INDEX runs_due ON runs (due_at) WHERE due_at IS NOT NULL;
      CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL;
      CREATE TABLE outputs (
        run_id TEXT PRIMARY KEY,
        stdout BLOB,
        stderr BLOB,
        body BLOB
      ) STRICT;
      CREATE TABLE changes (
        key TEXT PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        id TEXT NOT NULL,
        at INTEGER NOT NULL
      ) STRICT;
    `,
  },
];

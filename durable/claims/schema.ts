/** Tables of an account's domains. */
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-claims",
    // whose: the account; an alarm is not told.
    // claims: what is meant to be; the host name's object says what came of it. due_at: when a step that was begun is
    // looked after.
    // changes: Idempotency-Keys.
    sql: `
      CREATE TABLE whose (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        account TEXT NOT NULL
      ) STRICT;
      CREATE TABLE claims (
        id TEXT PRIMARY KEY,
        sandbox_id TEXT NOT NULL,
        hostname TEXT NOT NULL,
        port INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('claiming', 'claimed', 'releasing')),
        created_at INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        due_at INTEGER,
        UNIQUE (sandbox_id, hostname)
      ) STRICT;
      CREATE INDEX claims_due ON claims (due_at) WHERE due_at IS NOT NULL;
      CREATE TABLE changes (
        key TEXT PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        at INTEGER NOT NULL
      ) STRICT;
    `,
  },
];

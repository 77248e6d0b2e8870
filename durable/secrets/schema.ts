/** Tables of an account's secrets. */
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-secrets",
    // whose: the account; an alarm is not told.
    // secrets.scope: a sandbox's id, or empty for the account's own. sealed: the value.
    // uses: which sandboxes were given, or asked for, which of the account's.
    // tells: sandboxes that are to hear of a change. revision: raised by each, so that one that came meanwhile is told too.
    // changes: Idempotency-Keys.
    sql: `
      CREATE TABLE whose (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        account TEXT NOT NULL
      ) STRICT;
      CREATE TABLE secrets (
        scope TEXT NOT NULL,
        name TEXT NOT NULL,
        sealed TEXT NOT NULL,
        body TEXT NOT NULL,
        last_used_at INTEGER,
        PRIMARY KEY (scope, name)
      ) STRICT;
      CREATE TABLE uses (
        sandbox_id TEXT NOT NULL,
        name TEXT NOT NULL,
        PRIMARY KEY (sandbox_id, name)
      ) STRICT;
      CREATE INDEX uses_by_name ON uses (name);
      CREATE TABLE tells (
        sandbox_id TEXT PRIMARY KEY,
        revision INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        due_at INTEGER NOT NULL
      ) STRICT;
      CREATE INDEX tells_due ON tells (due_at);
      CREATE TABLE changes (
        key TEXT PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        at INTEGER NOT NULL
      ) STRICT;
    `,
  },
];

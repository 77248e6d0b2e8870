/** Tables of a host name. */
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-claims",
    // The last index: one has the name at most, whatever the rules would say.
    sql: `
      CREATE TABLE claims (
        id TEXT PRIMARY KEY,
        account TEXT NOT NULL,
        sandbox_id TEXT NOT NULL,
        token TEXT NOT NULL UNIQUE,
        state TEXT NOT NULL,
        next_at INTEGER,
        body TEXT NOT NULL,
        UNIQUE (account, sandbox_id)
      ) STRICT;
      CREATE INDEX claims_due ON claims (next_at) WHERE next_at IS NOT NULL;
      CREATE UNIQUE INDEX claims_holder ON claims (state) WHERE state = 'verified';
    `,
  },
];

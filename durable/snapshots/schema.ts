/** Tables of an account's snapshots. */
import { chargesTables } from "../charges.ts";
import { eventTables } from "../events/log.ts";
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-snapshots",
    // due_at: when something is to be done with it without anybody asking.
    sql: `
      CREATE TABLE snapshots (
        id TEXT PRIMARY KEY,
        created_at INTEGER NOT NULL,
        due_at INTEGER,
        body TEXT NOT NULL
      ) STRICT;
      CREATE INDEX snapshots_by_time ON snapshots (created_at, id);
      CREATE INDEX snapshots_due ON snapshots (due_at) WHERE due_at IS NOT NULL;
    `,
  },
  {
    id: "0002-charges",
    sql: `
      ${chargesTables}
      INSERT INTO kept
        SELECT id, 'stored', body ->> 'ownedBytes', body ->> 'vault', body ->> 'readyAt',
          json_object('name', body ->> 'name', 'labels', json(body -> 'labels'), 'createdAt', created_at)
        FROM snapshots WHERE body ->> 'state' = 'ready';
    `,
  },
  // It has no way to learn whether anybody listens: each event goes to the outbox.
  { id: "0003-events", sql: `${eventTables} UPDATE event_listening SET since = 0;` },
];

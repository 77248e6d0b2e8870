/** Tables of an account's outbox. */
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-outbox",
    // outbox.told: what the account knows of whether somebody listens; null while it is being told.
    // taken: up to which number the events of a subject came; an event that comes again is no second one.
    // events: as they are sent, for as long as a delivery is of them.
    // queues: deliveries that wait, by endpoint and subject; next_at is that of the first in order.
    // deliveries.seq: the order in which those of one queue go.
    // changes: Idempotency-Keys. shown: what only the first answer shows, sealed.
    sql: `
      CREATE TABLE outbox (one INTEGER PRIMARY KEY CHECK (one = 1), account TEXT NOT NULL, told INTEGER) STRICT;
      CREATE TABLE endpoints (id TEXT PRIMARY KEY, created_at INTEGER NOT NULL, body TEXT NOT NULL) STRICT;
      CREATE TABLE taken (subject TEXT PRIMARY KEY, sequence INTEGER NOT NULL, at INTEGER NOT NULL) STRICT;
      CREATE INDEX taken_by_time ON taken (at);
      CREATE TABLE events (id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
      CREATE TABLE queues (
        endpoint_id TEXT NOT NULL,
        subject TEXT NOT NULL,
        next_at INTEGER NOT NULL,
        PRIMARY KEY (endpoint_id, subject)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX queues_due ON queues (endpoint_id, next_at);
      CREATE TABLE deliveries (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        endpoint_id TEXT NOT NULL,
        event_id TEXT NOT NULL,
        subject TEXT NOT NULL,
        state TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        ended_at INTEGER,
        expires_at INTEGER,
        body TEXT NOT NULL
      ) STRICT;
      CREATE INDEX deliveries_in_order ON deliveries (endpoint_id, subject, seq) WHERE state = 'waiting';
      CREATE INDEX deliveries_by_state ON deliveries (endpoint_id, state, created_at, id);
      CREATE INDEX deliveries_by_time ON deliveries (endpoint_id, created_at, id);
      CREATE INDEX deliveries_by_event ON deliveries (event_id);
      CREATE INDEX deliveries_ending ON deliveries (expires_at) WHERE expires_at IS NOT NULL;
      CREATE TABLE changes (
        key TEXT PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        endpoint_id TEXT NOT NULL,
        shown TEXT,
        at INTEGER NOT NULL
      ) STRICT;
    `,
  },
];

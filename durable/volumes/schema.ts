/** Tables of an account's volumes. */
import { chargesTables } from "../charges.ts";
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-volumes",
    // account: an alarm is not told whose object it is.
    // due_at: when something is to be done with it without anybody asking.
    // name: of one that is not being deleted; no two have the same.
    // snapshot: of a copy that belongs to one, at its place there.
    // charges: MiB-milliseconds of a volume in a month.
    sql: `
      CREATE TABLE account (one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL) STRICT;
      CREATE TABLE volumes (
        id TEXT PRIMARY KEY,
        name TEXT UNIQUE,
        created_at INTEGER NOT NULL,
        due_at INTEGER,
        body TEXT NOT NULL
      ) STRICT;
      CREATE INDEX volumes_by_time ON volumes (created_at, id);
      CREATE INDEX volumes_due ON volumes (due_at) WHERE due_at IS NOT NULL;
      CREATE TABLE attachments (
        id TEXT PRIMARY KEY,
        volume_id TEXT NOT NULL,
        sandbox_id TEXT NOT NULL,
        due_at INTEGER,
        body TEXT NOT NULL
      ) STRICT;
      CREATE INDEX attachments_by_volume ON attachments (volume_id);
      CREATE INDEX attachments_by_sandbox ON attachments (sandbox_id);
      CREATE INDEX attachments_due ON attachments (due_at) WHERE due_at IS NOT NULL;
      CREATE TABLE backups (
        id TEXT PRIMARY KEY,
        volume_id TEXT NOT NULL,
        snapshot TEXT,
        place INTEGER,
        created_at INTEGER NOT NULL,
        due_at INTEGER,
        body TEXT NOT NULL
      ) STRICT;
      CREATE INDEX backups_by_time ON backups (created_at, id) WHERE snapshot IS NULL;
      CREATE INDEX backups_by_volume ON backups (volume_id, created_at) WHERE snapshot IS NULL;
      CREATE INDEX backups_by_snapshot ON backups (snapshot, place) WHERE snapshot IS NOT NULL;
      CREATE INDEX backups_due ON backups (due_at) WHERE due_at IS NOT NULL;
      CREATE TABLE charges (
        volume_id TEXT NOT NULL,
        month TEXT NOT NULL,
        amount TEXT NOT NULL,
        sequence INTEGER NOT NULL,
        taken INTEGER NOT NULL,
        due_at INTEGER,
        body TEXT NOT NULL,
        PRIMARY KEY (volume_id, month)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX charges_due ON charges (due_at) WHERE due_at IS NOT NULL;
      CREATE TABLE answers (
        key TEXT PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        answer TEXT,
        at INTEGER NOT NULL
      ) STRICT;
    `,
  },
  {
    id: "0002-charges",
    sql: `
      ALTER TABLE charges RENAME TO charges_of_volumes;
      DROP INDEX charges_due;
      ${chargesTables}
      INSERT INTO charges
        SELECT volume_id, month, 'volume', amount, sequence, taken, due_at, body FROM charges_of_volumes;
      DROP TABLE charges_of_volumes;
      INSERT INTO kept
        SELECT id, 'volume', body ->> 'sizeMiB', NULL, body ->> 'chargedTo',
          json_object('name', body ->> 'name', 'labels', json(body -> 'labels'), 'createdAt', created_at)
        FROM volumes WHERE body ->> 'state' = 'ready';
      INSERT INTO kept
        SELECT id, 'backup', body ->> 'ownedBytes', body ->> 'vault', body ->> 'readyAt',
          json_object('name', body ->> 'name', 'labels', json(body -> 'labels'), 'createdAt', created_at)
        FROM backups WHERE body ->> 'state' = 'ready';
    `,
  },
];

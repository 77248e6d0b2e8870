/** Tables of a sandbox's object. */
import { eventTables } from "../events/log.ts";
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-sandbox",
    sql: `
      CREATE TABLE record (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        id TEXT NOT NULL,
        state TEXT NOT NULL,
        generation INTEGER NOT NULL CHECK (generation >= 1),
        body TEXT NOT NULL
      ) STRICT;
      CREATE TABLE past (
        ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        body TEXT NOT NULL
      ) STRICT;
      CREATE TABLE timers (kind TEXT PRIMARY KEY, due_at INTEGER NOT NULL) STRICT;
      CREATE TABLE previews (
        port INTEGER PRIMARY KEY,
        id TEXT NOT NULL,
        visibility TEXT NOT NULL CHECK (visibility IN ('private', 'public')),
        version INTEGER NOT NULL,
        created_at INTEGER NOT NULL
      ) STRICT;
      CREATE TABLE answers (
        key TEXT PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        sandbox_id TEXT NOT NULL,
        answer TEXT,
        created_at INTEGER NOT NULL
      ) STRICT;
      CREATE TABLE outbox (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        sequence INTEGER NOT NULL,
        acknowledged INTEGER NOT NULL
      ) STRICT;
      INSERT INTO outbox (one, sequence, acknowledged) VALUES (1, 0, 0);
    `,
  },
  {
    id: "0002-purges",
    sql: `
      CREATE TABLE purges (
        id TEXT NOT NULL,
        generation INTEGER NOT NULL,
        host_id TEXT NOT NULL,
        url TEXT NOT NULL,
        since INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        due_at INTEGER NOT NULL,
        PRIMARY KEY (id, host_id)
      ) STRICT;
    `,
  },
  {
    id: "0003-releases",
    sql: `
      CREATE TABLE releases (
        vault TEXT NOT NULL,
        owner TEXT NOT NULL,
        manifest TEXT NOT NULL,
        attempts INTEGER NOT NULL,
        due_at INTEGER NOT NULL,
        PRIMARY KEY (vault, owner, manifest)
      ) STRICT;
    `,
  },
  {
    id: "0004-detaches",
    sql: `
      CREATE TABLE detaches (
        attachment TEXT PRIMARY KEY,
        sandbox_id TEXT NOT NULL,
        generation INTEGER NOT NULL,
        settled INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        due_at INTEGER NOT NULL
      ) STRICT;
    `,
  },
  {
    id: "0005-errands",
    sql: `
      CREATE TABLE errands (
        key TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        attempts INTEGER NOT NULL,
        due_at INTEGER NOT NULL
      ) STRICT;
      INSERT INTO errands
        SELECT 'purge ' || id || ' ' || host_id, 'purge',
          json_object('kind', 'purge', 'id', id, 'generation', generation,
            'host', json_object('id', host_id, 'url', url), 'since', since),
          attempts, due_at
        FROM purges;
      INSERT INTO errands
        SELECT 'release ' || vault || ' ' || owner || ' ' || manifest, 'release',
          json_object('kind', 'release', 'vault', vault, 'owner', owner, 'manifest', NULLIF(manifest, '')),
          attempts, due_at
        FROM releases;
      INSERT INTO errands
        SELECT 'detach ' || attachment, 'detach',
          json_object('kind', 'detach', 'attachment', attachment, 'sandboxId', sandbox_id, 'generation', generation,
            'settled', json(iif(settled, 'true', 'false'))),
          attempts, due_at
        FROM detaches;
      DROP TABLE purges;
      DROP TABLE releases;
      DROP TABLE detaches;
      INSERT INTO timers SELECT 'errands', MIN(due_at) FROM errands HAVING MIN(due_at) IS NOT NULL;
      DELETE FROM timers WHERE kind IN ('purges', 'releases', 'detaches');
    `,
  },
  {
    id: "0006-timeline",
    sql: `
      CREATE TABLE timeline (
        ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        event TEXT NOT NULL,
        generation INTEGER NOT NULL,
        took_ms INTEGER,
        reason TEXT,
        cause TEXT
      ) STRICT;
    `,
  },
  {
    id: "0007-links",
    sql: `
      CREATE TABLE links (
        id TEXT PRIMARY KEY,
        name TEXT,
        port INTEGER NOT NULL,
        path TEXT NOT NULL,
        wake INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL,
        revoked_at INTEGER,
        last_used_at INTEGER
      ) STRICT;
      CREATE TABLE link_uses (
        ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
        link_id TEXT NOT NULL,
        at INTEGER NOT NULL,
        request TEXT NOT NULL,
        woke INTEGER NOT NULL
      ) STRICT;
      CREATE INDEX link_uses_by_link ON link_uses (link_id, ordinal);
    `,
  },
  { id: "0008-events", sql: eventTables },
  {
    id: "0009-egress",
    // egress_runs: bytes of each run; generation 0: the sum of all up to `folded`.
    // egress_refusals.told: of `count`, so many were in events.
    sql: `
      CREATE TABLE egress_runs (
        generation INTEGER PRIMARY KEY,
        bytes_out INTEGER NOT NULL,
        bytes_in INTEGER NOT NULL,
        folded INTEGER
      ) STRICT;
      CREATE TABLE egress_refusals (
        rule TEXT NOT NULL,
        target TEXT NOT NULL,
        generation INTEGER NOT NULL,
        count INTEGER NOT NULL,
        told INTEGER NOT NULL,
        told_at INTEGER,
        last_at INTEGER NOT NULL,
        PRIMARY KEY (rule, target)
      ) STRICT, WITHOUT ROWID;
    `,
  },
  {
    id: "0010-boot",
    // What the host of a run told last of its start.
    sql: `
      CREATE TABLE boot_report (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        sandbox_id TEXT NOT NULL,
        generation INTEGER NOT NULL,
        body TEXT NOT NULL
      ) STRICT;
    `,
  },
];

/** Tables of an account's object. */
import { eventTables } from "../events/log.ts";
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-account",
    sql: `
      CREATE TABLE keys (
        id TEXT PRIMARY KEY,
        hash TEXT NOT NULL UNIQUE,
        origin TEXT NOT NULL CHECK (origin IN ('bootstrap')),
        created_at INTEGER NOT NULL
      ) STRICT;
      CREATE TABLE sandboxes (
        label TEXT PRIMARY KEY,
        sequence INTEGER NOT NULL,
        changed_at INTEGER NOT NULL,
        created_at TEXT,
        state TEXT,
        name TEXT,
        body TEXT
      ) STRICT;
      CREATE INDEX sandboxes_by_age ON sandboxes (created_at, label) WHERE body IS NOT NULL;
    `,
  },
  {
    id: "0002-ledger",
    sql: `
      CREATE TABLE metered (sandbox_id TEXT PRIMARY KEY, rates TEXT NOT NULL, since INTEGER NOT NULL) STRICT;
      CREATE TABLE entries (
        ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
        sandbox_id TEXT NOT NULL,
        generation INTEGER NOT NULL,
        sequence INTEGER NOT NULL,
        at INTEGER NOT NULL,
        cpu TEXT NOT NULL,
        memory TEXT NOT NULL,
        stored TEXT NOT NULL,
        UNIQUE (sandbox_id, generation, sequence)
      ) STRICT;
      CREATE TABLE booked (
        sandbox_id TEXT NOT NULL,
        generation INTEGER NOT NULL,
        sequence INTEGER NOT NULL,
        cpu TEXT NOT NULL,
        memory TEXT NOT NULL,
        stored TEXT NOT NULL,
        PRIMARY KEY (sandbox_id, generation)
      ) STRICT;
      CREATE TABLE months (
        month TEXT NOT NULL,
        sandbox_id TEXT NOT NULL,
        cpu TEXT NOT NULL,
        memory TEXT NOT NULL,
        stored TEXT NOT NULL,
        PRIMARY KEY (month, sandbox_id)
      ) STRICT;
    `,
  },
  {
    id: "0003-account",
    sql: `
      CREATE TABLE profile (one INTEGER PRIMARY KEY CHECK (one = 1), body TEXT NOT NULL) STRICT;
      DROP TABLE keys;
      CREATE TABLE keys (
        id TEXT PRIMARY KEY,
        hash TEXT NOT NULL UNIQUE,
        origin TEXT NOT NULL CHECK (origin IN ('bootstrap', 'made')),
        body TEXT NOT NULL
      ) STRICT;
      CREATE TABLE members (id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
      CREATE TABLE answers (key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, answer TEXT NOT NULL, at INTEGER NOT NULL) STRICT;
      ALTER TABLE sandboxes ADD COLUMN host_id TEXT;
      ALTER TABLE sandboxes ADD COLUMN key_id TEXT;
      CREATE TABLE runs (
        label TEXT PRIMARY KEY,
        id TEXT NOT NULL,
        generation INTEGER NOT NULL,
        vcpu INTEGER NOT NULL,
        memory_mib INTEGER NOT NULL,
        held INTEGER NOT NULL,
        key_id TEXT
      ) STRICT;
      CREATE TABLE creations (id TEXT PRIMARY KEY, day TEXT NOT NULL) STRICT;
      CREATE TABLE credits (
        ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        micros INTEGER NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('starting', 'trial', 'added')),
        note TEXT NOT NULL
      ) STRICT;
      CREATE TABLE spent (
        day TEXT NOT NULL,
        key_id TEXT NOT NULL,
        micros INTEGER NOT NULL,
        PRIMARY KEY (day, key_id)
      ) STRICT;
      CREATE TABLE costs (
        sandbox_id TEXT PRIMARY KEY,
        name TEXT,
        labels TEXT NOT NULL,
        key_id TEXT,
        host_id TEXT,
        cap INTEGER,
        flat_rate INTEGER,
        micros INTEGER NOT NULL
      ) STRICT;
      CREATE TABLE lines (
        month TEXT NOT NULL,
        sandbox_id TEXT NOT NULL,
        plan TEXT NOT NULL,
        cpu TEXT NOT NULL,
        memory TEXT NOT NULL,
        stored TEXT NOT NULL,
        existed_ms INTEGER NOT NULL,
        PRIMARY KEY (month, sandbox_id, plan)
      ) STRICT;
      INSERT INTO lines SELECT month, sandbox_id, 'unmetered', cpu, memory, stored, 0 FROM months;
      DROP TABLE months;
      CREATE TABLE present (sandbox_id TEXT PRIMARY KEY, since INTEGER NOT NULL) STRICT;
      CREATE INDEX sandboxes_gone ON sandboxes (changed_at) WHERE body IS NULL;
      CREATE TABLE accounts (name TEXT PRIMARY KEY, created_at INTEGER NOT NULL) STRICT;
      CREATE TABLE host_epochs (host_id TEXT PRIMARY KEY, epoch INTEGER NOT NULL) STRICT;
    `,
  },
  {
    id: "0004-volumes",
    // sandbox_id is the volume's in lines of volumes; their generation is the month.
    sql: `
      ALTER TABLE entries ADD COLUMN volume TEXT NOT NULL DEFAULT '0';
      ALTER TABLE booked ADD COLUMN volume TEXT NOT NULL DEFAULT '0';
      ALTER TABLE lines ADD COLUMN volume TEXT NOT NULL DEFAULT '0';
    `,
  },
  {
    id: "0005-backups",
    sql: `
      ALTER TABLE entries ADD COLUMN backup TEXT NOT NULL DEFAULT '0';
      ALTER TABLE booked ADD COLUMN backup TEXT NOT NULL DEFAULT '0';
      ALTER TABLE lines ADD COLUMN backup TEXT NOT NULL DEFAULT '0';
    `,
  },
  {
    id: "0006-sockets",
    sql: "CREATE TABLE socket_holders (key_id TEXT NOT NULL, label TEXT NOT NULL, PRIMARY KEY (key_id, label)) STRICT;",
  },
  {
    id: "0007-events",
    // listeners.since: since when the outbox has somebody to send events to; null for nobody.
    // told_notices: what holds now, and was told as an event when it began.
    sql: `
      ${eventTables}
      CREATE TABLE listeners (one INTEGER PRIMARY KEY CHECK (one = 1), since INTEGER) STRICT;
      CREATE TABLE told_notices (kind TEXT PRIMARY KEY) STRICT;
    `,
  },
  {
    id: "0008-suffixes",
    // The random part of the sandbox's id, also of one that is deleted: who has it in another spelling is found by it.
    sql: `
      ALTER TABLE sandboxes ADD COLUMN suffix TEXT;
      UPDATE sandboxes SET suffix = substr(json_extract(body, '$.id'), -12) WHERE body IS NOT NULL;
      CREATE INDEX sandboxes_by_suffix ON sandboxes (suffix);
    `,
  },
  {
    id: "0009-dashboard",
    // sandboxes.change: grows over all of them, so that whoever has seen one knows what is newer.
    sql: `
      CREATE TABLE sessions (
        hash TEXT PRIMARY KEY,
        key_id TEXT NOT NULL,
        access TEXT NOT NULL,
        expires_at INTEGER NOT NULL
      ) STRICT;
      ALTER TABLE sandboxes ADD COLUMN change INTEGER NOT NULL DEFAULT 0;
      CREATE INDEX sandboxes_by_change ON sandboxes (change);
    `,
  },
  {
    id: "0010-session-tokens",
    // key_id: the key that made it. body: name, scopes, origins, and whether servers may use it.
    sql: `
      CREATE TABLE tokens (
        id TEXT PRIMARY KEY,
        hash TEXT NOT NULL UNIQUE,
        sandbox_id TEXT NOT NULL,
        key_id TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL,
        revoked_at INTEGER,
        last_used_at INTEGER,
        body TEXT NOT NULL
      ) STRICT;
      CREATE INDEX tokens_by_sandbox ON tokens (sandbox_id, expires_at);
      CREATE INDEX tokens_by_key ON tokens (key_id, expires_at);
      CREATE INDEX tokens_by_end ON tokens (expires_at);
    `,
  },
];

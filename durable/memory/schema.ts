/** Tables of a memory. */
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-memory",
    // held: what is held, counted with each change; last_id: ids only grow, whatever is forgotten.
    // words: what `indexed()` makes of each text. It holds no copy of the texts, and with secure-delete nothing is left
    // of one that is forgotten.
    // once: which entry was added under which idempotency id.
    // generations: the newest run of each machine that wrote.
    sql: `
      CREATE TABLE held (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        entries INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        vectors INTEGER NOT NULL,
        dimension INTEGER,
        last_id TEXT NOT NULL
      ) STRICT;
      INSERT INTO held VALUES (1, 0, 0, 0, NULL, '');
      CREATE TABLE entries (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        text TEXT NOT NULL,
        metadata TEXT NOT NULL,
        tags TEXT NOT NULL,
        author_kind TEXT NOT NULL,
        author_id TEXT NOT NULL,
        author_name TEXT,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        version INTEGER NOT NULL,
        updated_by TEXT,
        dimension INTEGER,
        bytes INTEGER NOT NULL,
        origin TEXT
      ) STRICT;
      CREATE INDEX entries_author ON entries (author_id, seq);
      CREATE TABLE tags (
        tag TEXT NOT NULL,
        seq INTEGER NOT NULL,
        PRIMARY KEY (tag, seq)
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE vectors (
        seq INTEGER PRIMARY KEY,
        vector BLOB NOT NULL
      ) STRICT;
      CREATE TABLE once (
        author_id TEXT NOT NULL,
        key TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        seq INTEGER NOT NULL,
        PRIMARY KEY (author_id, key)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX once_of ON once (seq);
      CREATE TABLE generations (
        sandbox_id TEXT PRIMARY KEY,
        generation INTEGER NOT NULL
      ) STRICT;
      CREATE VIRTUAL TABLE words USING fts5(
        text, content='', tokenize="porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
      );
      INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
    `,
  },
  {
    id: "0002-near-index",
    // unindexed: entries whose embedding came, changed or went, and which an index beside may not know of yet; sent_at:
    // when it was told.
    sql: `
      CREATE TABLE unindexed (
        change INTEGER PRIMARY KEY AUTOINCREMENT,
        seq INTEGER NOT NULL UNIQUE,
        sent_at INTEGER
      ) STRICT;
    `,
  },
];

/** Tables of the object that holds a sandbox's sockets. */
import type { Migration } from "../migrations.ts";

export const migrations: readonly Migration[] = [
  {
    id: "0001-sockets",
    // holder: whose it is; an alarm is not told.
    // sockets.reached: messages of the client, the first so many, that the program has.
    // frames: those that it may not have. data: text, or bytes.
    // keys: API keys that the account knows to have let somebody in here.
    // over: credentials that were revoked a moment ago.
    sql: `
      CREATE TABLE holder (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        account TEXT NOT NULL,
        label TEXT NOT NULL,
        sandbox_id TEXT NOT NULL
      ) STRICT;
      CREATE TABLE sockets (
        id TEXT PRIMARY KEY,
        since INTEGER NOT NULL,
        reached INTEGER NOT NULL,
        body TEXT NOT NULL
      ) STRICT;
      CREATE INDEX sockets_in_order ON sockets (since, id);
      CREATE TABLE frames (
        socket_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        data ANY NOT NULL,
        PRIMARY KEY (socket_id, number)
      ) STRICT;
      CREATE TABLE keys (id TEXT PRIMARY KEY) STRICT;
      CREATE TABLE over (credential TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT;
    `,
  },
];

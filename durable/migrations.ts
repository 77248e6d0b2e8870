/** Ordered schema changes of an object's SQLite storage. (`PRAGMA user_version` is refused there, so a table counts.) */

export interface Migration {
  /** Never changes once released. */
  readonly id: string;
  readonly sql: string;
}

const TABLE = "_sql_schema_migrations";

/** Whether anything was ever stored. Asking leaves no trace: a guessed name must not make an object grow. */
export function hasSchema(sql: SqlStorage): boolean {
  return sql.exec("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", TABLE).toArray().length > 0;
}

/** Apply what is missing, all or nothing. */
export function migrate(storage: DurableObjectStorage, migrations: readonly Migration[]): void {
  const { sql } = storage;
  storage.transactionSync(() => {
    sql.exec(`CREATE TABLE IF NOT EXISTS ${TABLE} (id TEXT PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT`);
    const applied = new Set(
      sql
        .exec<{ id: string }>(`SELECT id FROM ${TABLE}`)
        .toArray()
        .map((row) => row.id),
    );
    for (const { id, sql: change } of migrations) {
      if (applied.has(id)) continue;
      sql.exec(change);
      sql.exec(`INSERT INTO ${TABLE} (id, applied_at) VALUES (?, ?)`, id, Date.now());
    }
  });
}

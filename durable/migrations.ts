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

/** An object's tables, which are made with its first row: a name that is only asked for leaves no trace. */
export class Tables {
  readonly #storage: DurableObjectStorage;
  readonly #migrations: readonly Migration[];
  #exist: boolean;

  constructor(storage: DurableObjectStorage, migrations: readonly Migration[]) {
    this.#storage = storage;
    this.#migrations = migrations;
    this.#exist = hasSchema(storage.sql);
    if (this.#exist) migrate(storage, migrations);
  }

  get exist(): boolean {
    return this.#exist;
  }

  /** @returns whether they were made now */
  make(): boolean {
    if (this.#exist) return false;
    migrate(this.#storage, this.#migrations);
    this.#exist = true;
    return true;
  }

  /** Everything of the object goes, the alarm too. */
  async drop(): Promise<void> {
    this.#exist = false;
    await this.#storage.deleteAll();
  }
}

/** The rows of a memory. No rules. */
import type { MemoryAuthor } from "../../sdk/contract/memory.ts";
import { Tables } from "../migrations.ts";
import type { Ranked } from "./rank.ts";
import type { EntryRecord, Where } from "./record.ts";
import { migrations } from "./schema.ts";
import { bytesOf, vectorOf } from "./vector.ts";
import { indexed } from "./words.ts";

export interface Held {
  readonly entries: number;
  readonly bytes: number;
  readonly vectors: number;
  readonly dimension: number | null;
  readonly lastId: string;
}

type Row = Record<string, string | number | null>;
type Vector = Float32Array<ArrayBuffer>;

const NOTHING: Held = { entries: 0, bytes: 0, vectors: 0, dimension: null, lastId: "" };
const CLOSED = "closed";
/** There is an index beside, and it was told, or is to be told, of all embeddings. */
const INDEXED = "indexed";

export class MemoryStore {
  readonly #ctx: DurableObjectState;
  readonly #sql: SqlStorage;
  readonly #tables: Tables;
  readonly #isIndexed: boolean;

  /** @param isIndexed whether changes of embeddings are kept for an index beside */
  constructor(ctx: DurableObjectState, isIndexed: boolean) {
    this.#ctx = ctx;
    this.#sql = ctx.storage.sql;
    this.#tables = new Tables(ctx.storage, migrations);
    this.#isIndexed = isIndexed;
    if (this.#tables.exist) this.#followIndex();
  }

  /** Whether it is deleted for good: nothing is kept any more, however late it comes. */
  get isClosed(): boolean {
    return this.#ctx.storage.kv.get(CLOSED) === true;
  }

  open(): void {
    this.#tables.make();
    this.#followIndex();
  }

  async close(): Promise<void> {
    if (!this.#tables.exist) return;
    await this.#tables.drop();
    this.#ctx.storage.kv.put(CLOSED, true);
  }

  get held(): Held {
    if (!this.#tables.exist) return NOTHING;
    return this.#sql
      .exec("SELECT entries, bytes, vectors, dimension, last_id AS lastId FROM held")
      .one() as unknown as Held;
  }

  entry(id: string): EntryRecord | null {
    return this.#entries("e.id = ?", id)[0] ?? null;
  }

  entryAt(seq: number): EntryRecord | null {
    return this.#entries("e.seq = ?", seq)[0] ?? null;
  }

  /** From there on, in order. @param after "": from the beginning */
  *entries(where: Where, order: "newest" | "oldest", after: string): Generator<EntryRecord> {
    if (!this.#tables.exist) return;
    const [is, direction] = order === "newest" ? ["<", "DESC"] : [">", "ASC"];
    const from = after === "" && order === "newest" ? "mem~" : after;
    for (const row of this.#sql.exec<Row>(
      `SELECT e.* FROM entries AS e WHERE e.id ${is} ? AND ${where.sql} ORDER BY e.id ${direction}`,
      from,
      ...where.bindings,
    ))
      yield recordOf(row);
  }

  seqs(where: Where): number[] {
    if (!this.#tables.exist) return [];
    return this.#sql
      .exec<{ seq: number }>(`SELECT e.seq FROM entries AS e WHERE ${where.sql}`, ...where.bindings)
      .toArray()
      .map(({ seq }) => seq);
  }

  /** @returns its number */
  add(record: Omit<EntryRecord, "seq">, vector: Vector | null): number {
    const { id, text, author, createdAt, updatedAt, version, dimension, bytes, origin } = record;
    const { seq } = this.#sql
      .exec<{ seq: number }>(
        `INSERT INTO entries (id, text, metadata, tags, author_kind, author_id, author_name, created_at, updated_at,
         version, dimension, bytes, origin) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq`,
        ...[id, text, JSON.stringify(record.metadata), JSON.stringify(record.tags)],
        ...[author.kind, author.id, author.name, createdAt, updatedAt, version, dimension, bytes],
        origin && JSON.stringify(origin),
      )
      .one();
    this.#link({ ...record, seq }, vector);
    this.#sql.exec("UPDATE held SET last_id = ?", id);
    return seq;
  }

  /** @param vector undefined: as it was */
  replace(before: EntryRecord, after: EntryRecord, vector: Vector | null | undefined): void {
    const kept = vector === undefined ? this.vector(before.seq) : vector;
    this.#unlink(before);
    this.#sql.exec(
      `UPDATE entries SET text = ?, metadata = ?, tags = ?, updated_at = ?, version = ?, updated_by = ?, dimension = ?,
       bytes = ? WHERE seq = ?`,
      ...[after.text, JSON.stringify(after.metadata), JSON.stringify(after.tags), after.updatedAt, after.version],
      ...[after.updatedBy && JSON.stringify(after.updatedBy), after.dimension, after.bytes, after.seq],
    );
    this.#link(after, kept);
  }

  remove(record: EntryRecord): void {
    this.#unlink(record);
    this.#sql.exec("DELETE FROM once WHERE seq = ?", record.seq);
    this.#sql.exec("DELETE FROM entries WHERE seq = ?", record.seq);
  }

  /** @returns how many there were */
  removeAll(): number {
    const { entries } = this.held;
    if (entries === 0) return 0;
    if (this.#isIndexed) this.#sql.exec("INSERT OR REPLACE INTO unindexed (seq) SELECT seq FROM vectors");
    this.#sql.exec("INSERT INTO words (words) VALUES ('delete-all')");
    for (const table of ["once", "tags", "vectors", "entries"]) this.#sql.exec(`DELETE FROM ${table}`);
    this.#sql.exec("UPDATE held SET entries = 0, bytes = 0, vectors = 0, dimension = NULL");
    return entries;
  }

  /** Those that match, the best first. @param match of the index's syntax, from `queryOf` */
  matching(match: string, where: Where, limit: number): Ranked[] {
    if (!this.#tables.exist) return [];
    return this.#sql
      .exec<{ seq: number; score: number }>(
        `SELECT e.seq AS seq, -bm25(words) AS score FROM words JOIN entries AS e ON e.seq = words.rowid
         WHERE words MATCH ? AND ${where.sql} ORDER BY bm25(words), e.seq DESC LIMIT ?`,
        ...[match, ...where.bindings, limit],
      )
      .toArray();
  }

  vector(seq: number): Vector | null {
    const [row] = this.#sql.exec<{ vector: ArrayBuffer }>("SELECT vector FROM vectors WHERE seq = ?", seq).toArray();
    return row ? vectorOf(row.vector) : null;
  }

  *vectors(where: Where): Generator<{ readonly seq: number; readonly vector: Vector }> {
    if (!this.#tables.exist) return;
    const joined = where.bindings.length === 0 ? "" : "JOIN entries AS e ON e.seq = v.seq";
    for (const { seq, vector } of this.#sql.exec<{ seq: number; vector: ArrayBuffer }>(
      `SELECT v.seq, v.vector FROM vectors AS v ${joined} WHERE ${where.sql}`,
      ...where.bindings,
    ))
      yield { seq, vector: vectorOf(vector) };
  }

  *vectorsAt(seqs: readonly number[]): Generator<{ readonly seq: number; readonly vector: Vector }> {
    for (const seq of seqs) {
      const vector = this.vector(seq);
      if (vector) yield { seq, vector };
    }
  }

  /** Entries that an index beside may not know as they are. */
  get unindexed(): number[] {
    if (!this.#tables.exist) return [];
    return this.#sql
      .exec<{ seq: number }>("SELECT seq FROM unindexed")
      .toArray()
      .map(({ seq }) => seq);
  }

  /** Changes that the index beside was not told of, the oldest first. A vector of null: it is gone. */
  untold(limit: number): { readonly change: number; readonly seq: number; readonly vector: Vector | null }[] {
    if (!this.#tables.exist) return [];
    return this.#sql
      .exec<{ change: number; seq: number; vector: ArrayBuffer | null }>(
        `SELECT u.change, u.seq, v.vector FROM unindexed AS u LEFT JOIN vectors AS v ON v.seq = u.seq
         WHERE u.sent_at IS NULL ORDER BY u.change LIMIT ?`,
        limit,
      )
      .toArray()
      .map(({ change, seq, vector }) => ({ change, seq, vector: vector && vectorOf(vector) }));
  }

  /** The index was told of these. What changed meanwhile has another number. */
  told(changes: readonly number[], at: number): void {
    for (const change of changes) this.#sql.exec("UPDATE unindexed SET sent_at = ? WHERE change = ?", at, change);
  }

  /** The index knows these changes by now, and all that it was told before that time. @returns whether others are left */
  settled(change: number, before: number): boolean {
    if (!this.#tables.exist) return false;
    this.#sql.exec(
      "DELETE FROM unindexed WHERE sent_at IS NOT NULL AND (change <= ? OR sent_at < ?)",
      change,
      before || 0,
    );
    return this.#sql.exec("SELECT 1 FROM unindexed LIMIT 1").toArray().length > 0;
  }

  /** All that the index beside may know. */
  everIndexed(): number[] {
    if (!this.#tables.exist) return [];
    return this.#sql
      .exec<{ seq: number }>("SELECT seq FROM vectors UNION SELECT seq FROM unindexed")
      .toArray()
      .map(({ seq }) => seq);
  }

  onceBy(author: string, key: string): { readonly fingerprint: string; readonly seq: number } | null {
    if (!this.#tables.exist) return null;
    const [row] = this.#sql
      .exec<{ fingerprint: string; seq: number }>(
        "SELECT fingerprint, seq FROM once WHERE author_id = ? AND key = ?",
        ...[author, key],
      )
      .toArray();
    return row ?? null;
  }

  saveOnce(author: string, key: string, fingerprint: string, seq: number): void {
    this.#sql.exec("INSERT INTO once VALUES (?, ?, ?, ?)", author, key, fingerprint, seq);
  }

  /** The newest run of a machine that wrote; 0: none has. */
  generation(sandboxId: string): number {
    if (!this.#tables.exist) return 0;
    const [row] = this.#sql
      .exec<{ generation: number }>("SELECT generation FROM generations WHERE sandbox_id = ?", sandboxId)
      .toArray();
    return row?.generation ?? 0;
  }

  saveGeneration(sandboxId: string, generation: number): void {
    this.#sql.exec("INSERT OR REPLACE INTO generations VALUES (?, ?)", sandboxId, generation);
  }

  transaction<T>(work: () => T): T {
    return this.#ctx.storage.transactionSync(work);
  }

  /** What finds it, and what it counts. */
  #link({ seq, text, tags, bytes }: EntryRecord, vector: Vector | null): void {
    this.#sql.exec("INSERT INTO words (rowid, text) VALUES (?, ?)", seq, indexed(text));
    for (const tag of tags) this.#sql.exec("INSERT INTO tags VALUES (?, ?)", tag, seq);
    if (vector) {
      this.#sql.exec("INSERT INTO vectors VALUES (?, ?)", seq, bytesOf(vector));
      this.#changed(seq);
    }
    this.#sql.exec(
      "UPDATE held SET entries = entries + 1, bytes = bytes + ?, vectors = vectors + ?, dimension = COALESCE(dimension, ?)",
      ...[bytes, vector ? 1 : 0, vector ? vector.length : null],
    );
  }

  #unlink({ seq, text, tags, bytes, dimension }: EntryRecord): void {
    this.#sql.exec("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", seq, indexed(text));
    for (const tag of tags) this.#sql.exec("DELETE FROM tags WHERE tag = ? AND seq = ?", tag, seq);
    this.#sql.exec("DELETE FROM vectors WHERE seq = ?", seq);
    const vectors = dimension === null ? 0 : 1;
    if (vectors === 1) this.#changed(seq);
    this.#sql.exec(
      `UPDATE held SET entries = entries - 1, bytes = bytes - ?1, vectors = vectors - ?2,
       dimension = CASE WHEN vectors - ?2 = 0 THEN NULL ELSE dimension END`,
      ...[bytes, vectors],
    );
  }

  /** An index that was bound, or was away, learns of everything. */
  #followIndex(): void {
    const { kv } = this.#ctx.storage;
    if (this.#isIndexed === (kv.get(INDEXED) === true)) return;
    if (this.#isIndexed) {
      this.#sql.exec("INSERT OR REPLACE INTO unindexed (seq) SELECT seq FROM vectors");
      kv.put(INDEXED, true);
    } else {
      this.#sql.exec("DELETE FROM unindexed");
      kv.delete(INDEXED);
    }
  }

  #changed(seq: number): void {
    if (this.#isIndexed) this.#sql.exec("INSERT OR REPLACE INTO unindexed (seq) VALUES (?)", seq);
  }

  #entries(where: string, ...bindings: SqlStorageValue[]): EntryRecord[] {
    if (!this.#tables.exist) return [];
    return this.#sql
      .exec<Row>(`SELECT e.* FROM entries AS e WHERE ${where}`, ...bindings)
      .toArray()
      .map(recordOf);
  }
}

function recordOf(row: Row): EntryRecord {
  const json = <T>(column: string) => (row[column] === null ? null : (JSON.parse(String(row[column])) as T));
  return {
    seq: Number(row["seq"]),
    id: String(row["id"]),
    text: String(row["text"]),
    metadata: json<EntryRecord["metadata"]>("metadata") ?? {},
    tags: json<string[]>("tags") ?? [],
    author: {
      kind: row["author_kind"] as MemoryAuthor["kind"],
      id: String(row["author_id"]),
      name: row["author_name"] as string | null,
    },
    createdAt: Number(row["created_at"]),
    updatedAt: Number(row["updated_at"]),
    version: Number(row["version"]),
    updatedBy: json<MemoryAuthor>("updated_by"),
    dimension: row["dimension"] as number | null,
    bytes: Number(row["bytes"]),
    origin: json<NonNullable<EntryRecord["origin"]>>("origin"),
  };
}

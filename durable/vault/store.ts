/** The tables of a vault's object: what names what, and what nobody names. Sizes are bytes, times Unix milliseconds. */
import type { BlobNote } from "../../sdk/contract/archive.ts";
import { hasSchema, migrate } from "../migrations.ts";
import { PENDING_MS, UPLOAD_MS, type Owned, type Tally, type VaultFacts } from "./api.ts";
import { migrations } from "./schema.ts";
import { earliest } from "../time.ts";

export interface BlobRow extends Record<string, SqlStorageValue> {
  readonly ordinal: number;
  readonly id: string;
  readonly bytes: number;
  readonly verified: 0 | 1;
  readonly garbage: 0 | 1 | 2;
}

/** What a `begin` can't have. */
export interface NoteFaults {
  readonly missing: string[];
  readonly wrongSize: string[];
}

/** Garbage that no upload may bring back: one that is under way could end after the removal. */
const REMOVABLE = `(garbage = 2 OR (garbage = 1
  AND NOT EXISTS (SELECT 1 FROM uploads u WHERE u.blob = blobs.ordinal AND u.until > ?)))`;

export class VaultStore {
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;

  private constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#sql = storage.sql;
    migrate(storage, migrations);
  }

  static existing(storage: DurableObjectStorage): VaultStore | null {
    return hasSchema(storage.sql) ? new VaultStore(storage) : null;
  }

  static create(storage: DurableObjectStorage, vault: string): VaultStore {
    const store = new VaultStore(storage);
    store.#sql.exec("INSERT INTO vault VALUES (1, ?, 0, 0)", vault);
    return store;
  }

  /** The vault's id. */
  get vault(): string {
    return this.#sql.exec<{ id: string }>("SELECT id FROM vault").one().id;
  }

  blob(id: string): BlobRow | null {
    return this.#rows<BlobRow>("SELECT * FROM blobs WHERE id = ?", id)[0] ?? null;
  }

  /** Blobs of which nothing may be noted before they are gone. */
  isRemovingAny(blobs: readonly BlobNote[]): boolean {
    const removing = new Set(this.#rows<{ id: string }>("SELECT id FROM blobs WHERE garbage = 2").map(({ id }) => id));
    return removing.size > 0 && blobs.some(({ id }) => removing.has(id));
  }

  faultsOf(blobs: readonly BlobNote[]): NoteFaults {
    const faults: NoteFaults = { missing: [], wrongSize: [] };
    for (const { id, bytes, isNew } of blobs) {
      const row = this.blob(id);
      if (!isNew && !(row && this.#isHeld(row.ordinal))) faults.missing.push(id);
      else if (row && row.bytes !== bytes) faults.wrongSize.push(id);
    }
    return faults;
  }

  /** Whether a known manifest names just these blobs; an unknown one may name any. */
  agrees(manifest: string, blobs: readonly BlobNote[]): boolean {
    const known = this.#rows<{ id: string }>(
      `SELECT named.id FROM blobs m JOIN names n ON n.manifest = m.ordinal JOIN blobs named ON named.ordinal = n.blob
       WHERE m.id = ?`,
      manifest,
    );
    const named = new Set(known.map(({ id }) => id));
    return named.size === 0 || (named.size === blobs.length && blobs.every(({ id }) => named.has(id)));
  }

  /** Note a pending manifest in the place of the owner's earlier one. Its blobs are without faults. */
  note(owner: string, manifest: string, blobs: readonly BlobNote[], now: number): void {
    this.#storage.transactionSync(() => {
      for (const { id, bytes } of blobs)
        this.#sql.exec(
          `INSERT INTO blobs (id, bytes, verified, garbage) VALUES (?, ?, 0, 0)
           ON CONFLICT (id) DO UPDATE SET garbage = 0 WHERE garbage <> 0`,
          id,
          bytes,
        );
      const ordinal = this.#ordinalOf(manifest);
      for (const { id } of blobs)
        this.#sql.exec("INSERT OR IGNORE INTO names SELECT ?, ordinal FROM blobs WHERE id = ?", ordinal, id);
      const earlier = this.#pendingOrdinal(owner);
      this.#sql.exec("INSERT OR REPLACE INTO pending VALUES (?, ?, ?)", owner, ordinal, now);
      if (earlier !== null) this.#forgetUnreferred(earlier);
    });
  }

  isPending(owner: string, manifest: string): boolean {
    const [row] = this.#rows(
      "SELECT 1 FROM pending p JOIN blobs m ON m.ordinal = p.manifest WHERE p.owner = ? AND m.id = ?",
      owner,
      manifest,
    );
    return row !== undefined;
  }

  isCommitted(owner: string, manifest: string): boolean {
    return this.manifestsOf(owner).includes(manifest);
  }

  manifestsOf(owner: string): string[] {
    return this.#rows<{ id: string }>(
      "SELECT m.id FROM referrals r JOIN blobs m ON m.ordinal = r.manifest WHERE r.owner = ? ORDER BY r.ordinal",
      owner,
    ).map(({ id }) => id);
  }

  /** Pending, with all its blobs seen in the store. */
  isReady(owner: string, manifest: string): boolean {
    return this.isPending(owner, manifest) && this.unverified(manifest).length === 0;
  }

  /** Blobs of a manifest that nobody saw in the store yet. */
  unverified(manifest: string): BlobRow[] {
    return this.#rows<BlobRow>(
      `SELECT named.* FROM blobs m JOIN names n ON n.manifest = m.ordinal JOIN blobs named ON named.ordinal = n.blob
       WHERE m.id = ? AND named.verified = 0`,
      manifest,
    );
  }

  verify(ordinal: number): void {
    this.#sql.exec("UPDATE blobs SET verified = 1 WHERE ordinal = ?", ordinal);
  }

  /** The owner refers to a manifest, whose blobs are verified, from now on. What it had pending of it is done. */
  refer(owner: string, manifest: string): void {
    this.#storage.transactionSync(() => {
      const ordinal = this.#ordinalOf(manifest);
      this.#sql.exec("DELETE FROM pending WHERE owner = ? AND manifest = ?", owner, ordinal);
      const [added] = this.#rows<{ since: number }>(
        "INSERT OR IGNORE INTO referrals (owner, manifest) VALUES (?, ?) RETURNING ordinal AS since",
        owner,
        ordinal,
      );
      if (!added) return;
      this.#sql.exec(
        "INSERT OR IGNORE INTO holds SELECT ?, blob, ? FROM names WHERE manifest = ?",
        owner,
        added.since,
        ordinal,
      );
    });
  }

  /** @param manifests null: all, pending ones too. */
  release(owner: string, manifests: readonly string[] | null): void {
    this.#storage.transactionSync(() => {
      const ordinals =
        manifests === null
          ? this.#rows<{ manifest: number }>(
              "SELECT manifest FROM referrals WHERE owner = ? UNION SELECT manifest FROM pending WHERE owner = ?",
              owner,
              owner,
            ).map(({ manifest }) => manifest)
          : manifests.flatMap((id) => this.blob(id)?.ordinal ?? []);
      for (const manifest of ordinals) {
        this.#sql.exec("DELETE FROM pending WHERE owner = ? AND manifest = ?", owner, manifest);
        this.#sql.exec("DELETE FROM referrals WHERE owner = ? AND manifest = ?", owner, manifest);
        // An owner that refers to a blob through another manifest as well keeps its place.
        this.#sql.exec(
          `DELETE FROM holds WHERE owner = ? AND blob IN (SELECT blob FROM names WHERE manifest = ?) AND NOT EXISTS (
             SELECT 1 FROM names n JOIN referrals r ON r.manifest = n.manifest
             WHERE n.blob = holds.blob AND r.owner = holds.owner)`,
          owner,
          manifest,
        );
        this.#forgetUnreferred(manifest);
      }
    });
  }

  /** Drop manifests that were pending for too long. */
  dropStale(now: number): void {
    this.#storage.transactionSync(() => {
      const stale = this.#rows<{ manifest: number }>(
        "DELETE FROM pending WHERE noted_at <= ? RETURNING manifest",
        now - PENDING_MS,
      );
      for (const { manifest } of stale) this.#forgetUnreferred(manifest);
      this.#sql.exec("DELETE FROM uploads WHERE until <= ?", now);
    });
  }

  /** @returns the upload's id, or null: no manifest names the blob with that size. */
  admit(id: string, bytes: number, now: number): string | null {
    const [upload] = this.#rows<{ id: string }>(
      `INSERT INTO uploads SELECT ?, ordinal, ? FROM blobs WHERE id = ? AND bytes = ? AND garbage = 0 RETURNING id`,
      crypto.randomUUID(),
      now + UPLOAD_MS,
      id,
      bytes,
    );
    return upload?.id ?? null;
  }

  /** The upload is over. @param stored whether the blob is there now; one that nobody knows any more is garbage. */
  landed(upload: string, id: string, bytes: number, stored: boolean): void {
    this.#storage.transactionSync(() => {
      this.#sql.exec("DELETE FROM uploads WHERE id = ?", upload);
      if (!stored) return;
      this.#sql.exec("UPDATE blobs SET verified = 1 WHERE id = ? AND bytes = ? AND garbage < 2", id, bytes);
      this.#sql.exec("INSERT OR IGNORE INTO blobs (id, bytes, verified, garbage) VALUES (?, ?, 1, 1)", id, bytes);
    });
  }

  /** Begin to remove garbage: first what was begun already. */
  takeGarbage(max: number, now: number): BlobRow[] {
    return this.#rows<BlobRow>(
      `UPDATE blobs SET garbage = 2 WHERE ordinal IN (
         SELECT ordinal FROM blobs WHERE ${REMOVABLE} ORDER BY garbage DESC, ordinal LIMIT ?) RETURNING *`,
      now,
      max,
    );
  }

  /** They are gone. */
  removed(blobs: readonly BlobRow[]): void {
    this.#storage.transactionSync(() => {
      for (const { ordinal } of blobs) {
        this.#sql.exec("DELETE FROM blobs WHERE ordinal = ?", ordinal);
        this.#sql.exec("DELETE FROM uploads WHERE blob = ?", ordinal);
      }
      this.#sql.exec("UPDATE vault SET failures = 0, retry_at = 0");
    });
  }

  /** The store failed to remove. @param delayMs how long to wait after so many failures in a row, milliseconds. */
  failed(now: number, delayMs: (failures: number) => number): void {
    const { failures } = this.#sql
      .exec<{ failures: number }>("UPDATE vault SET failures = failures + 1 RETURNING failures")
      .one();
    this.#sql.exec("UPDATE vault SET retry_at = ?", now + delayMs(failures));
  }

  /** When garbage is to be removed next; null: there is none, or uploads are waited for. */
  garbageAt(now: number): number | null {
    const [row] = this.#rows<{ retry_at: number }>(
      `SELECT retry_at FROM vault WHERE EXISTS (SELECT 1 FROM blobs WHERE ${REMOVABLE})`,
      now,
    );
    return row ? Math.max(now, row.retry_at) : null;
  }

  /** When there is something to do next; null: never by itself. */
  nextAt(now: number): number | null {
    if (this.isEmpty()) return now;
    const { stale, uploads } = this.#sql
      .exec<{ stale: number | null; uploads: number | null }>(
        "SELECT (SELECT MIN(noted_at) FROM pending) AS stale, (SELECT MIN(until) FROM uploads) AS uploads",
      )
      .one();
    return earliest(stale === null ? null : stale + PENDING_MS, uploads, this.garbageAt(now));
  }

  /** Nobody refers to anything, and nothing is left to remove. */
  isEmpty(): boolean {
    return this.#rows("SELECT 1 FROM blobs LIMIT 1").length === 0;
  }

  owned(owner: string): Owned {
    return this.#sql
      .exec<{ ownedBytes: number; storedBytes: number }>(
        `SELECT COALESCE(SUM(b.bytes), 0) AS storedBytes,
           COALESCE(SUM(CASE WHEN h.since = (SELECT MIN(since) FROM holds f WHERE f.blob = h.blob) THEN b.bytes END), 0)
             AS ownedBytes
         FROM holds h JOIN blobs b ON b.ordinal = h.blob WHERE h.owner = ?`,
        owner,
      )
      .one();
  }

  facts(): VaultFacts {
    const held = "ordinal IN (SELECT blob FROM holds)";
    const { owners, manifests } = this.#sql
      .exec<{ owners: number; manifests: number }>(
        "SELECT COUNT(DISTINCT owner) AS owners, COUNT(DISTINCT manifest) AS manifests FROM referrals",
      )
      .one();
    return {
      owners,
      manifests,
      referenced: this.#tally(held),
      pending: this.#tally(`garbage = 0 AND NOT ${held}`),
      garbage: this.#tally("garbage > 0"),
    };
  }

  #tally(condition: string): Tally {
    const columns = "COUNT(*) AS blobs, COALESCE(SUM(bytes), 0) AS bytes";
    return this.#sql.exec<{ blobs: number; bytes: number }>(`SELECT ${columns} FROM blobs WHERE ${condition}`).one();
  }

  #isHeld(blob: number): boolean {
    return this.#rows("SELECT 1 FROM holds WHERE blob = ? LIMIT 1", blob).length > 0;
  }

  #ordinalOf(id: string): number {
    return this.#sql.exec<{ ordinal: number }>("SELECT ordinal FROM blobs WHERE id = ?", id).one().ordinal;
  }

  #pendingOrdinal(owner: string): number | null {
    return this.#rows<{ manifest: number }>("SELECT manifest FROM pending WHERE owner = ?", owner)[0]?.manifest ?? null;
  }

  /** A manifest that nobody refers to names nothing any more; what nothing names is garbage. */
  #forgetUnreferred(manifest: number): void {
    const referred = this.#rows(
      "SELECT 1 FROM pending WHERE manifest = ? UNION SELECT 1 FROM referrals WHERE manifest = ?",
      manifest,
      manifest,
    );
    if (referred.length > 0) return;
    this.#sql.exec(
      `UPDATE blobs SET garbage = 1 WHERE garbage = 0 AND ordinal IN (SELECT blob FROM names WHERE manifest = ?)
         AND NOT EXISTS (SELECT 1 FROM names n WHERE n.blob = blobs.ordinal AND n.manifest <> ?)`,
      manifest,
      manifest,
    );
    this.#sql.exec("DELETE FROM names WHERE manifest = ?", manifest);
  }

  #rows<T extends Record<string, SqlStorageValue>>(query: string, ...bindings: SqlStorageValue[]): T[] {
    return this.#sql.exec<T>(query, ...bindings).toArray();
  }
}

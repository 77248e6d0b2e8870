/** The tables of an account's volumes, who waits for a change in them, and the alarm that they ask for. No rules. */
import { accountObject } from "../account/api.ts";
import { Charges } from "../charges.ts";
import { Tables } from "../migrations.ts";
import { earliest } from "../time.ts";
import { Watchers } from "../watchers.ts";
import { vaultObject, type Owned, type VaultApi } from "../vault/api.ts";
import {
  attachmentDueAt,
  backupDueAt,
  volumeDueAt,
  type AttachmentRecord,
  type BackupRecord,
  type VolumeRecord,
} from "./record.ts";
import { migrations } from "./schema.ts";

type Body = Record<"body", string>;

/** Rows that one alarm takes up of each table; the next follows at once. */
const DUE_MAX = 50;

export class VolumeStore {
  readonly #ctx: DurableObjectState;
  readonly #sql: SqlStorage;
  readonly env: Env;
  readonly charges: Charges;
  readonly #tables: Tables;
  readonly #watchers = new Watchers();

  constructor(ctx: DurableObjectState, env: Env) {
    this.#ctx = ctx;
    this.#sql = ctx.storage.sql;
    this.env = env;
    this.charges = new Charges({
      sql: this.#sql,
      account: () => accountObject(env.ACCOUNT, this.account),
      vault: (vault) => this.vault(vault),
      onOwned: (id, ownedBytes) => {
        const backup = this.backup(id);
        if (backup) this.saveBackup({ ...backup, ownedBytes });
      },
    });
    this.#tables = new Tables(ctx.storage, migrations);
  }

  /** Nothing was ever stored: asking for something leaves no trace. */
  get isEmpty(): boolean {
    return !this.#tables.exist;
  }

  /** Before something is stored. */
  open(): void {
    if (!this.#tables.make()) return;
    this.#sql.exec("INSERT INTO account VALUES (1, ?)", this.#ctx.id.name ?? "");
  }

  get account(): string {
    return this.#sql.exec<{ name: string }>("SELECT name FROM account").one().name;
  }

  get sql(): SqlStorage {
    return this.#sql;
  }

  volume(id: string): VolumeRecord | null {
    return this.#one<VolumeRecord>("SELECT body FROM volumes WHERE id = ?", id);
  }

  volumeNamed(name: string): VolumeRecord | null {
    return this.#one<VolumeRecord>("SELECT body FROM volumes WHERE name = ?", name);
  }

  /** By id, or by name. */
  volumeCalled(volume: string): VolumeRecord | null {
    return this.volume(volume) ?? this.volumeNamed(volume);
  }

  /** The newest first, from there on. */
  *volumesBefore(createdAt: number, id: string): Generator<VolumeRecord> {
    yield* this.#each<VolumeRecord>(
      "SELECT body FROM volumes WHERE (created_at, id) < (?, ?) ORDER BY created_at DESC, id DESC",
      ...[createdAt, id],
    );
  }

  countVolumes(): number {
    return this.#count("SELECT COUNT(*) AS count FROM volumes");
  }

  /** One that is ready is charged from its creation, on its full size. */
  saveVolume(record: VolumeRecord): VolumeRecord {
    const { id, labels, createdAt, state, sizeMiB: has } = record;
    const thing = { id, name: record.name, labels, createdAt, meter: "volume", has, vault: null } as const;
    if (state === "ready") this.charges.keep(thing, createdAt, Date.now());
    else this.charges.drop(id, Date.now());
    const name = record.state === "deleting" ? null : record.name;
    this.#sql.exec(
      `INSERT INTO volumes (id, name, created_at, due_at, body) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET name = excluded.name, due_at = excluded.due_at, body = excluded.body`,
      ...[record.id, name, record.createdAt, volumeDueAt(record, Date.now()), JSON.stringify(record)],
    );
    this.#changed(record.id);
    return record;
  }

  forgetVolume(id: string): void {
    this.#sql.exec("DELETE FROM volumes WHERE id = ?", id);
    this.#changed(id);
  }

  attachment(id: string): AttachmentRecord | null {
    return this.#one<AttachmentRecord>("SELECT body FROM attachments WHERE id = ?", id);
  }

  attachmentsOf(volumeId: string): AttachmentRecord[] {
    return this.#all<AttachmentRecord>("SELECT body FROM attachments WHERE volume_id = ? ORDER BY rowid", volumeId);
  }

  attachmentsIn(sandboxId: string): AttachmentRecord[] {
    return this.#all<AttachmentRecord>("SELECT body FROM attachments WHERE sandbox_id = ? ORDER BY rowid", sandboxId);
  }

  saveAttachment(record: AttachmentRecord): AttachmentRecord {
    const { id, volumeId, sandboxId } = record;
    this.#sql.exec(
      `INSERT INTO attachments (id, volume_id, sandbox_id, due_at, body) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET due_at = excluded.due_at, body = excluded.body`,
      ...[id, volumeId, sandboxId, attachmentDueAt(record, Date.now()), JSON.stringify(record)],
    );
    this.#changed(id);
    return record;
  }

  forgetAttachment(id: string): void {
    this.#sql.exec("DELETE FROM attachments WHERE id = ?", id);
    this.#changed(id);
  }

  backup(id: string): BackupRecord | null {
    return this.#one<BackupRecord>("SELECT body FROM backups WHERE id = ?", id);
  }

  /** Not those of snapshots; the newest first, from there on. */
  *backupsBefore(createdAt: number, id: string): Generator<BackupRecord> {
    yield* this.#each<BackupRecord>(
      `SELECT body FROM backups WHERE snapshot IS NULL AND (created_at, id) < (?, ?)
       ORDER BY created_at DESC, id DESC`,
      ...[createdAt, id],
    );
  }

  /** Not those of snapshots; the newest first. */
  backupsOf(volumeId: string): BackupRecord[] {
    return this.#all<BackupRecord>(
      "SELECT body FROM backups WHERE snapshot IS NULL AND volume_id = ? ORDER BY created_at DESC, id DESC",
      volumeId,
    );
  }

  /** In their order. */
  copiesOf(snapshot: string): BackupRecord[] {
    return this.#all<BackupRecord>("SELECT body FROM backups WHERE snapshot = ? ORDER BY place", snapshot);
  }

  /** Those that somebody asked for, and that did not fail. */
  countBackups(): number {
    return this.#count(
      `SELECT COUNT(*) AS count FROM backups WHERE snapshot IS NULL
       AND json_extract(body, '$.trigger') = 'manual' AND json_extract(body, '$.state') <> 'failed'`,
    );
  }

  /** One that is ready is charged, on what it alone stores. */
  saveBackup(record: BackupRecord): BackupRecord {
    const { id, volumeId, snapshot, createdAt, name, labels, ownedBytes: has, vault, readyAt } = record;
    const thing = { id, name, labels, createdAt, meter: "backup", has, vault } as const;
    if (record.state === "ready") this.charges.keep(thing, readyAt ?? createdAt, Date.now());
    else this.charges.drop(id, Date.now());
    this.#sql.exec(
      `INSERT INTO backups (id, volume_id, snapshot, place, created_at, due_at, body) VALUES (?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET due_at = excluded.due_at, body = excluded.body`,
      ...[id, volumeId, snapshot?.id ?? null, snapshot?.place ?? null, createdAt],
      ...[backupDueAt(record, Date.now()), JSON.stringify(record)],
    );
    this.#changed(id);
    return record;
  }

  forgetBackup(id: string): void {
    this.#sql.exec("DELETE FROM backups WHERE id = ?", id);
    this.#changed(id);
  }

  dueVolumes(now: number): VolumeRecord[] {
    return this.#all<VolumeRecord>("SELECT body FROM volumes WHERE due_at <= ? LIMIT ?", now, DUE_MAX);
  }

  dueAttachments(now: number): AttachmentRecord[] {
    return this.#all<AttachmentRecord>("SELECT body FROM attachments WHERE due_at <= ? LIMIT ?", now, DUE_MAX);
  }

  dueBackups(now: number): BackupRecord[] {
    return this.#all<BackupRecord>("SELECT body FROM backups WHERE due_at <= ? LIMIT ?", now, DUE_MAX);
  }

  /** Set the alarm to when something is due. */
  async arm(): Promise<void> {
    const { storage } = this.#ctx;
    const { due } = this.#sql
      .exec<{ due: number | null }>(
        `SELECT MIN(due_at) AS due FROM (
           SELECT MIN(due_at) AS due_at FROM volumes UNION ALL SELECT MIN(due_at) FROM attachments
           UNION ALL SELECT MIN(due_at) FROM backups)`,
      )
      .one();
    const at = earliest(due, this.charges.nextAt());
    await (at === null ? storage.deleteAlarm() : storage.setAlarm(at));
  }

  /** Resolves when what has that id is as wanted, or the time is up. */
  until(id: string, isWanted: () => boolean, waitMs: number): Promise<void> {
    return this.#watchers.until(id, isWanted, waitMs);
  }

  vault(vault: string): VaultApi {
    return vaultObject(this.env.VAULT, this.account, vault);
  }

  /** `to` refers to a manifest that one of the owners has. null: none has. */
  async share(vault: string, manifest: string, to: string, owners: readonly string[]): Promise<Owned | null> {
    for (const owner of owners) {
      const shared = await this.vault(vault).share(owner, manifest, to);
      if (shared.ok) return shared;
    }
    return null;
  }

  #changed(id: string): void {
    this.#watchers.changed(id);
    void this.arm();
  }

  #one<T>(query: string, ...bindings: SqlStorageValue[]): T | null {
    return this.#all<T>(query, ...bindings)[0] ?? null;
  }

  #all<T>(query: string, ...bindings: SqlStorageValue[]): T[] {
    return [...this.#each<T>(query, ...bindings)];
  }

  *#each<T>(query: string, ...bindings: SqlStorageValue[]): Generator<T> {
    if (!this.#tables.exist) return;
    for (const { body } of this.#sql.exec<Body>(query, ...bindings)) yield JSON.parse(body) as T;
  }

  #count(query: string): number {
    return this.#tables.exist ? this.#sql.exec<{ count: number }>(query).one().count : 0;
  }
}

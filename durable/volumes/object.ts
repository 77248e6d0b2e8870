/** The volumes of one account: what is known of each, of its stays with sandboxes and its backups. Bytes are in vaults. */
import { DurableObject } from "cloudflare:workers";
import type { ArchiveStep } from "../../sdk/contract/archive.ts";
import { AttachmentId, backupId, volumeId } from "../../sdk/contract/names.ts";
import type {
  Attachment,
  BackupPolicy,
  BackupVolume,
  CreateVolume,
  UpdateVolume,
  Volume,
  VolumeBackup,
  VolumeBackupList,
  VolumeBackupListQuery,
  VolumeList,
  VolumeListQuery,
} from "../../sdk/contract/volume.ts";
import type { Once } from "../account/api.ts";
import { page } from "../page.ts";
import type { Result } from "../result.ts";
import type { ArchiveAnswer } from "../sandbox/api.ts";
import { Answers } from "./answers.ts";
import type { AttachAsk, AttachedVolume, DetachAsk, SnapshotCopyAsk, VolumesApi } from "./api.ts";
import { Attachments, lostHosts } from "./attachments.ts";
import { BACKUP_DAYS, Backups } from "./backups.ts";
import { toBackup } from "./record.ts";
import { VolumeStore } from "./store.ts";
import { Volumes } from "./volumes.ts";

/** An alarm that dies is followed by another after this, milliseconds. */
const SAFETY_MS = 30_000;

export class VolumesObject extends DurableObject<Env> implements VolumesApi {
  readonly #store: VolumeStore;
  readonly #answers: Answers;
  readonly #attachments: Attachments;
  readonly #backups: Backups;
  readonly #volumes: Volumes;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#store = new VolumeStore(ctx, env);
    const tidy = (id: string) => this.#volumes.tidy(id);
    this.#answers = new Answers(this.#store);
    this.#attachments = new Attachments(this.#store, tidy);
    this.#backups = new Backups(this.#store, tidy);
    this.#volumes = new Volumes(this.#store, this.#backups);
  }

  async create(input: CreateVolume, once: Once): Promise<Result<{ volume: Volume }>> {
    const id = await volumeId(this.ctx.id.name ?? "", once.key);
    return this.#answers.once(once, () => this.#volumes.create(input, id));
  }

  async get(volume: string): Promise<Result<{ volume: Volume }>> {
    return this.#volumes.get(volume);
  }

  async list(query: VolumeListQuery): Promise<VolumeList | null> {
    return page(
      query,
      /^(\d{1,15})\.(vol-[0-9a-z]{20})$/,
      (at, id) => this.#store.volumesBefore(at, id),
      ({ name, state }) =>
        (query.name === undefined || name === query.name) && (query.state === undefined || state === query.state),
      (record) => this.#volumes.shown(record),
    );
  }

  async update(volume: string, input: UpdateVolume, once: Once): Promise<Result<{ volume: Volume }>> {
    return this.#answers.once(once, async () => this.#volumes.update(volume, input));
  }

  async resize(volume: string, sizeMiB: number, once: Once): Promise<Result<{ volume: Volume }>> {
    return this.#answers.once(once, () => this.#volumes.resize(volume, sizeMiB));
  }

  async setPolicy(volume: string, input: BackupPolicy, once: Once): Promise<Result<{ volume: Volume }>> {
    return this.#answers.once(once, async () => this.#volumes.setPolicy(volume, input));
  }

  async remove(volume: string, once: Once): Promise<Result<{ volume: Volume }>> {
    return this.#answers.once(once, () => this.#volumes.remove(volume));
  }

  async attach(ask: AttachAsk): Promise<Result<{ attached: readonly AttachedVolume[] }>> {
    return this.#attachments.attach(ask);
  }

  async noted(sandboxId: string, attachments: readonly string[]): Promise<Result<object>> {
    return this.#attachments.noted(sandboxId, attachments);
  }

  async arrive(sandboxId: string, hostId: string): Promise<Result<object>> {
    return this.#attachments.arrive(sandboxId, hostId);
  }

  async detach(ask: DetachAsk): Promise<Result<object>> {
    return this.#attachments.detach(ask);
  }

  async attachment(id: string, waitMs: number): Promise<Result<{ attachment: Attachment }>> {
    return this.#attachments.get(id, waitMs);
  }

  async backup(
    volume: string,
    { name, labels, retentionDays }: BackupVolume,
    once: Once,
    waitMs: number,
  ): Promise<Result<{ backup: VolumeBackup }>> {
    const id = await backupId(this.ctx.id.name ?? "", once.key);
    const terms = {
      ...{ id, name: name ?? null, labels: labels ?? {}, trigger: "manual" as const },
      retentionDays: retentionDays ?? BACKUP_DAYS,
    };
    const answer = await this.#answers.once<Result<{ backup: VolumeBackup }>>(once, () =>
      this.#backups.take(volume, terms, waitMs),
    );
    if (!answer.ok || answer.backup.state !== "pending" || !answer.backup.replayed) return answer;
    // It may have become something since it was answered first.
    const now = await this.#backups.get(answer.backup.id, waitMs);
    return now.ok ? { ok: true, backup: { ...now.backup, replayed: true } } : answer;
  }

  async getBackup(id: string, waitMs: number): Promise<Result<{ backup: VolumeBackup }>> {
    return this.#backups.get(id, waitMs);
  }

  async listBackups(query: VolumeBackupListQuery): Promise<VolumeBackupList | null> {
    return page(
      query,
      /^(\d{1,15})\.(bak-[0-9a-z]{20})$/,
      (at, id) => this.#store.backupsBefore(at, id),
      (record) =>
        (query.volumeId === undefined || record.volumeId === query.volumeId) &&
        (query.state === undefined || record.state === query.state),
      toBackup,
    );
  }

  async removeBackup(id: string): Promise<Result<{ backup: VolumeBackup }>> {
    return this.#backups.remove(id);
  }

  async beginSnapshot(copies: readonly SnapshotCopyAsk[]): Promise<Result<object>> {
    return this.#backups.beginSnapshot(copies);
  }

  async restoreSnapshot(snapshot: string, key: string): Promise<Result<{ volumeIds: readonly string[] }>> {
    return this.#volumes.restoreSnapshot(snapshot, key);
  }

  async dropSnapshot(snapshot: string): Promise<Result<object>> {
    return this.#backups.dropSnapshot(snapshot);
  }

  async archiveStep(id: string, step: ArchiveStep, hostId: string): Promise<Result<{ answer: ArchiveAnswer }>> {
    return AttachmentId.safeParse(id).success
      ? this.#attachments.archiveStep(id, step, hostId)
      : this.#backups.archiveStep(id, step, hostId);
  }

  override async alarm(): Promise<void> {
    const store = this.#store;
    if (store.isEmpty) return;
    const now = Date.now();
    await this.ctx.storage.setAlarm(now + SAFETY_MS);
    const isLost = lostHosts(this.env);
    await Promise.all([
      attempt("charges", () => store.charges.alarm(now)),
      ...store.dueVolumes(now).map((one) => attempt(one.id, () => this.#volumes.due(one, now))),
      ...store.dueAttachments(now).map((one) => attempt(one.id, () => this.#attachments.due(one, isLost))),
      ...store.dueBackups(now).map((one) => attempt(one.id, () => this.#backups.due(one))),
    ]);
    await store.arm();
  }
}

/** What fails is tried again by a later alarm, and keeps nothing else from being done. */
async function attempt(what: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (fault) {
    console.error(JSON.stringify({ level: "error", what, fault: String(fault) }));
  }
}

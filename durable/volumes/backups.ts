/** Copies of volumes: backups that people and the day take, and the hidden ones of snapshots. */
import type { ArchiveStep } from "../../sdk/contract/archive.ts";
import type { Failure } from "../../sdk/contract/error-codes.ts";
import { backupId, labelOfId } from "../../sdk/contract/names.ts";
import { volumeLimits, type VolumeBackup } from "../../sdk/contract/volume.ts";
import { refuse, type Result } from "../result.ts";
import { sandboxObject, type ArchiveAnswer } from "../sandbox/api.ts";
import type { Owned } from "../vault/api.ts";
import { vaultTicket } from "../vault/tickets.ts";
import type { SnapshotCopyAsk } from "./api.ts";
import { taken, volumeNotFound } from "./attachments.ts";
import {
  DAY_MS,
  HOUR_MS,
  isOver,
  toBackup,
  withCleanCopy,
  type AttachmentRecord,
  type BackupRecord,
  type VolumeRecord,
} from "./record.ts";
import type { VolumeStore } from "./store.ts";

const TICKET_MS = 3_600_000;
/** Most backups that an account may have at once, but for those of snapshots. */
const BACKUPS_MAX = 200;
/** How often a state that changes meanwhile is looked at anew. */
const LATEST_TRIES = 3;

type Answer = Result<{ backup: VolumeBackup }>;
type Terms = Pick<BackupRecord, "id" | "name" | "labels" | "trigger" | "retentionDays">;

export class Backups {
  readonly #store: VolumeStore;
  readonly #tidy: (volumeId: string) => Promise<void>;

  /** @param tidy has the vault drop what a volume needs no more */
  constructor(store: VolumeStore, tidy: (volumeId: string) => Promise<void>) {
    this.#store = store;
    this.#tidy = tidy;
  }

  async take(called: string, terms: Terms, waitMs: number): Promise<Answer> {
    if (this.#store.backup(terms.id)) return this.get(terms.id, waitMs);
    const volume = this.#store.volumeCalled(called);
    if (!volume || volume.state === "deleting") return volumeNotFound;
    if (volume.state !== "ready") return refuse("volume_not_ready", `The volume is ${volume.state}.`);
    // Daily ones are bounded by their policy: a limit would end them unseen.
    if (terms.trigger === "manual" && this.#store.countBackups() >= BACKUPS_MAX)
      return refuse("quota_exceeded", `An account has at most ${BACKUPS_MAX} backups that it asked for.`, {
        max: BACKUPS_MAX,
      });
    const writer = this.#writer(volume.id);
    if (writer?.state === "detaching") return taken(writer);
    // Noted before anything is copied: its host may store it before the sandbox has answered.
    this.#store.saveBackup({ ...pending(volume, terms), hostId: writer?.hostId ?? null });
    const failure = writer ? await this.#copy(terms.id, writer) : await this.#shareLatest(terms.id);
    if (failure) {
      this.#fail(terms.id, failure.message);
      return { ok: false, failure };
    }
    return this.get(terms.id, waitMs);
  }

  /** The one of the day, unless nothing changed since the last one. One that fails is tried again after an hour. */
  async daily(volume: VolumeRecord, now: number): Promise<void> {
    const { id, nextDailyAt, latest } = volume;
    const days = Math.floor(Math.max(0, now - nextDailyAt) / DAY_MS) + 1;
    this.#store.saveVolume({ ...volume, nextDailyAt: nextDailyAt + days * DAY_MS });
    if (!this.#writer(id)) {
      const last = this.#store.backupsOf(id).find((one) => one.trigger === "daily" && one.state === "ready");
      if (!latest || last?.manifest === latest.manifest) return;
    }
    const own = await backupId(this.#store.account, `daily ${id} ${nextDailyAt}`);
    const terms = { id: own, name: null, labels: {}, trigger: "daily", retentionDays: volume.backupDays } as const;
    const answer = await this.take(id, terms, 0);
    const after = this.#store.volume(id);
    if (!answer.ok && after?.state === "ready")
      this.#store.saveVolume({ ...after, nextDailyAt: Math.min(after.nextDailyAt, now + HOUR_MS) });
  }

  async get(id: string, waitMs: number): Promise<Answer> {
    await this.#store.until(id, () => this.#store.backup(id)?.state !== "pending", waitMs);
    const record = this.#visible(id);
    return record ? { ok: true, backup: toBackup(record) } : backupNotFound;
  }

  async remove(id: string): Promise<Answer> {
    const record = this.#visible(id);
    if (!record) return backupNotFound;
    const deleting = this.#store.saveBackup({ ...record, state: "deleting" });
    await this.#delete(id).catch(() => undefined);
    const state = this.#store.backup(id) ? "deleting" : "deleted";
    return { ok: true, backup: { ...toBackup(deleting), state, status: state } };
  }

  async beginSnapshot(copies: readonly SnapshotCopyAsk[]): Promise<Result<object>> {
    const fresh: BackupRecord[] = [];
    for (const [place, { backup, snapshot, attachment, hostId }] of copies.entries()) {
      const known = this.#store.backup(backup);
      if (known && known.snapshot?.id !== snapshot) return refuse("conflict", "That backup is another one.");
      if (known) continue;
      const stay = this.#store.attachment(attachment);
      const volume = stay && this.#store.volume(stay.volumeId);
      if (!volume || volume.state !== "ready")
        return refuse("attachment_not_found", "There is no such attachment.", { attachmentId: attachment });
      const terms = {
        id: backup,
        name: null,
        labels: {},
        trigger: "manual",
        retentionDays: volume.backupDays,
      } as const;
      fresh.push({ ...pending(volume, terms), snapshot: { id: snapshot, place }, hostId });
    }
    // Nothing was waited for since the first look: all of them, or none.
    for (const record of fresh) this.#store.saveBackup(record);
    for (const { backup, attachment, manifest, hostId } of copies) {
      if (this.#store.backup(backup)?.state !== "pending") continue;
      if (manifest === null && hostId !== null) continue;
      const failure =
        manifest === null ? this.#ready(backup, null, NOTHING, false) : await this.#share(backup, manifest, attachment);
      if (!failure) continue;
      await Promise.all(fresh.map((record) => this.#drop(record.id)));
      return { ok: false, failure };
    }
    return { ok: true };
  }

  async dropSnapshot(snapshot: string): Promise<Result<object>> {
    await Promise.all(this.#store.copiesOf(snapshot).map(({ id }) => this.#drop(id)));
    return { ok: true };
  }

  async archiveStep(id: string, step: ArchiveStep, hostId: string): Promise<Result<{ answer: ArchiveAnswer }>> {
    const record = this.#store.backup(id);
    if (!record || record.hostId !== hostId) return unknown;
    if (step.step === "cold") return { ok: true, answer: {} };
    // It has what it needs: only an answer that was lost is given again.
    if (record.state === "ready" && "manifest" in step && step.manifest === record.manifest)
      return { ok: true, answer: { ownedBytes: record.ownedBytes } };
    if (record.state !== "pending") return unknown;
    const vault = this.#store.vault(record.vault);
    if (step.step === "begin") {
      const { key, previous } = record;
      const ticket = await vaultTicket(this.#store.env, this.#store.account, record.vault, hostId, true, TICKET_MS);
      return { ok: true, answer: { vault: record.vault, key, ticket, previous } };
    }
    if (step.step === "upload") {
      const begun = await vault.begin(id, step.manifest, step.blobs);
      if (!begun.ok) return begun;
      const now = this.#store.backup(id);
      if (now?.state === "pending")
        this.#store.saveBackup({ ...now, manifest: step.manifest, clean: step.clean === true });
      return { ok: true, answer: { ownedBytes: 0 } };
    }
    const owned = await vault.commit(id, step.manifest);
    if (!owned.ok) return owned;
    const now = this.#store.backup(id);
    const clean = now?.manifest === step.manifest && now.clean;
    if (this.#ready(id, step.manifest, owned, clean)) {
      await this.#forgo(id, record.vault);
      return unknown;
    }
    await this.#offer(id);
    return { ok: true, answer: { ownedBytes: owned.ownedBytes } };
  }

  /** Something is to be done without anybody asking. */
  async due(record: BackupRecord): Promise<void> {
    const { id, state } = record;
    if (state === "pending") return this.#fail(id, "Its copy was not stored in time.");
    this.#store.saveBackup({ ...record, state: "deleting" });
    await this.#delete(id);
  }

  /** Have the sandbox's host copy what is written now, unless what is stored is all there is. */
  async #copy(id: string, writer: AttachmentRecord): Promise<Failure | null> {
    const label = labelOfId(writer.sandboxId);
    const { env, account } = this.#store;
    if (label === null) return unknown.failure;
    const copied = await sandboxObject(env.SANDBOX, account, label)
      .copyVolume(writer.sandboxId, writer.id, id)
      .catch(() => ({ ok: false as const, failure: unreachable }));
    if (!copied.ok) return copied.failure;
    if (!copied.copying)
      return copied.stored === null ? this.#ready(id, null, NOTHING, false) : this.#share(id, copied.stored, writer.id);
    const hostId = this.#store.attachment(writer.id)?.hostId ?? writer.hostId;
    const now = this.#store.backup(id);
    if (now?.state === "pending") this.#store.saveBackup({ ...now, hostId });
    return null;
  }

  /** What a sandbox, or its stay, has stored is what the copy is. */
  async #share(id: string, manifest: string, attachment: string): Promise<Failure | null> {
    const record = this.#store.backup(id);
    const stay = this.#store.attachment(attachment);
    if (!record || !stay) return lost;
    const owners = [record.volumeId, stay.sandboxId, attachment];
    const owned = await this.#store.share(record.vault, manifest, id, owners);
    if (!owned) return lost;
    const failure = this.#ready(id, manifest, owned, this.#isClean(record.volumeId, manifest));
    if (failure) await this.#forgo(id, record.vault);
    return failure;
  }

  async #shareLatest(id: string): Promise<Failure | null> {
    for (let tries = 0; tries < LATEST_TRIES; tries++) {
      const record = this.#store.backup(id);
      const latest = record && this.#store.volume(record.volumeId)?.latest;
      if (!record || latest === undefined) return lost;
      if (latest === null) return this.#ready(id, null, NOTHING, false);
      const clean = this.#isClean(record.volumeId, latest.manifest);
      const owned = await this.#store.share(record.vault, latest.manifest, id, [record.volumeId]);
      if (!owned) continue;
      const failure = this.#ready(id, latest.manifest, owned, clean);
      if (failure) await this.#forgo(id, record.vault);
      return failure;
    }
    return lost;
  }

  /** null: it is. */
  #ready(id: string, manifest: string | null, { storedBytes, ownedBytes }: Owned, clean: boolean): Failure | null {
    const record = this.#store.backup(id);
    if (record?.state === "ready" && record.manifest === manifest) return null;
    if (record?.state !== "pending") return lost;
    const stored = { manifest, storedBytes, ownedBytes, clean, previous: null };
    this.#store.saveBackup({ ...record, ...stored, state: "ready", readyAt: Date.now() });
    return null;
  }

  /** A copy that mounts as it is may be what the volume lacks for sandboxes that only read. */
  async #offer(id: string): Promise<void> {
    const record = this.#store.backup(id);
    if (record?.state !== "ready" || !record.clean || record.manifest === null) return;
    const { vault, manifest, volumeId, storedBytes, createdAt: at } = record;
    const isWanted = (volume: VolumeRecord | null) =>
      volume?.state === "ready" && (!volume.clean || volume.clean.at <= at);
    if (!isWanted(this.#store.volume(volumeId))) return;
    if (!(await this.#store.share(vault, manifest, volumeId, [id]))) return;
    const volume = this.#store.volume(volumeId);
    if (volume?.state === "ready") {
      const content = { manifest, generation: 0, attachment: null, storedBytes, at };
      this.#store.saveVolume(withCleanCopy(volume, content));
      await this.#tidy(volumeId);
    } else await this.#store.vault(vault).release(volumeId, [manifest]);
  }

  /** It was given up or deleted while it was stored: nothing is kept for it. */
  async #forgo(id: string, vault: string): Promise<void> {
    await this.#store.vault(vault).release(id, null);
  }

  #fail(id: string, error: string): void {
    const record = this.#store.backup(id);
    if (record?.state === "pending") this.#store.saveBackup({ ...record, state: "failed", error });
  }

  /** The alarm tries again what fails. */
  async #drop(id: string): Promise<void> {
    const record = this.#store.backup(id);
    if (!record) return;
    this.#store.saveBackup({ ...record, state: "deleting" });
    await this.#delete(id).catch(() => undefined);
  }

  async #delete(id: string): Promise<void> {
    const record = this.#store.backup(id);
    if (record?.state !== "deleting") return;
    const released = await this.#store.vault(record.vault).release(id, null);
    if (released.ok) this.#store.forgetBackup(id);
  }

  #visible(id: string): BackupRecord | null {
    const record = this.#store.backup(id);
    return record && !record.snapshot && record.state !== "deleting" ? record : null;
  }

  /** Who may have written what is not stored yet. */
  #writer(volumeId: string): AttachmentRecord | undefined {
    return this.#store.attachmentsOf(volumeId).find((one) => one.mode === "rw" && one.hostId !== null && !isOver(one));
  }

  #isClean(volumeId: string, manifest: string): boolean {
    return this.#store.volume(volumeId)?.clean?.manifest === manifest;
  }
}

/** A copy of a volume of which nothing is stored yet. */
function pending({ id: volumeId, sizeMiB, vault, key, latest }: VolumeRecord, terms: Terms): BackupRecord {
  return {
    ...terms,
    ...{ volumeId, sizeMiB, vault, key, state: "pending", snapshot: null, manifest: null, clean: false, hostId: null },
    previous: latest && { manifest: latest.manifest, key },
    ...{ storedBytes: 0, ownedBytes: 0, error: null, createdAt: Date.now(), readyAt: null },
  };
}

/** Days that a backup is kept which says nothing of it. */
export const BACKUP_DAYS = volumeLimits.backupDaysDefault;

const NOTHING: Owned = { storedBytes: 0, ownedBytes: 0 };
export const backupNotFound = refuse("backup_not_found", "There is no such backup.");
const unknown = refuse("not_found", "That host stores nothing of such a backup.");
const lost: Failure = { code: "conflict", message: "What was stored of the volume changed meanwhile; try again." };
const unreachable: Failure = {
  code: "host_unavailable",
  message: "The sandbox can't be asked now.",
  retryAfterMs: 1000,
};

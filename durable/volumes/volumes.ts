/** Volumes themselves: made, changed, deleted. */
import type { Failure } from "../../sdk/contract/error-codes.ts";
import { BASE36, randomText } from "../../sdk/contract/random.ts";
import { labelOfId, volumeId } from "../../sdk/contract/names.ts";
import { toBase64Url } from "../../sdk/contract/ticket.ts";
import {
  volumeLimits,
  type BackupPolicy,
  type CreateVolume,
  type UpdateVolume,
  type Volume,
} from "../../sdk/contract/volume.ts";
import { refuse, type Result } from "../result.ts";
import { sandboxObject } from "../sandbox/api.ts";
import { taken, volumeNotFound } from "./attachments.ts";
import { backupNotFound, type Backups } from "./backups.ts";
import { HOUR_MS, isOver, toVolume, type BackupRecord, type VolumeRecord } from "./record.ts";
import type { VolumeStore } from "./store.ts";

/** Most volumes that an account may have at once. */
const VOLUMES_MAX = 1000;

type Answer = Result<{ volume: Volume }>;
type Refusal = { readonly ok: false; readonly failure: Failure };

export class Volumes {
  readonly #store: VolumeStore;
  readonly #backups: Backups;

  constructor(store: VolumeStore, backups: Backups) {
    this.#store = store;
    this.#backups = backups;
  }

  async create({ sizeMiB, fromBackup, name, labels }: CreateVolume, id: string): Promise<Answer> {
    const store = this.#store;
    store.open();
    // It was made, and that broke off.
    if (store.volume(id)) return this.#made(id);
    const full = this.#full(1);
    if (full) return full;
    const holder = name === undefined ? null : store.volumeNamed(name);
    if (holder) return nameTaken(holder);
    if (fromBackup === undefined) {
      const now = Date.now();
      const fresh = freshVolume(id, sizeMiB ?? volumeLimits.sizeMiBMin, now);
      store.saveVolume({ ...fresh, name: name ?? null, labels: labels ?? {}, state: "ready", readyAt: now });
      return this.#made(id);
    }
    const backup = store.backup(fromBackup);
    if (!backup || backup.snapshot || backup.state === "deleting") return backupNotFound;
    if (backup.state !== "ready") return notReady(backup);
    if (sizeMiB !== undefined && sizeMiB < backup.sizeMiB) return tooSmall(backup.sizeMiB);
    const given = { name: name ?? null, labels: labels ?? {}, sizeMiB: sizeMiB ?? backup.sizeMiB };
    store.saveVolume({ ...ofCopy(id, backup, Date.now()), ...given });
    return this.#made(id);
  }

  async restoreSnapshot(snapshot: string, key: string): Promise<Result<{ volumeIds: readonly string[] }>> {
    const store = this.#store;
    const copies = store.copiesOf(snapshot);
    const unready = copies.find(({ state }) => state !== "ready");
    if (unready) return notReady(unready);
    if (copies.length === 0) return { ok: true, volumeIds: [] };
    const ids = await Promise.all(copies.map((_, n) => volumeId(store.account, `${key} ${n + 1}`)));
    const full = this.#full(ids.filter((id) => !store.volume(id)).length);
    if (full) return full;
    for (const [place, copy] of copies.entries()) {
      const id = ids[place] ?? "";
      if (!store.volume(id)) store.saveVolume(ofCopy(id, copy, Date.now()));
    }
    for (const id of ids) {
      const made = await this.#made(id);
      if (!made.ok) return made;
    }
    return { ok: true, volumeIds: ids };
  }

  get(called: string): Answer {
    const record = this.#store.volumeCalled(called);
    return record ? { ok: true, volume: this.shown(record) } : volumeNotFound;
  }

  update(called: string, { name, labels }: UpdateVolume): Answer {
    const record = this.#living(called);
    if (!record) return volumeNotFound;
    const holder = typeof name === "string" ? this.#store.volumeNamed(name) : null;
    if (holder && holder.id !== record.id) return nameTaken(holder);
    return this.#saved({ ...record, name: name === undefined ? record.name : name, labels: labels ?? record.labels });
  }

  setPolicy(called: string, { daily: wanted, retentionDays }: BackupPolicy): Answer {
    const record = this.#living(called);
    if (!record) return volumeNotFound;
    const daily = wanted ?? record.daily;
    const nextDailyAt = record.daily ? record.nextDailyAt : Math.max(record.nextDailyAt, Date.now() + HOUR_MS);
    return this.#saved({ ...record, daily, nextDailyAt, backupDays: retentionDays ?? record.backupDays });
  }

  async resize(called: string, sizeMiB: number): Promise<Answer> {
    const record = this.#living(called);
    if (!record) return volumeNotFound;
    if (sizeMiB < record.sizeMiB) return tooSmall(record.sizeMiB);
    const answer = this.#saved({ ...record, sizeMiB });
    const writer = this.#store
      .attachmentsOf(record.id)
      .find(({ mode, state }) => mode === "rw" && (state === "attaching" || state === "active"));
    const label = writer && labelOfId(writer.sandboxId);
    if (!label) return answer;
    const { env, account } = this.#store;
    const told = await sandboxObject(env.SANDBOX, account, label).resizeVolume(writer.sandboxId, writer.id, sizeMiB);
    return told.ok ? answer : told;
  }

  async remove(called: string): Promise<Answer> {
    const record = this.#store.volumeCalled(called);
    if (!record) return volumeNotFound;
    if (record.state !== "deleting") {
      const stays = this.#store.attachmentsOf(record.id).filter((one) => !isOver(one));
      const stay = stays.find(({ state }) => state !== "detaching") ?? stays[0];
      if (stay) return taken(stay);
      this.#store.saveVolume({ ...record, state: "deleting" });
    }
    await this.#delete(record.id).catch((fault: unknown) => {
      console.error(JSON.stringify({ level: "error", volume: record.id, fault: String(fault) }));
    });
    const state = this.#store.volume(record.id) ? "deleting" : "deleted";
    return { ok: true, volume: { ...this.shown(record), state, status: state } };
  }

  /** Something is to be done without anybody asking. */
  async due({ id }: VolumeRecord, now: number): Promise<void> {
    const record = this.#store.volume(id);
    if (!record) return;
    // Looked at again later, whatever comes of it.
    this.#store.saveVolume(record);
    if (record.state === "creating") await this.#made(id);
    else if (record.state === "deleting") await this.#delete(id);
    else {
      await this.tidy(id);
      const kept = this.#store.volume(id);
      if (kept?.state === "ready" && kept.daily && kept.nextDailyAt <= now) await this.#backups.daily(kept, now);
    }
  }

  /** Have the vault drop what the volume needs no more; the alarm tries again what fails. */
  async tidy(id: string): Promise<void> {
    const record = this.#store.volume(id);
    if (!record || record.dropped.length === 0) return;
    try {
      const released = await this.#store.vault(record.vault).release(id, record.dropped);
      const now = this.#store.volume(id);
      if (!released.ok || !now) return;
      this.#store.saveVolume({ ...now, dropped: now.dropped.filter((one) => !record.dropped.includes(one)) });
    } catch (fault) {
      console.error(JSON.stringify({ level: "error", volume: id, fault: String(fault) }));
    }
  }

  shown(record: VolumeRecord): Volume {
    const { id } = record;
    const ready = this.#store.backupsOf(id).find(({ state }) => state === "ready");
    return toVolume(record, this.#store.attachmentsOf(id), ready?.readyAt ?? null);
  }

  /** Finish what was begun: one that begins as a copy needs what that has. */
  async #made(id: string): Promise<Answer> {
    const record = this.#store.volume(id);
    if (!record) return backupNotFound;
    if (record.state !== "creating") return { ok: true, volume: this.shown(record) };
    const { vault, latest, restoredFrom } = record;
    const shared = !latest || (await this.#store.share(vault, latest.manifest, id, [restoredFrom ?? ""]));
    const now = this.#store.volume(id);
    if (now?.state === "ready") return { ok: true, volume: this.shown(now) };
    if (now?.state !== "creating") {
      // Deleted meanwhile, perhaps before that was shared.
      await this.#store.vault(vault).release(id, null);
      return volumeNotFound;
    }
    if (shared) return this.#saved({ ...now, state: "ready", readyAt: Date.now() });
    // The copy was deleted meanwhile.
    this.#store.forgetVolume(id);
    return backupNotFound;
  }

  async #delete(id: string): Promise<void> {
    const record = this.#store.volume(id);
    if (record?.state !== "deleting") return;
    const released = await this.#store.vault(record.vault).release(id, null);
    if (!released.ok) return;
    // Its key goes with it: what others don't share can't be read any more.
    this.#store.forgetVolume(id);
  }

  #living(called: string): VolumeRecord | null {
    const record = this.#store.volumeCalled(called);
    return record && record.state === "ready" ? record : null;
  }

  #saved(record: VolumeRecord): { ok: true; volume: Volume } {
    return { ok: true, volume: this.shown(this.#store.saveVolume(record)) };
  }

  #full(more: number): Refusal | null {
    if (more === 0 || this.#store.countVolumes() + more <= VOLUMES_MAX) return null;
    return refuse("quota_exceeded", `An account has at most ${VOLUMES_MAX} volumes.`, { max: VOLUMES_MAX });
  }
}

/** An empty volume. */
function freshVolume(id: string, sizeMiB: number, now: number): VolumeRecord {
  return {
    ...{ id, sizeMiB, state: "creating", name: null, labels: {}, restoredFrom: null, latest: null, clean: null },
    vault: `vol-${randomText(BASE36, 24)}`,
    key: toBase64Url(crypto.getRandomValues(new Uint8Array(32))),
    ...{ dropped: [], daily: true, backupDays: volumeLimits.backupDaysDefault, nextDailyAt: now + HOUR_MS },
    ...{ createdAt: now, readyAt: null },
  };
}

/** A volume that begins as a copy: in the vault of that, and opened by its key. */
function ofCopy(id: string, copy: BackupRecord, now: number): VolumeRecord {
  const { vault, key, manifest, storedBytes, clean, sizeMiB, readyAt } = copy;
  const latest =
    manifest === null ? null : { manifest, generation: 0, attachment: null, storedBytes, at: readyAt ?? now };
  return {
    ...freshVolume(id, sizeMiB, now),
    ...{ vault, key, latest, clean: clean ? latest : null, restoredFrom: copy.id },
  };
}

function nameTaken({ id, name }: VolumeRecord): Refusal {
  return refuse("name_taken", `There is a volume ${JSON.stringify(name)} already.`, { volumeId: id });
}

function notReady({ state, error }: BackupRecord): Refusal {
  return refuse("volume_not_ready", `The backup is ${state}.`, { state, error });
}

function tooSmall(sizeMiB: number): Refusal {
  return refuse("disk_too_small", `What there is has ${sizeMiB} MiB; a volume can only grow.`, { sizeMiB });
}

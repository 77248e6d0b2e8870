/** Stays of volumes with sandboxes: who may write, which host may store what was written, and when it is over. */
import type { ArchiveStep } from "../../sdk/contract/archive.ts";
import type { Failure } from "../../sdk/contract/error-codes.ts";
import { labelOfId } from "../../sdk/contract/names.ts";
import type { Attachment } from "../../sdk/contract/volume.ts";
import { readBoard } from "../hosts/board-facade.ts";
import { refuse, type Result } from "../result.ts";
import { sandboxObject, type ArchiveAnswer } from "../sandbox/api.ts";
import { iso } from "../time.ts";
import { vaultTicket } from "../vault/tickets.ts";
import type { AttachAsk, AttachedVolume, DetachAsk } from "./api.ts";
import { isOver, toAttachment, withContent, type AttachmentRecord, type VolumeRecord } from "./record.ts";
import type { VolumeStore } from "./store.ts";

const TICKET_MS = 3_600_000;
/** After this, `volume_releasing` is worth another try, milliseconds. */
const RELEASING_MS = 1000;
/** How often a clean state that changes meanwhile is looked at anew. */
const CLEAN_TRIES = 3;

type Refusal = { readonly ok: false; readonly failure: Failure };
type AttachedVolumes = AttachAsk["volumes"][number];

export class Attachments {
  readonly #store: VolumeStore;
  readonly #tidy: (volumeId: string) => Promise<void>;

  /** @param tidy has the vault drop what a volume needs no more */
  constructor(store: VolumeStore, tidy: (volumeId: string) => Promise<void>) {
    this.#store = store;
    this.#tidy = tidy;
  }

  async attach({ sandboxId, volumes }: AttachAsk): Promise<Result<{ attached: readonly AttachedVolume[] }>> {
    const store = this.#store;
    const planned: AttachmentRecord[] = [];
    const fresh: AttachmentRecord[] = [];
    if (new Set(volumes.map((one) => one.volumeId)).size < volumes.length)
      return refuse("conflict", "A volume can be attached once to a sandbox.");
    for (const wanted of volumes) {
      const known = store.attachment(wanted.attachment);
      if (known && !isTheSame(known, wanted, sandboxId))
        return refuse("conflict", "That attachment is over, or another one.", { attachmentId: known.id });
      const record = known ?? this.#planned(wanted, sandboxId);
      if ("ok" in record) return record;
      planned.push(record);
      if (!known) fresh.push(record);
    }
    // Nothing was waited for since the first look: all of them, or none.
    for (const record of fresh) store.saveAttachment(record);
    for (const { id, mode } of planned) {
      const refused = mode === "snapshot" ? await this.#keep(id) : null;
      if (!refused) continue;
      await Promise.all(fresh.map((one) => this.#undo(one.id)));
      return refused;
    }
    const attached = planned.flatMap(({ id }) => this.#attached(id));
    return attached.length === planned.length
      ? { ok: true, attached }
      : refuse("conflict", "The volumes changed meanwhile; try again.");
  }

  noted(sandboxId: string, attachments: readonly string[]): Result<object> {
    const found = attachments.map((id) => this.#store.attachment(id));
    if (found.some((one) => !one || one.sandboxId !== sandboxId || one.state === "detached")) return notFound;
    for (const record of found)
      if (record?.state === "attaching") this.#store.saveAttachment({ ...record, state: "active" });
    return { ok: true };
  }

  arrive(sandboxId: string, hostId: string): Result<object> {
    for (const record of this.#store.attachmentsIn(sandboxId)) {
      // What is being let go of is stored by the host that had it.
      if (isOver(record) || record.state === "detaching" || record.hostId === hostId) continue;
      this.#store.saveAttachment({ ...record, hostId, upload: null });
    }
    return { ok: true };
  }

  async detach({ sandboxId, attachments, generation, settled }: DetachAsk): Promise<Result<object>> {
    for (const record of this.#store.attachmentsIn(sandboxId)) {
      if (isOver(record) || (attachments && !attachments.includes(record.id))) continue;
      const awaits = Math.max(generation, record.awaits ?? 0);
      const isStored = (record.stored?.generation ?? 0) >= awaits;
      if (settled || isStored || record.hostId === null || record.mode === "snapshot") this.#end(record, null);
      else if (record.awaits !== awaits)
        this.#store.saveAttachment({ ...record, state: "detaching", awaits, changedAt: Date.now() });
    }
    await Promise.all(this.#store.attachmentsIn(sandboxId).map(({ id }) => this.#letGo(id)));
    return { ok: true };
  }

  async get(id: string, waitMs: number): Promise<Result<{ attachment: Attachment }>> {
    await this.#store.until(id, () => this.#store.attachment(id)?.state !== "detaching", waitMs);
    const record = this.#store.attachment(id);
    return record ? { ok: true, attachment: toAttachment(record) } : notFound;
  }

  async archiveStep(id: string, step: ArchiveStep, hostId: string): Promise<Result<{ answer: ArchiveAnswer }>> {
    const record = this.#store.attachment(id);
    if (!record || record.hostId !== hostId || record.mode !== "rw") return unknown;
    if (step.step === "cold") return { ok: true, answer: {} };
    if (step.step === "commit") return this.#commit(record, step, hostId);
    const volume = this.#store.volume(record.volumeId);
    if (!volume || isOver(record)) return unknown;
    if (isStale(record, step.generation)) return stale;
    const { vault, key, latest } = volume;
    if (step.step === "begin") {
      const ticket = await vaultTicket(this.#store.env, this.#store.account, vault, hostId, true, TICKET_MS);
      const previous = latest && { manifest: latest.manifest, key };
      return { ok: true, answer: { vault, key, ticket, previous } };
    }
    const begun = await this.#store.vault(vault).begin(volume.id, step.manifest, step.blobs);
    if (!begun.ok) return begun;
    const now = this.#store.attachment(id);
    if (!now || now.hostId !== hostId || isOver(now)) return unknown;
    this.#store.saveAttachment({ ...now, upload: { manifest: step.manifest, clean: step.clean === true } });
    return { ok: true, answer: { ownedBytes: 0 } };
  }

  /** Something is to be done without anybody asking. @param isLost whether a host is, by the board */
  async due(record: AttachmentRecord, isLost: (hostId: string) => Promise<boolean>): Promise<void> {
    const { id, state, sandboxId, hostId } = record;
    // Looked at again later, whatever comes of it.
    this.#store.saveAttachment(record);
    if (state === "attaching") {
      const held = await this.#holds(sandboxId);
      const now = this.#store.attachment(id);
      if (now?.state !== "attaching") return;
      if (held.includes(id)) this.#store.saveAttachment({ ...now, state: "active" });
      else this.#end(now, "The sandbox never took it.");
    } else if (state === "detaching" && hostId !== null && (await isLost(hostId))) {
      const now = this.#store.attachment(id);
      if (now?.state === "detaching") this.#end(now, this.#loss(now));
    } else if (state === "detached" && !record.keeps) this.#store.forgetAttachment(id);
    await this.#letGo(id);
  }

  #planned(wanted: AttachedVolumes, sandboxId: string): AttachmentRecord | Refusal {
    const { attachment, volumeId, path, mode } = wanted;
    const volume = this.#store.volume(volumeId);
    if (!volume || volume.state === "deleting") return volumeNotFound;
    if (volume.state === "creating") return refuse("volume_not_ready", "The volume is being made.");
    const others = this.#store.attachmentsOf(volumeId).filter((one) => !isOver(one));
    if (others.some((one) => one.sandboxId === sandboxId && one.state !== "detaching"))
      return refuse("conflict", "The sandbox has the volume already.", { sandboxId, volumeId });
    const writer = mode === "rw" ? others.find((one) => one.mode === "rw") : undefined;
    if (writer) return taken(writer);
    if (mode === "snapshot" && !volume.clean) return notClean;
    const given = (mode === "rw" ? volume.latest : volume.clean)?.manifest ?? null;
    const now = Date.now();
    return {
      ...{ id: attachment, volumeId, sandboxId, path, mode, given, keeps: mode === "snapshot" },
      ...{ vault: volume.vault, state: "attaching", hostId: null, stored: null, upload: null, awaits: null },
      ...{ error: null, attachedAt: now, changedAt: now },
    };
  }

  /** Have the vault keep what it is given for as long as it stays. */
  async #keep(id: string): Promise<Refusal | null> {
    for (let tries = 0; tries < CLEAN_TRIES; tries++) {
      const record = this.#store.attachment(id);
      if (!record || isOver(record) || record.given === null) return notClean;
      const { vault, volumeId, given } = record;
      if (await this.#store.share(vault, given, id, [volumeId])) {
        const kept = this.#store.attachment(id);
        if (kept && !isOver(kept)) return null;
        await this.#store.vault(vault).release(id, null);
        return notFound;
      }
      // A newer one came meanwhile, and this one went.
      const clean = this.#store.volume(volumeId)?.clean?.manifest;
      const now = this.#store.attachment(id);
      if (clean === undefined || clean === given || now?.given !== given) continue;
      this.#store.saveAttachment({ ...now, given: clean });
    }
    return notClean;
  }

  /** It was never answered: as if it had not been asked for, once the vault knows nothing of it. */
  async #undo(id: string): Promise<void> {
    const record = this.#store.attachment(id);
    if (record?.state !== "attaching") return;
    this.#end(record, "It was not attached.");
    await this.#letGo(id);
    if (this.#store.attachment(id)?.keeps === false) this.#store.forgetAttachment(id);
  }

  #attached(id: string): AttachedVolume[] {
    const record = this.#store.attachment(id);
    const volume = record && this.#store.volume(record.volumeId);
    if (!record || !volume || isOver(record)) return [];
    const { volumeId, mode, path, given } = record;
    const { sizeMiB, vault, key } = volume;
    return [{ attachment: id, volumeId, mode, path, sizeMiB, vault, key, manifest: given }];
  }

  async #commit(
    record: AttachmentRecord,
    { manifest, generation }: { readonly manifest: string; readonly generation: number },
    hostId: string,
  ): Promise<Result<{ answer: ArchiveAnswer }>> {
    const { id, volumeId, vault } = record;
    const owner = this.#store.vault(vault);
    const again = async () => {
      const owned = await owner.owned(volumeId);
      return owned.ok ? { ok: true as const, answer: { ownedBytes: owned.ownedBytes } } : owned;
    };
    if (isDone(record, manifest, generation)) return again();
    if (isOver(record) || isStale(record, generation)) return stale;
    // The vault may be about to let go of it.
    if (this.#store.volume(volumeId)?.dropped.includes(manifest)) return stale;
    const owned = await owner.commit(volumeId, manifest);
    if (!owned.ok) return owned;
    // Things may have moved on meanwhile.
    const now = this.#store.attachment(id);
    const volume = this.#store.volume(volumeId);
    if (now && isDone(now, manifest, generation)) return again();
    if (!now || !volume || now.hostId !== hostId || isOver(now) || isStale(now, generation)) {
      if (volume) await this.#drop(volume, manifest);
      return stale;
    }
    const clean = now.upload?.manifest === manifest && now.upload.clean;
    const content = { manifest, generation, attachment: id, storedBytes: owned.storedBytes, at: Date.now() };
    this.#store.saveVolume(withContent(volume, content, clean));
    const stored = { ...now, stored: { manifest, generation }, upload: null };
    if (now.awaits !== null && generation >= now.awaits) this.#end(stored, null);
    else this.#store.saveAttachment(stored);
    await this.#tidy(volumeId);
    return again();
  }

  /** What was committed for nothing goes, unless the volume needs it. */
  async #drop(volume: VolumeRecord, manifest: string): Promise<void> {
    if (volume.latest?.manifest === manifest || volume.clean?.manifest === manifest) return;
    this.#store.saveVolume({ ...volume, dropped: [...volume.dropped, manifest] });
    await this.#tidy(volume.id);
  }

  #end(record: AttachmentRecord, error: string | null): void {
    const over = { state: "detached", upload: null, error, changedAt: Date.now() } as const;
    this.#store.saveAttachment({ ...record, ...over });
  }

  /** The vault keeps nothing more for a stay that is over; the alarm tries again what fails. */
  async #letGo(id: string): Promise<void> {
    const record = this.#store.attachment(id);
    if (!record || !isOver(record) || !record.keeps) return;
    try {
      const released = await this.#store.vault(record.vault).release(id, null);
      const now = this.#store.attachment(id);
      if (released.ok && now) this.#store.saveAttachment({ ...now, keeps: false });
    } catch (fault) {
      console.error(JSON.stringify({ level: "error", attachment: id, fault: String(fault) }));
    }
  }

  #loss(record: AttachmentRecord): string {
    const latest = this.#store.volume(record.volumeId)?.latest;
    const since = latest?.attachment === record.id ? latest.at : record.attachedAt;
    return `its host was lost; what was written since ${iso(since)} is gone`;
  }

  async #holds(sandboxId: string): Promise<readonly string[]> {
    const label = labelOfId(sandboxId);
    const { env, account } = this.#store;
    return label === null ? [] : sandboxObject(env.SANDBOX, account, label).holdsVolumes(sandboxId);
  }
}

/** Whether hosts are lost, each looked up once. */
export function lostHosts(env: Env): (hostId: string) => Promise<boolean> {
  const known = new Map<string, Promise<boolean>>();
  return (hostId) => {
    const asked = known.get(hostId) ?? readBoard(env, hostId).then((board) => board.isLost(hostId));
    known.set(hostId, asked);
    return asked;
  };
}

/** Why a sandbox can't write while that one does. */
export function taken({ state, sandboxId }: AttachmentRecord): Refusal {
  if (state !== "detaching")
    return refuse("volume_attached", `The volume is attached to the sandbox ${sandboxId}.`, { sandboxId });
  const message = "What a sandbox wrote is being stored; the volume is free then.";
  const failure = { code: "volume_releasing" as const, message, details: { sandboxId }, retryAfterMs: RELEASING_MS };
  return { ok: false, failure };
}

function isTheSame(known: AttachmentRecord, wanted: AttachedVolumes, sandboxId: string): boolean {
  const { volumeId, mode } = wanted;
  return !isOver(known) && known.sandboxId === sandboxId && known.volumeId === volumeId && known.mode === mode;
}

/** That was stored before: the answer was lost. */
function isDone({ stored, state }: AttachmentRecord, manifest: string, generation: number): boolean {
  return stored?.manifest === manifest && (state === "detached" || generation <= stored.generation);
}

function isStale({ stored }: AttachmentRecord, generation: number): boolean {
  return generation < (stored?.generation ?? 0);
}

export const volumeNotFound = refuse("volume_not_found", "There is no such volume.");
const notFound = refuse("attachment_not_found", "There is no such attachment, or it is over.");
const unknown = refuse("not_found", "That host stores nothing of such an attachment.");
const stale = refuse("conflict", "A later state of the volume is stored, or the attachment is over.");
const notClean = refuse(
  "volume_not_ready",
  "No state of the volume can be read without repair: stop or detach the sandbox that writes, or take a backup.",
);

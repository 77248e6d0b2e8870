/** Moves saved states off their host: permits for hosts, what is noted of their steps, and the way back to a host. */
import type { ArchivePermit, ArchiveStep, ArchiveStored, SavedState } from "../../sdk/contract/archive.ts";
import type { Failure } from "../../sdk/contract/error-codes.ts";
import { refuse, type Result } from "../result.ts";
import type { ArchiveAnswer } from "./api.ts";
import { vaultObject, type VaultApi } from "../vault/api.ts";
import { vaultTicket } from "../vault/tickets.ts";
import {
  archiveRefusal,
  givenUp,
  keyOf,
  manifestKey,
  newArchive,
  noted,
  pointAtRest,
  stored,
  type Archive,
  type Point,
} from "./archive.ts";
import type { Engine } from "./engine.ts";
import type { SandboxRecord } from "./record.ts";

/** How long a host may read or write a sandbox's vault after it was let, milliseconds. */
const TICKET_MS = 3_600_000;

type Step<S extends ArchiveStep["step"]> = Extract<ArchiveStep, { step: S }>;

export class Archiving {
  readonly #engine: Engine;
  readonly #env: Env;

  constructor(engine: Engine, env: Env) {
    this.#engine = engine;
    this.#env = env;
  }

  async step(record: SandboxRecord, step: ArchiveStep, hostId: string): Promise<Result<{ answer: ArchiveAnswer }>> {
    switch (step.step) {
      case "begin":
        return this.#begin(record, step.generation, hostId);
      case "upload":
        return this.#upload(record, step, hostId);
      case "commit":
        return this.#commit(record, step);
      case "cold":
        if (record.archive && record.host?.id === hostId)
          this.#engine.save({ ...record, archive: givenUp(record.archive, step.generation, Date.now()) });
        return { ok: true, answer: {} };
    }
  }

  async #begin(record: SandboxRecord, generation: number, hostId: string): Promise<Result<{ answer: ArchivePermit }>> {
    const failure = archiveRefusal(record, hostId, generation);
    if (failure) return { ok: false, failure };
    const archive = record.archive ?? newArchive();
    if (!record.archive) this.#engine.save({ ...record, archive });
    const last = archive.points.findLast(({ durableAt }) => durableAt !== null);
    const [key, ticket, previousKey] = await Promise.all([
      manifestKey(archive, generation),
      vaultTicket(this.#env, record.account, archive.vault, hostId, true, TICKET_MS),
      last ? keyOf(archive, last) : null,
    ]);
    const previous = last && previousKey !== null ? { manifest: last.manifest, key: previousKey } : null;
    return { ok: true, answer: { vault: archive.vault, key, ticket, previous } };
  }

  async #upload(
    record: SandboxRecord,
    step: Step<"upload">,
    hostId: string,
  ): Promise<Result<{ answer: ArchiveStored }>> {
    const { archive } = record;
    const last = archive?.points.at(-1);
    if (!archive || record.host?.id !== hostId || (last && last.generation > step.generation))
      return refuse("conflict", "Another state has been stored since.");
    const begun = await this.#vault(record, archive).begin(record.id, step.manifest, step.blobs);
    if (!begun.ok) return begun;
    const now = this.#engine.record();
    if (now?.id !== record.id || !now.archive) return gone;
    const point: Point = {
      generation: step.generation,
      manifest: step.manifest,
      diskOnly: step.diskOnly,
      compatibility: step.compatibility,
      localAt: Date.now(),
      durableAt: null,
      coldAt: null,
      logicalBytes: step.logicalBytes,
      storedBytes: step.blobs.reduce((sum, { bytes }) => sum + bytes, 0),
    };
    const known = now.archive.points.find(({ manifest }) => manifest === step.manifest);
    if (!known) this.#take(now, noted(now.archive, point));
    return { ok: true, answer: { ownedBytes: now.archive.ownedBytes } };
  }

  async #commit(record: SandboxRecord, step: Step<"commit">): Promise<Result<{ answer: ArchiveStored }>> {
    const { archive } = record;
    if (!archive?.points.some(({ manifest }) => manifest === step.manifest))
      return refuse("conflict", "Another state has been stored since.");
    const vault = this.#vault(record, archive);
    const answer = await vault.commit(record.id, step.manifest);
    if (!answer.ok) return answer;
    const now = this.#engine.record();
    if (now?.id !== record.id || !now.archive) return gone;
    const { ownedBytes } = answer;
    const after = stored(now.archive, step.manifest, 1 + now.keepPauses, Date.now());
    this.#take(now, { ...after, archive: { ...after.archive, ownedBytes } });
    if (after.dropped.length === 0) return { ok: true, answer: { ownedBytes } };
    await this.#engine.release();
    return { ok: true, answer: await this.refreshOwned(record.id) };
  }

  /** Read anew what the sandbox alone owns. */
  async refreshOwned(id: string): Promise<ArchiveStored> {
    const record = this.#engine.record();
    if (record?.id !== id || !record.archive) return { ownedBytes: 0 };
    const owned = await this.#vault(record, record.archive).owned(id);
    const now = this.#engine.record();
    if (!owned.ok || now?.id !== id || !now.archive) return { ownedBytes: record.archive.ownedBytes };
    this.#engine.save({ ...now, archive: { ...now.archive, ownedBytes: owned.ownedBytes } });
    return { ownedBytes: owned.ownedBytes };
  }

  /** The newest state that was sealed, for the host that is about to run the sandbox; null when none was. */
  async savedFor(record: SandboxRecord, hostId: string): Promise<SavedState | null> {
    const { archive, account } = record;
    const point = pointAtRest(record) ?? archive?.points.at(-1);
    if (!archive || !point) return null;
    const [key, ticket] = await Promise.all([
      keyOf(archive, point),
      vaultTicket(this.#env, account, archive.vault, hostId, false, TICKET_MS),
    ]);
    return { vault: archive.vault, manifest: point.manifest, key, ticket };
  }

  /** A sandbox that begins as a snapshot needs what that has, also when the snapshot is deleted. */
  async claim(record: SandboxRecord): Promise<Failure | null> {
    const { archive, id } = record;
    const [point] = archive?.points ?? [];
    if (!archive?.claim || !point) return null;
    const shared = await this.#vault(record, archive).share(archive.claim, point.manifest, id);
    if (!shared.ok) return { code: "snapshot_not_found", message: "The snapshot was deleted meanwhile." };
    const now = this.#engine.record();
    if (now?.id === id && now.archive) this.#engine.save({ ...now, archive: { ...now.archive, claim: null } });
    return null;
  }

  /** Store what the archive is now; what it needs no more is released. */
  #take(record: SandboxRecord, { archive, dropped }: { archive: Archive; dropped: readonly string[] }): void {
    this.#engine.save({ ...record, archive }, dropped);
  }

  #vault({ account }: SandboxRecord, { vault }: Archive): VaultApi {
    return vaultObject(this.#env.VAULT, account, vault);
  }
}

const gone = refuse("sandbox_gone", "The sandbox was deleted.");

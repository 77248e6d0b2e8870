/** Moves saved states off their host: permits for hosts, what is noted of their steps, and the way back to a host. */
import type { ArchivePermit, ArchiveStep, ArchiveStored, SavedState } from "../../sdk/contract/archive.ts";
import type { MachineVolume } from "../../sdk/contract/host.ts";
import type { Failure } from "../../sdk/contract/error-codes.ts";
import type { Draft } from "../events/draft.ts";
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
  type Dropped,
  type Point,
  type PointVolume,
} from "./archive.ts";
import type { Engine } from "./engine.ts";
import { durableEvent } from "./events.ts";
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
      ...pairsOf(now, step.volumes),
    };
    const known = now.archive.points.find(({ manifest }) => manifest === step.manifest);
    if (!known) this.#take(now, noted(now.archive, point));
    return { ok: true, answer: { ownedBytes: now.archive.ownedBytes } };
  }

  async #commit(record: SandboxRecord, step: Step<"commit">): Promise<Result<{ answer: ArchiveStored }>> {
    const { archive } = record;
    const point = archive?.points.find(({ manifest }) => manifest === step.manifest);
    if (!archive || !point) return refuse("conflict", "Another state has been stored since.");
    const shared = await this.#shareVolumes(record, point.volumes ?? []);
    if (!shared.ok) return shared;
    const vault = this.#vault(record, archive);
    const answer = await vault.commit(record.id, step.manifest);
    if (!answer.ok) return answer;
    const now = this.#engine.record();
    if (now?.id !== record.id || !now.archive) return gone;
    const { ownedBytes } = answer;
    const after = stored(now.archive, step.manifest, 1 + now.keepPauses, Date.now());
    const known = now.archive.points.find(({ manifest }) => manifest === step.manifest);
    const events = known && known.durableAt === null ? [durableEvent(now, known)] : [];
    this.#take(now, { ...after, archive: { ...after.archive, ownedBytes } }, events);
    if (after.dropped.length === 0) return { ok: true, answer: { ownedBytes } };
    await this.#engine.runErrands("release");
    return { ok: true, answer: await this.refreshOwned(record.id) };
  }

  /** What a point needs of its volumes stays stored, whatever becomes of those. */
  async #shareVolumes(
    { id, account, volumes }: SandboxRecord,
    pairs: readonly PointVolume[],
  ): Promise<Result<unknown>> {
    for (const { attachment, vault, manifest } of pairs) {
      const volume = volumes.find((one) => one.attachment === attachment);
      if (!volume) return refuse("conflict", "The sandbox has let go of a volume since.");
      this.#engine.stillNeeds(vault, manifest);
      const shared = await vaultObject(this.#env.VAULT, account, vault).share(volume.volumeId, manifest, id);
      if (!shared.ok) return shared;
    }
    return { ok: true };
  }

  /** The volumes of a sandbox that is about to run, each with what it was when the saved state was. */
  async volumesFor(record: SandboxRecord, hostId: string): Promise<MachineVolume[]> {
    const point = pointAtRest(record) ?? record.archive?.points.at(-1);
    const { account, volumes } = record;
    return Promise.all(
      volumes.map(async ({ attachment, slot, path, mode, sizeMiB, vault, key, manifest: first }) => {
        const manifest = point?.volumes?.find((one) => one.attachment === attachment)?.manifest ?? first;
        const ticket = await vaultTicket(this.#env, account, vault, hostId, false, TICKET_MS);
        const saved = manifest === null ? null : { vault, manifest, key, ticket };
        return { attachment, slot, path, mode, sizeMiB, saved };
      }),
    );
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
    return archive && point ? this.stateOf(account, archive, point, hostId) : null;
  }

  /** The state of a point, for a host to read. */
  async stateOf(account: string, archive: Archive, point: Point, hostId: string): Promise<SavedState> {
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
  #take(
    record: SandboxRecord,
    { archive, dropped }: { archive: Archive; dropped: readonly Dropped[] },
    events: readonly Draft[] = [],
  ): void {
    this.#engine.save({ ...record, archive }, dropped, [], events);
  }

  #vault({ account }: SandboxRecord, { vault }: Archive): VaultApi {
    return vaultObject(this.#env.VAULT, account, vault);
  }
}

/** Volumes of a state, with the vaults that they are in. */
function pairsOf(
  { volumes }: SandboxRecord,
  pairs: readonly { attachment: string; manifest: string }[] | undefined,
): { volumes?: readonly PointVolume[] } {
  if (!pairs) return {};
  const found = pairs.flatMap(({ attachment, manifest }) => {
    const volume = volumes.find((one) => one.attachment === attachment);
    return volume ? [{ attachment, vault: volume.vault, manifest }] : [];
  });
  return { volumes: found };
}

const gone = refuse("sandbox_gone", "The sandbox was deleted.");

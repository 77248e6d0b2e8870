/** Copies of a sandbox: snapshots, forks, and going back to what it was. */
import type { Failure } from "../../sdk/contract/error-codes.ts";
import { backupId, labelFor, labelForKey, snapshotId } from "../../sdk/contract/names.ts";
import type { CreateSandbox, Sandbox } from "../../sdk/contract/sandbox.ts";
import {
  snapshotLimits,
  type CreateSnapshot,
  type Forks,
  type ForkSandbox,
  type HistoryPoint,
  type Snapshot,
} from "../../sdk/contract/snapshot.ts";
import { refuse, type Result } from "../result.ts";
import { snapshotsObject, type SnapshotsApi } from "../snapshots/api.ts";
import { shapeFault, type Origin } from "../snapshots/record.ts";
import type { Change, SandboxAnswer } from "./api.ts";
import { volumesObject } from "../volumes/api.ts";
import { sandboxObject } from "./api.ts";
import { keyOf, newArchive, ownPoints, pointAtRest, pointName, type Archive, type Point } from "./archive.ts";
import type { Engine } from "./engine.ts";
import type { HostClient } from "./host-client.ts";
import { iso, isoOrNull } from "../time.ts";
import type { CreateTerms, SandboxRecord } from "./record.ts";

/** How long a state that is only sealed is waited for to be stored, milliseconds. */
const STORED_WAIT_MS = 60_000;

export class Copies {
  readonly #engine: Engine;
  readonly #env: Env;
  readonly #host: HostClient;

  constructor(engine: Engine, env: Env, host: HostClient) {
    this.#engine = engine;
    this.#env = env;
    this.#host = host;
  }

  /** The snapshot that a sandbox is to begin as; null for none. */
  async origin(account: string, input: CreateSandbox): Promise<Result<{ origin: Origin | null }>> {
    if (input.snapshot === undefined) return { ok: true, origin: null };
    const found = await snapshotsObject(this.#env.SNAPSHOTS, account).origin(input.snapshot);
    const failure = found.ok ? shapeFault(input, found.origin) : null;
    return failure ? { ok: false, failure } : found;
  }

  /** Take a snapshot. A running sandbox goes on; one that is on its way somewhere arrives first. */
  async snapshot(given: SandboxRecord, input: CreateSnapshot, change: Change): Promise<Result<{ snapshot: Snapshot }>> {
    const record = await this.#engine.atRest(given);
    if (!record) return moved;
    const mode = input.mode ?? "memory";
    const { state } = record.life;
    if (state !== "running" && state !== "paused" && !(state === "stopped" && mode === "disk")) {
      const message = state === "stopped" ? "A stopped sandbox has no RAM; ask for mode disk." : `It is ${state}.`;
      return refuse("conflict", message, { state });
    }
    const archive = this.#archive(record);
    const id = await snapshotId(record.account, change.idempotencyKey);
    const last = archive.points.findLast(({ durableAt }) => durableAt !== null);
    const begun = await this.#snapshots(record).begin({
      ...{ id, mode, vault: archive.vault, shape: record.shape },
      name: input.name ?? null,
      labels: input.labels ?? {},
      source: { id: record.id, name: record.name },
      retentionDays: input.retentionDays ?? snapshotLimits.retentionDaysDefault,
      previous: last ? { manifest: last.manifest, key: await keyOf(archive, last) } : null,
      hostId: record.host?.id ?? null,
      network: record.network,
      ...(record.boot ? { boot: record.boot } : {}),
      volumes: record.volumes.map(({ slot, path, mode: how }) => ({ slot, path, mode: how })),
    });
    if (!begun.ok || begun.snapshot.replayed) return begun;
    const failure = await this.#fill(record, id, mode === "disk");
    if (failure) {
      await this.#snapshots(record).failed(id, failure.message);
      return { ok: false, failure };
    }
    return this.#snapshots(record).get(id, null, change.holdMs);
  }

  /** Copies, each with an identity of its own: on its host while it runs, anywhere once it is stored. All, or none. */
  async fork(
    given: SandboxRecord,
    input: ForkSandbox,
    terms: CreateTerms,
    change: Change,
  ): Promise<Result<{ forks: Forks }>> {
    const record = await this.#engine.atRest(given);
    if (!record) return moved;
    const { state, generation } = record.life;
    if (state !== "running" && state !== "paused")
      return refuse("conflict", `Only a running or paused sandbox can be forked; it is ${state}.`, { state });
    const { account, host, shape, env, network, secrets, boot, labels, idlePauseSeconds, autoWake, access } = record;
    if (!host) return moved;
    if (record.volumes.length > 0) {
      const message = "A sandbox with volumes can't be forked: take a snapshot, and create sandboxes of it.";
      return refuse("volume_attached", message, { volumeIds: record.volumes.map(({ volumeId }) => volumeId) });
    }
    const key = change.idempotencyKey ?? crypto.randomUUID();
    const capture = await snapshotId(account, `fork ${record.id} ${key}`);
    const stored = await this.#stored(record);
    const taken = stored
      ? null
      : await this.#host.capture(host, record.id, { generation, capture, diskOnly: false, stored: false });
    if (taken && !taken.ok) return { ok: false, failure: why(taken.failure) };
    const archive = this.#archive(record);
    const { vault } = archive;
    const from = stored
      ? {
          ...stored,
          id: record.id,
          mode: "memory" as const,
          shape,
          vault,
          key: await keyOf(archive, stored),
          volumes: [],
        }
      : { host, capture, vault };
    const count = input.count ?? 1;
    const create = async (n: number): Promise<SandboxAnswer> => {
      const name = input.name === undefined ? undefined : count === 1 ? input.name : `${input.name}-${n}`;
      const own = `${key} fork ${n}`;
      const label = name !== undefined ? await labelFor(name) : await labelForKey(account, own);
      const wanted = { idlePauseSeconds, autoWake, access, labels: { ...(input.labels ?? labels) } };
      return sandboxObject(this.#env.SANDBOX, account, label).create(
        { ...wanted, ...(name === undefined ? {} : { name }) },
        { ...terms, fork: { of: record.id, env, network, secrets, boot, shape, from } },
        { ...change, idempotencyKey: own },
      );
    };
    const answers = await Promise.all(Array.from({ length: count }, (_, i) => create(i + 1)));
    // Nobody waits for it to go.
    if (taken) this.#engine.background(this.#host.dropCapture(host, capture));
    const failed = answers.find((answer) => !answer.ok);
    const made = answers.flatMap((answer) => (answer.ok ? [answer.sandbox] : []));
    if (failed && !failed.ok) {
      await Promise.all(made.map((sandbox) => this.#remove(account, sandbox)));
      return failed;
    }
    if (input.keepSnapshot)
      await this.snapshot(record, {}, { ...change, holdMs: 0, idempotencyKey: `${key} snapshot` });
    return { ok: true, forks: { sandboxes: made, frozenMs: taken?.value.frozenMs ?? null } };
  }

  /** States that are stored, the newest first. */
  history(record: SandboxRecord): HistoryPoint[] {
    const current = pointAtRest(record);
    return ownPoints(record)
      .toReversed()
      .map((point) => ({
        point: pointName(point),
        generation: point.generation,
        mode: point.diskOnly ? "disk" : "memory",
        savedAt: iso(point.localAt),
        durableAt: isoOrNull(point.durableAt),
        storedBytes: point.storedBytes,
        current: point === current,
      }));
  }

  /** Make the sandbox what it was. It rests then; whoever asked for it while it ran has it woken. */
  async rollback(given: SandboxRecord, name: string, rest: () => Promise<SandboxAnswer>): Promise<Failure | null> {
    const find = (record: SandboxRecord) =>
      record.archive?.points.find((point) => pointName(point) === name && point.durableAt !== null);
    if (!find(given))
      return {
        code: "point_not_found",
        message: "There is no such point, or it is not stored.",
        details: { point: name },
      };
    if (given.life.state === "running") {
      const answer = await rest();
      if (!answer.ok) return answer.failure;
    }
    const record = await this.#engine.atRest(given);
    const point = record && find(record);
    if (!record || !point) return moved.failure;
    const { life } = record;
    if (life.state !== "paused" && life.state !== "stopped")
      return {
        code: "conflict",
        message: `Cannot roll back a sandbox that is ${life.state}.`,
        details: { state: life.state },
      };
    const had = (point.volumes ?? []).map(({ attachment }) => attachment).toSorted();
    const has = record.volumes.flatMap(({ mode, attachment }) => (mode === "rw" ? [attachment] : [])).toSorted();
    if (had.join() !== has.join())
      return { code: "conflict", message: "It had other volumes then. Create a sandbox of a snapshot instead." };
    const now = Date.now();
    const at = point.diskOnly
      ? ({ state: "stopped", pausedAt: null, endedAt: now } as const)
      : ({ state: "paused", pausedAt: now, endedAt: null } as const);
    this.#engine.save({
      ...record,
      fromStore: true,
      life: { ...life, ...at, savedGeneration: point.generation, stopReason: "requested", failure: null, timer: null },
    });
    return null;
  }

  /** Bring the snapshot's state about: what is stored is shared, anything else is copied by the host. */
  async #fill(record: SandboxRecord, id: string, diskOnly: boolean): Promise<Failure | null> {
    const stored = await this.#stored(record);
    const { host, life, account } = record;
    const volumes = await Promise.all(
      record.volumes.map(async (volume) => {
        const { attachment, mode } = volume;
        const isStored = stored !== null || mode === "snapshot";
        const manifest = isStored ? (this.#engine.volumes.stored(record, volume) ?? null) : null;
        return { attachment, backup: await backupId(account, `${id} ${attachment}`), manifest, mode, isStored };
      }),
    );
    if (volumes.length > 0) {
      const copies = volumes.map(({ attachment, backup, manifest, isStored }) => {
        return { backup, snapshot: id, attachment, hostId: isStored ? null : (host?.id ?? null), manifest };
      });
      const begun = await volumesObject(this.#env.VOLUMES, account).beginSnapshot(copies);
      if (!begun.ok) return begun.failure;
    }
    if (stored) {
      const archive = this.#archive(record);
      const { manifest, compatibility } = stored;
      const answer = await this.#snapshots(record).stored(id, {
        manifest,
        compatibility,
        key: await keyOf(archive, stored),
      });
      return answer.ok ? null : answer.failure;
    }
    if (!host) return moved.failure;
    const { generation } = life;
    const written = volumes.filter(({ mode }) => mode === "rw");
    const taken = await this.#host.capture(host, record.id, {
      ...{ generation, capture: id, diskOnly, stored: true },
      ...(written.length > 0 ? { volumes: written.map(({ attachment, backup }) => ({ attachment, backup })) } : {}),
    });
    if (!taken.ok) return why(taken.failure);
    await this.#snapshots(record).captured(id, taken.value.frozenMs);
    return null;
  }

  /** The stored state that the sandbox rests with. One that is sealed alone will be stored in a moment. */
  async #stored(record: SandboxRecord): Promise<Point | null> {
    const point = pointAtRest(record);
    if (point?.durableAt !== null) return point;
    const isStored = (now: SandboxRecord) => pointAtRest(now)?.durableAt !== null;
    const now = await this.#engine.until((next) => next.id !== record.id || isStored(next), STORED_WAIT_MS);
    return now?.id === record.id && isStored(now) ? pointAtRest(now) : null;
  }

  async #remove(account: string, sandbox: Sandbox): Promise<void> {
    await sandboxObject(this.#env.SANDBOX, account, sandbox.label)
      .remove(0, { id: sandbox.id, holdMs: 0, idempotencyKey: null, fingerprint: "", cause: null })
      .catch(() => undefined);
  }

  #archive(record: SandboxRecord): Archive {
    if (record.archive) return record.archive;
    const archive = newArchive();
    const now = this.#engine.record();
    if (now?.id === record.id) this.#engine.save({ ...now, archive });
    return archive;
  }

  #snapshots({ account }: SandboxRecord): SnapshotsApi {
    return snapshotsObject(this.#env.SNAPSHOTS, account);
  }
}

const telling: ReadonlySet<string> = new Set(["host_unavailable", "conflict", "unavailable", "disk_full"]);

/** A host that is away is that; nearly everything else is why the copy failed. */
function why(failure: Failure): Failure {
  return telling.has(failure.code) ? failure : { ...failure, code: "snapshot_failed" };
}

const moved = refuse("conflict", "The sandbox changed meanwhile; read it again.");

/** The volumes of a sandbox: plugged in and out, copied, grown. Whose they are is for the account's volumes to say. */
import { attachmentId } from "../../sdk/contract/names.ts";
import type { Failure } from "../../sdk/contract/error-codes.ts";
import type { CopyVolume, GrowVolume, PlugVolume, UnplugVolume } from "../../sdk/contract/host.ts";
import { volumeLimits, type CreateVolumeMount } from "../../sdk/contract/volume.ts";
import { refuse, type Result } from "../result.ts";
import { volumesObject, type VolumesApi } from "../volumes/api.ts";
import type { Origin } from "../snapshots/record.ts";
import type { Change, VolumeCopied } from "./api.ts";
import { isSettled, pointAtRest } from "./archive.ts";
import type { Detach } from "./errands.ts";
import type { Engine } from "./engine.ts";
import type { HeldVolume } from "./held-volume.ts";
import type { HostClient } from "./host-client.ts";
import type { SandboxRecord } from "./record.ts";

export class Volumes {
  readonly #engine: Engine;
  readonly #env: Env;
  readonly #host: HostClient;

  constructor(engine: Engine, env: Env, host: HostClient) {
    this.#engine = engine;
    this.#env = env;
    this.#host = host;
  }

  /** Volumes for a sandbox that is made, those of a snapshot as new ones: all, or none. */
  async claim(
    { id, account }: Pick<SandboxRecord, "id" | "account">,
    mounts: readonly CreateVolumeMount[],
    origin: Origin | null,
  ): Promise<Result<{ volumes: readonly HeldVolume[] }>> {
    const copies = origin?.volumes ?? [];
    if (mounts.length === 0 && copies.length === 0) return { ok: true, volumes: [] };
    const volumes = this.#volumes(account);
    const restored = origin && copies.length > 0 ? await volumes.restoreSnapshot(origin.id, id) : noneRestored;
    if (!restored.ok) return restored;
    const places = [
      ...mounts.map(({ volumeId, path, mode = "rw" }, n) => ({ volumeId, path, mode, slot: n + 1, own: mode })),
      // A copy is the new sandbox's own, however it is mounted.
      ...copies.map(({ path, mode, slot }, n) => {
        return { volumeId: restored.volumeIds[n] ?? "", path, mode, slot, own: "rw" as const };
      }),
    ];
    const wanted = await Promise.all(
      places.map(async ({ volumeId, path, slot, own }) => {
        return { attachment: await attachmentId(account, `${id} ${slot}`), volumeId, path, mode: own };
      }),
    );
    const given = await volumes.attach({ sandboxId: id, volumes: wanted });
    if (!given.ok) return given;
    const held = given.attached.map((volume, n) => {
      const { slot = n + 1, mode = volume.mode } = places[n] ?? {};
      return { ...volume, slot, mode };
    });
    return { ok: true, volumes: held };
  }

  /** The sandbox that they were claimed for does not come to be. */
  async giveBack({ id, account }: Pick<SandboxRecord, "id" | "account">): Promise<void> {
    const ask = { sandboxId: id, attachments: null, generation: 0, settled: true };
    await this.#volumes(account)
      .detach(ask)
      .catch(() => undefined);
  }

  /** The sandbox has stored that it holds them. */
  note({ id, account, volumes }: SandboxRecord): void {
    if (volumes.length === 0) return;
    const attachments = volumes.map(({ attachment }) => attachment);
    this.#engine.background(this.#volumes(account).noted(id, attachments));
  }

  async attach(
    given: SandboxRecord,
    { volumeId, path, mode = "rw" }: CreateVolumeMount,
    change: Change,
  ): Promise<Result<{ attachmentId: string }>> {
    const record = await this.#engine.atRest(given);
    if (!record) return moved;
    const { id, account, host, life, volumes } = record;
    if (life.state !== "running" && life.state !== "stopped") return asleep(life.state);
    const slot = [1, 2, 3, 4].find((one) => volumes.every((volume) => volume.slot !== one));
    if (slot === undefined) {
      const { perSandbox: max } = volumeLimits;
      return refuse("quota_exceeded", `A sandbox has at most ${max} volumes.`, { max });
    }
    const clash = volumes.find((one) => one.path === path || inside(one.path, path) || inside(path, one.path));
    if (clash) {
      const issues = [{ path: "path", message: `there is a volume at ${clash.path}` }];
      return refuse("invalid_request", `Another volume is at ${clash.path}.`, { issues });
    }
    const attachment = await attachmentId(account, change.idempotencyKey && `${id} ${change.idempotencyKey}`);
    const answer = await this.#volumes(account).attach({
      sandboxId: id,
      volumes: [{ attachment, volumeId, path, mode }],
    });
    if (!answer.ok) return answer;
    const [attached] = answer.attached;
    const now = this.#engine.record();
    if (!attached || now?.id !== id) return moved;
    const held = { ...now, volumes: [...now.volumes, { ...attached, slot }] };
    this.#engine.save(held);
    if (host) await this.#volumes(account).arrive(id, host.id);
    await this.#volumes(account).noted(id, [attachment]);
    const failure = life.state === "running" ? await this.#plug(held, attachment) : null;
    if (!failure) return { ok: true, attachmentId: attachment };
    if (failure.code !== "host_unavailable") await this.detach(held, attachment);
    return { ok: false, failure };
  }

  async detach(given: SandboxRecord, attachment: string): Promise<Result<object>> {
    const record = await this.#engine.atRest(given);
    const volume = record?.volumes.find((one) => one.attachment === attachment);
    if (!record || !volume) return { ok: true };
    const { id, host, life } = record;
    const { generation, state } = life;
    if (state !== "running" && state !== "stopped") return asleep(state);
    if (host) {
      const body = { generation, attachment } satisfies UnplugVolume;
      const answer = await this.#host.act(host, id, "unplug", body);
      // A stopped one may be on no host any more: then all of it is stored.
      const isGone = !answer.ok && answer.failure.code === "not_found" && state === "stopped" && isSettled(record);
      if (!answer.ok && !isGone) return { ok: false, failure: why(answer.failure) };
    }
    const now = this.#engine.record();
    if (now?.id !== id) return { ok: true };
    const volumes = now.volumes.filter((one) => one.attachment !== attachment);
    const settled = volume.mode === "snapshot" || isSettled(record);
    const gone: Detach = { kind: "detach", attachment, sandboxId: id, generation, settled };
    this.#engine.save({ ...now, volumes }, [], [gone]);
    await this.#engine.runErrands("detach");
    return { ok: true };
  }

  async resize(record: SandboxRecord, attachment: string, sizeMiB: number): Promise<Result<object>> {
    const now = await this.#engine.atRest(record);
    if (!now) return moved;
    const volumes = now.volumes.map((one) => (one.attachment === attachment ? { ...one, sizeMiB } : one));
    this.#engine.save({ ...now, volumes });
    const { id, host, life } = now;
    if (life.state !== "running" || !host) return { ok: true };
    const body = { generation: life.generation, attachment, sizeMiB } satisfies GrowVolume;
    const answer = await this.#host.act(host, id, "grow", body);
    return answer.ok ? { ok: true } : { ok: false, failure: why(answer.failure) };
  }

  /** Copy a volume. What rests and is stored needs no copy. */
  async copy(given: SandboxRecord, attachment: string, backup: string): Promise<Result<VolumeCopied>> {
    const record = await this.#engine.atRest(given);
    const volume = record?.volumes.find((one) => one.attachment === attachment);
    if (!record || !volume) return refuse("attachment_not_found", "The sandbox does not have that volume.");
    const stored = this.stored(record, volume);
    if (stored !== undefined) return { ok: true, stored, copying: false };
    const { id, host, life } = record;
    if (!host) return moved;
    const body = { generation: life.generation, attachment, backup } satisfies CopyVolume;
    const answer = await this.#host.act(host, id, "copy", body);
    return answer.ok ? { ok: true, stored: null, copying: true } : { ok: false, failure: why(answer.failure) };
  }

  /** What a volume is, when that is stored: null for an empty one; undefined when it is not. */
  stored(record: SandboxRecord, { attachment, mode, manifest }: HeldVolume): string | null | undefined {
    if (mode === "snapshot" || record.host === null) return manifest;
    const point = pointAtRest(record);
    if (!point || point.durableAt === null) return undefined;
    return point.volumes?.find((one) => one.attachment === attachment)?.manifest ?? manifest;
  }

  /** Tell whose host may store the volumes. false: it can't be known whether that was taken note of. */
  async arrive({ id, account, volumes }: SandboxRecord, hostId: string): Promise<boolean> {
    if (volumes.length === 0) return true;
    return this.#volumes(account)
      .arrive(id, hostId)
      .then(
        ({ ok }) => ok,
        () => false,
      );
  }

  async #plug(record: SandboxRecord, attachment: string): Promise<Failure | null> {
    const { id, host, life } = record;
    if (!host) return moved.failure;
    const volumes = await this.#engine.archiving.volumesFor(record, host.id);
    const volume = volumes.find((one) => one.attachment === attachment);
    if (!volume) return moved.failure;
    const body = { generation: life.generation, volume } satisfies PlugVolume;
    const answer = await this.#host.act(host, id, "plug", body);
    return answer.ok ? null : why(answer.failure);
  }

  #volumes(account: string): VolumesApi {
    return volumesObject(this.#env.VOLUMES, account);
  }
}

const noneRestored = { ok: true, volumeIds: [] as readonly string[] } as const;

function inside(outer: string, inner: string): boolean {
  return inner.startsWith(`${outer}/`);
}

const telling: ReadonlySet<string> = new Set([
  ...["host_unavailable", "conflict", "unavailable", "disk_full", "volume_busy", "state_damaged", "no_capacity"],
]);

/** A host that is away is that; nearly everything else is why the volume could not be had. */
function why(failure: Failure): Failure {
  return telling.has(failure.code) ? failure : { ...failure, code: "volume_failed" };
}

function asleep(state: string): { ok: false; failure: Failure } {
  const message = "Its RAM knows its volumes: wake or stop the sandbox first.";
  return refuse("conflict", state === "paused" ? message : `The sandbox is ${state}.`, { state });
}

const moved = refuse("conflict", "The sandbox changed meanwhile; read it again.");

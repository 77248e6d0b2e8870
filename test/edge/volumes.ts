/** How tests use the volumes of an account of their own, and store for them as hosts do. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { vi } from "vitest";
import type { Result } from "../../durable/result.ts";
import type { SandboxApi } from "../../durable/sandbox/api.ts";
import { vaultObject } from "../../durable/vault/api.ts";
import { volumesObject, type VolumesApi } from "../../durable/volumes/api.ts";
import { blobPath, VAULT_TICKET_HEADER, type ArchivePermit, type ArchiveStored } from "../../sdk/contract/archive.ts";
import type { ErrorCode } from "../../sdk/contract/error-codes.ts";
import { FIRST_EPOCH, hostKey } from "../../sdk/contract/host-secrets.ts";
import { attachmentId, labelOfId, newSandboxId } from "../../sdk/contract/names.ts";
import type { CreateVolume, Volume, VolumeMode } from "../../sdk/contract/volume.ts";
import type { Once } from "../../durable/account/api.ts";
import { API, edge, freshName, type Fault } from "./client.ts";
import { roots } from "./secrets.ts";
import { uploadOf } from "./stored.ts";
import { expectGone, freshBlob, HOST, type TestBlob, type Vault } from "./vaults.ts";

export const once: Once = { key: null, fingerprint: "" };
export const HOUR = 3_600_000;
export const DAY = 24 * HOUR;

export interface Stored {
  readonly permit: ArchivePermit;
  readonly manifest: string;
  readonly pack: TestBlob;
}

/** What an answer holds. @throws when it is a failure */
export function ok<T>(answer: Result<T>): T {
  if (!answer.ok) throw new Error(`${answer.failure.code}: ${answer.failure.message}`);
  return answer;
}

/** The failure that an answer is. */
export function refused(answer: { ok: boolean }): {
  code: ErrorCode;
  message: string;
  details?: Record<string, unknown>;
  retryAfterMs?: number;
} {
  const { failure } = answer as unknown as { failure?: ReturnType<typeof refused> };
  if (!failure) throw new Error(`not refused: ${JSON.stringify(answer)}`);
  return failure;
}

function taken<T>({ status, body }: { status: number; body: T }): T {
  if (status !== 200) throw new Error(`a step was refused: ${JSON.stringify(body)}`);
  return body;
}

export class TestVolumes {
  readonly account: string;
  readonly api: VolumesApi;
  readonly stub: DurableObjectStub;

  constructor(account = `acc${crypto.randomUUID().replaceAll("-", "").slice(0, 11)}`) {
    this.account = account;
    this.api = volumesObject(env.VOLUMES, account);
    this.stub = env.VOLUMES.getByName(account);
  }

  /** The alarm twice, and what is known stays so over an eviction. */
  async alarm(): Promise<void> {
    await runDurableObjectAlarm(this.stub);
    await runDurableObjectAlarm(this.stub);
    await evictDurableObject(this.stub);
  }

  /** The clock goes on, and the alarm goes off. */
  async pass(ms: number): Promise<void> {
    shift(ms);
    await this.alarm();
  }

  async make(input: Partial<CreateVolume> = {}): Promise<Volume> {
    return ok(await this.api.create({ sizeMiB: 1024, ...input }, once)).volume;
  }

  async read(id: string): Promise<Volume> {
    return ok(await this.api.get(id)).volume;
  }

  /** Attached, noted, and its sandbox on a host, unless that is null. */
  async attached(
    volumeId: string,
    {
      mode = "rw",
      host = HOST,
      sandboxId = freshSandbox(),
    }: { mode?: VolumeMode; host?: string | null; sandboxId?: string } = {},
  ): Promise<{ id: string; sandboxId: string }> {
    const id = await attachmentId("", null);
    ok(await this.api.attach({ sandboxId, volumes: [{ attachment: id, volumeId, path: "/data", mode }] }));
    ok(await this.api.noted(sandboxId, [id]));
    if (host !== null) ok(await this.api.arrive(sandboxId, host));
    return { id, sandboxId };
  }

  async detach(sandboxId: string, generation: number, settled = false): Promise<void> {
    ok(await this.api.detach({ sandboxId, attachments: null, generation, settled }));
  }

  /** A host's step. */
  async step<T = { error: Fault }>(id: string, step: object, host = HOST): Promise<{ status: number; body: T }> {
    const response = await edge(`${API}/internal/accounts/${this.account}/volumes/${id}/archive`, {
      method: "POST",
      headers: { authorization: `Bearer ${await hostKey(roots.host, host, FIRST_EPOCH)}` },
      body: JSON.stringify(step),
    });
    return { status: response.status, body: await response.json<T>() };
  }

  /** All but the commit. */
  async uploaded(
    id: string,
    generation: number,
    clean = false,
    known: readonly TestBlob[] = [],
    host = HOST,
  ): Promise<Stored> {
    const permit = taken(await this.step<ArchivePermit>(id, { step: "begin", generation }, host));
    const [manifest, pack] = await Promise.all([freshBlob(), freshBlob(5000)]);
    const told = { ...uploadOf(generation, [manifest, pack], known), diskOnly: true, clean };
    taken(await this.step(id, told, host));
    for (const { id: blob, bytes: body } of [manifest, pack]) {
      const authorization = `Bearer ${await hostKey(roots.host, host, FIRST_EPOCH)}`;
      const headers = { authorization, [VAULT_TICKET_HEADER]: permit.ticket };
      const { status } = await edge(API + blobPath(permit.vault, blob), { method: "PUT", headers, body });
      if (status !== 204) throw new Error(`a blob was refused: ${status}`);
    }
    return { permit, manifest: manifest.id, pack };
  }

  /** A host stores what it has. */
  async store(id: string, generation: number, clean = false, known: readonly TestBlob[] = []): Promise<Stored> {
    const stored = await this.uploaded(id, generation, clean, known);
    const commit = { step: "commit", generation, manifest: stored.manifest };
    taken(await this.step<ArchiveStored>(id, commit));
    return stored;
  }

  vault(id: string): Vault {
    const stub = env.VAULT.getByName(`${this.account}/${id}`);
    return { id, stub, api: vaultObject(env.VAULT, this.account, id) };
  }

  /** Neither blobs nor rows of a vault are left. */
  async expectEmpty(vault: string): Promise<void> {
    await expectGone(this.vault(vault));
  }

  /** The vault lets go of nothing for as long as that is so. */
  async fail(vault: string, on: boolean): Promise<void> {
    const { stub } = this.vault(vault);
    if (!on) return evictDurableObject(stub);
    const release = () => Promise.reject(new Error("not now"));
    await instead(stub, { release });
  }

  /** Something of a sandbox's object, until that is evicted. */
  async sandbox(id: string, change: Partial<SandboxApi>): Promise<void> {
    const stub = env.SANDBOX.getByName(`${this.account}/${labelOfId(id)}`) as DurableObjectStub;
    await instead(stub, change);
  }
}

/** Methods in the place of an object's own, until it is evicted. */
export function instead(stub: DurableObjectStub, methods: object): Promise<void> {
  return runInDurableObject(stub, (object: object) => {
    Object.setPrototypeOf(object, Object.assign(Object.create(Object.getPrototypeOf(object)), methods));
  });
}

/** The next call of a method of an object is answered only after something else has happened. */
export function during(stub: DurableObjectStub, method: string, what: () => Promise<unknown>): Promise<void> {
  return runInDurableObject(stub, (object: object) => {
    const own: object = Object.getPrototypeOf(object);
    const act = Reflect.get(own, method) as (...args: unknown[]) => Promise<unknown>;
    const instead = async (...args: unknown[]) => {
      Object.setPrototypeOf(object, own);
      const answer = await act.apply(object, args);
      await what();
      return answer;
    };
    Object.setPrototypeOf(object, Object.assign(Object.create(own), { [method]: instead }));
  });
}

export const freshSandbox = (): string => newSandboxId(freshName());

/** The clock goes on, until `vi.useRealTimers`. */
export function shift(ms: number): void {
  const now = Date.now() + ms;
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.setSystemTime(now);
}

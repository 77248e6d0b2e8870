/** How tests use a vault, its blobs and its alarm. */
import { env } from "cloudflare:workers";
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { expect, vi } from "vitest";
import { blobKey, vaultObject, type VaultApi } from "../../durable/vault/api.ts";
import type { BlobStore } from "../../durable/vault/blob-store.ts";
import type { VaultObject } from "../../durable/vault/object.ts";
import { vaultTicket } from "../../durable/vault/tickets.ts";
import { blobPath, VAULT_TICKET_HEADER, type BlobNote } from "../../sdk/contract/archive.ts";
import { FIRST_EPOCH, hostKey } from "../../sdk/contract/host-secrets.ts";
import { API, edge, eventually } from "./client.ts";
import { roots } from "./secrets.ts";

export const ACCOUNT = "default";
export const HOST = "fake-1";

export interface TestBlob {
  readonly id: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export interface Vault {
  readonly id: string;
  readonly api: VaultApi;
  readonly stub: DurableObjectStub;
}

export const vaultOf = (id: string): Vault => ({
  id,
  api: vaultObject(env.VAULT, ACCOUNT, id),
  stub: env.VAULT.getByName(`${ACCOUNT}/${id}`),
});
export const freshVault = (): Vault => vaultOf(`test-${crypto.randomUUID().replaceAll("-", "")}`);

async function blobOf(bytes: Uint8Array<ArrayBuffer>): Promise<TestBlob> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return { id: [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join(""), bytes };
}

export const freshBlob = (length = 100): Promise<TestBlob> => blobOf(crypto.getRandomValues(new Uint8Array(length)));
export const note = ({ id, bytes }: TestBlob, isNew = true): BlobNote => ({ id, bytes: bytes.byteLength, isNew });

export const ticketFor = (vault: Vault, write = true, host = HOST, ttlMs = 60_000) =>
  vaultTicket(env, ACCOUNT, vault.id, host, write, ttlMs);

export async function send(
  method: string,
  path: string,
  init: RequestInit & { ticket?: string } = {},
): Promise<Response> {
  const { ticket, headers, ...rest } = init;
  return edge(API + path, {
    method,
    ...rest,
    headers: {
      authorization: `Bearer ${await hostKey(roots.host, HOST, FIRST_EPOCH)}`,
      ...(ticket === undefined ? {} : { [VAULT_TICKET_HEADER]: ticket }),
      ...(headers as Record<string, string> | undefined),
    },
  });
}

export async function upload(vault: Vault, blob: TestBlob, ticket?: string): Promise<Response> {
  return send("PUT", blobPath(vault.id, blob.id), { ticket: ticket ?? (await ticketFor(vault)), body: blob.bytes });
}

export async function uploaded(vault: Vault, ...blobs: TestBlob[]): Promise<void> {
  for (const blob of blobs) expect((await upload(vault, blob)).status).toBe(204);
}

/** Ids of the blobs that are really there. */
export async function stored(vault: Vault): Promise<Set<string>> {
  const prefix = blobKey(vault.id, "");
  const { objects, truncated } = await env.BLOBS.list({ prefix });
  expect(truncated).toBe(false);
  return new Set(objects.map(({ key }) => key.slice(prefix.length)));
}

/** Begun, uploaded, committed. */
export async function committed(vault: Vault, owner: string, blobs: TestBlob[]): Promise<TestBlob> {
  const manifest = await freshBlob();
  expect(
    await vault.api.begin(
      owner,
      manifest.id,
      [manifest, ...blobs].map((blob) => note(blob)),
    ),
  ).toEqual({
    ok: true,
  });
  await uploaded(vault, manifest, ...blobs);
  expect(await vault.api.commit(owner, manifest.id)).toMatchObject({ ok: true });
  return manifest;
}

export const facts = async (vault: Vault) => {
  const answer = await vault.api.inspect();
  if (!answer.ok) throw new Error(answer.failure.message);
  const { ok: _, ...rest } = answer;
  return rest;
};

export const owned = async (vault: Vault, owner: string) => {
  const answer = await vault.api.owned(owner);
  return answer.ok ? [answer.ownedBytes, answer.storedBytes] : [];
};

/** The alarm twice, and after an eviction. */
export async function alarms(vault: Vault): Promise<void> {
  await runDurableObjectAlarm(vault.stub);
  await runDurableObjectAlarm(vault.stub);
  await evictDurableObject(vault.stub);
  await runDurableObjectAlarm(vault.stub);
}

export async function later(ms: number, work: () => Promise<unknown>): Promise<void> {
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.setSystemTime(Date.now() + ms);
  try {
    await work();
  } finally {
    vi.useRealTimers();
  }
}

/** Neither blobs nor rows nor an alarm are left. */
export async function expectGone(vault: Vault): Promise<void> {
  const left = await eventually(
    async () => {
      await runDurableObjectAlarm(vault.stub);
      const [tables, alarm] = await runInDurableObject(vault.stub, async (_object: object, { storage }) => [
        storage.sql
          .exec("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\'")
          .toArray().length,
        await storage.getAlarm(),
      ]);
      return { tables, alarm, blobs: (await stored(vault)).size };
    },
    ({ tables, alarm }) => tables === 0 && alarm === null,
  );
  expect(left).toEqual({ tables: 0, alarm: null, blobs: 0 });
}

/** Puts something in the place of parts of the store, until the object is evicted. */
export function instead(vault: Vault, change: (store: BlobStore) => Partial<BlobStore>): Promise<void> {
  return runInDurableObject(vault.stub as DurableObjectStub<VaultObject>, (object) => {
    const store = object.blobs;
    object.blobs = {
      put: store.put.bind(store),
      get: store.get.bind(store),
      head: store.head.bind(store),
      delete: store.delete.bind(store),
      ...change(store),
    };
  });
}

/** What a host does to make a state durable. */
import { expect } from "vitest";
import type { ArchivePermit, ArchiveStored } from "../../sdk/contract/archive.ts";
import { archive } from "./client.ts";
import { freshBlob, note, upload, vaultOf, type TestBlob } from "./vaults.ts";

export const COMPATIBILITY = "machine/cpu/kvm";

export interface Stored {
  readonly permit: ArchivePermit;
  readonly manifest: TestBlob;
  readonly pack: TestBlob;
}

export const uploadOf = (generation: number, blobs: readonly TestBlob[], known: readonly TestBlob[] = []) => ({
  step: "upload",
  generation,
  manifest: blobs[0]?.id,
  blobs: [...blobs.map((blob) => note(blob)), ...known.map((blob) => note(blob, false))],
  logicalBytes: 1000,
  diskOnly: false,
  compatibility: COMPATIBILITY,
});

/** @param id of a sleeper, or of a snapshot */
export async function store(id: string, generation: number, known: readonly TestBlob[] = []): Promise<Stored> {
  const { body: permit } = await archive<ArchivePermit>(id, { step: "begin", generation });
  const [manifest, pack] = await Promise.all([freshBlob(), freshBlob(5000)]);
  const told = uploadOf(generation, [manifest, pack], known);
  expect((await archive(id, told)).status).toBe(200);
  for (const blob of [manifest, pack]) await upload(vaultOf(permit.vault), blob, permit.ticket);
  const commit = { step: "commit", generation, manifest: manifest.id };
  expect((await archive<ArchiveStored>(id, commit)).status).toBe(200);
  return { permit, manifest, pack };
}

/** What of a sandbox's saved states is off its host, and what that allows. Pure but for the platform's WebCrypto. */
import type { Failure } from "../../sdk/contract/error-codes.ts";
import type { Host } from "../../sdk/contract/host.ts";
import { BASE36, randomText } from "../../sdk/contract/random.ts";
import type { Durability } from "../../sdk/contract/sandbox.ts";
import { toBase64Url } from "../../sdk/contract/ticket.ts";
import type { Origin } from "../snapshots/record.ts";
import { hex } from "../hash.ts";
import { iso, isoOrNull } from "../time.ts";
import { placeOn, type Placement } from "../hosts/placement.ts";
import type { SandboxRecord } from "./record.ts";

/** A saved state: that of the run of its generation. All times are Unix milliseconds. */
export interface Point {
  readonly generation: number;
  readonly manifest: string;
  /** Opens the manifest, where it is not the archive's own (`manifestKey`): it came with a snapshot. */
  readonly key?: string;
  readonly diskOnly: boolean;
  /** Hosts that say the same of themselves can load it. */
  readonly compatibility: string;
  /** Sealed and synced on its host. */
  readonly localAt: number;
  /** Stored off its host. */
  readonly durableAt: number | null;
  /** Given up on its host. */
  readonly coldAt: number | null;
  readonly logicalBytes: number;
  /** Of all blobs that it needs. */
  readonly storedBytes: number;
  /** What its volumes were in the same instant. */
  readonly volumes?: readonly PointVolume[];
}

export interface PointVolume {
  readonly attachment: string;
  readonly vault: string;
  readonly manifest: string;
}

/** A manifest that the sandbox needs no more. */
export interface Dropped {
  readonly vault: string;
  readonly manifest: string;
}

export interface Archive {
  readonly vault: string;
  /** Root of the keys of all its manifests: without it, nothing that is stored can be read. Hex. */
  readonly secret: string;
  /** Oldest first; only the last may not be durable yet. */
  readonly points: readonly Point[];
  readonly ownedBytes: number;
  /** The snapshot whose state the first point is, until the vault knows that this sandbox needs it too. */
  readonly claim?: string | null;
}

/** What a sandbox has that begins as a snapshot. */
export function archiveFrom(origin: Origin, now: number): Archive {
  const { id, vault, manifest, key, mode, compatibility, storedBytes } = origin;
  const times = { localAt: now, durableAt: now, coldAt: null };
  const point = { generation: 0, manifest, key, diskOnly: mode === "disk", compatibility, ...times };
  return { ...newArchive(), vault, points: [{ ...point, logicalBytes: 0, storedBytes }], claim: id };
}

export function newArchive(): Archive {
  const secret = hex(crypto.getRandomValues(new Uint8Array(32)));
  const vault = `sbx-${randomText(BASE36, 24)}`;
  return { vault, secret, points: [], ownedBytes: 0 };
}

/** Opens the manifest of that point and no other. */
export async function keyOf(archive: Archive, point: Point): Promise<string> {
  return point.key ?? manifestKey(archive, point.generation);
}

/** The key of the manifest of a run. */
export async function manifestKey({ secret }: Archive, generation: number): Promise<string> {
  const encoder = new TextEncoder();
  const raw = encoder.encode(secret);
  const key = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return toBase64Url(new Uint8Array(await crypto.subtle.sign("HMAC", key, encoder.encode(`manifest ${generation}`))));
}

/** Names a point for callers. */
export function pointName({ generation }: Point): string {
  return `p${generation}`;
}

/** Points of the sandbox's own history, oldest first; what it began as is none. */
export function ownPoints({ archive }: SandboxRecord): Point[] {
  return archive?.points.filter(({ generation }) => generation > 0) ?? [];
}

/** The point of the state that the sandbox rests with; null when it is not sealed, or the sandbox runs. */
export function pointAtRest({ life, archive }: SandboxRecord): Point | null {
  return archive?.points.find(({ generation }) => generation === life.savedGeneration) ?? null;
}

/** No host has anything of it that is not stored. */
export function isSettled(record: SandboxRecord): boolean {
  return record.host === null || (pointAtRest(record)?.durableAt ?? null) !== null;
}

/** Why a host may not archive the state of that generation now; null when it may. */
export function archiveRefusal({ life, host }: SandboxRecord, hostId: string, generation: number): Failure | null {
  const atRest = life.state === "paused" || life.state === "stopped";
  if (host?.id === hostId && atRest && life.savedGeneration === generation) return null;
  return { code: "conflict", message: `The state of run ${generation} is not what the sandbox rests with.` };
}

/** Note a point that is about to be stored, instead of one that never was. `dropped`: manifests that nobody needs. */
export function noted(archive: Archive, point: Point): { archive: Archive; dropped: Dropped[] } {
  const gone = ({ generation, durableAt, manifest }: Point) =>
    manifest !== point.manifest && (durableAt === null || generation === point.generation);
  const over = archive.points.filter(gone);
  const kept = archive.points.filter((one) => !gone(one) && one.manifest !== point.manifest);
  const points = [...kept, point];
  return { archive: { ...archive, points }, dropped: droppedWith(archive, over, points) };
}

/** What points that go needed alone; two that follow each other may have the same of a volume. */
function droppedWith({ vault }: Archive, over: readonly Point[], kept: readonly Point[]): Dropped[] {
  const needs = ({ manifest, volumes = [] }: Point): Dropped[] => [{ vault, manifest }, ...volumes];
  const needed = new Set(kept.flatMap(needs).map(({ manifest }) => manifest));
  return over.flatMap(needs).filter(({ manifest }) => !needed.has(manifest));
}

/** Note that a point is stored. @param keep how many points are kept, the newest first; at least 1 */
export function stored(
  archive: Archive,
  manifest: string,
  keep: number,
  now: number,
): { archive: Archive; dropped: Dropped[] } {
  const points = archive.points.map((point) =>
    point.manifest === manifest ? { ...point, durableAt: point.durableAt ?? now } : point,
  );
  const durable = points.filter(({ durableAt }) => durableAt !== null);
  const over = durable.slice(0, Math.max(0, durable.length - Math.max(1, keep)));
  const kept = points.filter((point) => !over.includes(point));
  return { archive: { ...archive, points: kept }, dropped: droppedWith(archive, over, kept) };
}

/** Its host keeps nothing of it any more. */
export function givenUp(archive: Archive, generation: number, now: number): Archive {
  const points = archive.points.map((point) =>
    point.generation === generation && point.durableAt !== null ? { ...point, coldAt: point.coldAt ?? now } : point,
  );
  return { ...archive, points };
}

/** Whether the step under way can be made on a host that has nothing of the sandbox. */
export function isMovable(record: SandboxRecord): boolean {
  const point = pointAtRest(record);
  if (!point || point.durableAt === null) return false;
  const { state, run } = record.life;
  return (state === "resuming" && !point.diskOnly) || (state === "starting" && run === "boot");
}

/** A host that takes up what is stored; RAM loads only on one that is alike. */
export function placeAgain(hosts: readonly Host[], record: SandboxRecord): Placement {
  const point = pointAtRest(record);
  const fromDisk = record.life.state === "starting" && record.life.run === "boot";
  if (!point || point.diskOnly || fromDisk) return placeOn(hosts, record.shape);
  return placeAlike(hosts, record, point, "No host that is up can load the saved RAM.");
}

/** A host of the kind that a point is of. @param message says that there is none */
export function placeAlike(
  hosts: readonly Host[],
  { shape }: SandboxRecord,
  { compatibility }: Point,
  message: string,
): Placement {
  const alike = hosts.filter((host) => host.compatibility === compatibility);
  const placement = placeOn(alike, shape);
  if ("host" in placement || alike.some(({ live }) => live) || !hosts.some(({ live }) => live)) return placement;
  return { failure: { code: "incompatible_host", message, details: { compatibility } } };
}

export function durabilityOf(record: SandboxRecord): Durability | null {
  const { life, archive } = record;
  const cachedAt = life.state === "paused" ? life.pausedAt : life.state === "stopped" ? life.endedAt : null;
  if (cachedAt === null) return null;
  const point = pointAtRest(record);
  const { coldAt = null, durableAt = null, localAt = null } = point ?? {};
  return {
    state: coldAt !== null ? "cold" : durableAt !== null ? "durable" : localAt !== null ? "local" : "cached",
    cachedAt: iso(cachedAt),
    localAt: isoOrNull(localAt),
    durableAt: isoOrNull(durableAt),
    coldAt: isoOrNull(coldAt),
    logicalBytes: point?.logicalBytes ?? null,
    storedBytes: point?.storedBytes ?? null,
    ownedBytes: archive?.ownedBytes ?? 0,
  };
}

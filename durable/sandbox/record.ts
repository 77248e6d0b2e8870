/** What a sandbox's object remembers of it, and how the API shows it. Pure. */
import type { MachineBoot } from "../../sdk/contract/boot.ts";
import type { Failure } from "../../sdk/contract/error-codes.ts";
import type { Shape } from "../../sdk/contract/host.ts";
import type { NetworkRules } from "../../sdk/contract/network.ts";
import type { NetworkInput } from "../../sdk/contract/network-settings.ts";
import {
  defaults,
  Env,
  statusOfState,
  type Access,
  type CreateSandbox,
  type DeletedSandbox,
  type Sandbox,
  type UpdateSandbox,
} from "../../sdk/contract/sandbox.ts";
import { namedUrl, type UrlParts } from "../named-url.ts";
import { iso, isoOrNull } from "../time.ts";
import type { HostAddress } from "./host-client.ts";
import type { Origin } from "../snapshots/record.ts";
import { archiveFrom, durabilityOf, newArchive, type Archive } from "./archive.ts";
import type { HeldVolume } from "./held-volume.ts";
import type { SocketRule } from "../../sdk/contract/socket.ts";
import type { WakeRule } from "../../sdk/contract/wake-rule.ts";
import { bootOf, bootWith, shownBoot } from "./boot-settings.ts";
import { awakeAt } from "./guest-timer.ts";
import { activeHolds, type Holds } from "./holds.ts";
import { newLease } from "./lease.ts";
import type { Life } from "./life.ts";
import { isLive, newLife, pausedExpiresAt, timersOf } from "./lifecycle.ts";
import type { McpKept } from "./mcp-settings.ts";
import { rulesOf } from "./way-out.ts";

export interface SandboxRecord {
  readonly id: string;
  readonly account: string;
  readonly label: string;
  readonly name: string | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
  readonly shape: Shape;
  readonly idlePauseSeconds: number;
  readonly holds: Holds;
  readonly autoWake: boolean;
  readonly persistent: boolean;
  readonly access: Access;
  /** Raised by everything that ends link tokens; no two tokens' versions of different grants are alike. */
  readonly accessVersion: number;
  readonly createdAt: number;
  /** Its account limits what may run: each run begins with a question to it. */
  readonly governed: boolean;
  /** The key that it was made with. */
  readonly createdBy: string | null;
  /** What it may cost in its whole life, microdollars; null for no limit. */
  readonly maxTotalCostMicros: number | null;
  /** The host that holds the machine; null until one is chosen. */
  readonly host: HostAddress | null;
  /**
   * While a move to `host` is under way: the host that it goes away from, which keeps its copy until the sandbox runs
   * where it went.
   */
  readonly origin: HostAddress | null;
  /** Its saved states off the host; null before the first. */
  readonly archive: Archive | null;
  /** How many states before the last are kept, to roll back to. */
  readonly keepPauses: number;
  /** The next run begins with what is stored, whatever its host has: it was rolled back. */
  readonly fromStore: boolean;
  /** The copy on its host that it begins as; null once it has run. */
  readonly capture: string | null;
  readonly volumes: readonly HeldVolume[];
  readonly wakeRules: readonly WakeRule[];
  /** By all but the API and schedules; null for no limit. */
  readonly maxWakesPerHour: number | null;
  /** Which WebSockets are held while it sleeps. */
  readonly sockets: readonly SocketRule[];
  /** Whose programs take requests for `localhost` only. */
  readonly localhostPorts: readonly number[];
  /** Some are held now: whoever holds them is told when it runs, and when other people may come in. */
  readonly holdsSockets: boolean;
  /** What may be reached outside, and when that was last set. */
  readonly network: NetworkRules;
  readonly networkSetAt: number | null;
  /** Secrets of the account that it has, by name. */
  readonly secrets: readonly string[];
  /** It has secrets of its own. */
  readonly ownSecrets: boolean;
  /** Raised by each change of rules or secrets; and the newest that a host said it goes by. */
  readonly egressVersion: number;
  readonly egressEnforced: number | null;
  /** What its machine starts with; null: it never had anything. */
  readonly boot: MachineBoot | null;
  /** MCP servers in its machine; null: none. */
  readonly mcp: McpKept | null;
  /** Settings that the running machine's host was not told yet. */
  readonly configurePending: boolean;
  readonly life: Life;
}

/** What a fork has of its source: a copy on that one's host, or what it has stored. */
export interface Fork {
  /** The sandbox that it is a copy of. */
  readonly of: string;
  readonly env: Readonly<Record<string, string>>;
  readonly network: NetworkRules;
  readonly secrets: readonly string[];
  readonly boot: MachineBoot | null;
  readonly shape: Shape;
  readonly from: { readonly host: HostAddress; readonly capture: string; readonly vault: string } | Origin;
}

/** What the account says of a sandbox that is made. */
export interface CreateTerms {
  readonly fork?: Fork;
  readonly governed: boolean;
  readonly keyId: string;
  /** Days that a paused state is kept unless the sandbox says otherwise. */
  readonly retentionDays: number;
}

export function newRecord(
  input: CreateSandbox,
  identity: { id: string; account: string; label: string },
  terms: CreateTerms,
  accessVersion: number,
  now: number,
): SandboxRecord {
  return {
    ...identity,
    name: input.name ?? null,
    labels: input.labels ?? {},
    env: input.env ?? {},
    shape: {
      image: input.image ?? defaults.image,
      vcpu: input.vcpu ?? defaults.vcpu,
      memoryMiB: input.memoryMiB ?? defaults.memoryMiB,
      diskMiB: input.diskMiB ?? defaults.diskMiB,
    },
    // What is meant to run on sleeps only when that is asked for as well.
    idlePauseSeconds: input.idlePauseSeconds ?? (input.persistent ? 0 : defaults.idlePauseSeconds),
    holds: {},
    autoWake: input.autoWake ?? true,
    persistent: input.persistent ?? false,
    access: input.access ?? "private",
    accessVersion,
    createdAt: now,
    governed: terms.governed,
    createdBy: terms.keyId,
    maxTotalCostMicros: input.maxTotalCostMicros ?? null,
    host: null,
    origin: null,
    archive: null,
    keepPauses: input.keepPauses ?? 0,
    fromStore: false,
    capture: null,
    volumes: [],
    wakeRules: input.wakeRules ?? [],
    maxWakesPerHour: input.maxWakesPerHour ?? null,
    sockets: input.sockets ?? [],
    localhostPorts: input.localhostPorts ?? [],
    holdsSockets: false,
    network: rulesOf(input.network ?? {}),
    networkSetAt: input.network === undefined ? null : now,
    secrets: input.secrets ?? [],
    ownSecrets: false,
    egressVersion: 1,
    egressEnforced: null,
    boot: bootOf(input),
    mcp: null,
    configurePending: false,
    life: newLife(
      terms.retentionDays,
      now,
      newLease(input.leaseSeconds ?? input.timeoutSeconds ?? 0, input.onLeaseEnd ?? input.onTimeout ?? "stop"),
    ),
  };
}

/** A record that begins as a snapshot, or as a copy of another sandbox on its host. */
export function begunFrom(
  record: SandboxRecord,
  {
    origin,
    fork,
    diskMiB,
    network,
  }: {
    origin: Origin | null;
    fork: Fork | undefined;
    diskMiB: number | undefined;
    /** As asked for. */
    network: NetworkInput | undefined;
  },
  now: number,
): SandboxRecord {
  const life = { ...record.life, savedGeneration: 0 };
  if (fork) {
    const { from } = fork;
    const { env, shape, network: rules, secrets, boot } = fork;
    const copied = { ...record, env, shape, network: rules, secrets, boot };
    if ("manifest" in from) return { ...copied, archive: archiveFrom(from, now), life };
    const { host, capture, vault } = from;
    return { ...copied, host, capture, archive: { ...newArchive(), vault } };
  }
  if (!origin) return record;
  // One with memory is what it was; a disk starts with any vCPU and memory.
  const disk = { image: origin.shape.image, diskMiB: Math.max(origin.shape.diskMiB, diskMiB ?? 0) };
  const shape = origin.mode === "memory" ? origin.shape : { ...record.shape, ...disk };
  // What was closed stays so, unless somebody says otherwise.
  const rules = network === undefined && origin.network ? { network: origin.network } : {};
  // The same machine starts with the same, unless somebody says otherwise.
  const boot = record.boot ?? origin.boot ?? null;
  return { ...record, shape, ...rules, boot, archive: archiveFrom(origin, now), life };
}

/** The record with other settings, or what is wrong with them. */
export function updated(record: SandboxRecord, input: UpdateSandbox): SandboxRecord | Failure {
  const env = { ...record.env };
  for (const [name, value] of Object.entries(input.env ?? {})) {
    if (value === null) delete env[name];
    else env[name] = value;
  }
  const checked = Env.safeParse(env);
  if (!checked.success) {
    const issues = checked.error.issues.map(({ message }) => ({ path: "env", message }));
    const message = `The variables are not valid: ${issues.map((issue) => issue.message).join("; ")}`;
    return { code: "invalid_request", message, details: { issues } };
  }
  const boot = bootWith(record.boot, input);
  if (boot && "code" in boot) return boot;
  const toldBoot = boot !== record.boot;
  const told =
    input.env !== undefined || input.idlePauseSeconds !== undefined || input.secrets !== undefined || toldBoot;
  const egressVersion = record.egressVersion + (input.secrets === undefined ? 0 : 1);
  const closing = input.access === "private" && record.access === "public";
  return {
    ...record,
    env,
    labels: input.labels ?? record.labels,
    autoWake: input.autoWake ?? record.autoWake,
    idlePauseSeconds: input.idlePauseSeconds ?? record.idlePauseSeconds,
    access: input.access ?? record.access,
    accessVersion: record.accessVersion + (closing ? 1 : 0),
    persistent: input.persistent ?? record.persistent,
    keepPauses: input.keepPauses ?? record.keepPauses,
    wakeRules: input.wakeRules ?? record.wakeRules,
    maxWakesPerHour: input.maxWakesPerHour === undefined ? record.maxWakesPerHour : input.maxWakesPerHour,
    sockets: input.sockets ?? record.sockets,
    localhostPorts: input.localhostPorts ?? record.localhostPorts,
    secrets: input.secrets ?? record.secrets,
    egressVersion,
    boot,
    maxTotalCostMicros: input.maxTotalCostMicros === undefined ? record.maxTotalCostMicros : input.maxTotalCostMicros,
    configurePending: record.configurePending || (told && isLive(record.life.state)),
  };
}

/** When it is woken for a program in it; null where it wakes only when told to. */
export function timerDueAt({ autoWake, life }: SandboxRecord): number | null {
  return autoWake ? timersOf(life).timer : null;
}

/** When it will be awake by itself, for a program in it; null for never. */
export function wakesAt(record: SandboxRecord): number | null {
  return timerDueAt(record) === null ? null : awakeAt(record.life.timer);
}

/** Far enough ahead that no client counts down to it. */
const FUNDED_THROUGH = "2999-12-31T00:00:00.000Z";

export function toSandbox(record: SandboxRecord, urls: UrlParts): Sandbox {
  const { life } = record;
  return {
    id: record.id,
    kind: "sandbox",
    name: record.name,
    label: record.label,
    labels: { ...record.labels },
    envNames: Object.keys(record.env),
    state: life.state,
    status: statusOfState(life.state),
    generation: life.generation,
    region: "local",
    funding: "paid",
    ...record.shape,
    cpu: "shared",
    cpuFloorMillis: 25 * record.shape.vcpu,
    pausable: true,
    timeoutSeconds: life.lease.seconds,
    idlePauseSeconds: record.idlePauseSeconds,
    holds: Object.entries(activeHolds(record.holds, Date.now()))
      .map(([name, endsAt]) => ({ name, expiresAt: iso(endsAt) }))
      .toSorted((a, b) => a.name.localeCompare(b.name)),
    autoWake: record.autoWake,
    persistent: record.persistent,
    keepPauses: record.keepPauses,
    volumes: record.volumes.map(({ attachment, volumeId, path, mode, sizeMiB }) => {
      return { attachmentId: attachment, volumeId, path, mode, sizeMiB };
    }),
    wakeRules: [...record.wakeRules],
    maxWakesPerHour: record.maxWakesPerHour,
    sockets: [...record.sockets],
    localhostPorts: [...record.localhostPorts],
    network: record.network,
    secrets: [...record.secrets],
    ...shownBoot(record.boot),
    access: record.access,
    url: namedUrl(urls, record, defaults.port),
    retentionDays: life.retentionDays,
    onLeaseEnd: life.lease.onEnd,
    onTimeout: life.lease.onEnd,
    createdAt: iso(record.createdAt),
    readyAt: isoOrNull(life.readyAt),
    lastActiveAt: isoOrNull(life.lastActiveAt),
    expiresAt: FUNDED_THROUGH,
    endsAt: life.state === "running" ? isoOrNull(life.lease.endsAt) : null,
    endedAt: isoOrNull(life.endedAt),
    stopReason: life.stopReason,
    lastError: life.failure?.message ?? null,
    lastPauseError: life.failure?.code === "pause_failed" ? life.failure.message : null,
    pausedAt: isoOrNull(life.pausedAt),
    pausedExpiresAt: isoOrNull(pausedExpiresAt(life)),
    wakesAt: isoOrNull(wakesAt(record)),
    durability: durabilityOf(record),
    memoryRestored: life.memoryRestored,
    diskKept: life.state === "deleted" ? false : life.diskKept,
    maxTotalCostMicros: record.maxTotalCostMicros,
    chargedMicros: 0,
    heldMicros: 0,
  };
}

/** Deleted, and not to be taken back any more. */
export function isGoneForGood(record: SandboxRecord | null): boolean {
  return record?.life.state === "deleted" && record.life.undeleteTo === null;
}

export function toDeleted(record: SandboxRecord): DeletedSandbox {
  const endedAt = record.life.endedAt ?? record.createdAt;
  return {
    id: record.id,
    kind: "sandbox",
    name: record.name,
    labels: { ...record.labels },
    status: "deleted",
    state: "deleted",
    deletedAt: iso(endedAt),
    endedAt: iso(endedAt),
    undeleteUntil: record.life.undeleteTo === null ? null : isoOrNull(record.life.nextTryAt),
  };
}

/** Whether a change is to be told to whoever holds the sandbox's sockets. */
export function concernsSockets(before: SandboxRecord | null, now: SandboxRecord): boolean {
  if (before?.id !== now.id || !before.holdsSockets) return false;
  if (before.access !== now.access || before.accessVersion !== now.accessVersion) return true;
  const { state } = now.life;
  return state !== before.life.state && (state === "running" || state === "deleted");
}

/** What an object's name says of it. */
export function identityOf(name: string | undefined): { account: string; label: string } {
  const [account, label] = name?.split("/") ?? [];
  if (!account || !label) throw new Error("a sandbox's object is addressed by account and label");
  return { account, label };
}

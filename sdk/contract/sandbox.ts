/** The sandbox resource: what a caller may ask for and what every answer holds. */
import { z } from "zod";
import { isTooLarge, bootLimits, OnBoot, OnWake, Services, ShownOnBoot, ShownOnWake, ShownService } from "./boot.ts";
import { Labels } from "./labels.ts";
import { NetworkRules } from "./network.ts";
import { NetworkInput } from "./network-settings.ts";
import { SandboxName, SnapshotId } from "./names.ts";
import { SocketRule, SocketRules } from "./socket.ts";
import { SecretNames } from "./secret-name.ts";
import { Env, EnvName, envLimits, EnvValue } from "./variables.ts";
import { CreateVolumeMounts, VolumeMount } from "./volume.ts";
import { MaxWakesPerHour, WakeRule, WakeRules } from "./wake-rule.ts";

export { Env, EnvName } from "./variables.ts";

/** Defaults of a sandbox that does not say otherwise. */
export const defaults = {
  vcpu: 2,
  memoryMiB: 2048,
  diskMiB: 8192,
  image: "default",
  /** Seconds without activity after which a sandbox pauses. */
  idlePauseSeconds: 60,
  /** Days a paused state is kept. */
  retentionDays: 30,
  /** The guest's HTTP port when a URL names none. */
  port: 8080,
} as const;

export const limits = {
  vcpuMax: 16,
  memoryMiBMin: 256,
  memoryMiBMax: 65_536,
  diskMiBMin: 4096,
  diskMiBMax: 409_600,
  idlePauseSecondsMin: 10,
  idlePauseSecondsMax: 86_400,
  retentionDaysMax: 365,
  /** Shortest time limit, and the furthest ahead that one may end, seconds. */
  leaseSecondsMin: 60,
  leaseSecondsMax: 86_400,
  /** Longest time in which a deleted sandbox can be taken back, seconds. */
  graceSecondsMax: 604_800,
  keepPausesMax: 64,
  holdsMax: 32,
  holdSecondsMax: 86_400,
  ...envLimits,
  listMax: 100,
  /** Longest `Prefer: wait` and `timeoutSeconds` of a long wait, in seconds. */
  waitSecondsMax: 120,
} as const;

export const sandboxStates = [
  "starting",
  "running",
  "pausing",
  "paused",
  "resuming",
  "stopping",
  "stopped",
  "deleted",
] as const;
export const SandboxState = z.enum(sandboxStates);
export type SandboxState = z.infer<typeof SandboxState>;

/** Coarse twin of `state`, kept for older clients. */
export const SandboxStatus = z.enum(["pending", "active", "paused", "stopping", "stopped", "deleted"]);

export const stopReasons = [
  "idle",
  "requested",
  "time_limit",
  "paused_expired",
  "startup_failed",
  "pause_failed",
  "wake_failed",
  "vm_crashed",
  "host_lost",
  "host_stopped",
  "insufficient_funds",
  "spending_limit",
  "lifetime_cap",
  "operator_stopped",
] as const;
/** Why a sandbox left `running` the last time. */
export const StopReason = z.enum(stopReasons);
export type StopReason = z.infer<typeof StopReason>;

/** 0 turns idle pausing off. */
const IdlePauseSeconds = z
  .int()
  .refine(
    (s) => s === 0 || (s >= limits.idlePauseSecondsMin && s <= limits.idlePauseSecondsMax),
    `0 (never), or ${limits.idlePauseSecondsMin} to ${limits.idlePauseSecondsMax}`,
  );

/** 0: no time limit. */
const LeaseSeconds = z
  .int()
  .refine(
    (s) => s === 0 || (s >= limits.leaseSecondsMin && s <= limits.leaseSecondsMax),
    `0 (no limit), or ${limits.leaseSecondsMin} to ${limits.leaseSecondsMax}`,
  );
export const OnLeaseEnd = z.enum(["stop", "pause", "delete"]);
export type OnLeaseEnd = z.infer<typeof OnLeaseEnd>;

/** Who may reach the named URL: holders of an API key or link token, or everybody. */
export const Access = z.enum(["private", "public"]);
export type Access = z.infer<typeof Access>;

const TotalCost = z.int().min(0).max(1_000_000_000_000);

/** How many of the states before the last are kept, to roll back to; none unless said. */
const KeepPauses = z.int().min(0).max(limits.keepPausesMax);

/**
 * Ports whose programs take requests for `localhost` only, as development servers do: `Host` says `localhost:<port>`
 * there, as do `Origin` and `Referer` where they named the URL itself, and redirects to it lead back to the URL. None
 * unless said.
 */
const LocalhostPorts = z
  .array(z.int().min(1).max(65_535))
  .max(32)
  .refine((ports) => new Set(ports).size === ports.length, "each port once");

const tooLarge = {
  message: `commands and services hold at most ${bootLimits.settingsBytesMax} bytes together`,
  path: ["services"] as (string | number)[],
};

export const CreateSandbox = z
  .strictObject({
    name: SandboxName.optional(),
    /** With `name`: answer the sandbox that holds it, woken or restarted, with `reused: true`. */
    getOrCreate: z.boolean().optional(),
    labels: Labels.optional(),
    env: Env.optional(),
    image: z.string().min(1).max(128).optional(),
    /** Begin as that snapshot, instead of with an image. One with memory has the size that it was taken with. */
    snapshot: SnapshotId.optional(),
    vcpu: z.int().min(1).max(limits.vcpuMax).optional(),
    memoryMiB: z.int().min(limits.memoryMiBMin).max(limits.memoryMiBMax).optional(),
    diskMiB: z.int().min(limits.diskMiBMin).max(limits.diskMiBMax).optional(),
    idlePauseSeconds: IdlePauseSeconds.optional(),
    /** Whether a request wakes the sandbox; without it a request to a paused one answers `sandbox_paused`. */
    autoWake: z.boolean().optional(),
    access: Access.optional(),
    // Accepted and ignored: clients of the wire send them, and none changes what a machine does here.
    funding: z.enum(["trial", "paid"]).optional(),
    pausable: z.boolean().optional(),
    region: z.string().max(64).optional(),
    cpu: z.literal("shared").optional(),
    maxCostMicros: z.int().min(0).optional(),
    /** What it may cost in its whole life, microdollars: past it, it sleeps and wakes no more. */
    maxTotalCostMicros: TotalCost.optional(),
    /** Seconds that each run may last, busy or not; 0, the default, for no limit. `timeoutSeconds` means the same. */
    leaseSeconds: LeaseSeconds.optional(),
    timeoutSeconds: LeaseSeconds.optional(),
    /** What happens at the end of the time limit; `stop` unless said. `onTimeout` means the same. */
    onLeaseEnd: OnLeaseEnd.optional(),
    onTimeout: OnLeaseEnd.optional(),
    /** It runs on until it is stopped: no idle pause unless `idlePauseSeconds` says so. */
    persistent: z.boolean().optional(),
    keepPauses: KeepPauses.optional(),
    volumes: CreateVolumeMounts.optional(),
    wakeRules: WakeRules.optional(),
    maxWakesPerHour: MaxWakesPerHour.optional(),
    /** WebSockets that stay open while it sleeps; none unless said. */
    sockets: SocketRules.optional(),
    localhostPorts: LocalhostPorts.optional(),
    onBoot: OnBoot.optional(),
    onWake: OnWake.optional(),
    /** Programs that are kept running, in the order that they start; none unless said. */
    services: Services.optional(),
    /** What may be reached outside; everything public unless said. One that begins as a snapshot has that one's rules. */
    network: NetworkInput.optional(),
    /** Secrets of the account that it has, by name; none unless said. */
    secrets: SecretNames.optional(),
  })
  .refine((body) => !body.volumes?.length || body.snapshot === undefined, {
    message: "volumes or snapshot, not both: a snapshot brings copies of its own; attach others then",
    path: ["volumes"],
  })
  .refine((body) => !isTooLarge({ onBoot: body.onBoot, onWake: body.onWake, services: body.services }), tooLarge)
  .refine((body) => body.snapshot === undefined || body.image === undefined, {
    message: "snapshot or image, not both",
    path: ["snapshot"],
  })
  .refine((body) => body.leaseSeconds === undefined || body.timeoutSeconds === undefined, {
    message: "leaseSeconds or timeoutSeconds, not both",
    path: ["leaseSeconds"],
  })
  .refine((body) => body.onLeaseEnd === undefined || body.onTimeout === undefined, {
    message: "onLeaseEnd or onTimeout, not both",
    path: ["onLeaseEnd"],
  })
  .refine((body) => !body.getOrCreate || body.name !== undefined, {
    message: "getOrCreate needs a name",
    path: ["name"],
  })
  .meta({ id: "CreateSandbox" });
export type CreateSandbox = z.infer<typeof CreateSandbox>;

export const UpdateSandbox = z
  .strictObject({
    name: SandboxName.optional(),
    labels: Labels.optional(),
    /** A null value removes the variable. */
    env: z.record(EnvName, EnvValue.nullable()).optional(),
    autoWake: z.boolean().optional(),
    idlePauseSeconds: IdlePauseSeconds.optional(),
    access: Access.optional(),
    persistent: z.boolean().optional(),
    keepPauses: KeepPauses.optional(),
    /** All of them; an empty list for none. */
    wakeRules: WakeRules.optional(),
    /** null: no limit. */
    maxWakesPerHour: MaxWakesPerHour.nullable().optional(),
    /** All of them; an empty list for none. Sockets that are held already stay so. */
    sockets: SocketRules.optional(),
    /** All of them; an empty list for none. */
    localhostPorts: LocalhostPorts.optional(),
    /** null: none. It counts from the next boot on. */
    onBoot: OnBoot.nullable().optional(),
    /** null: none. It counts from the next wake on. */
    onWake: OnWake.nullable().optional(),
    /** All of them; an empty list for none. One that changed is started anew, at once while the sandbox runs. */
    services: Services.optional(),
    /** Secrets of the account: all of them; an empty list for none. */
    secrets: SecretNames.optional(),
    /** null: no limit. */
    maxTotalCostMicros: TotalCost.nullable().optional(),
  })
  .meta({ id: "UpdateSandbox" });
export type UpdateSandbox = z.infer<typeof UpdateSandbox>;

/** `days: null` goes back to the default. */
export const SetRetention = z
  .strictObject({ days: z.int().min(1).max(limits.retentionDaysMax).nullable() })
  .meta({ id: "SetRetention" });

/** Query of a deletion: seconds in which a sandbox can be taken back with `:undelete`; 0, the default, for none. */
export const DeleteQuery = z.strictObject({
  graceSeconds: z.coerce.number().int().min(0).max(limits.graceSecondsMax).optional(),
});

/** `timeoutSeconds`: the time limit of this run, instead of the sandbox's own. */
export const WakeSandbox = z.strictObject({ timeoutSeconds: LeaseSeconds.optional() }).meta({ id: "WakeSandbox" });
export type WakeSandbox = z.infer<typeof WakeSandbox>;

/** The end of the time limit moves to so many seconds from now, unless it is later; without a limit nothing changes. */
export const ExtendSandbox = z
  .strictObject({ seconds: z.int().min(1).max(limits.leaseSecondsMax) })
  .meta({ id: "ExtendSandbox" });

const HoldName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, "a hold's name is 1-63 of A-Z a-z 0-9 . _ -");
/** Keep awake under a name, `seconds` from now; the same name again moves the end. */
export const HoldSandbox = z
  .strictObject({ name: HoldName, seconds: z.int().min(1).max(limits.holdSecondsMax) })
  .meta({ id: "HoldSandbox" });
export const ReleaseSandbox = z.strictObject({ name: HoldName }).meta({ id: "ReleaseSandbox" });

const Time = z.iso.datetime();

/** `POST .../previews`: open a port to people without a key, by a signed expiring token or to everybody. */
export const CreatePreview = z
  .strictObject({
    port: z.int().min(1).max(65_535),
    visibility: Access.optional(),
    /** Seconds until the token ends; a day unless said. */
    ttlSeconds: z.int().min(60).max(604_800).optional(),
    expiresAt: z.iso.datetime().optional(),
  })
  .refine((body) => body.ttlSeconds === undefined || body.expiresAt === undefined, {
    message: "ttlSeconds or expiresAt, not both",
    path: ["ttlSeconds"],
  })
  .meta({ id: "CreatePreview" });

/** Query of `GET .../previews/{port}`: how long its fresh token lives. */
export const PreviewQuery = z
  .strictObject({
    ttlSeconds: z.coerce.number().int().min(60).max(604_800).optional(),
    expiresAt: z.iso.datetime().optional(),
  })
  .refine((query) => query.ttlSeconds === undefined || query.expiresAt === undefined, {
    message: "ttlSeconds or expiresAt, not both",
    path: ["ttlSeconds"],
  });

/** A port's named URL and a token for it. All keys are always present. */
export const Preview = z
  .object({
    id: z.string(),
    sandboxId: z.string(),
    port: z.int(),
    visibility: Access,
    url: z.string(),
    /** null on a public port. */
    token: z.string().nullable(),
    tokenExpiresAt: Time.nullable(),
    /** `url` with the token in it: open it in a browser. */
    urlWithToken: z.string().nullable(),
    disabled: z.boolean(),
    embedOrigins: z.null(),
    createdAt: Time,
    hint: z.string().optional(),
  })
  .meta({ id: "Preview" });
export type Preview = z.infer<typeof Preview>;

export const durabilityStates = ["cached", "local", "durable", "cold"] as const;

/**
 * `cached`: acknowledged, survives the death of any process of its host. `local`: on the host's disk for sure.
 * `durable`: off the host as well, and can wake elsewhere. `cold`: only off the host.
 */
export const Durability = z
  .object({
    state: z.enum(durabilityStates),
    /** When it was saved, was on the disk, was off the host, and was given up on the host. */
    cachedAt: Time,
    localAt: Time.nullable(),
    durableAt: Time.nullable(),
    coldAt: Time.nullable(),
    /** RAM, disk and devices as the machine sees them; null before `local`. */
    logicalBytes: z.int().nullable(),
    /** Compressed bytes of all that it needs off the host; null before `local`. */
    storedBytes: z.int().nullable(),
    /** Bytes stored off the host that no other sandbox or snapshot needs. */
    ownedBytes: z.int(),
  })
  .meta({ id: "Durability" });
export type Durability = z.infer<typeof Durability>;

export const Sandbox = z
  .object({
    id: z.string(),
    kind: z.literal("sandbox"),
    name: z.string().nullable(),
    /** DNS form of the name. */
    label: z.string(),
    labels: z.record(z.string(), z.string()),
    envNames: z.array(z.string()).optional(),
    state: SandboxState,
    status: SandboxStatus,
    /** Grows with every run of the machine. */
    generation: z.int(),
    region: z.string(),
    funding: z.literal("paid"),
    image: z.string(),
    vcpu: z.int(),
    memoryMiB: z.int(),
    diskMiB: z.int(),
    cpu: z.literal("shared"),
    cpuFloorMillis: z.int(),
    pausable: z.literal(true),
    /** Time limit of each run; 0 for none. */
    timeoutSeconds: z.int(),
    idlePauseSeconds: z.int(),
    /** What keeps it awake now, however idle it is. */
    holds: z.array(z.object({ name: z.string(), expiresAt: Time })).optional(),
    autoWake: z.boolean(),
    persistent: z.boolean(),
    keepPauses: z.int().optional(),
    volumes: z.array(VolumeMount).optional(),
    wakeRules: z.array(WakeRule).optional(),
    maxWakesPerHour: z.int().nullable().optional(),
    sockets: z.array(SocketRule).optional(),
    localhostPorts: z.array(z.int()).optional(),
    onBoot: ShownOnBoot.nullable().optional(),
    onWake: ShownOnWake.nullable().optional(),
    services: z.array(ShownService).optional(),
    /** What may be reached outside, and the account's secrets that it has, by name. */
    network: NetworkRules.optional(),
    secrets: z.array(z.string()).optional(),
    access: Access,
    /** The named URL of the default port. */
    url: z.string(),
    retentionDays: z.int(),
    onLeaseEnd: OnLeaseEnd,
    onTimeout: OnLeaseEnd,
    createdAt: Time,
    readyAt: Time.nullable(),
    lastActiveAt: Time.nullable(),
    /** Funded through; without metering, far ahead. */
    expiresAt: Time,
    /** null: never ends by itself. */
    endsAt: Time.nullable(),
    endedAt: Time.nullable(),
    stopReason: StopReason.nullable(),
    /** What the host said when the last action failed. */
    lastError: z.string().nullable(),
    /** Why the last pause did not come about; the machine ran on. null once a later step worked. */
    lastPauseError: z.string().nullable().optional(),
    pausedAt: Time.nullable(),
    pausedExpiresAt: Time.nullable(),
    /** Asleep, when it will be awake by itself, as a program in it asked; null for never. */
    wakesAt: Time.nullable().optional(),
    /** How safe the state at rest is; null while the sandbox runs. */
    durability: Durability.nullable().optional(),
    /** false after a boot from disk where RAM was lost or given up; true after a wake; null before either. */
    memoryRestored: z.boolean().nullable(),
    diskKept: z.boolean(),
    /** What it may cost in its whole life; null for no limit. */
    maxTotalCostMicros: z.int().nullable().optional(),
    /** What it has cost so far. */
    chargedMicros: z.int(),
    heldMicros: z.int(),
    /** getOrCreate found it. */
    reused: z.boolean().optional(),
    /** An Idempotency-Key was seen before. */
    replayed: z.boolean().optional(),
  })
  .meta({ id: "Sandbox" });
export type Sandbox = z.infer<typeof Sandbox>;

export const DeletedSandbox = z
  .object({
    id: z.string(),
    kind: z.literal("sandbox"),
    name: z.string().nullable(),
    labels: z.record(z.string(), z.string()),
    status: z.literal("deleted"),
    state: SandboxState,
    deletedAt: Time,
    endedAt: Time.nullable(),
    /** Until when `:undelete` takes it back; null when it is gone for good. */
    undeleteUntil: Time.nullable().optional(),
    replayed: z.boolean().optional(),
  })
  .meta({ id: "DeletedSandbox" });
export type DeletedSandbox = z.infer<typeof DeletedSandbox>;

export const SandboxList = z
  .object({ data: z.array(Sandbox), nextCursor: z.string().nullable() })
  .meta({ id: "SandboxList" });
export type SandboxList = z.infer<typeof SandboxList>;

/** Query of `GET /v1/sandboxes`; `state` and `label` repeat (labels: all must match, `key:value`). */
export const ListQuery = z.strictObject({
  state: z.array(SandboxState).optional(),
  label: z.array(z.string().regex(/^[^:]+:/, "key:value")).optional(),
  name: z.string().optional(),
  includeStopped: z.enum(["true", "false"]).optional(),
  limit: z.coerce.number().int().min(1).max(limits.listMax).optional(),
  cursor: z.string().optional(),
});
export type ListQuery = z.infer<typeof ListQuery>;

/** Query of `GET /v1/sandboxes:changes`. Without `after` it says where to begin, and no changes. */
export const ChangesQuery = z.strictObject({
  after: z.coerce.number().int().min(0).optional(),
  /** How long to wait for the next change where there is none yet. */
  waitSeconds: z.coerce.number().int().min(0).max(60).optional(),
});

/** Sandboxes that changed, each as it is now. Changes of use and of cost alone are none. */
export const SandboxChanges = z
  .object({
    data: z.array(
      z.object({
        label: z.string(),
        /** null: there is none under the label any more. */
        sandbox: Sandbox.nullable(),
      }),
    ),
    /** The `after` of the next call. */
    nextAfter: z.int(),
    hasMore: z.boolean(),
  })
  .meta({ id: "SandboxChanges" });
export type SandboxChanges = z.infer<typeof SandboxChanges>;

export const GetQuery = z.strictObject({
  waitFor: z.enum(["running", "paused", "stopped"]).optional(),
  timeoutSeconds: z.coerce.number().int().min(1).max(limits.waitSecondsMax).optional(),
});

/** The coarse twin of a state. */
export function statusOfState(state: SandboxState): z.infer<typeof SandboxStatus> {
  switch (state) {
    case "starting":
    case "resuming":
      return "pending";
    case "running":
    case "pausing":
      return "active";
    default:
      return state;
  }
}

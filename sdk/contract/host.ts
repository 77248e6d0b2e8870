/** Edge <-> host agent, internal: neither the SDK's index nor the public API shows it. */
import { z } from "zod";
import { AccountName } from "./account.ts";
import { SavedState } from "./archive.ts";
import { MachineEgress } from "./egress.ts";
import { GuestBoot, MachineBoot } from "./boot.ts";
import { GuestTimer } from "./guest-timer.ts";
import { HostSecrets } from "./host-secrets.ts";
import { StopReason } from "./sandbox.ts";
import { AttachmentId, BackupId, Generation, SandboxId, SnapshotId } from "./names.ts";
import { Diff, DiffPath } from "./snapshot.ts";
import { EnvName } from "./variables.ts";
import { VolumeMode, volumeLimits, VolumePath } from "./volume.ts";

/** Headers between edge and host; inbound ones of these names are dropped at the edge. */
export const hostHeaders = {
  /** A signed grant to reach one machine in one generation (`ticket.ts`). */
  ticket: "x-rouse-ticket",
  requestId: "x-request-id",
  /**
   * The API key, session or share link that let the request in, by its id: the host refuses those that it was told are
   * revoked.
   */
  keyId: "x-rouse-key-id",
  /** When the key, session or link that let the request in ends, Unix milliseconds: what it let in ends then. */
  endsAt: "x-rouse-ends-at",
  /** The request does not count as use: a machine that has only such is idle. */
  noKeep: "x-rouse-no-keep",
  /**
   * Of a held socket, a word that nobody else knows: its messages count as use and the open connection does not, and
   * what has reached the program is told by text messages `<word>:<count>` among those of the program. The answer has
   * the header when the host does so.
   */
  socketWord: "x-rouse-socket-word",
  /** Of a WebSocket: its messages count as use and the open connection does not (`RESTING_CLOSE`). */
  byMessage: "x-rouse-by-message",
  /** The host name that the program is to be asked for; without it that is the `x-forwarded-host`. */
  host: "x-rouse-host",
  /** Set by the host on data answers: milliseconds the request waited for a port to listen. */
  waited: "x-rouse-waited-ms",
} as const;

/** Control routes, `authorization: Bearer <control secret of the host>` (`host-secrets.ts`). */
export const hostPaths = {
  machines: "/machines",
  /** `POST`: connections of these keys end, and no more of them are taken (`Revoke`). */
  revoke: "/revoke",
  machine: (id: string) => `/machines/${encodeURIComponent(id)}`,
  capture: (id: string) => `/captures/${id}`,
  diffs: "/diffs",
  act: (id: string, verb: MachineVerb | VolumeVerb | "capture") => `/machines/${encodeURIComponent(id)}:${verb}`,
  /** Data routes, `x-rouse-ticket`: anything below goes to the guest agent, or to a guest port. */
  agent: (id: string) => `/m/${encodeURIComponent(id)}/agent`,
  port: (id: string, port: number) => `/m/${encodeURIComponent(id)}/port/${port}`,
} as const;

export const machineVerbs = ["pause", "wake", "boot", "stop", "configure", "settle"] as const;
export type MachineVerb = (typeof machineVerbs)[number];

/** Also `POST /machines/{id}:{verb}`, answered with `Machine`. */
export const volumeVerbs = ["plug", "unplug", "grow", "copy"] as const;
export type VolumeVerb = (typeof volumeVerbs)[number];

/** What makes two machines interchangeable: a golden image exists per shape. */
export const Shape = z.object({ image: z.string(), vcpu: z.int(), memoryMiB: z.int(), diskMiB: z.int() });
export type Shape = z.infer<typeof Shape>;

/**
 * Names a stretch in which a host had a lease without a gap. A call that begins a run carries the one that the edge knows:
 * after a gap the host refuses it (`misdirected`), as it may have been on its way all the while.
 */
export const HostSession = z.string().min(1).max(64);

/** Variables of a run: the sandbox's own, and those of its secrets. */
export const RunEnv = z.record(EnvName, z.string());

/** A volume of a machine. */
export const MachineVolume = z.object({
  attachment: AttachmentId,
  /** Its place in the machine; a saved state finds it there again. */
  slot: z.int().min(1).max(volumeLimits.perSandbox),
  path: VolumePath,
  mode: VolumeMode,
  sizeMiB: z.int(),
  /** What it holds, for a host that has nothing of it. null: an empty volume. */
  saved: SavedState.nullable(),
});
export type MachineVolume = z.infer<typeof MachineVolume>;

/** `PUT /machines/{id}`: clone the golden image of the shape and wake the clone. Idempotent per generation. */
export const CreateMachine = z.object({
  /** The account of the sandbox: hosts name it when they report, so that its object can be found. */
  account: AccountName,
  generation: Generation,
  shape: Shape,
  /** Host name inside the guest: the label. */
  hostname: z.string(),
  env: RunEnv,
  /** Seconds without activity before the host proposes a pause; 0 never. */
  idlePauseSeconds: z.int(),
  session: HostSession.optional(),
  /** Begin with this state instead of the golden one. */
  saved: SavedState.optional(),
  /** With `saved`: boot from its disk. */
  diskOnly: z.boolean().optional(),
  /** Begin as that copy, which this host holds (`:capture`). */
  capture: SnapshotId.optional(),
  volumes: z.array(MachineVolume).optional(),
  /** None: nothing gets out. */
  egress: MachineEgress.optional(),
  /** Commands and services; none: it never had any. */
  boot: MachineBoot.optional(),
});
export type CreateMachine = z.infer<typeof CreateMachine>;

/** `:wake` (RAM) and `:boot` (disk only). Both start a new generation; idempotent per generation. */
export const RunMachine = z.object({
  generation: Generation,
  env: RunEnv,
  idlePauseSeconds: z.int(),
  session: HostSession.optional(),
  /** The state that the machine sleeps with, for a host that holds it sealed, or no more. */
  saved: SavedState.optional(),
  /** All that it has; what is not plugged in yet is, once it runs. */
  volumes: z.array(MachineVolume).optional(),
  /** None: nothing gets out. */
  egress: MachineEgress.optional(),
  /** Commands and services; none: it never had any. */
  boot: MachineBoot.optional(),
});
export type RunMachine = z.infer<typeof RunMachine>;

/** `:pause`; with `onlyIfIdle` the host refuses (`conflict`) when something happened since it proposed. */
export const PauseMachine = z.object({ generation: Generation, onlyIfIdle: z.boolean().optional() });
export type PauseMachine = z.infer<typeof PauseMachine>;

/**
 * `:capture`: copy RAM, devices and disk of one instant, under that id. A running machine stands still for it, and goes
 * on. The copy is stored off the host for a snapshot (`stored`), and is there for forks until `DELETE /captures/{id}`.
 */
export const CaptureMachine = z.object({
  generation: Generation,
  capture: SnapshotId,
  diskOnly: z.boolean(),
  stored: z.boolean(),
  /** Volumes that are copied in the same instant, each under the id of a backup, and stored before the machine's copy. */
  volumes: z.array(z.object({ attachment: AttachmentId, backup: BackupId })).optional(),
});
export type CaptureMachine = z.infer<typeof CaptureMachine>;

/** `:plug` into a running machine: a disk appears in it and is mounted. */
export const PlugVolume = z.object({ generation: Generation, volume: MachineVolume });
export type PlugVolume = z.infer<typeof PlugVolume>;

/** `:unplug`: unmounted, taken out, and stored. Of a machine at rest only when it has no RAM that knows it. */
export const UnplugVolume = z.object({ generation: Generation, attachment: AttachmentId });
export type UnplugVolume = z.infer<typeof UnplugVolume>;

/** `:grow` a volume of a running machine, its file system too. */
export const GrowVolume = z.object({ generation: Generation, attachment: AttachmentId, sizeMiB: z.int() });
export type GrowVolume = z.infer<typeof GrowVolume>;

/** `:copy` a volume of a machine that runs, whose writing stands still for a moment, or rests; then it is stored. */
export const CopyVolume = z.object({ generation: Generation, attachment: AttachmentId, backup: BackupId });
export type CopyVolume = z.infer<typeof CopyVolume>;

/** Answer to `:capture`; null: the machine slept. */
export const Captured = z.object({ frozenMs: z.number().nullable() });
export type Captured = z.infer<typeof Captured>;

/** `POST /diffs`: which files differ between the disks of two states, wherever their machine is. One at a time. */
export const DiffStates = z.object({
  /** Of the machine that is made to compare them, and thrown away. */
  shape: Shape,
  from: SavedState,
  to: SavedState,
  path: DiffPath.optional(),
});
export type DiffStates = z.infer<typeof DiffStates>;

export const DiffFound = Diff.pick({ data: true, truncated: true });
export type DiffFound = z.infer<typeof DiffFound>;

/** `:stop`: flush disks, end the machine, keep the disk. */
export const StopMachine = z.object({ generation: Generation });

/** `:configure` on a running machine. */
export const ConfigureMachine = z.object({
  generation: Generation,
  env: RunEnv,
  idlePauseSeconds: z.int(),
  /** In place of the one before, at once and for open connections too; none leaves it as it is. */
  egress: MachineEgress.optional(),
  boot: MachineBoot.optional(),
});

/**
 * `:settle`: how deep a paused machine sleeps from now on. `compact`: only what differs from its golden image is on the
 * host. `cold`: nothing is.
 */
export const sleepDepths = ["resident", "prestarted", "local", "compact", "cold"] as const;
export const SettleMachine = z.object({ depth: z.enum(sleepDepths) });
export type SleepDepth = (typeof sleepDepths)[number];

export const machineStates = ["creating", "running", "pausing", "paused", "waking", "stopped"] as const;
export const MachineState = z.enum(machineStates);
export type MachineState = z.infer<typeof MachineState>;

/** What a host says of one machine. */
export const Machine = z.object({
  id: SandboxId,
  account: AccountName,
  generation: Generation,
  state: MachineState,
  shape: Shape,
  /** Whether RAM can still be loaded. */
  memory: z.enum(["live", "saved", "none"]),
  depth: z.enum(sleepDepths).nullable(),
  /** The run that the state at rest is of; null while one is live. */
  savedGeneration: Generation.nullable().optional(),
  /** How the last run began: from RAM, or from disk. */
  memoryRestored: z.boolean(),
  /** Set when the machine ended by itself. */
  endReason: StopReason.nullable(),
  /** Of one that sleeps, when a program in it must run next, as its guest said; null or not said: no program must. */
  timer: GuestTimer.nullable().optional(),
  lastActiveAt: z.iso.datetime(),
  /** Requests and connections under way; not said by a host of a version before. */
  open: z.int().optional(),
  /** What it was that kept it awake last. */
  lastUse: z.enum(["use", "cpu"]).optional(),
  /** Milliseconds of the last create, wake, boot or pause, as the host measured it. */
  lastActionMs: z.number().nullable(),
});
export type Machine = z.infer<typeof Machine>;

export const HostId = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/, "1-63 of a-z 0-9 -, first no -");

/** `POST <edge>/internal/hosts/{hostId}/heartbeat`, host key. */
export const Heartbeat = z.object({
  hostId: HostId,
  url: z.url(),
  accelerator: z.enum(["kvm", "tcg", "fake"]),
  /** Why that accelerator, in a sentence. */
  acceleratorReason: z.string(),
  qemuVersion: z.string().nullable(),
  images: z.array(z.string()),
  vcpus: z.int(),
  memoryMiB: z.int(),
  freeMemoryMiB: z.int(),
  freeDiskMiB: z.int(),
  /** Processes that run or wait to, on average over a minute. */
  loadAverage: z.number().optional(),
  /** Hosts with the same key can wake each other's states. */
  compatibility: z.string().optional(),
  running: z.int(),
  paused: z.int(),
  /** Machines and volumes of which something is nowhere else: with the host they would be lost. */
  unstored: z.int().optional(),
  session: HostSession.optional(),
});
export type Heartbeat = z.infer<typeof Heartbeat>;

/** A row of `GET /v1/hosts`. */
export const Host = Heartbeat.extend({
  lastSeenAt: z.iso.datetime(),
  live: z.boolean(),
  /** Silent for longer than its lease: nothing of it runs any more. */
  lost: z.boolean().optional(),
  /** It takes no new machines; those it has run, sleep and wake on. */
  draining: z.boolean(),
}).meta({ id: "Host" });
export type Host = z.infer<typeof Host>;

/** `POST /v1/hosts`. */
export const AddHost = z.strictObject({ hostId: HostId }).meta({ id: "AddHost" });

/** A host's secrets, shown once: what its secrets file holds. */
export const NewHost = HostSecrets.extend({ hostId: HostId }).meta({ id: "NewHost" });
export type NewHost = z.infer<typeof NewHost>;

/** `POST /v1/hosts/{host}:drain`. */
export const DrainHost = z.strictObject({ draining: z.boolean().optional() }).meta({ id: "DrainHost" });

/** `POST <edge>/internal/accounts/{account}/machines/{id}/events`, host key: what the host noticed. At least once, any order. */
export const MachineEvent = z.discriminatedUnion("type", [
  /** Idle for as long as was asked; the object decides. */
  z.object({ type: z.literal("idle"), generation: Generation }),
  /** The machine ended by itself. */
  z.object({ type: z.literal("ended"), generation: Generation, reason: StopReason }),
  /** The host paused it on its own: it shuts down, or its lease ran out. */
  z.object({
    type: z.literal("paused"),
    generation: Generation,
    reason: StopReason,
    timer: GuestTimer.nullable().optional(),
  }),
  /** What came of commands and services, whenever that changes; any state, also of a run that is over. */
  z.object({ type: z.literal("boot"), generation: Generation, report: GuestBoot }),
  /** The host has a lease again and holds this run, frozen: may it go on? The answer's `fate` says. */
  z.object({ type: z.literal("returned"), generation: Generation }),
]);
export type MachineEvent = z.infer<typeof MachineEvent>;

/** Ids of one call. */
export const REVOKED_MAX = 1000;

/** `POST /revoke` */
export const Revoke = z.object({ keyIds: z.array(z.string().max(64)).max(REVOKED_MAX) });

/** Answer to a heartbeat: how long the host may run machines from when it sent it (`host-lease.ts`). */
export const HeartbeatTaken = z.object({
  ok: z.literal(true),
  leaseSeconds: z.number().positive(),
  /** The edge's clock, Unix milliseconds: tickets end by it. */
  now: z.number().optional(),
  /** It is to be emptied: sleepers that are stored give up their files here, and wake elsewhere. */
  draining: z.boolean().optional(),
});

/** What becomes of a frozen run: it goes on, it is put to sleep with its RAM, or it has been given up and ends. */
export const frozenFates = ["run", "sleep", "end"] as const;
export type FrozenFate = (typeof frozenFates)[number];

/** Answer to an event; `fate` is meant for `returned`. */
export const EventTaken = z.object({ ok: z.literal(true), fate: z.enum(frozenFates) });

/** What the edge may ask of a sandbox's object. Expected failures are answers: an error's class does not survive RPC. */
import { refuse, type Result } from "../result.ts";
import type { ArchivePermit, ArchiveStep, ArchiveStored } from "../../sdk/contract/archive.ts";
import type { Resume } from "../../sdk/contract/boot.ts";
import type { EgressReport, MachineEgress } from "../../sdk/contract/egress.ts";
import type { FrozenFate, MachineEvent } from "../../sdk/contract/host.ts";
import type {
  CreateSnapshot,
  Diff,
  DiffQuery,
  Forks,
  ForkSandbox,
  HistoryPoint,
  Snapshot,
} from "../../sdk/contract/snapshot.ts";
import type { Network, SetNetwork } from "../../sdk/contract/network-settings.ts";
import type { RouseEvent } from "../../sdk/contract/event.ts";
import type { SocketRule } from "../../sdk/contract/socket.ts";
import type { CreateLink, Link } from "../../sdk/contract/link.ts";
import type { Cause, Why } from "../../sdk/contract/timeline.ts";
import type { RuleSubject, WakeRule } from "../../sdk/contract/wake-rule.ts";
import type { CreateVolumeMount } from "../../sdk/contract/volume.ts";
import type { Draft } from "../events/draft.ts";
import type { Use } from "../secrets/api.ts";
import type { McpServerKept } from "./mcp-settings.ts";
import type { CreateTerms } from "./record.ts";
import type {
  Access,
  CreateSandbox,
  DeletedSandbox,
  Preview,
  Sandbox,
  SandboxState,
  StopReason,
  UpdateSandbox,
} from "../../sdk/contract/sandbox.ts";

export { refuse, type Result };

/** Answer to a step of archiving. */
export type ArchiveAnswer = ArchivePermit | ArchiveStored | Record<string, never>;

/** Common to all calls. */
export interface Ask {
  /** The id that is meant; null for whatever holds the name now. */
  readonly id: string | null;
}

/** A call that changes something. */
export interface Change extends Ask {
  /** How long to wait for the change to be done, milliseconds; then the state so far is answered. */
  readonly holdMs: number;
  readonly idempotencyKey: string | null;
  /** SHA-256 of route and body, which a repeated key must match. */
  readonly fingerprint: string;
  /** Who asks; null for nobody from outside. */
  readonly cause: Cause | null;
}

/** Facts that decide who may come in. They never need the machine. */
export interface RouteFacts {
  readonly id: string;
  readonly state: SandboxState;
  readonly generation: number;
  readonly access: Access;
  /** Ports opened by a preview. */
  readonly ports: Readonly<Record<number, { readonly visibility: Access; readonly version: number }>>;
  readonly rules: readonly WakeRule[];
  /** WebSockets that are held. */
  readonly sockets: readonly SocketRule[];
  readonly localhostPorts: readonly number[];
  /** Share links that are live. */
  readonly links: Readonly<Record<string, LinkFacts>>;
}

export interface LinkFacts {
  readonly port: number;
  readonly path: string;
  readonly wake: boolean;
}

/** The right to talk to the running machine. */
export interface RouteGrant {
  readonly hostId: string;
  readonly hostUrl: string;
  readonly ticket: string;
  /** Unix milliseconds. */
  readonly ticketExpiresAt: number;
}

export interface RouteAsk extends Ask {
  /** Wake a paused sandbox; without it there is a grant only while it runs. */
  readonly wake: boolean;
  /** Longest wait for a run under way, milliseconds. */
  readonly waitMs: number;
  /** Ask the host whether it really runs: it answered otherwise, or a body can be sent only once. */
  readonly verify: boolean;
  /** Who has it wake; null where nothing is to wake, or nobody from outside asks. */
  readonly cause: Cause | null;
  /** A request that the sandbox's rules may keep from waking it; null for one that they are not about. */
  readonly subject: RuleSubject | null;
  /** The asker holds sockets, and is to be told of changes, or holds none any more; undefined for another asker. */
  readonly holdsSockets?: boolean;
}

export type SandboxAnswer = Result<{ readonly sandbox: Sandbox }>;

/** The answer to a repeated Idempotency-Key. */
export function replayed<A extends Result<object>>(answer: A): A {
  if (!answer.ok) return answer;
  // Each answer holds one thing: a sandbox, a snapshot.
  const marked = Object.entries(answer).map(([name, thing]) =>
    typeof thing === "object" ? [name, { ...(thing as object), replayed: true }] : [name, thing],
  );
  return Object.fromEntries(marked) as A;
}

export interface PreviewTerms {
  readonly ttlSeconds?: number | undefined;
  readonly expiresAt?: string | undefined;
}

/** An event of the sandbox that another object knows of. Its state and generation are added. */
export type EventNote =
  Extract<Draft, { type: "fork.created" | "hook.dead_letter" | "session.created" | "session.revoked" }> extends infer D
    ? D extends { readonly type: infer T; readonly data: infer E }
      ? { readonly type: T; readonly data: Omit<E, "state" | "generation">; readonly key: string }
      : never
    : never;

export interface VolumeCopied {
  /** Nothing to copy: what is stored is what it is; null is an empty volume. */
  readonly stored: string | null;
  /** Its host stores the copy. */
  readonly copying: boolean;
}

/** What a sandbox that heard of a change of its secrets does about it. */
export type SecretsHeard = "applied" | "pending" | "gone";

/** What is done about a sandbox's MCP servers. */
export type McpDeed =
  | { readonly kind: "look" | "stop" }
  | {
      readonly kind: "start";
      readonly servers: readonly McpServerKept[];
      readonly port: number | undefined;
      readonly replace: boolean;
      /** Of the account, by name; they are there. */
      readonly secrets: readonly string[];
    };

export interface McpShown {
  readonly sandboxId: string;
  readonly state: SandboxState;
  readonly port: number;
  readonly version: number;
  /** Of the port, with a slash at its end. */
  readonly url: string;
  /** null: its link was revoked, or is over. */
  readonly token: string | null;
  /** Unix milliseconds. */
  readonly tokenExpiresAt: number;
  /** Its network rules let nothing out. */
  readonly isClosed: boolean;
  readonly servers: readonly (Pick<McpServerKept, "name" | "id" | "secrets"> & { readonly envNames: string[] })[];
}

export interface SandboxApi {
  /** @returns `name_taken`, `idempotency_key_reused`, `start_failed`, `no_capacity`, `no_host`, `host_unavailable`,
   * and what the account refuses with (`quota_exceeded`, `insufficient_funds`, `spending_limit_reached`) as failures */
  create(input: CreateSandbox, terms: CreateTerms, change: Omit<Change, "id">): Promise<SandboxAnswer>;
  get(ask: Ask): Promise<SandboxAnswer>;
  /** The sandbox when it reaches the state, ends, or the time is up. */
  /** What keeps it awake, who had it wake, and when it slept; what it cost is not the object's to say. */
  why(ask: Ask): Promise<Result<{ readonly why: Omit<Why, "chargedMicros"> & { readonly id: string } }>>;
  /** How its newest run began, and whether there is something to go on with. */
  resume(ask: Ask): Promise<Result<{ readonly resume: Resume }>>;
  /**
   * Its events after a number, the oldest first, also when it is deleted already.
   * @param waitMs for the next one where there is none yet
   */
  events(ask: Ask, after: number, limit: number, waitMs: number): Promise<Result<{ readonly events: RouseEvent[] }>>;
  /** Something happened that is an event of it; once per key. Without a trace where the sandbox is another by now. */
  note(id: string, note: EventNote): Promise<void>;
  waitFor(ask: Ask, state: SandboxState, waitMs: number): Promise<SandboxAnswer>;
  update(input: UpdateSandbox, change: Change): Promise<SandboxAnswer>;
  pause(change: Change): Promise<SandboxAnswer>;
  /** `leaseSeconds`: the time limit of the run it begins; undefined for the sandbox's own. */
  wake(leaseSeconds: number | undefined, change: Change): Promise<SandboxAnswer>;
  extend(seconds: number, change: Change): Promise<SandboxAnswer>;
  /** Keep awake under a name for so many seconds from now; 0 lets go of it. */
  hold(name: string, seconds: number, change: Change): Promise<SandboxAnswer>;
  stop(change: Change): Promise<SandboxAnswer>;
  restart(change: Change): Promise<SandboxAnswer>;
  /** Run again whatever it takes: from RAM where there is some, else from disk. */
  recover(change: Change): Promise<SandboxAnswer>;
  /** Take back a deletion within its grace time; it sleeps, or is stopped, as before. */
  undelete(change: Change): Promise<SandboxAnswer>;
  /** The account has no means, or no right, for what runs. false: nothing of it does. */
  cutOff(id: string, reason: StopReason): Promise<boolean>;
  /** What sleeps is deleted, whatever its retention: nobody pays for it any more. */
  endRetention(id: string): Promise<void>;
  setRetention(days: number, change: Change): Promise<SandboxAnswer>;
  /** `graceSeconds`: in which a sandbox that is at rest then can be taken back. */
  remove(graceSeconds: number, change: Change): Promise<Result<{ readonly deleted: DeletedSandbox }>>;
  /** Without a grant where it does not run: it is not to wake, or a rule keeps it asleep. */
  route(
    ask: RouteAsk,
  ): Promise<Result<{ readonly facts: RouteFacts; readonly grant: RouteGrant | null; readonly woken: boolean }>>;
  openPort(
    port: number,
    visibility: Access | undefined,
    terms: PreviewTerms,
    ask: Ask,
  ): Promise<Result<{ readonly preview: Preview }>>;
  listPorts(ask: Ask): Promise<Result<{ readonly previews: Preview[] }>>;
  getPort(port: number, terms: PreviewTerms, ask: Ask): Promise<Result<{ readonly preview: Preview }>>;
  rotatePort(port: number, ask: Ask): Promise<Result<{ readonly preview: Preview }>>;
  closePort(port: number, ask: Ask): Promise<Result<{ readonly id: string; readonly sandboxId: string }>>;
  /** @returns `invalid_port`, `invalid_request`, `quota_exceeded` */
  createLink(input: CreateLink, change: Change): Promise<Result<{ readonly link: Link }>>;
  listLinks(ask: Ask): Promise<Result<{ readonly links: Link[] }>>;
  /** With its newest uses. */
  getLink(link: string, ask: Ask): Promise<Result<{ readonly link: Link }>>;
  revokeLink(link: string, ask: Ask): Promise<Result<{ readonly link: Link }>>;
  /** A link let somebody in. */
  linkUsed(link: string, request: string, woke: boolean): Promise<void>;
  /**
   * Its MCP servers, as they are then; null: it has none.
   * @returns `quota_exceeded`, `invalid_request`, `invalid_port`, `conflict`
   */
  mcp(deed: McpDeed, change: Change): Promise<Result<{ readonly gateway: McpShown | null }>>;
  /** A failure with `retryAfterMs` means: report it again. `fate`: what becomes of a frozen run of that generation. */
  machineEvent(id: string, event: MachineEvent, hostId: string): Promise<Result<{ readonly fate: FrozenFate }>>;
  /** Its network rules, and what hosts told of its way out. */
  network(ask: Ask): Promise<Result<{ readonly network: Network }>>;
  setNetwork(input: SetNetwork, change: Change): Promise<Result<{ readonly network: Network }>>;
  /** @param own whether it has secrets of its own */
  secretsChanged(id: string, own: boolean): Promise<SecretsHeard>;
  /** For a host that has lost what it was told. null: it is not that host's, or another run. */
  egressFor(id: string, generation: number, hostId: string): Promise<MachineEgress | null>;
  /** @returns secrets that were used */
  egressReport(id: string, report: EgressReport, hostId: string): Promise<Result<{ readonly uses: readonly Use[] }>>;
  snapshot(input: CreateSnapshot, change: Change): Promise<Result<{ readonly snapshot: Snapshot }>>;
  fork(input: ForkSandbox, terms: CreateTerms, change: Change): Promise<Result<{ readonly forks: Forks }>>;
  history(ask: Ask): Promise<Result<{ readonly points: HistoryPoint[] }>>;
  rollback(point: string, change: Change): Promise<SandboxAnswer>;
  /** @returns `point_not_found`, `incompatible_host`, `no_host`, `no_capacity`, `host_unavailable`, `state_damaged`,
   * and `unavailable` where it takes too long */
  diff(query: DiffQuery, ask: Ask): Promise<Result<{ readonly diff: Diff }>>;
  /** @returns what the volume refuses with; `conflict` while it sleeps, `quota_exceeded` without a free place */
  attachVolume(input: CreateVolumeMount, change: Change): Promise<Result<{ readonly attachmentId: string }>>;
  /** Unmount and let go. @returns `volume_busy`; `conflict` while it sleeps: its RAM knows the volume */
  detachVolume(attachment: string, change: Change): Promise<Result<object>>;
  /** Attachments that the sandbox knows of. Empty when it is gone. */
  holdsVolumes(id: string): Promise<readonly string[]>;
  /** A volume is larger now. */
  resizeVolume(id: string, attachment: string, sizeMiB: number): Promise<Result<object>>;
  /** Copy a volume of it. */
  copyVolume(id: string, attachment: string, backup: string): Promise<Result<VolumeCopied>>;
  /** A host moves the saved state off itself. */
  archiveStep(id: string, step: ArchiveStep, hostId: string): Promise<Result<{ readonly answer: ArchiveAnswer }>>;
}

/** The object of a label. */
export function sandboxObject(namespace: DurableObjectNamespace<never>, account: string, label: string): SandboxApi {
  // The platform's RPC types can't express open records such as `details`; the class implements this interface.
  return namespace.getByName(`${account}/${label}`) as unknown as SandboxApi;
}

/**
 * Rouse: a Linux machine of its own for every agent, which has a name, sleeps with its RAM and wakes on the first
 * request.
 *
 * @packageDocumentation
 */
export { Agents } from "./agents.ts";
export type { AgentMessage, NewAgent } from "./agents.ts";
export type { CreateAgent } from "./agent-plan.ts";
export type { AgentPreset, ShownPreset } from "../contract/agent-preset.ts";
export { Rouse, Rouse as Runtime, Sandboxes } from "./client.ts";
export type { ListFilter, Me, RouseOptions, StopAllResult, UsageOptions } from "./client.ts";
export { Sandbox } from "./sandbox.ts";
export type { CreateInput, DeleteOptions, DiffOptions, SettleOptions, WithClient } from "./sandbox.ts";
export type { ForkOptions } from "./forks.ts";
export { Snapshots } from "./snapshots.ts";
export type { SnapshotFilter, SnapshotOptions } from "./snapshots.ts";
export { Volumes } from "./volumes.ts";
export type {
  AttachInput,
  BackupFilter,
  BackupOptions,
  RestoreInput,
  VolumeFilter,
  VolumeWaitOptions,
} from "./volumes.ts";
export { HookEvents, Hooks } from "./hooks.ts";
export type { HookEventFilter, HookEventOptions } from "./hooks.ts";
export { SandboxNetwork } from "./network.ts";
export type { NetworkChange } from "./network.ts";
export { SandboxSecrets, Secrets } from "./secrets.ts";
export { secretProviders } from "../contract/secret-providers.ts";
export type { SecretProvider, SecretProviderName } from "../contract/secret-providers.ts";
export { State } from "./state.ts";
export type { SetBytesOptions, SetStateOptions, StateTransaction, StateValue } from "./state.ts";
export { TaskQueue } from "./queues.ts";
export type { NackOptions, PutTaskOptions, Queues } from "./queues.ts";
export { Objects } from "./objects.ts";
export type { GetObjectOptions, ListedObjects, PutObjectOptions } from "./objects.ts";
export type { SqlParam, SqlResult, StateBatch, StateEntry, StateUsage, StateWrite } from "../contract/state.ts";
export type { LeasedTask, Queue, TakeTasks, Task, TaskState } from "../contract/queue.ts";
export type { ObjectUpload, SignedObject, SignObject, StoredObject } from "../contract/object.ts";
export { Domains } from "./domains.ts";
export type { DomainInput } from "./domains.ts";
export { Checkpoint } from "./checkpoint.ts";
export type {
  CheckpointMirror,
  CheckpointOptions,
  ListedCheckpoint,
  LoadedCheckpoint,
  SavedCheckpoint,
  SaveOptions,
} from "./checkpoint.ts";
export { Checkpoints } from "./checkpoints.ts";
export { Drills } from "./drills.ts";
export type { DrillOptions } from "./drills.ts";
export type { GetCheckpointOptions, MirroredCheckpoint, PutCheckpointOptions } from "./checkpoints.ts";
export { Schedules } from "./schedules.ts";
export type { ScheduleChanges, ScheduleInput, ScheduleRunFilter } from "./schedules.ts";
export { Memory } from "./memory.ts";
export type { MemoryListOptions, MemorySearchOptions } from "./memory.ts";
export { Stores } from "./stores.ts";
export { EventEndpoints } from "./event-endpoints.ts";
export type { DeliveryFilter } from "./event-endpoints.ts";
export { Events } from "./events.ts";
export type { EventsOptions } from "./events.ts";
export { verifyWebhook } from "./webhook.ts";
export type { VerifiedWebhook, VerifyOptions, WebhookHeaders } from "./webhook.ts";
export { Accounts } from "./accounts.ts";
export { Keys } from "./keys.ts";
export type { KeyInput } from "./keys.ts";
export { Members } from "./members.ts";
export { deviceLogin } from "./login.ts";
export type { DeviceCode, DeviceLoginOptions, LoginResult } from "./login.ts";
export {
  AuthenticationError,
  CommandError,
  ConflictError,
  ConnectionError,
  InvalidRequestError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
  RouseError,
  RouseError as RuntimeError,
  ServiceUnavailableError,
} from "./errors.ts";
export type { ClientErrorCode } from "./errors.ts";
export { Page } from "./page.ts";
export { Process, Processes } from "./process.ts";
export { Terminal } from "./terminal.ts";
export type { AttachOptions, TerminalEvent, TerminalExit, TerminalInfo } from "./terminal.ts";
export { FileWatch } from "./watch.ts";
export type { WatchEvent, WatchOptions } from "./watch.ts";
export { Forward } from "./forward.ts";
export type { ForwardOptions } from "./forward.ts";
export { Terminals } from "./terminals.ts";
export type { OpenTerminalOptions } from "./terminals.ts";
export type { OutputBytes, OutputOptions, ProcessExit, Signal } from "./process.ts";
export { Files } from "./files.ts";
export type { ReadArchiveOptions } from "./archive.ts";
export type { ListFilesOptions, WriteOptions } from "./files.ts";
export type { CopyReport } from "./local-files.ts";
export type { StreamSource } from "./spool.ts";
export type { Data } from "./bytes.ts";
export { Contexts, Interpreter } from "./interpreter.ts";
export type { CodeError, CodeResult, RunOptions } from "./interpreter.ts";
export { Sockets } from "./sockets.ts";
export { socketHeaders } from "../contract/socket.ts";
export type { ClosedSocket, HeldSocket, Resumed, SocketRule } from "../contract/socket.ts";
export { Links } from "./links.ts";
export type { LinkOptions } from "./links.ts";
export type { Link, LinkUse } from "../contract/link.ts";
export { Sessions } from "./sessions.ts";
export type { SessionOptions } from "./sessions.ts";
export type { FromSession } from "./from-session.ts";
export type { NewSession, Session, SessionScope } from "../contract/session.ts";
export { Previews } from "./previews.ts";
export type { PreviewOptions } from "./previews.ts";
export type { Command, CommandOptions, ExecOptions, SpawnOptions } from "./exec.ts";
export type { CommandEvent } from "./output.ts";
export type { RequestOptions } from "./transport.ts";
export { VERSION } from "./version.ts";

export { Services } from "./services.ts";
export type {
  FreezeHook,
  HookResult,
  OnBoot,
  OnWake,
  Resume,
  Service,
  ServiceLogs,
  ServiceStatus,
  ThawHook,
} from "../contract/boot.ts";
export type { Awake, Cause, TimelineEntry, Why } from "../contract/timeline.ts";
export type {
  Account,
  AccountPlan,
  AddCredit,
  CreateAccount,
  CreateMember,
  Key,
  KeyAccess,
  Member,
  MemberRole,
  NewAccount,
  NewKey,
  Notice,
  Quotas,
  UpdateAccount,
} from "../contract/account.ts";
export type {
  CreateDomain,
  DeletedDomain,
  DnsRecord,
  Domain,
  DomainPointing,
  DomainReason,
  DomainState,
  UpdateDomain,
} from "../contract/domain.ts";
export type { CreateDrill, Drill, DrillKill, DrillLoss, DrillState, DrillView } from "../contract/drill.ts";
export type { CheckpointInfo, CheckpointVersion, DeletedCheckpoint } from "../contract/checkpoint.ts";
export type { ErrorBody, ErrorCode } from "../contract/errors.ts";
export type {
  Context,
  ExecResult,
  Execution,
  FileEntry,
  FileStat,
  FileWritten,
  Unpacked,
  OutputEvent,
  Process as ProcessInfo,
  RunEvent,
} from "../contract/guest.ts";
export type {
  CreateEventEndpoint,
  DeletedEventEndpoint,
  DeliveryState,
  DeliveryTry,
  EventData,
  EventDelivery,
  EventEndpoint,
  EventType,
  NewEventEndpoint,
  RotateEventEndpoint,
  RouseEvent,
  UpdateEventEndpoint,
} from "../contract/event.ts";
export type {
  CreateHook,
  DeletedHook,
  Hook,
  HookEvent,
  HookEventState,
  HookMode,
  HookProvider,
  HookStep,
  NewHook,
  RotateHook,
  UpdateHook,
} from "../contract/hook.ts";
export type {
  CreateSchedule,
  DeletedSchedule,
  Schedule,
  ScheduleAction,
  ScheduleOutput,
  ScheduleRun,
  ScheduleRunState,
  UpdateSchedule,
} from "../contract/schedule.ts";
export type { NetworkRules } from "../contract/network.ts";
export type { Network, NetworkInput } from "../contract/network-settings.ts";
export type { DeletedSecret, PutSecret, Secret, SecretMode, SecretRule, StoredSecret } from "../contract/secret.ts";
export type {
  ImportedMemory,
  MemoryAuthor,
  MemoryEntry,
  MemoryFilter,
  MemoryHit,
  MemoryHits,
  MemoryUsage,
  NewMemory,
  SearchMemory,
  UpdateMemory,
} from "../contract/memory.ts";
export type { DeletedStore, Grant, PutStore, Store, StoreAccess, StoreKind } from "../contract/store.ts";
export type { McpCatalogEntry, McpGateway, McpServer } from "../contract/mcp.ts";
export type { StartMcpOptions } from "./mcp.ts";
export type { Host, NewHost } from "../contract/host.ts";
export type { Usage, UsageGroup, UsageLine } from "../contract/usage.ts";
export type {
  Access,
  CreateSandbox,
  DeletedSandbox,
  Durability,
  Preview,
  Sandbox as SandboxInfo,
  SandboxChanges,
  SandboxState,
  StopReason,
  UpdateSandbox,
} from "../contract/sandbox.ts";
export type {
  Diff,
  DiffEntry,
  HistoryPoint,
  Snapshot,
  SnapshotMode,
  SnapshotState,
  UpdateSnapshot,
} from "../contract/snapshot.ts";
export type {
  Attachment,
  AttachmentState,
  BackupPolicy,
  CreateVolume,
  UpdateVolume,
  Volume,
  VolumeBackup,
  VolumeMode,
  VolumeMount,
  VolumeState,
} from "../contract/volume.ts";

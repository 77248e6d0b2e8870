/** Every public operation with its schemas: routing, validation and the OpenAPI document come from this table. */
import { z } from "zod";
import {
  BeginUpload,
  Chmod,
  ChunkQuery,
  ContentQuery,
  Context,
  CreateContext,
  ExecRequest,
  ExecResult,
  Execution,
  FileEntry,
  FileListQuery,
  FileStat,
  FileWritten,
  Mkdir,
  OutputEvent,
  OutputPage,
  OutputQuery,
  Process,
  Remove,
  Rename,
  RunCode,
  RunEvent,
  SignalProcess,
  SpawnRequest,
  StatQuery,
  Upload,
  WriteStdin,
} from "../../sdk/contract/guest.ts";
import { EventList, EventListQuery } from "../../sdk/contract/event.ts";
import {
  ChangesQuery,
  CreateSandbox,
  DeletedSandbox,
  DeleteQuery,
  ExtendSandbox,
  GetQuery,
  HoldSandbox,
  ListQuery,
  ReleaseSandbox,
  Sandbox,
  SandboxChanges,
  SandboxList,
  SetRetention,
  UpdateSandbox,
  WakeSandbox,
} from "../../sdk/contract/sandbox.ts";
import { Why } from "../../sdk/contract/timeline.ts";
import { account, keys, operator } from "./account-operations.ts";
import { archives } from "./archive-operations.ts";
import { agents } from "./agent-operations.ts";
import { checkpoints } from "./checkpoint-operations.ts";
import { resumes, services } from "./boot-operations.ts";
import { copies } from "./copy-operations.ts";
import { drills } from "./drill-operations.ts";
import { domains } from "./domain-operations.ts";
import { network } from "./network-operations.ts";
import { sandboxSecrets, secrets } from "./secret-operations.ts";
import { events } from "./event-operations.ts";
import { hooks } from "./hook-operations.ts";
import { links } from "./link-operations.ts";
import { sessions } from "./session-operations.ts";
import { sockets } from "./socket-operations.ts";
import type { Operation } from "./operation.ts";
import { previews } from "./preview-operations.ts";
import { mcp } from "./mcp-operations.ts";
import { memory, sharedMemory, stores } from "./memory-operations.ts";
import { schedules } from "./schedule-operations.ts";
import { objects, queues, sharedState, state } from "./state-operations.ts";
import { terminals } from "./terminal-operations.ts";
import { volumes } from "./volume-operations.ts";

const Empty = z.strictObject({});
const NoQuery = z.strictObject({});
const listOf = (schema: z.ZodType) => z.object({ data: z.array(schema) });

const S = "/v1/sandboxes";
const ID = `${S}/{id}`;

const sandboxes: readonly Omit<Operation, "work">[] = [
  {
    method: "POST",
    path: S,
    summary: "Create a sandbox, or with getOrCreate find the one that holds the name.",
    query: NoQuery,
    body: CreateSandbox,
    answer: Sandbox,
  },
  { method: "GET", path: S, summary: "List sandboxes, oldest first.", query: ListQuery, answer: SandboxList },
  {
    method: "GET",
    path: `${S}:changes`,
    summary: "Sandboxes that changed after a change, as they are now; with waitSeconds, wait for the next one.",
    query: ChangesQuery,
    answer: SandboxChanges,
  },
  {
    method: "GET",
    path: ID,
    summary: "Read a sandbox, or wait for a state of it. Never wakes it.",
    query: GetQuery,
    answer: Sandbox,
  },
  {
    method: "GET",
    path: `${ID}/events`,
    summary: "Its events after a sequence number, the oldest first; with waitSeconds, wait for the next one.",
    query: EventListQuery,
    answer: EventList,
  },
  {
    method: "GET",
    path: `${ID}:why`,
    summary: "What keeps it awake, who had it wake, and when it slept. Never wakes it.",
    query: NoQuery,
    answer: Why,
  },
  {
    method: "DELETE",
    path: ID,
    summary: "Delete a sandbox with everything in it, from any state.",
    query: DeleteQuery,
    answer: DeletedSandbox,
  },
  {
    method: "POST",
    path: `${ID}:update`,
    summary: "Change settings.",
    query: NoQuery,
    body: UpdateSandbox,
    answer: Sandbox,
  },
  {
    method: "POST",
    path: `${ID}:pause`,
    summary: "Put to sleep with its RAM.",
    query: NoQuery,
    body: Empty,
    answer: Sandbox,
  },
  { method: "POST", path: `${ID}:wake`, summary: "Wake from RAM.", query: NoQuery, body: WakeSandbox, answer: Sandbox },
  {
    method: "POST",
    path: `${ID}:extend`,
    summary: "Move the end of the time limit to so many seconds from now.",
    query: NoQuery,
    body: ExtendSandbox,
    answer: Sandbox,
  },
  {
    method: "POST",
    path: `${ID}:hold`,
    summary: "Keep awake under a name for so many seconds, however idle it is.",
    query: NoQuery,
    body: HoldSandbox,
    answer: Sandbox,
  },
  {
    method: "POST",
    path: `${ID}:release`,
    summary: "Let go of a hold.",
    query: NoQuery,
    body: ReleaseSandbox,
    answer: Sandbox,
  },
  {
    method: "POST",
    path: `${ID}:stop`,
    summary: "End the machine and keep its disk.",
    query: NoQuery,
    body: Empty,
    answer: Sandbox,
  },
  {
    method: "POST",
    path: `${ID}:recover`,
    summary: "Run again whatever it takes: from RAM where there is some, else from disk.",
    query: NoQuery,
    body: Empty,
    answer: Sandbox,
  },
  {
    method: "POST",
    path: `${ID}:undelete`,
    summary: "Take back a deletion within its grace time.",
    query: NoQuery,
    body: Empty,
    answer: Sandbox,
  },
  { method: "POST", path: `${ID}:restart`, summary: "Boot from disk.", query: NoQuery, body: Empty, answer: Sandbox },
  {
    method: "POST",
    path: `${ID}:retention`,
    summary: "Set how many days a paused state is kept.",
    query: NoQuery,
    body: SetRetention,
    answer: Sandbox,
  },
];

const P = `${ID}/processes`;
const F = `${ID}/files`;
const U = `${ID}/uploads`;
const I = `${ID}/interpreter`;

const guest: readonly Omit<Operation, "work">[] = [
  {
    method: "POST",
    path: `${ID}:exec`,
    summary: "Run a command to its end.",
    body: ExecRequest,
    answer: ExecResult,
    lines: OutputEvent,
  },
  { method: "POST", path: P, summary: "Start a background process.", body: SpawnRequest, answer: Process },
  { method: "GET", path: P, summary: "List processes.", answer: listOf(Process) },
  { method: "GET", path: `${P}/{pid}`, summary: "Read a process.", answer: Process },
  {
    method: "GET",
    path: `${P}/{pid}/output`,
    summary: "Read or follow output.",
    query: OutputQuery,
    answer: OutputPage,
    lines: OutputEvent,
  },
  {
    method: "POST",
    path: `${P}/{pid}:write`,
    summary: "Write to stdin.",
    body: WriteStdin,
    answer: z.object({ offset: z.int() }),
  },
  { method: "POST", path: `${P}/{pid}:signal`, summary: "Send a signal.", body: SignalProcess, answer: Process },
  { method: "GET", path: `${F}/content`, summary: "Read a file.", query: ContentQuery, answer: "bytes" },
  {
    method: "PUT",
    path: `${F}/content`,
    summary: "Write a file.",
    query: ContentQuery,
    body: "bytes",
    answer: FileWritten,
  },
  { method: "GET", path: `${F}/list`, summary: "List a folder.", query: FileListQuery, answer: listOf(FileEntry) },
  {
    method: "GET",
    path: `${F}/stat`,
    summary: "Facts of a path, also of a missing one.",
    query: StatQuery,
    answer: FileStat,
  },
  { method: "POST", path: `${F}:mkdir`, summary: "Make a folder.", body: Mkdir, answer: FileEntry },
  {
    method: "POST",
    path: `${F}:remove`,
    summary: "Remove a file or folder.",
    body: Remove,
    answer: z.object({ removed: z.boolean() }),
  },
  { method: "POST", path: `${F}:rename`, summary: "Rename or move.", body: Rename, answer: FileEntry },
  { method: "POST", path: `${F}:chmod`, summary: "Change permission bits.", body: Chmod, answer: FileEntry },
  { method: "POST", path: U, summary: "Begin an upload.", body: BeginUpload, answer: Upload },
  {
    method: "PUT",
    path: `${U}/{upload}`,
    summary: "Send a chunk.",
    query: ChunkQuery,
    body: "bytes",
    answer: z.object({ received: z.int() }),
  },
  {
    method: "POST",
    path: `${U}/{upload}:commit`,
    summary: "Check the digest and put the file in place.",
    body: Empty,
    answer: FileWritten,
  },
  {
    method: "POST",
    path: `${U}/{upload}:abort`,
    summary: "Drop an upload.",
    body: Empty,
    answer: z.object({ aborted: z.boolean() }),
  },
  {
    method: "POST",
    path: `${I}:run`,
    summary: "Run code in an interpreter context.",
    body: RunCode,
    answer: Execution,
    lines: RunEvent,
  },
  { method: "POST", path: `${I}/contexts`, summary: "Start a context.", body: CreateContext, answer: Context },
  { method: "GET", path: `${I}/contexts`, summary: "List contexts.", answer: listOf(Context) },
  {
    method: "POST",
    path: `${I}/contexts/{context}:restart`,
    summary: "Restart a context.",
    body: Empty,
    answer: Context,
  },
  {
    method: "POST",
    path: `${I}/contexts/{context}:interrupt`,
    summary: "Interrupt a run.",
    body: Empty,
    answer: z.object({ interrupted: z.boolean() }),
  },
  {
    method: "DELETE",
    path: `${I}/contexts/{context}`,
    summary: "End a context.",
    answer: z.object({ deleted: z.boolean() }),
  },
];

export const operations: readonly Operation[] = [
  ...account.map((one) => ({ ...one, work: "account" as const })),
  ...keys.map((one) => ({ ...one, work: "keys" as const })),
  ...operator.map((one) => ({ ...one, work: "operator" as const })),
  ...[...sandboxes, ...resumes].map((one) => ({ ...one, work: "sandbox" as const })),
  ...copies.map((one) => ({ ...one, work: "copies" as const })),
  ...previews.map((one) => ({ ...one, work: "preview" as const })),
  ...hooks.map((one) => ({ ...one, work: "hooks" as const })),
  ...memory.map((one) => ({ ...one, work: "memory" as const })),
  ...sharedMemory.map((one) => ({ ...one, work: "sharedMemory" as const })),
  ...sharedState.map((one) => ({ ...one, work: "sharedState" as const })),
  ...stores.map((one) => ({ ...one, work: "stores" as const })),
  ...checkpoints.map((one) => ({ ...one, work: "checkpoints" as const })),
  ...drills.map((one) => ({ ...one, work: "drills" as const })),
  ...schedules.map((one) => ({ ...one, work: "schedules" as const })),
  ...domains.map((one) => ({ ...one, work: "domains" as const })),
  ...network.map((one) => ({ ...one, work: "network" as const })),
  ...sandboxSecrets.map((one) => ({ ...one, work: "sandboxSecrets" as const })),
  ...secrets.map((one) => ({ ...one, work: "secrets" as const })),
  ...events.map((one) => ({ ...one, work: "events" as const })),
  ...links.map((one) => ({ ...one, work: "links" as const })),
  ...sessions.map((one) => ({ ...one, work: "sessions" as const })),
  ...agents.map((one) => ({ ...one, work: "agents" as const })),
  ...mcp.map((one) => ({ ...one, work: "mcp" as const })),
  ...sockets.map((one) => ({ ...one, work: "sockets" as const })),
  ...state.map((one) => ({ ...one, work: "state" as const })),
  ...queues.map((one) => ({ ...one, work: "queues" as const })),
  ...objects.map((one) => ({ ...one, work: "objects" as const })),
  ...volumes.map((one) => ({ ...one, work: "volumes" as const })),
  ...[...guest, ...archives, ...services, ...terminals].map((one) => ({
    query: NoQuery,
    ...one,
    work: "guest" as const,
  })),
];

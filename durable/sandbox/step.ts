/** One host call of the step that a sandbox is in, and what it means for its life. */
import type { ErrorCode, Failure } from "../../sdk/contract/error-codes.ts";
import type { SavedState } from "../../sdk/contract/archive.ts";
import type { MachineEgress } from "../../sdk/contract/egress.ts";
import type { CreateMachine, Machine, MachineVolume, PauseMachine, RunMachine } from "../../sdk/contract/host.ts";
import type { HostAddress, HostAnswer, HostClient } from "./host-client.ts";
import { pointAtRest } from "./archive.ts";
import { idleSeconds } from "./holds.ts";
import type { LifeEvent } from "./life.ts";
import { bootTold } from "./mcp-settings.ts";
import type { SandboxRecord } from "./record.ts";

/** What a host is told with a run, or of one that goes on. */
export interface Told {
  readonly env: Record<string, string>;
  readonly egress: MachineEgress;
}

/** What a run begins with: the newest state that was sealed, and its volumes. */
export interface Brought {
  readonly saved: SavedState | null;
  readonly volumes: readonly MachineVolume[];
  /** Its variables and its way out; null where nothing begins to run. */
  readonly outside: Told | null;
}

/** Drive the step. The call is idempotent per generation, so a step may be driven again at any time. */
export async function runStep(
  client: HostClient,
  host: HostAddress,
  record: SandboxRecord,
  brought: Brought,
  signal: AbortSignal,
): Promise<LifeEvent> {
  const { id, life } = record;
  if (life.state === "deleted") {
    const answer = await client.destroy(host, id, life.generation, signal);
    return answer.ok || answer.failure.code === "not_found" ? { type: "purged" } : unreachable(record, answer.failure);
  }
  const answer = await call(client, host, record, brought, signal);
  if (answer.ok) return observed(record, answer.value);
  // A host that is cut off, or was and has begun anew, did nothing: it is as good as silent.
  const { code } = answer.failure;
  if (!answer.reached || code === "host_unavailable" || code === "misdirected")
    return unreachable(record, answer.failure);
  return refused(client, host, record, answer.failure, signal);
}

function call(
  client: HostClient,
  host: HostAddress,
  record: SandboxRecord,
  brought: Brought,
  signal: AbortSignal,
): Promise<HostAnswer<Machine>> {
  const { id, life, origin, fromStore, capture } = record;
  // The host has nothing of it, or not what it is to be.
  const anew = origin !== null || fromStore;
  const { generation } = life;
  const idlePauseSeconds = idleSeconds(record, Date.now());
  const { session } = host;
  const { saved, volumes, outside } = brought;
  const boot = bootTold(record);
  const env = outside?.env ?? { ...record.env };
  const begun = {
    ...(saved ? { saved } : {}),
    ...(volumes.length > 0 ? { volumes: [...volumes] } : {}),
    ...(outside ? { egress: outside.egress } : {}),
    ...(boot ? { boot } : {}),
  };
  const run = { generation, env, idlePauseSeconds, session, ...begun } satisfies RunMachine;
  const { account, shape, label: hostname } = record;
  const make = { ...run, account, shape, hostname, ...(capture ? { capture } : {}) } satisfies CreateMachine;
  switch (life.state) {
    case "pausing":
      return client.act(
        host,
        id,
        "pause",
        { generation, ...(life.pauseReason === "idle" ? { onlyIfIdle: true } : {}) } satisfies PauseMachine,
        signal,
      );
    case "stopping":
      return client.act(host, id, "stop", { generation }, signal);
    case "resuming":
      return anew ? client.create(host, id, make, signal) : client.act(host, id, "wake", run, signal);
    default:
      if (life.run === "create") {
        const diskOnly = pointAtRest(record)?.diskOnly === true;
        return client.create(host, id, { ...make, ...(diskOnly ? { diskOnly } : {}) }, signal);
      }
      return anew
        ? client.create(host, id, { ...make, diskOnly: true }, signal)
        : client.act(host, id, "boot", run, signal);
  }
}

/** The host took the call and did not do it: what is true now decides, not the failure's text. */
async function refused(
  client: HostClient,
  host: HostAddress,
  record: SandboxRecord,
  failure: Failure,
  signal: AbortSignal,
): Promise<LifeEvent> {
  const { life } = record;
  const { generation } = life;
  const starting = life.state === "starting" || life.state === "resuming";
  // Of a creation that was refused outright nothing exists, so there is nothing to look at.
  if (life.run === "create" && life.state === "starting" && failure.code !== "conflict") {
    const nothingMade =
      failure.code === "no_capacity" || failure.code === "invalid_image" || failure.code === "invalid_request";
    return { type: "runFailed", generation, memory: "none", nothingMade, failure: named(failure, "start_failed") };
  }
  const seen = await client.get(host, record.id, signal);
  if (!seen.ok) {
    if (!seen.reached || seen.failure.code !== "not_found") return unreachable(record, seen.failure);
    if (life.state === "stopping") return { type: "stopped", generation };
    // It was to be moved there, and that host has nothing of it now: what is stored is as it was.
    if (record.origin || record.fromStore) {
      const { savedGeneration } = life;
      return { type: "runFailed", generation, savedGeneration, memory: "saved", nothingMade: false, failure };
    }
    if (starting)
      return {
        type: "runFailed",
        generation,
        memory: "none",
        nothingMade: false,
        failure: named(failure, "start_failed"),
      };
    return { type: "ended", generation, reason: "host_lost" };
  }
  const machine = seen.value;
  const current = machine.generation === generation;
  if (current && life.state === "pausing" && machine.state === "running") {
    return failure.code === "conflict" && life.pauseReason === "idle"
      ? { type: "pauseRefused", generation }
      : { type: "pauseFailed", generation, failure: named(failure, "pause_failed") };
  }
  // That run came and went while its beginning was still being asked for: its host has put it to sleep since.
  if (current && life.state === "resuming" && machine.state === "paused" && failure.code === "conflict")
    return { type: "paused", generation, savedGeneration: machine.savedGeneration ?? null };
  if (starting && (machine.state === "paused" || machine.state === "stopped" || !current)) {
    const code = life.state === "resuming" ? "wake_failed" : "start_failed";
    return {
      type: "runFailed",
      generation,
      savedGeneration: machine.savedGeneration ?? null,
      memory: machine.memory === "saved" ? "saved" : "none",
      nothingMade: false,
      failure: named(failure, code),
    };
  }
  return observed(record, machine);
}

/** Codes that say more than that the step failed. */
const telling: ReadonlySet<ErrorCode> = new Set([
  "no_capacity",
  "no_host",
  "invalid_image",
  "disk_full",
  "incompatible_host",
  "state_damaged",
]);

function named(failure: Failure, code: ErrorCode): Failure {
  return telling.has(failure.code) ? failure : { ...failure, code };
}

/** What the state of the machine means to the step under way. */
export function observed(record: SandboxRecord, machine: Machine): LifeEvent {
  const { generation } = record.life;
  const lastActiveAt = Date.parse(machine.lastActiveAt);
  const { savedGeneration = null } = machine;
  switch (machine.state) {
    case "running":
      return { type: "ran", generation: machine.generation, lastActiveAt };
    case "paused":
      return { type: "paused", generation: machine.generation, savedGeneration, lastActiveAt, timer: machine.timer };
    case "stopped":
      return record.life.state === "stopping"
        ? { type: "stopped", generation, savedGeneration }
        : { type: "ended", generation: machine.generation, savedGeneration, reason: machine.endReason ?? "vm_crashed" };
    default:
      return unreachable(record, {
        code: "host_unavailable",
        message: `The machine is ${machine.state}.`,
        retryAfterMs: 500,
      });
  }
}

export function unreachable(record: SandboxRecord, failure: Failure): LifeEvent {
  const { generation, state } = record.life;
  return {
    type: "unreachable",
    generation,
    from: state,
    failure: { code: "host_unavailable", message: failure.message, retryAfterMs: failure.retryAfterMs ?? 1000 },
  };
}

/** What a host agent holds of one machine in memory, beside its journal row. */
import { RouseFailure } from "../../sdk/contract/errors.ts";
import type { Machine, MachineEvent, SleepDepth } from "../../sdk/contract/host.ts";
import type { StopReason } from "../../sdk/contract/sandbox.ts";
import type { MachineEgress } from "../../sdk/contract/egress.ts";
import type { Tunnel } from "../egress/tunnel.ts";
import type { JournalRow } from "../store/journal.ts";
import type { Activity } from "./activity.ts";
import type { HeldBoot } from "./boot.ts";
import type { Driver, Endpoint, Listening, Woken } from "./driver.ts";
import type { IdleWatch } from "./idle.ts";

/** How long sleepers keep what makes their wake faster. */
export interface SleepPolicy {
  /** Seconds a sleeper keeps its process, with its guest in it. */
  readonly residentSeconds: number;
  /** Seconds after that in which a process waits for it, ready to load. */
  readonly prestartedSeconds: number;
  /** Seconds after that until only what is sealed of its files is kept. */
  readonly compactAfterSeconds: number;
  /** Seconds after that until nothing is kept: its state is stored off the host. */
  readonly coldAfterSeconds: number;
}

/** A right to talk to a running machine: counts as activity until `done`. */
export interface DataLease {
  readonly id: string;
  /** Stands for the run: what is remembered of it can hang on this. No byte goes to the guest before it is ready. */
  readonly run: Woken;
  endpoint(port: number): Promise<Endpoint>;
  listening(port: number): Promise<Listening>;
  /** Wait until what the machine starts with is done. @throws RouseFailure `boot_failed`, `service_failed`, ... */
  admit(port: number): Promise<void>;
  readonly answered: Set<number>;
  /** Registers how to cut this use when the machine stops running. */
  onCut(cut: () => void): void;
  /** A sign of use by something that does not count as such while it is open. */
  touch(): void;
  done(): void;
}

/** Everything this host holds of one machine. */
export interface Held {
  row: JournalRow;
  readonly activity: Activity;
  readonly idle: IdleWatch;
  /** The tail of this machine's actions. */
  tail: Promise<unknown>;
  /** Digest of the environment the guest agent holds; null when not known. */
  env: string | null;
  settleTimer: NodeJS.Timeout | undefined;
  /** Ports that answered in this RAM's life: they need no question before a body is sent. */
  readonly answered: Set<number>;
  /** Closes the data connections of the run. */
  readonly connections: Set<() => void>;
  depth: SleepDepth | null;
  /** Its process is stopped from outside, until the edge says whether the run may go on. */
  frozen: boolean;
  /** What it starts with; null: nothing. */
  boot: HeldBoot | null;
  /** Stands for the run; another one has another. */
  run: Woken;
  /** What the run may reach: in memory alone, as it holds secrets. null: nothing. */
  egress: MachineEgress | null;
  /** Its way out, while it runs. */
  tunnel: Tunnel | null;
}

/** The right to talk to a machine that runs; it counts as activity until `done`, unless it keeps nothing awake. */
export function dataLease(
  held: Held,
  driver: Driver,
  keeps: boolean,
  admit: (port: number) => Promise<void>,
): DataLease {
  const { id } = held.row;
  const done = keeps ? held.activity.begin() : () => undefined;
  let cut: (() => void) | undefined;
  return {
    id,
    run: held.run,
    endpoint: (port) => driver.endpoint(id, port).catch(asGone),
    listening: (port) => driver.listening(id, port).catch(asGone),
    admit,
    answered: held.answered,
    onCut: (how) => {
      cut = how;
      held.connections.add(how);
    },
    touch: () => held.activity.touch(),
    done: () => {
      if (cut) held.connections.delete(cut);
      done();
      held.idle.start();
      held.tunnel?.now();
    },
  };
}

/** A machine that goes while a request asks its way takes the request with it, and that is no fault of this host. */
function asGone(fault: unknown): never {
  if (fault instanceof RouseFailure) throw fault;
  throw new RouseFailure("upstream_closed", "The machine ended before it answered.", { cause: fault });
}

/** A depth that could not be had yet, as nothing is stored: it is tried again after so long, milliseconds. */
const SETTLE_RETRY_MS = 15_000;

/**
 * A sleeper gives up what makes its wake faster, step by step.
 * @param settle answers the depth that it has then
 */
export function scheduleSettle(
  held: Held,
  { residentSeconds, prestartedSeconds, compactAfterSeconds, coldAfterSeconds }: SleepPolicy,
  settle: (depth: SleepDepth) => Promise<SleepDepth | null>,
): void {
  clearTimeout(held.settleTimer);
  const steps: [number, SleepDepth][] = [
    ...(prestartedSeconds > 0 ? ([[residentSeconds, "prestarted"]] as [number, SleepDepth][]) : []),
    [prestartedSeconds > 0 ? prestartedSeconds : residentSeconds, "local"],
    [compactAfterSeconds, "compact"],
    [coldAfterSeconds, "cold"],
  ];
  const sink = async (wanted: SleepDepth): Promise<void> => {
    const depth = await settle(wanted).catch(() => null);
    if (depth === null) return;
    if (depth !== wanted) return next(SETTLE_RETRY_MS);
    steps.shift();
    if (steps[0]) next(steps[0][0] * 1000);
  };
  const next = (ms: number): void => {
    const [step] = steps;
    if (!step) return;
    // Node's timers end at 24.8 days.
    held.settleTimer = setTimeout(() => void sink(step[1]), Math.min(ms, 2_000_000_000));
    held.settleTimer.unref();
  };
  next((steps[0]?.[0] ?? 0) * 1000);
}

/** The machine as the edge is told of it. */
export function describe(held: Held): Machine {
  const { row } = held;
  const live = row.state === "running" || row.state === "pausing";
  return {
    id: row.id,
    account: row.account,
    generation: row.generation,
    state: row.state,
    shape: row.shape,
    memory: live ? "live" : row.state === "paused" || row.state === "waking" ? "saved" : "none",
    depth: row.state === "paused" ? held.depth : null,
    savedGeneration: row.savedGeneration,
    memoryRestored: row.memoryRestored,
    endReason: row.endReason,
    timer: row.state === "paused" ? row.timer : null,
    lastActiveAt: new Date(held.activity.lastMs).toISOString(),
    open: held.activity.open,
    lastUse: held.activity.lastUse,
    lastActionMs: row.lastActionMs,
  };
}

/** Any fault of an action, with a code that says which action. */
export function asFailure(fault: unknown, code: "start_failed" | "wake_failed" | "pause_failed"): RouseFailure {
  if (fault instanceof RouseFailure) return fault;
  return new RouseFailure(code, fault instanceof Error ? fault.message : String(fault), { cause: fault });
}

/** @throws RouseFailure `conflict` when the machine is past that generation */
export function refuseStale({ row }: Held, generation: number): void {
  if (generation >= row.generation) return;
  const message = `Generation ${generation} is over; this machine is at ${row.generation}.`;
  throw new RouseFailure("conflict", message, { details: { generation: row.generation } });
}

/** This host is full. */
export function noRoom(lack: string): RouseFailure {
  return new RouseFailure("no_capacity", `The host has no room: ${lack}.`, { retryAfterMs: 5000 });
}

/** This host has no right to run anything. */
export function cutOff(): RouseFailure {
  const message = "This host has lost the edge and may run nothing until it has found it again.";
  return new RouseFailure("host_unavailable", message, { retryAfterMs: 1000 });
}

/** The state does not allow the action. */
export function conflict({ row: { state, generation } }: Held, action: string): RouseFailure {
  return new RouseFailure("conflict", `Cannot ${action} a machine that is ${state}.`, {
    details: { state, generation },
  });
}

/** What the edge is to be told of the run, until it has taken note. */
export function news(
  { generation, timer }: JournalRow,
  what: { type: "idle" } | { type: "ended" | "paused"; reason: StopReason },
): { pendingEvent: MachineEvent } {
  return { pendingEvent: { ...what, generation, ...(what.type === "paused" ? { timer } : {}) } };
}

/**
 * The life of a sandbox as a table: state and event in, next state and what to do out. Pure.
 *
 * Invariants, each a property test:
 * - generation only grows, and grows with every run (create, wake, boot);
 * - at most one incarnation runs: only the current generation is ever reported as running;
 * - every state on the way to another has a timer (`timersOf`), and so has a deleted sandbox that a host still holds;
 * - a repeated event, or one of an older generation, changes nothing;
 * - a running sandbox with a time limit has a timer for it, no further ahead than the cap;
 * - deleted is final, and delete works from every state.
 */
import type { ErrorCode, Failure } from "../../sdk/contract/error-codes.ts";
import type { GuestTimer } from "../../sdk/contract/guest-timer.ts";
import type { FrozenFate } from "../../sdk/contract/host.ts";
import type { Life, LifeEvent } from "./life.ts";
import type { SandboxState, StopReason } from "../../sdk/contract/sandbox.ts";
import { triedTimer, wakeTimer } from "./guest-timer.ts";
import { begun, extended, newLease, type Lease } from "./lease.ts";

export type Outcome =
  | { readonly ok: true; readonly life: Life; readonly changed: boolean }
  | { readonly ok: false; readonly failure: Failure };

/** A step that nobody reported on for so long is looked at by the alarm. */
export const STEP_CHECK_MS = 5000;
const RETRY_MS = [500, 1000, 2000, 4000, 8000, 15_000, 30_000] as const;
const DAY_MS = 86_400_000;

/** A state on the way to another: a host call is under way or due. */
export function isTransitional(state: SandboxState): boolean {
  return state === "starting" || state === "resuming" || state === "pausing" || state === "stopping";
}

/** A host has the machine's settings, or is being given them: it must learn of new ones. */
export function isLive(state: SandboxState): boolean {
  return state === "running" || isTransitional(state);
}

/** Whether a host call is due. */
export function hasStep(life: Life): boolean {
  return isTransitional(life.state) || (life.state === "deleted" && life.purgePending);
}

/** The life of a sandbox that is being made. */
export function newLife(retentionDays: number, now: number, lease: Lease = newLease(0, "stop")): Life {
  return {
    state: "starting",
    generation: 1,
    run: "create",
    pauseReason: null,
    wakeAfterPause: false,
    attempts: 0,
    nextTryAt: now + STEP_CHECK_MS,
    diskKept: false,
    purgePending: false,
    undeleteTo: null,
    retentionDays,
    savedGeneration: null,
    lease,
    timer: null,
    readyAt: null,
    lastActiveAt: null,
    pausedAt: null,
    endedAt: null,
    stopReason: null,
    memoryRestored: null,
    failure: null,
  };
}

/**
 * What becomes of a run that its host finds frozen. The sandbox is on that host alone, so RAM that it has given up is
 * still the newest there is, unless the sandbox went on without it.
 */
export function fateOf(life: Life, generation: number): FrozenFate {
  if (life.state === "running") return life.generation === generation ? "run" : "end";
  return ["paused", "resuming", "pausing"].includes(life.state) ? "sleep" : "end";
}

/** When each timer is due; null for none. */
export function timersOf(life: Life): Readonly<Record<"step" | "retention" | "lease" | "timer", number | null>> {
  return {
    step: hasStep(life) ? life.nextTryAt : null,
    retention: pausedExpiresAt(life),
    lease: life.state === "running" ? life.lease.endsAt : null,
    timer: life.state === "paused" ? (life.timer?.nextAt ?? null) : null,
  };
}

/** When a paused state ends; null in other states. */
export function pausedExpiresAt(life: Life): number | null {
  if (life.state !== "paused" || life.pausedAt === null) return null;
  return life.pausedAt + life.retentionDays * DAY_MS;
}

type Handler<E extends LifeEvent> = (life: Life, event: E, now: number) => Life | Failure;
type Row<E extends LifeEvent> = Partial<Record<SandboxState, Handler<E>>>;
type Table = { readonly [T in LifeEvent["type"]]: Row<Extract<LifeEvent, { type: T }>> };

const same = (life: Life): Life => life;

const enter = (life: Life, state: SandboxState, now: number, change: Partial<Life> = {}): Life => ({
  ...life,
  pauseReason: null,
  wakeAfterPause: false,
  attempts: 0,
  nextTryAt: isTransitional(state) ? now + STEP_CHECK_MS : null,
  ...change,
  state,
});

const resume = (life: Life, now: number, change: Partial<Life> = {}): Life =>
  enter(life, "resuming", now, { ...change, generation: life.generation + 1, run: "wake", failure: null });

const boot = (life: Life, now: number, change: Partial<Life> = {}): Life =>
  enter(life, "starting", now, {
    endedAt: null,
    failure: null,
    timer: null,
    ...change,
    generation: life.generation + 1,
    run: life.diskKept ? "boot" : "create",
    pausedAt: null,
  });

/** Whose state is at rest now: as its host says, else that of the last run, unless nothing has run since an earlier one. */
const saved = (life: Life, { savedGeneration }: { savedGeneration?: number | null } = {}) => ({
  savedGeneration: savedGeneration ?? life.savedGeneration ?? life.generation,
});

const toPaused = (
  life: Life,
  event: {
    reason?: StopReason;
    lastActiveAt?: number;
    savedGeneration?: number | null;
    timer?: GuestTimer | null | undefined;
  },
  now: number,
): Life => {
  const paused = enter(life, "paused", now, {
    ...saved(life, event),
    pausedAt: now,
    stopReason: event.reason ?? "requested",
    failure: null,
    lastActiveAt: event.lastActiveAt ?? life.lastActiveAt,
    timer: wakeTimer(event.timer, now),
  });
  return life.state === "pausing" && life.wakeAfterPause ? resume(paused, now) : paused;
};

/** Why the pause under way puts the machine to sleep. */
const reasonOf = (life: Life): StopReason =>
  life.pauseReason === "cut_off" ? (life.stopReason ?? "insufficient_funds") : (life.pauseReason ?? "requested");

const toStopped = (life: Life, reason: StopReason, now: number, change: Partial<Life> = {}): Life =>
  enter(life, "stopped", now, {
    ...{ ...saved(life), stopReason: reason, endedAt: now, pausedAt: null, timer: null },
    ...change,
  });

const toRunning = (life: Life, lastActiveAt: number, now: number): Life =>
  enter(life, "running", now, {
    diskKept: true,
    savedGeneration: null,
    timer: null,
    readyAt: life.readyAt ?? now,
    lastActiveAt,
    pausedAt: null,
    endedAt: null,
    failure: null,
    memoryRestored: life.run === "create" ? null : life.run === "wake",
    lease: begun(life.lease, now),
  });

const toDeleted = (life: Life, now: number, change: Partial<Life> = {}): Life =>
  enter(life, "deleted", now, {
    endedAt: life.endedAt ?? now,
    pausedAt: null,
    purgePending: true,
    nextTryAt: now + STEP_CHECK_MS,
    ...change,
  });

const wait = (life: Life, event: { failure: Failure }, now: number): Life => ({
  ...life,
  attempts: life.attempts + 1,
  nextTryAt: now + (RETRY_MS[Math.min(life.attempts, RETRY_MS.length - 1)] ?? 30_000),
  failure: event.failure,
});

const remove = (life: Life, _event: LifeEvent, now: number): Life => toDeleted(life, now);
/** At rest there is something to come back to. */
const removeResting =
  (undeleteTo: "paused" | "stopped") =>
  (life: Life, { graceMs = 0 }: { graceMs?: number }, now: number): Life =>
    graceMs > 0
      ? toDeleted(life, now, { pausedAt: life.pausedAt, undeleteTo, nextTryAt: now + graceMs })
      : toDeleted(life, now);
const removeForGood = (life: Life, { graceMs = 0 }: { graceMs?: number }, now: number): Life =>
  life.undeleteTo !== null && graceMs === 0 ? { ...life, undeleteTo: null, nextTryAt: now } : life;
const takeBack = (life: Life, _event: LifeEvent, now: number): Life | Failure => {
  if (life.undeleteTo === null || (life.nextTryAt ?? 0) <= now)
    return failure("sandbox_gone", "The sandbox was deleted for good.", life.state);
  const change = { purgePending: false, undeleteTo: null, failure: null } as const;
  return life.undeleteTo === "paused"
    ? enter(life, "paused", now, { ...change, pausedAt: now, endedAt: null })
    : enter(life, "stopped", now, change);
};
const halt = (life: Life, _event: LifeEvent, now: number): Life =>
  enter(life, "stopping", now, {
    // A run that is only beginning may have begun.
    savedGeneration: life.state === "paused" ? life.savedGeneration : null,
    stopReason: "requested",
    failure: null,
  });
const restart = (life: Life, _event: LifeEvent, now: number): Life => boot(life, now);
const crash = (life: Life, event: Extract<LifeEvent, { type: "ended" }>, now: number): Life =>
  toStopped(life, event.reason, now, saved(life, event));

function failure(code: ErrorCode, message: string, state: SandboxState): Failure {
  return { code, message, details: { state } };
}
const stoppedAlready = (life: Life): Failure =>
  failure("sandbox_stopped", "The sandbox is stopped: its disk is kept, its RAM is not.", life.state);

const asking = (life: Life, seconds: number | undefined): Partial<Life> =>
  seconds === undefined ? {} : { lease: { ...life.lease, asked: seconds } };

const extend = (life: Life, event: { seconds: number }, now: number): Life => {
  const lease = extended(life.lease, event.seconds, now);
  return lease === life.lease ? life : { ...life, lease };
};

/** Its RAM is on a host that is silent, and of its last run; when that host is back, it wakes as after any pause. */
const lose = (life: Life, event: { failure: Failure }, now: number): Life => ({
  ...enter(life, "paused", now, {
    pausedAt: life.pausedAt ?? now,
    savedGeneration: life.generation,
    stopReason: "host_lost",
  }),
  failure: event.failure,
});

/** A program in it must run soon. The next try is noted with this one, in case nothing comes of it. */
const wakeInTime = (life: Life, event: Extract<LifeEvent, { type: "timer" }>, now: number): Life => {
  if (!life.timer || life.timer.nextAt > now) return life;
  const timer = triedTimer(life.timer, now);
  if (timer && event.putOffTo !== undefined)
    return { ...life, timer: { ...life.timer, nextAt: Math.max(event.putOffTo, now + 1) } };
  return timer && !event.failed ? resume(life, now, { timer }) : { ...life, timer };
};

/** The time is up, whatever goes on in the machine. */
const endLease = (life: Life, _event: LifeEvent, now: number): Life => {
  if (life.lease.endsAt === null || life.lease.endsAt > now) return life;
  switch (life.lease.onEnd) {
    case "stop":
      return enter(life, "stopping", now, { stopReason: "time_limit", failure: null });
    case "pause":
      return enter(life, "pausing", now, { pauseReason: "time_limit", failure: null });
    case "delete":
      return toDeleted(life, now, { stopReason: "time_limit" });
  }
};

/** What is not here is a conflict for an asker, and nothing for a host's report. */
const table: Table = {
  wake: {
    paused: (life, event, now) => resume(life, now, asking(life, event.leaseSeconds)),
    pausing: (life, event) => ({ ...life, wakeAfterPause: true, ...asking(life, event.leaseSeconds) }),
    starting: same,
    resuming: same,
    running: same,
    stopping: stoppedAlready,
    stopped: stoppedAlready,
  },
  restart: { stopped: restart, running: restart, paused: restart, starting: same, resuming: same },
  recover: {
    stopped: restart,
    paused: (life, _event, now) => resume(life, now),
    pausing: (life) => ({ ...life, wakeAfterPause: true }),
    starting: same,
    resuming: same,
    running: (life) => (life.failure === null ? life : { ...life, failure: null }),
    stopping: stoppedAlready,
  },
  pause: {
    running: (life, event, now) => enter(life, "pausing", now, { pauseReason: event.reason, failure: null }),
    // Who asks outright does not care whether it was idle.
    pausing: (life, event) =>
      event.reason === "requested" && life.pauseReason === "idle" ? { ...life, pauseReason: "requested" } : life,
    paused: same,
    stopping: (life) => failure("not_running", "The sandbox is stopping.", life.state),
    stopped: (life) => failure("not_running", "The sandbox is stopped.", life.state),
  },
  stop: { starting: halt, running: halt, pausing: halt, paused: halt, resuming: halt, stopping: same, stopped: same },
  delete: {
    starting: remove,
    running: remove,
    pausing: remove,
    paused: removeResting("paused"),
    resuming: remove,
    stopping: remove,
    stopped: removeResting("stopped"),
    deleted: removeForGood,
  },
  undelete: { deleted: takeBack },
  extend: {
    starting: extend,
    running: extend,
    pausing: extend,
    paused: extend,
    resuming: extend,
  },
  leaseEnd: { running: endLease },
  timer: { paused: wakeInTime },
  expire: {
    paused: (life, event, now) =>
      event.unpaid || (pausedExpiresAt(life) ?? Infinity) <= now
        ? toDeleted(life, now, { stopReason: "paused_expired" })
        : life,
  },
  ran: {
    starting: (life, event, now) => toRunning(life, event.lastActiveAt, now),
    resuming: (life, event, now) => toRunning(life, event.lastActiveAt, now),
  },
  runFailed: {
    starting: (life, event, now) => {
      if (life.run === "create" && event.nothingMade) {
        return toDeleted(life, now, {
          purgePending: false,
          nextTryAt: null,
          stopReason: "startup_failed",
          failure: event.failure,
        });
      }
      const savedGeneration = event.savedGeneration ?? life.generation;
      return toStopped(life, "startup_failed", now, { savedGeneration, failure: event.failure });
    },
    resuming: (life, event, now) => {
      const savedGeneration = event.savedGeneration ?? life.savedGeneration;
      if (event.memory === "saved")
        return enter(life, "paused", now, { savedGeneration, pausedAt: life.pausedAt ?? now, failure: event.failure });
      return boot(life, now, { stopReason: "wake_failed", failure: event.failure });
    },
  },
  paused: {
    pausing: (life, event, now) => toPaused(life, { ...event, reason: event.reason ?? reasonOf(life) }, now),
    running: toPaused,
    // Somebody still waits for it to run.
    resuming: (life, event, now) => resume({ ...life, ...saved(life, event), pausedAt: now }, now),
  },
  pauseRefused: {
    // Asked outright meanwhile: the pause goes on, and is driven again without the condition.
    pausing: (life, _event, now) => (life.pauseReason === "requested" ? { ...life } : enter(life, "running", now)),
  },
  pauseFailed: {
    pausing: (life, event, now) =>
      // A run whose time or money is up must not go on because it could not be put to sleep.
      life.pauseReason === "time_limit" || life.pauseReason === "cut_off"
        ? enter(life, "stopping", now, { stopReason: reasonOf(life), failure: event.failure })
        : enter(life, "running", now, { failure: event.failure }),
  },
  stopped: {
    stopping: (life, event, now) =>
      toStopped(life, life.stopReason ?? "requested", now, { ...saved(life, event), failure: null }),
  },
  ended: {
    running: crash,
    pausing: (life, event, now) =>
      life.wakeAfterPause ? boot(life, now, { stopReason: event.reason }) : crash(life, event, now),
    paused: crash,
    stopping: (life, event, now) => toStopped(life, life.stopReason ?? "requested", now, saved(life, event)),
  },
  refused: {
    starting: (life, event, now) =>
      life.run === "create"
        ? toDeleted(life, now, {
            purgePending: false,
            nextTryAt: null,
            stopReason: "startup_failed",
            failure: event.failure,
          })
        : toStopped(life, life.stopReason ?? "requested", now, { failure: event.failure }),
    resuming: (life, event, now) =>
      enter(life, "paused", now, { pausedAt: life.pausedAt ?? now, failure: event.failure }),
  },
  cutOff: {
    running: (life, event, now) =>
      enter(life, "pausing", now, { pauseReason: "cut_off", stopReason: event.reason, failure: null }),
  },
  hostLost: {
    running: lose,
    pausing: lose,
    resuming: lose,
    // Nothing was acknowledged of a creation, so another host may take it; a disk is where it is.
    starting: (life, event, now) =>
      life.run === "create"
        ? enter(life, "starting", now, { generation: life.generation + 1, failure: event.failure })
        : toStopped(life, "host_lost", now, { savedGeneration: life.generation, failure: event.failure }),
    stopping: (life, _event, now) => toStopped(life, life.stopReason ?? "requested", now),
    deleted: (life) => (life.purgePending ? { ...life, purgePending: false, nextTryAt: null } : life),
  },
  unreachable: {
    starting: wait,
    resuming: wait,
    pausing: wait,
    stopping: wait,
    deleted: (life, event, now) => (life.purgePending ? wait(life, event, now) : life),
  },
  purged: { deleted: (life) => (life.purgePending ? { ...life, purgePending: false, nextTryAt: null } : life) },
};

/** Events that nobody asks for: without an answer in the table they change nothing. */
const unasked: ReadonlySet<LifeEvent["type"]> = new Set(["purged", "expire", "leaseEnd", "cutOff"]);

/** The next life. A request that the table has no answer to is a typed conflict; such a report changes nothing. */
export function reduce(life: Life, event: LifeEvent, now: number): Outcome {
  const isReport = "generation" in event;
  if (isReport && event.generation !== life.generation) return { ok: true, life, changed: false };
  if (event.type === "unreachable" && event.from !== life.state) return { ok: true, life, changed: false };
  const handler = handlerOf(event, life.state);
  if (!handler) {
    if (isReport || unasked.has(event.type)) return { ok: true, life, changed: false };
    if (life.state === "deleted")
      return { ok: false, failure: failure("sandbox_gone", "The sandbox was deleted.", life.state) };
    return {
      ok: false,
      failure: failure("conflict", `Cannot ${event.type} a sandbox that is ${life.state}.`, life.state),
    };
  }
  const next = handler(life, event, now);
  if ("code" in next) return { ok: false, failure: next };
  return { ok: true, life: next, changed: next !== life };
}

function handlerOf(event: LifeEvent, state: SandboxState): Handler<LifeEvent> | undefined {
  // The row belongs to the event's own type, which the compiler can't follow through a union.
  return table[event.type][state] as Handler<LifeEvent> | undefined;
}

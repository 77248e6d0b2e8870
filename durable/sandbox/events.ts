/** Which events a change of a sandbox's life is. Pure. */
import type { About, Draft } from "../events/draft.ts";
import type { TimelineEntry } from "../../sdk/contract/timeline.ts";
import { isoOrNull } from "../time.ts";
import { durabilityOf, pointName, type Point } from "./archive.ts";
import type { LifeEvent } from "./life.ts";
import type { SandboxRecord } from "./record.ts";

/** The run that began, as the timeline has it. */
export type Run = Pick<TimelineEntry, "tookMs" | "cause" | "reason">;

export function aboutOf({ id, name, labels }: SandboxRecord): About {
  return { subject: id, sandbox: { id, name, labels: { ...labels } } };
}

export function stateOf({ life: { state, generation } }: SandboxRecord) {
  return { state, generation };
}

export function createdEvent(record: SandboxRecord, from: { snapshotId: string | null; forkOf: string | null }): Draft {
  const { image, vcpu, memoryMiB, diskMiB } = record.shape;
  return { type: "sandbox.created", data: { ...stateOf(record), image, vcpu, memoryMiB, diskMiB, ...from } };
}

export function durableEvent(record: SandboxRecord, point: Point): Draft {
  const { generation, storedBytes } = point;
  return {
    type: "sandbox.durable",
    data: { ...stateOf(record), generation, point: pointName(point), storedBytes },
    key: `durable ${pointName(point)}`,
  };
}

/** @param run of the generation that runs now; null when it is not known any more */
export function eventsOf(before: SandboxRecord, after: SandboxRecord, event: LifeEvent, run: Run | null): Draft[] {
  const was = before.life;
  const { life } = after;
  const data = stateOf(after);
  const drafts: Draft[] = [];
  if (event.type === "runFailed" || event.type === "pauseFailed" || event.type === "refused") {
    const action = was.state === "resuming" ? "wake" : was.state === "starting" ? "start" : "pause";
    const { code, message } = event.failure;
    drafts.push({ type: "sandbox.failed", data: { ...data, action, code, message } });
  }
  if (life.state === "running" && event.type === "ran") drafts.push(ranEvent(after, run));
  // A pause that was overtaken by a wake is one all the same.
  const overtaken = event.type === "paused" && was.state === "pausing" && life.state === "resuming";
  if (overtaken) {
    const slept = { ...after, life: { ...life, state: "paused" as const, generation: was.generation } };
    drafts.push(pausedEvent(slept));
  }
  if (was.state === "deleted") {
    if (life.state !== "deleted") drafts.push({ type: "sandbox.undeleted", data });
    else if (was.undeleteTo !== null && life.undeleteTo === null) drafts.push(deletedEvent(after, event));
    return drafts;
  }
  if (life.state === was.state) return drafts;
  if (life.state === "deleted") drafts.push(deletedEvent(after, event));
  else if (event.type === "hostLost" && (life.state === "paused" || life.state === "stopped")) {
    const durable = ["durable", "cold"].includes(durabilityOf(after)?.state ?? "");
    drafts.push({ type: "sandbox.lost", data: { ...data, durable } });
  } else if (life.state === "stopped")
    drafts.push({ type: "sandbox.stopped", data: { ...data, reason: life.stopReason ?? "requested" } });
  else if (life.state === "paused" && event.type === "paused") drafts.push(pausedEvent(after));
  return drafts;
}

function ranEvent(record: SandboxRecord, run: Run | null): Draft {
  const data = stateOf(record);
  const { tookMs = null, cause = null, reason = null } = run ?? {};
  switch (record.life.run) {
    case "create":
      return { type: "sandbox.started", data: { ...data, startMs: tookMs } };
    case "wake":
      return { type: "sandbox.woken", data: { ...data, cause, wakeMs: tookMs } };
    case "boot":
      return {
        type: "sandbox.booted",
        data: { ...data, cause, bootMs: tookMs, reason: (reason ?? "restart") as "restart" },
      };
  }
}

function pausedEvent(record: SandboxRecord): Draft {
  const { stopReason } = record.life;
  const durability = durabilityOf(record)?.state ?? null;
  return { type: "sandbox.paused", data: { ...stateOf(record), reason: stopReason ?? "requested", durability } };
}

function deletedEvent(record: SandboxRecord, event: LifeEvent): Draft {
  const { undeleteTo, nextTryAt, stopReason } = record.life;
  return {
    type: "sandbox.deleted",
    data: {
      ...stateOf(record),
      reason: event.type === "delete" ? null : stopReason,
      undeleteUntil: undeleteTo === null ? null : isoOrNull(nextTryAt),
    },
  };
}

/** A drill as it is stored, and as it is shown. Pure. */
import type { Drill, DrillKill, DrillLoss, DrillState, DrillView } from "../../sdk/contract/drill.ts";
import { iso, isoOrNull } from "../time.ts";

/** A file as it was: path, bytes, when it changed (Unix milliseconds), and its hash; null for a large one. */
export type FileSeen = readonly [path: string, bytes: number, changedAt: number, sha256: string | null];

/** Where the machine runs, and which run it is. */
export interface Where {
  readonly hostId: string;
  readonly hostUrl: string;
  readonly generation: number;
}

export interface DrillRecord {
  readonly id: string;
  readonly kill: DrillKill;
  readonly state: DrillState;
  readonly step: "before" | "kill" | "after" | null;
  readonly reason: string | null;
  readonly message: string | null;
  readonly createdAt: number;
  readonly dueAt: number | null;
  /** Steps that were begun and did not end in a row: their object was gone. */
  readonly brokeOff: number;
  readonly isBegun: boolean;
  readonly where: Where | null;
  readonly killedAt: number | null;
  /** What killed it lived in; another one is there after the edge was. */
  readonly killedBy: string | null;
  readonly answeredAt: number | null;
  readonly endedAt: number | null;
  readonly before: DrillView | null;
  readonly after: DrillView | null;
  readonly files: readonly FileSeen[];
  /** The process that the drill put into the machine's memory. */
  readonly process: string | null;
  readonly lost: readonly DrillLoss[];
}

export function newDrill(id: string, kill: DrillKill, now: number): DrillRecord {
  return {
    ...{ id, kill, state: "running", step: "before", reason: null, message: null, createdAt: now, dueAt: now },
    ...{ brokeOff: 0, isBegun: false, where: null, killedAt: null, killedBy: null, answeredAt: null, endedAt: null },
    ...{ before: null, after: null, files: [], process: null, lost: [] },
  };
}

export function endedDrill(
  record: DrillRecord,
  state: Exclude<DrillState, "running">,
  reason: string | null,
  message: string | null,
  now: number,
): DrillRecord {
  return { ...record, state, reason, message, step: null, dueAt: null, isBegun: false, endedAt: now };
}

export function toDrill(record: DrillRecord, sandboxId: string): Drill {
  const { killedAt, answeredAt } = record;
  return {
    ...{ id: record.id, kind: "drill", sandboxId, kill: record.kill, state: record.state, step: record.step },
    ...{ reason: record.reason, message: record.message, createdAt: iso(record.createdAt) },
    killedAt: isoOrNull(killedAt),
    endedAt: isoOrNull(record.endedAt),
    answeredAfterMs: killedAt === null || answeredAt === null ? null : Math.max(0, answeredAt - killedAt),
    ...{ before: record.before, after: record.after, lost: [...record.lost] },
  };
}

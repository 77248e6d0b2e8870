/** What hosts told of a sandbox's way out: bytes by run, and what was refused. */
import type { EgressReport } from "../../sdk/contract/egress.ts";
import type { Network } from "../../sdk/contract/network-settings.ts";
import type { Draft } from "../events/draft.ts";
import { iso } from "../time.ts";
import { stateOf } from "./events.ts";
import type { SandboxRecord } from "./record.ts";

/** Runs whose bytes are known by themselves: a report may come late. Those before are one sum, under 0. */
const RUNS_KEPT = 8;
const REFUSALS_KEPT = 100;
const REFUSALS_SHOWN = 20;
/** An event of one rule and target comes again after this, milliseconds, and no more than so many in that time. */
const EVENT_MS = 60_000;
const EVENTS_MAX = 10;

type RefusalRow = { rule: string; target: string; generation: number; count: number; told: number; lastAt: number };

export class EgressLog {
  readonly #sql: SqlStorage;

  constructor(storage: DurableObjectStorage) {
    this.#sql = storage.sql;
  }

  /** Take note of totals. Which events they are; the caller stores them in the same turn. */
  note(record: SandboxRecord, report: EgressReport, now: number): Draft[] {
    const { generation, bytesOut, bytesIn, refusals } = report;
    this.#addBytes(generation, bytesOut, bytesIn);
    for (const { rule, target, count, lastAt } of refusals)
      this.#sql.exec(
        `INSERT INTO egress_refusals (rule, target, generation, count, told, told_at, last_at)
         VALUES (?1, ?2, ?3, ?4, 0, NULL, ?5)
         ON CONFLICT (rule, target) DO UPDATE SET
           told = iif(?3 > generation, 0, told),
           count = iif(?3 > generation, ?4, MAX(count, ?4)),
           generation = ?3, last_at = MAX(last_at, ?5)
         WHERE ?3 >= generation`,
        ...[rule, target, generation, count, Math.min(lastAt, now)],
      );
    const drafts = this.#events(record, generation, now);
    this.#sql.exec(
      `DELETE FROM egress_refusals WHERE COALESCE(told_at, 0) <= ?1 AND (rule, target) NOT IN
       (SELECT rule, target FROM egress_refusals ORDER BY last_at DESC LIMIT ?2)`,
      ...[now - EVENT_MS, REFUSALS_KEPT],
    );
    return drafts;
  }

  totals(): Pick<Network, "bytesOut" | "bytesIn"> {
    return this.#sql
      .exec<{ bytesOut: number; bytesIn: number }>(
        "SELECT COALESCE(SUM(bytes_out), 0) AS bytesOut, COALESCE(SUM(bytes_in), 0) AS bytesIn FROM egress_runs",
      )
      .one();
  }

  /** The newest first. */
  refusals(): Network["refusals"] {
    return this.#sql
      .exec<RefusalRow>(
        `SELECT rule, target, generation, count, told, last_at AS lastAt FROM egress_refusals
         ORDER BY last_at DESC, target LIMIT ?`,
        REFUSALS_SHOWN,
      )
      .toArray()
      .map(({ rule, target, count, lastAt }) => ({ rule, target, count, lastAt: iso(lastAt) }));
  }

  #addBytes(generation: number, bytesOut: number, bytesIn: number): void {
    const { folded } = this.#sql
      .exec<{ folded: number | null }>("SELECT folded FROM egress_runs WHERE generation = 0")
      .toArray()[0] ?? { folded: 0 };
    if (generation <= (folded ?? 0)) return;
    this.#sql.exec(
      `INSERT INTO egress_runs VALUES (?1, ?2, ?3, NULL)
       ON CONFLICT (generation) DO UPDATE SET bytes_out = MAX(bytes_out, ?2), bytes_in = MAX(bytes_in, ?3)`,
      ...[generation, bytesOut, bytesIn],
    );
    const old = this.#sql
      .exec<{ generation: number; bytesOut: number; bytesIn: number }>(
        `SELECT generation, bytes_out AS bytesOut, bytes_in AS bytesIn FROM egress_runs
         WHERE generation > 0 ORDER BY generation DESC LIMIT -1 OFFSET ?`,
        RUNS_KEPT,
      )
      .toArray();
    for (const run of old) {
      this.#sql.exec("DELETE FROM egress_runs WHERE generation = ?", run.generation);
      this.#sql.exec(
        `INSERT INTO egress_runs VALUES (0, ?1, ?2, ?3)
         ON CONFLICT (generation) DO UPDATE SET
           bytes_out = bytes_out + ?1, bytes_in = bytes_in + ?2, folded = MAX(folded, ?3)`,
        ...[run.bytesOut, run.bytesIn, run.generation],
      );
    }
  }

  #events(record: SandboxRecord, generation: number, now: number): Draft[] {
    const since = now - EVENT_MS;
    const { recent } = this.#sql
      .exec<{ recent: number }>("SELECT COUNT(*) AS recent FROM egress_refusals WHERE told_at > ?", since)
      .one();
    const due = this.#sql
      .exec<RefusalRow>(
        `SELECT rule, target, generation, count, told, last_at AS lastAt FROM egress_refusals
         WHERE generation = ?1 AND count > told AND COALESCE(told_at, 0) <= ?2 ORDER BY last_at, target LIMIT ?3`,
        ...[generation, since, Math.max(0, EVENTS_MAX - recent)],
      )
      .toArray();
    return due.map(({ rule, target, count, told, lastAt }) => {
      this.#sql.exec(
        "UPDATE egress_refusals SET told = count, told_at = ? WHERE rule = ? AND target = ?",
        ...[now, rule, target],
      );
      const data = { ...stateOf(record), rule, target, count: count - told, lastAt: iso(lastAt) };
      return { type: "sandbox.egress_refused", data };
    });
  }
}

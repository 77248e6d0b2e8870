/** The machines that a host agent holds: their journal rows, and one action at a time for each. */
import { EventEmitter } from "node:events";
import { RouseFailure } from "../../sdk/contract/errors.ts";
import type { Machine } from "../../sdk/contract/host.ts";
import type { Journal, JournalRow } from "../store/journal.ts";
import { Activity } from "./activity.ts";
import { describe, type Held } from "./held.ts";
import { IdleWatch } from "./idle.ts";

interface MachinesEvents {
  /** There is something to tell the edge (`pendingEvents`). */
  news: [];
  /** A machine's row, whenever it is committed. */
  state: [row: JournalRow];
  /** The machine is no more. */
  gone: [id: string];
  /** One line per action, for the log. */
  action: [entry: { action: string; id: string; generation: number; ms: number; outcome: string }];
}

export abstract class MachineBook extends EventEmitter<MachinesEvents> {
  protected readonly journal: Journal;
  protected readonly held = new Map<string, Held>();

  protected constructor(journal: Journal) {
    super();
    this.journal = journal;
  }

  protected abstract readonly idleCpu: number;
  protected abstract cpuTicks(id: string): Promise<number>;
  protected abstract onIdle(held: Held): void;

  protected hold(row: JournalRow): Held {
    const activity = new Activity(row.lastActiveAt);
    const held: Held = {
      row,
      activity,
      idle: new IdleWatch({
        activity,
        idlePauseSeconds: () => held.row.idlePauseSeconds,
        idleCpu: this.idleCpu,
        cpuTicks: () => this.cpuTicks(held.row.id),
        onIdle: () => this.onIdle(held),
      }),
      tail: Promise.resolve(),
      env: null,
      settleTimer: undefined,
      answered: new Set(),
      connections: new Set(),
      depth: null,
      frozen: false,
      boot: null,
      run: { ready: Promise.resolve() },
      egress: null,
      tunnel: null,
    };
    this.held.set(row.id, held);
    return held;
  }

  protected drop(held: Held): void {
    held.idle.stop();
    held.boot?.over.abort();
    this.journal.remove(held.row.id);
    this.held.delete(held.row.id);
    this.emit("gone", held.row.id);
  }

  protected get(id: string): Held {
    const held = this.held.get(id);
    if (!held) throw new RouseFailure("not_found", "The machine is not on this host.");
    return held;
  }

  /** Do one thing with a machine, after all that was begun with it before. */
  protected act(held: Held, action: string, work: () => Promise<void>): Promise<Machine> {
    const run = held.tail.then(async () => {
      const began = performance.now();
      const entry = () => ({
        action,
        id: held.row.id,
        generation: held.row.generation,
        ms: Math.round(performance.now() - began),
      });
      try {
        await work();
        held.row = { ...held.row, lastActionMs: performance.now() - began };
        this.emit("action", { ...entry(), outcome: "ok" });
        return describe(held);
      } catch (fault) {
        this.emit("action", { ...entry(), outcome: fault instanceof Error ? fault.message : String(fault) });
        throw fault;
      }
    });
    held.tail = run.catch(() => undefined);
    return run;
  }

  /**
   * Note what is intended, before it is done, or what is true now. An intention that can't be noted is none; what is true
   * is true all the same, and a host agent that starts finds it out by itself.
   */
  protected commit(held: Held, change: Partial<JournalRow>): void {
    const next = { ...held.row, ...change };
    try {
      this.journal.put(next);
    } catch (fault) {
      if (change.state !== undefined && intentions.has(change.state)) throw fault;
      process.stderr.write(`${JSON.stringify({ level: "error", id: next.id, fault: `journal: ${String(fault)}` })}\n`);
    }
    held.row = next;
    this.emit("state", next);
  }
}

const intentions: ReadonlySet<JournalRow["state"]> = new Set(["creating", "waking", "pausing"]);

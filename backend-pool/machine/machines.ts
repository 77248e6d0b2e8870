/**
 * The machines of this host: one action at a time for each, fenced by generation, journaled before and after.
 * Drivers carry; this decides what a call means in the state that is really there.
 */
import { createHash } from "node:crypto";
import { EventEmitter } from "node:events";
import { RouseFailure } from "../../sdk/contract/errors.ts";
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";
import type {
  CreateMachine,
  Machine,
  MachineEvent,
  PauseMachine,
  RunMachine,
  SleepDepth,
} from "../../sdk/contract/host.ts";
import type { StopReason } from "../../sdk/contract/sandbox.ts";
import type { Journal, JournalRow } from "../store/journal.ts";
import { Activity } from "./activity.ts";
import { configureAgent } from "./agent-client.ts";
import type { Driver, Woken } from "./driver.ts";
import {
  asFailure,
  conflict,
  describe,
  news,
  refuseStale,
  type DataLease,
  type Held,
  type SleepPolicy,
} from "./held.ts";
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

export class Machines extends EventEmitter<MachinesEvents> {
  readonly #driver: Driver;
  readonly #journal: Journal;
  readonly #policy: SleepPolicy;
  readonly #held = new Map<string, Held>();

  constructor(driver: Driver, journal: Journal, policy: SleepPolicy) {
    super();
    this.#driver = driver;
    this.#journal = journal;
    this.#policy = policy;
    driver.onEnded((id) => void this.#onEnded(id));
  }

  /** Match journal, processes and files after a start of the host agent, whatever the end before it was like. */
  async reclaim(): Promise<void> {
    for (const row of this.#journal.all()) {
      const held = this.#hold(row);
      const actual = await this.#driver.adopt(row.id, { hostname: row.hostname });
      held.depth = actual.depth;
      if (!actual.exists) {
        this.#drop(held);
        continue;
      }
      held.env = null;
      if (actual.running) {
        this.#commit(held, { state: "running" });
        held.idle.start();
      } else if (actual.memory === "saved") {
        this.#commit(held, { state: "paused" });
        this.#scheduleSettle(held);
      } else if (row.state !== "stopped") {
        // It ran when this host agent last looked, or a step was under way that used up its RAM.
        const reason: StopReason = row.state === "creating" ? "startup_failed" : "vm_crashed";
        this.#commit(held, { state: "stopped", endReason: reason, ...news(row, { type: "ended", reason }) });
      }
    }
    // Files without a row: a creation that never got as far as its first commit, or a deletion's rest.
    for (const id of await this.#driver.list()) if (!this.#held.has(id)) await this.#driver.destroy(id);
    this.emit("news");
  }

  create(id: string, request: CreateMachine): Promise<Machine> {
    const existing = this.#held.get(id);
    const held =
      existing ??
      this.#hold({
        id,
        account: request.account,
        generation: request.generation,
        state: "creating",
        shape: request.shape,
        hostname: request.hostname,
        idlePauseSeconds: request.idlePauseSeconds,
        memoryRestored: true,
        endReason: null,
        lastActiveAt: Date.now(),
        lastActionMs: null,
        pendingEvent: null,
      });
    return this.#act(held, "create", async () => {
      refuseStale(held, request.generation);
      if (held.row.state === "running" && held.row.generation === request.generation) return;
      if (held.row.state !== "creating") throw conflict(held, "create");
      try {
        this.#commit(held, { state: "creating", generation: request.generation });
        await this.#driver.create(id, request.shape);
        held.run = await this.#driver.wake(id, { hostname: request.hostname });
        await this.#configure(held, request.env, true);
      } catch (fault) {
        await this.#driver.destroy(id).catch(() => undefined);
        this.#drop(held);
        throw asFailure(fault, "start_failed");
      }
      this.#running(held, { memoryRestored: true });
    });
  }

  wake(id: string, request: RunMachine): Promise<Machine> {
    const held = this.#get(id);
    return this.#act(held, "wake", async () => {
      refuseStale(held, request.generation);
      if (held.row.state === "running" && held.row.generation === request.generation) return;
      if (held.row.state !== "paused" && held.row.state !== "waking") throw conflict(held, "wake");
      this.#begin(held, request, {});
      try {
        held.run = await this.#driver.wake(id, { hostname: held.row.hostname });
        await this.#configure(held, request.env, false);
      } catch (fault) {
        await this.#afterFailedWake(held);
        throw asFailure(fault, "wake_failed");
      }
      this.#running(held, { memoryRestored: true });
    });
  }

  boot(id: string, request: RunMachine): Promise<Machine> {
    const held = this.#get(id);
    return this.#act(held, "boot", async () => {
      refuseStale(held, request.generation);
      if (held.row.state === "running" && held.row.generation === request.generation) return;
      if (held.row.state === "running") await this.#cut(held);
      held.idle.stop();
      held.answered.clear();
      held.env = null;
      this.#begin(held, request, { memoryRestored: false });
      try {
        await this.#driver.boot(id, { hostname: held.row.hostname });
        held.run = { ready: Promise.resolve() };
        await this.#configure(held, request.env, true);
      } catch (fault) {
        this.#commit(held, { state: "stopped", endReason: "startup_failed" });
        throw asFailure(fault, "start_failed");
      }
      this.#running(held, { memoryRestored: false });
    });
  }

  pause(id: string, request: PauseMachine): Promise<Machine> {
    const held = this.#get(id);
    return this.#act(held, "pause", async () => {
      refuseStale(held, request.generation);
      if (held.row.state === "paused") return;
      if (held.row.state !== "running") throw conflict(held, "pause");
      if (request.onlyIfIdle && !held.idle.isIdle()) {
        throw new RouseFailure("conflict", "The machine was used since it was found idle.");
      }
      await this.#pause(held);
    });
  }

  stop(id: string, generation: number): Promise<Machine> {
    const held = this.#get(id);
    return this.#act(held, "stop", async () => {
      refuseStale(held, generation);
      if (held.row.state === "stopped") return;
      clearTimeout(held.settleTimer);
      await this.#cut(held);
      await this.#driver.stop(id);
      held.depth = null;
      this.#commit(held, { state: "stopped", endReason: null, pendingEvent: null });
    });
  }

  configure(id: string, request: RunMachine): Promise<Machine> {
    const held = this.#get(id);
    return this.#act(held, "configure", async () => {
      if (held.row.state !== "running" || held.row.generation !== request.generation) throw conflict(held, "configure");
      this.#commit(held, { idlePauseSeconds: request.idlePauseSeconds });
      await this.#configure(held, request.env, false);
      held.idle.stop();
      held.idle.start();
    });
  }

  settle(id: string, depth: SleepDepth): Promise<Machine> {
    const held = this.#get(id);
    return this.#act(held, "settle", () => this.#settle(held, depth));
  }

  async destroy(id: string): Promise<void> {
    const held = this.#held.get(id);
    if (!held) return this.#driver.destroy(id);
    await this.#act(held, "destroy", async () => {
      clearTimeout(held.settleTimer);
      await this.#cut(held);
      await this.#driver.destroy(id);
      this.#drop(held);
    });
  }

  describe(id: string): Machine {
    return describe(this.#get(id));
  }

  list(): Machine[] {
    return [...this.#held.values()].map(describe);
  }

  /** Take part in a run, once it is ready; refused with `misdirected` when the host does not run that generation. */
  lease(id: string, generation: number): DataLease {
    const held = this.#held.get(id);
    if (!held || held.row.state !== "running" || held.row.generation !== generation) {
      throw new RouseFailure("misdirected", "This host does not run that generation of the machine.");
    }
    const done = held.activity.begin();
    let cut: (() => void) | undefined;
    return {
      id,
      run: held.run,
      endpoint: (port) => this.#driver.endpoint(id, port).catch(asGone),
      listening: (port) => this.#driver.listening(id, port).catch(asGone),
      answered: held.answered,
      onCut: (how) => {
        cut = how;
        held.connections.add(how);
      },
      done: () => {
        if (cut) held.connections.delete(cut);
        done();
        held.idle.start();
      },
    };
  }

  /** What the edge was not told yet. */
  pendingEvents(): { account: string; id: string; event: MachineEvent }[] {
    const rows = [...this.#held.values()].map((held) => held.row);
    return rows.flatMap((row) =>
      row.pendingEvent ? [{ account: row.account, id: row.id, event: row.pendingEvent }] : [],
    );
  }

  /** The edge took note of an event. */
  acknowledge(id: string, event: MachineEvent): void {
    const held = this.#held.get(id);
    if (held && JSON.stringify(held.row.pendingEvent) === JSON.stringify(event))
      this.#commit(held, { pendingEvent: null });
  }

  /** The machine did nothing for as long as was asked. */
  #onIdle(held: Held): void {
    this.#commit(held, news(held.row, { type: "idle" }));
    this.emit("news");
  }

  /** Pause all that runs, because this host agent ends in order. Answers what could not be paused. */
  async shutdown(): Promise<string[]> {
    const failed: string[] = [];
    const running = [...this.#held.values()].filter((held) => held.row.state === "running");
    await Promise.all(
      running.map((held) =>
        this.#act(held, "pause", async () => {
          if (held.row.state !== "running") return;
          await this.#pause(held);
          this.#commit(held, news(held.row, { type: "paused", reason: "host_stopped" }));
        }).catch(() => failed.push(held.row.id)),
      ),
    );
    for (const held of this.#held.values()) {
      clearTimeout(held.settleTimer);
      await held.tail.catch(() => undefined);
      // Nobody would end a process that nobody knows of.
      if (held.row.state === "paused") await this.#driver.settle(held.row.id, "local").catch(() => undefined);
    }
    this.emit("news");
    return failed;
  }

  /** Stop timers and let go of the driver; machines stay as they are. */
  async close(): Promise<void> {
    for (const held of this.#held.values()) {
      clearTimeout(held.settleTimer);
      held.idle.stop();
    }
    await this.#driver.close();
    this.#journal.close();
  }

  async #pause(held: Held): Promise<void> {
    // A guest that is still taking up its run would do so in its next one.
    await held.run.ready.catch(() => undefined);
    this.#commit(held, { state: "pausing", lastActiveAt: held.activity.lastMs });
    await this.#cut(held);
    try {
      await this.#driver.pause(held.row.id);
    } catch (fault) {
      const actual = await this.#driver.inspect(held.row.id);
      if (actual.running) {
        this.#commit(held, { state: "running" });
        held.idle.start();
      } else if (actual.memory === "none") {
        this.#commit(held, {
          state: "stopped",
          endReason: "vm_crashed",
          ...news(held.row, { type: "ended", reason: "vm_crashed" }),
        });
        this.emit("news");
      }
      throw asFailure(fault, "pause_failed");
    }
    held.depth = "resident";
    this.#commit(held, { state: "paused", pendingEvent: null });
    this.#scheduleSettle(held);
  }

  async #afterFailedWake(held: Held): Promise<void> {
    const { id } = held.row;
    // It may run and yet not take its settings: then its RAM is worth keeping, and nothing may run on unseen.
    if ((await this.#driver.inspect(id)).running) await this.#driver.pause(id).catch(() => this.#driver.stop(id));
    const actual = await this.#driver.inspect(id);
    held.depth = actual.depth;
    if (actual.memory === "saved") this.#commit(held, { state: "paused" });
    else this.#commit(held, { state: "stopped", endReason: "wake_failed" });
  }

  async #onEnded(id: string): Promise<void> {
    const held = this.#held.get(id);
    if (!held) return;
    // An action under way sees the end by itself; what it left behind is judged after it.
    await held.tail.catch(() => undefined);
    const actual = await this.#driver.inspect(id);
    held.depth = actual.depth;
    if (actual.memory !== "none" || held.row.state !== "running") return;
    await this.#cut(held);
    held.answered.clear();
    held.env = null;
    this.#commit(held, {
      state: "stopped",
      endReason: "vm_crashed",
      ...news(held.row, { type: "ended", reason: "vm_crashed" }),
    });
    this.emit("action", { action: "ended", id, generation: held.row.generation, ms: 0, outcome: "vm_crashed" });
    this.emit("news");
  }

  /** A run is intended: noted before anything is done for it. */
  #begin(held: Held, { generation, idlePauseSeconds }: RunMachine, change: Partial<JournalRow>): void {
    clearTimeout(held.settleTimer);
    const waking = { state: "waking", endReason: null, pendingEvent: null } as const;
    this.#commit(held, { ...waking, generation, idlePauseSeconds, ...change });
  }

  #running(held: Held, how: { memoryRestored: boolean }): void {
    held.depth = null;
    held.activity.touch();
    this.#commit(held, { state: "running", lastActiveAt: held.activity.lastMs, ...how });
    held.idle.start();
    const { run } = held;
    run.ready.catch(() => this.#onNotReady(held, run));
  }

  /** A guest that does not take up its run is of no use awake, and its RAM is still what it was. */
  #onNotReady(held: Held, run: Woken): void {
    void this.#act(held, "pause", async () => {
      if (held.run !== run || held.row.state !== "running") return;
      await this.#pause(held);
      this.#commit(held, news(held.row, { type: "paused", reason: "wake_failed" }));
      this.emit("news");
    }).catch(() => undefined);
  }

  /** Data connections of a run end with it, and the guest should see their end before it sleeps. */
  async #cut(held: Held): Promise<void> {
    held.idle.stop();
    if (held.connections.size === 0) return;
    for (const cut of [...held.connections]) cut();
    held.connections.clear();
    await new Promise((resolve) => setImmediate(resolve));
  }

  async #configure(held: Held, env: Record<string, string>, fresh: boolean): Promise<void> {
    const digest = createHash("sha256")
      .update(JSON.stringify(Object.entries(env).toSorted()))
      .digest("hex");
    if (held.env === digest) return;
    if (!(fresh && Object.keys(env).length === 0)) {
      await held.run.ready;
      await configureAgent(await this.#driver.endpoint(held.row.id, AGENT_PORT), env);
    }
    held.env = digest;
  }

  #scheduleSettle(held: Held): void {
    clearTimeout(held.settleTimer);
    const later = (seconds: number, depth: SleepDepth, then?: () => void) => {
      held.settleTimer = setTimeout(() => {
        void this.#act(held, "settle", () => this.#settle(held, depth)).then(then, () => undefined);
      }, seconds * 1000);
      held.settleTimer.unref();
    };
    const { residentSeconds, prestartedSeconds } = this.#policy;
    if (prestartedSeconds <= 0) later(residentSeconds, "local");
    else later(residentSeconds, "prestarted", () => later(prestartedSeconds, "local"));
  }

  async #settle(held: Held, depth: SleepDepth): Promise<void> {
    if (held.row.state !== "paused") return;
    await this.#driver.settle(held.row.id, depth);
    held.depth = (await this.#driver.inspect(held.row.id)).depth;
  }

  #hold(row: JournalRow): Held {
    const activity = new Activity(row.lastActiveAt);
    const held: Held = {
      row,
      activity,
      idle: new IdleWatch({
        activity,
        idlePauseSeconds: () => held.row.idlePauseSeconds,
        cpuTicks: () => this.#driver.cpuTicks(held.row.id),
        onIdle: () => this.#onIdle(held),
      }),
      tail: Promise.resolve(),
      env: null,
      settleTimer: undefined,
      answered: new Set(),
      connections: new Set(),
      depth: null,
      run: { ready: Promise.resolve() },
    };
    this.#held.set(row.id, held);
    return held;
  }

  #drop(held: Held): void {
    held.idle.stop();
    this.#journal.remove(held.row.id);
    this.#held.delete(held.row.id);
    this.emit("gone", held.row.id);
  }

  #get(id: string): Held {
    const held = this.#held.get(id);
    if (!held) throw new RouseFailure("not_found", "The machine is not on this host.");
    return held;
  }

  #act(held: Held, action: string, work: () => Promise<void>): Promise<Machine> {
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

  #commit(held: Held, change: Partial<JournalRow>): void {
    held.row = { ...held.row, ...change };
    this.#journal.put(held.row);
    this.emit("state", held.row);
  }
}

/** A machine that goes while a request asks its way takes the request with it, and that is no fault of this host. */
function asGone(fault: unknown): never {
  if (fault instanceof RouseFailure) throw fault;
  throw new RouseFailure("upstream_closed", "The machine ended before it answered.", { cause: fault });
}

/**
 * The machines of this host: one action at a time for each, fenced by generation, journaled before and after.
 * Drivers carry; this decides what a call means in the state that is really there.
 */
import { createHash } from "node:crypto";
import { RouseFailure } from "../../sdk/contract/errors.ts";
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";
import type {
  CreateMachine,
  FrozenFate,
  Machine,
  MachineEvent,
  PauseMachine,
  RunMachine,
  SleepDepth,
} from "../../sdk/contract/host.ts";
import type { StopReason } from "../../sdk/contract/sandbox.ts";
import type { Journal, JournalRow } from "../store/journal.ts";
import { configureAgent } from "./agent-client.ts";
import type { Driver, Woken } from "./driver.ts";
import {
  asFailure,
  conflict,
  cutOff,
  dataLease,
  describe,
  news,
  noRoom,
  refuseStale,
  scheduleSettle,
  type DataLease,
  type Held,
  type SleepPolicy,
} from "./held.ts";
import { MachineBook } from "./book.ts";
import { reclaimed } from "./reclaim.ts";
import type { Room } from "./room.ts";

export class Machines extends MachineBook {
  readonly #driver: Driver;
  readonly #policy: SleepPolicy;
  readonly #mayRun: () => boolean;
  readonly #session: () => string | null;
  readonly #room: Room | null;

  /** @param mayRun whether this host has the right to run machines now (`host-lease.ts`) */
  constructor(
    driver: Driver,
    journal: Journal,
    policy: SleepPolicy,
    {
      mayRun = () => true,
      session = () => null,
      room = null,
    }: { mayRun?: () => boolean; session?: () => string | null; room?: Room | null } = {},
  ) {
    super(journal);
    this.#driver = driver;
    this.#policy = policy;
    this.#mayRun = mayRun;
    this.#session = session;
    this.#room = room;
    driver.onEnded((id) => void this.#onEnded(id));
  }

  /** Match journal, processes and files after a start of the host agent, whatever the end before it was like. */
  async reclaim(): Promise<void> {
    for (const row of this.journal.all()) {
      const held = this.hold(row);
      const actual = await this.#driver.adopt(row.id, { hostname: row.hostname });
      const found = reclaimed(row, actual);
      if (!found) {
        this.drop(held);
        continue;
      }
      held.depth = actual.depth;
      held.env = null;
      held.frozen = actual.frozen === true;
      this.commit(held, found.change);
      if (found.next === "watch") held.idle.start();
      if (found.next === "settle") this.#scheduleSettle(held);
    }
    // Files without a row: a creation that never got as far as its first commit, or a deletion's rest.
    for (const id of await this.#driver.list()) if (!this.held.has(id)) await this.#driver.destroy(id);
    this.emit("news");
  }

  async create(id: string, request: CreateMachine): Promise<Machine> {
    this.#mustBeFresh(request.session);
    if (request.generation <= this.journal.removed(id))
      throw new RouseFailure("sandbox_gone", "The machine was removed; this call is late.");
    const existing = this.held.get(id);
    const isNew = !existing;
    const held =
      existing ??
      this.hold({
        id,
        account: request.account,
        generation: request.generation,
        state: "creating",
        shape: request.shape,
        hostname: request.hostname,
        idlePauseSeconds: request.idlePauseSeconds,
        endedGeneration: 0,
        memoryRestored: true,
        endReason: null,
        lastActiveAt: Date.now(),
        lastActionMs: null,
        pendingEvent: null,
      });
    return this.act(held, "create", async () => {
      if (await this.#runs(held, request)) return;
      if (held.row.state !== "creating") throw conflict(held, "create");
      await this.#mustFit(held, true).catch((fault: unknown) => {
        if (isNew) this.drop(held);
        throw fault;
      });
      try {
        this.commit(held, { state: "creating", generation: request.generation });
        await this.#driver.create(id, request.shape);
        held.run = await this.#driver.wake(id, { hostname: request.hostname });
        await this.#configure(held, request.env, true);
      } catch (fault) {
        await this.#driver.destroy(id).catch(() => undefined);
        this.drop(held);
        throw asFailure(fault, "start_failed");
      }
      this.#running(held, { memoryRestored: true });
    });
  }

  wake(id: string, request: RunMachine): Promise<Machine> {
    const held = this.get(id);
    return this.act(held, "wake", async () => {
      if (await this.#runs(held, request)) return;
      if (held.row.state !== "paused" && held.row.state !== "waking") throw conflict(held, "wake");
      await this.#mustFit(held, false);
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
    const held = this.get(id);
    return this.act(held, "boot", async () => {
      if (await this.#runs(held, request)) return;
      if (held.row.state === "running") await this.#cut(held);
      else await this.#mustFit(held, false);
      held.idle.stop();
      held.answered.clear();
      held.env = null;
      this.#begin(held, request, { memoryRestored: false });
      try {
        await this.#driver.boot(id, { hostname: held.row.hostname });
        held.run = { ready: Promise.resolve() };
        await this.#configure(held, request.env, true);
      } catch (fault) {
        this.commit(held, { state: "stopped", endReason: "startup_failed" });
        throw asFailure(fault, "start_failed");
      }
      this.#running(held, { memoryRestored: false });
    });
  }

  pause(id: string, request: PauseMachine): Promise<Machine> {
    const held = this.get(id);
    return this.act(held, "pause", async () => {
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
    const held = this.get(id);
    return this.act(held, "stop", async () => {
      refuseStale(held, generation);
      if (held.row.state === "stopped") return;
      clearTimeout(held.settleTimer);
      await this.#cut(held);
      await this.#driver.stop(id);
      held.depth = null;
      // A call to begin that run, or one before it, may still be on its way.
      const over = Math.max(generation, held.row.generation);
      const ended = { generation: over, endedGeneration: over };
      this.commit(held, { state: "stopped", endReason: null, pendingEvent: null, ...ended });
    });
  }

  configure(id: string, request: RunMachine): Promise<Machine> {
    const held = this.get(id);
    return this.act(held, "configure", async () => {
      if (held.row.state !== "running" || held.row.generation !== request.generation) throw conflict(held, "configure");
      this.commit(held, { idlePauseSeconds: request.idlePauseSeconds });
      await this.#configure(held, request.env, false);
      held.idle.stop();
      held.idle.start();
    });
  }

  settle(id: string, depth: SleepDepth): Promise<Machine> {
    const held = this.get(id);
    return this.act(held, "settle", () => this.#settle(held, depth));
  }

  /** @param generation the newest that the edge knows of: a call to make the machine again must be newer */
  async destroy(id: string, generation = Number.MAX_SAFE_INTEGER): Promise<void> {
    const held = this.held.get(id);
    this.journal.noteRemoved(id, generation);
    if (!held) return this.#driver.destroy(id);
    await this.act(held, "destroy", async () => {
      clearTimeout(held.settleTimer);
      await this.#cut(held);
      await this.#driver.destroy(id);
      this.drop(held);
    });
  }

  describe(id: string): Machine {
    return describe(this.get(id));
  }

  list(): Machine[] {
    return [...this.held.values()].map(describe);
  }

  /** Take part in a run, once it is ready; refused with `misdirected` when the host does not run that generation. */
  lease(id: string, generation: number): DataLease {
    const held = this.held.get(id);
    if (!held || held.row.state !== "running" || held.row.generation !== generation || held.frozen || !this.#mayRun()) {
      throw new RouseFailure("misdirected", "This host does not run that generation of the machine.");
    }
    return dataLease(held, this.#driver);
  }

  /** What the edge was not told yet. */
  pendingEvents(): { account: string; id: string; event: MachineEvent }[] {
    const rows = [...this.held.values()].map((held) => held.row);
    return rows.flatMap((row) =>
      row.pendingEvent ? [{ account: row.account, id: row.id, event: row.pendingEvent }] : [],
    );
  }

  /** The edge took note of an event. */
  acknowledge(id: string, event: MachineEvent): void {
    const held = this.held.get(id);
    if (held && JSON.stringify(held.row.pendingEvent) === JSON.stringify(event))
      this.commit(held, { pendingEvent: null });
  }

  protected override cpuTicks(id: string): Promise<number> {
    return this.#driver.cpuTicks(id);
  }

  /** The machine did nothing for as long as was asked. */
  protected override onIdle(held: Held): void {
    this.commit(held, news(held.row, { type: "idle" }));
    this.emit("news");
  }

  /** Runs whose process was stopped from outside. */
  frozen(): string[] {
    return [...this.held.values()].filter((held) => held.frozen).map((held) => held.row.id);
  }

  /** Do with a frozen run what the edge says. */
  async unfreeze(id: string, fate: FrozenFate): Promise<void> {
    const held = this.held.get(id);
    if (!held) return;
    await this.act(held, "unfreeze", async () => {
      if (!held.frozen) return;
      if (fate === "end") return this.#halt(held, "host_lost");
      await this.#thaw(held);
      if (fate === "sleep") await this.#pause(held);
    }).catch(() => undefined);
  }

  /** Pause all that runs, of this host's own accord. Answers what could not be paused. */
  async pauseAll(reason: "host_stopped" | "host_lost"): Promise<string[]> {
    const failed: string[] = [];
    // One that is only starting is in the queue of its actions: the pause comes after it.
    const live = [...this.held.values()].filter(({ row }) => row.state !== "paused" && row.state !== "stopped");
    await Promise.all(
      live.map((held) =>
        this.act(held, "pause", async () => {
          if (held.row.state !== "running") return;
          held.frozen = (await this.#driver.inspect(held.row.id)).frozen === true;
          if (held.frozen) return;
          await this.#pause(held);
          this.commit(held, news(held.row, { type: "paused", reason }));
        }).catch(() => failed.push(held.row.id)),
      ),
    );
    this.emit("news");
    return failed;
  }

  /** End what still runs this instant: this host has no right to run it. What is frozen does not. */
  async haltAll(): Promise<void> {
    const live = [...this.held.values()].filter(({ row }) => row.state !== "paused" && row.state !== "stopped");
    const halt = async (held: Held) => {
      held.frozen = (await this.#driver.inspect(held.row.id)).frozen === true;
      if (!held.frozen) await this.#halt(held, "host_lost");
    };
    await Promise.all(live.map((held) => halt(held).catch(() => undefined)));
  }

  /** Pause all that runs, because this host agent ends in order. Answers what could not be paused. */
  async shutdown(): Promise<string[]> {
    const failed = await this.pauseAll("host_stopped");
    for (const held of this.held.values()) {
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
    for (const held of this.held.values()) {
      clearTimeout(held.settleTimer);
      held.idle.stop();
    }
    await this.#driver.close();
    this.journal.close();
  }

  async #pause(held: Held): Promise<void> {
    // A guest that is still taking up its run would do so in its next one.
    await held.run.ready.catch(() => undefined);
    this.commit(held, { state: "pausing", lastActiveAt: held.activity.lastMs });
    await this.#cut(held);
    try {
      await this.#driver.pause(held.row.id);
    } catch (fault) {
      const actual = await this.#driver.inspect(held.row.id);
      if (actual.running) {
        this.commit(held, { state: "running" });
        held.idle.start();
      } else if (actual.memory === "none") {
        this.#ended(held, "vm_crashed");
      }
      throw asFailure(fault, "pause_failed");
    }
    held.depth = "resident";
    this.commit(held, { state: "paused", endedGeneration: held.row.generation, pendingEvent: null });
    this.#scheduleSettle(held);
  }

  /** Whether that run is under way already. @throws RouseFailure where it is over, or this host may run nothing */
  async #runs(held: Held, { generation, session }: RunMachine): Promise<boolean> {
    refuseStale(held, generation);
    if (generation <= held.row.endedGeneration) throw conflict(held, "begin that generation again of");
    this.#mustBeFresh(session);
    if (held.row.state !== "running" || held.row.generation !== generation) return false;
    if (held.frozen) await this.#thaw(held);
    return true;
  }

  /** @throws RouseFailure `no_capacity`, before anything was done */
  async #mustFit({ row }: Held, isNew: boolean): Promise<void> {
    const live = [...this.held.values()].filter((one) => one.row.id !== row.id && describe(one).memory === "live");
    const runningMiB = live.reduce((sum, one) => sum + one.row.shape.memoryMiB, 0);
    const lack = await this.#room?.lack(row.shape.memoryMiB, runningMiB, isNew);
    if (lack) throw noRoom(lack);
  }

  /** @throws RouseFailure unless this host may run things, and the call was not on its way since before it lost that */
  #mustBeFresh(session: string | undefined): void {
    if (!this.#mayRun()) throw cutOff();
    const current = this.#session();
    if (session !== undefined && current !== null && session !== current)
      throw new RouseFailure("misdirected", "The call was meant for an earlier session of this host.");
  }

  async #thaw(held: Held): Promise<void> {
    const actual = await this.#driver.thaw(held.row.id, { hostname: held.row.hostname });
    held.frozen = false;
    if (!actual.running) throw new RouseFailure("guest_failed", "The machine does not run on.");
    held.activity.touch();
    held.idle.start();
  }

  async #halt(held: Held, reason: StopReason): Promise<void> {
    await this.#cut(held);
    await this.#driver.halt(held.row.id);
    held.frozen = false;
    held.answered.clear();
    held.env = null;
    // A machine that slept all along lost nothing.
    if ((await this.#driver.inspect(held.row.id)).memory === "saved") return;
    this.#ended(held, reason);
  }

  /** The run is over by itself, and its RAM with it. */
  #ended(held: Held, reason: StopReason): void {
    const { row } = held;
    const ended = { state: "stopped", endReason: reason, endedGeneration: row.generation } as const;
    this.commit(held, { ...ended, ...news(row, { type: "ended", reason }) });
    this.emit("news");
  }

  async #afterFailedWake(held: Held): Promise<void> {
    const { id } = held.row;
    // It may run and yet not take its settings: then its RAM is worth keeping, and nothing may run on unseen.
    if ((await this.#driver.inspect(id)).running) await this.#driver.pause(id).catch(() => this.#driver.stop(id));
    const actual = await this.#driver.inspect(id);
    held.depth = actual.depth;
    if (actual.memory === "saved") this.commit(held, { state: "paused" });
    else this.commit(held, { state: "stopped", endReason: "wake_failed" });
  }

  async #onEnded(id: string): Promise<void> {
    const held = this.held.get(id);
    if (!held) return;
    // An action under way sees the end by itself; what it left behind is judged after it.
    await held.tail.catch(() => undefined);
    const actual = await this.#driver.inspect(id);
    held.depth = actual.depth;
    if (actual.memory !== "none" || held.row.state !== "running") return;
    await this.#cut(held);
    held.answered.clear();
    held.env = null;
    this.#ended(held, "vm_crashed");
    this.emit("action", { action: "ended", id, generation: held.row.generation, ms: 0, outcome: "vm_crashed" });
  }

  /** A run is intended: noted before anything is done for it. */
  #begin(held: Held, { generation, idlePauseSeconds }: RunMachine, change: Partial<JournalRow>): void {
    clearTimeout(held.settleTimer);
    const waking = { state: "waking", endReason: null, pendingEvent: null } as const;
    this.commit(held, { ...waking, generation, idlePauseSeconds, ...change });
  }

  #running(held: Held, how: { memoryRestored: boolean }): void {
    held.depth = null;
    held.activity.touch();
    this.commit(held, { state: "running", lastActiveAt: held.activity.lastMs, ...how });
    held.idle.start();
    const { run } = held;
    run.ready.catch(() => this.#onNotReady(held, run));
  }

  /** A guest that does not take up its run is of no use awake, and its RAM is still what it was. */
  #onNotReady(held: Held, run: Woken): void {
    void this.act(held, "pause", async () => {
      if (held.run !== run || held.row.state !== "running") return;
      await this.#pause(held);
      this.commit(held, news(held.row, { type: "paused", reason: "wake_failed" }));
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
    scheduleSettle(held, this.#policy, (depth) => this.act(held, "settle", () => this.#settle(held, depth)));
  }

  async #settle(held: Held, depth: SleepDepth): Promise<void> {
    if (held.row.state !== "paused") return;
    await this.#driver.settle(held.row.id, depth);
    held.depth = (await this.#driver.inspect(held.row.id)).depth;
  }
}

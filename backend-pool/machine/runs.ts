/** What the actions on machines are made of: the beginnings and ends of runs, journaled and fenced. */
import { createHash } from "node:crypto";
import { RouseFailure } from "../../sdk/contract/errors.ts";
import { AGENT_PORT } from "../../sdk/contract/guest-limits.ts";
import type { RunMachine, Shape, SleepDepth } from "../../sdk/contract/host.ts";
import type { StopReason } from "../../sdk/contract/sandbox.ts";
import type { Journal, JournalRow } from "../store/journal.ts";
import { agentTimer, configureAgent } from "./agent-client.ts";
import { MachineBook } from "./book.ts";
import { Boots } from "./boot.ts";
import type { Captures } from "./captures.ts";
import type { Differences } from "./differences.ts";
import type { Driver, Woken } from "./driver.ts";
import {
  asFailure,
  conflict,
  cutOff,
  describe,
  news,
  noRoom,
  refuseStale,
  scheduleSettle,
  type Held,
  type SleepPolicy,
} from "./held.ts";
import type { Room } from "./room.ts";
import type { SavedStates } from "./saved-states.ts";
import type { MachineVolumes } from "./volumes.ts";
import { IDLE_CPU, IDLE_CPU_EMULATED } from "./activity.ts";
import { AgentRenewal } from "./renewal.ts";
import { WayOut, type WayOutOptions } from "./way-out.ts";

export interface MachinesOptions extends WayOutOptions {
  /** Whether this host has the right to run machines now (`host-lease.ts`). */
  readonly mayRun?: () => boolean;
  readonly session?: () => string | null;
  readonly room?: Room | null;
  /** States that are sealed here, or stored off this host; null: this host keeps its sleepers as they are. */
  readonly saved?: SavedStates | null;
  readonly captures?: Captures | null;
  readonly volumes?: MachineVolumes | null;
  /** null: this host compares no states. */
  readonly differences?: Differences | null;
}

export abstract class MachineRuns extends MachineBook {
  protected readonly driver: Driver;
  protected readonly policy: SleepPolicy;
  protected readonly mayRun: () => boolean;
  protected readonly session: () => string | null;
  protected readonly room: Room | null;
  protected readonly saved: SavedStates | null;
  protected readonly captures: Captures | null;
  protected readonly boots: Boots;
  protected readonly differences: Differences | null;
  protected readonly wayOut: WayOut;
  protected readonly renewal: AgentRenewal;
  readonly #volumes: MachineVolumes | null;

  protected constructor(
    driver: Driver,
    journal: Journal,
    policy: SleepPolicy,
    {
      mayRun = () => true,
      session = () => null,
      room = null,
      saved = null,
      captures = null,
      volumes = null,
      differences = null,
      ...wayOut
    }: MachinesOptions,
  ) {
    super(journal);
    this.driver = driver;
    this.policy = policy;
    this.mayRun = mayRun;
    this.session = session;
    this.room = room;
    this.saved = saved;
    this.captures = captures;
    this.boots = new Boots({
      driver,
      commit: (held, change) => this.commit(held, change),
      news: () => this.emit("news"),
    });
    this.differences = differences;
    this.#volumes = volumes;
    this.wayOut = new WayOut(driver, wayOut);
    this.renewal = new AgentRenewal(driver, (entry) => this.emit("action", entry));
    driver.onEnded((id) => void this.onEnded(id));
  }

  protected override get idleCpu(): number {
    return this.driver.accelerator === "tcg" ? IDLE_CPU_EMULATED : IDLE_CPU;
  }

  /** @throws RouseFailure `unavailable` */
  protected get volumes(): MachineVolumes {
    if (!this.#volumes)
      throw new RouseFailure("unavailable", "This host stores nothing off itself, so it has no volumes.");
    return this.#volumes;
  }

  protected get hasVolumes(): boolean {
    return this.#volumes !== null;
  }

  protected async pauseRun(held: Held): Promise<void> {
    // A guest that is still taking up its run would do so in its next one.
    const isReady = await held.run.ready.then(
      () => true,
      () => false,
    );
    this.commit(held, { state: "pausing", timer: null, lastActiveAt: held.activity.lastMs });
    await this.cut(held);
    const over = new AbortController();
    const aside = isReady ? this.#noteTimer(held, over.signal) : undefined;
    try {
      await this.driver.pause(held.row.id, aside).finally(() => over.abort());
    } catch (fault) {
      const actual = await this.driver.inspect(held.row.id);
      if (actual.running) {
        this.commit(held, { state: "running" });
        held.idle.start();
        this.boots.resume(held);
        void this.boots.thaw(held).catch(() => undefined);
        this.wayOut.running(held);
      } else if (actual.memory === "none") {
        this.noteEnded(held, "vm_crashed");
      }
      throw asFailure(fault, "pause_failed");
    }
    this.wayOut.over(held);
    held.depth = "resident";
    const { generation } = held.row;
    this.commit(held, {
      state: "paused",
      endedGeneration: generation,
      savedGeneration: generation,
      pendingEvent: null,
    });
    this.scheduleSettle(held);
  }

  /** Noted at once: a host agent that dies in the middle of the pause finds it again. */
  async #noteTimer(held: Held, over: AbortSignal): Promise<void> {
    try {
      const timer = await agentTimer(await this.driver.endpoint(held.row.id, AGENT_PORT), over);
      if (timer && !over.aborted) this.commit(held, { timer });
    } catch {
      // An agent of before, or one that is stuck: as good as no timer.
    }
  }

  /** Whether that run is under way already. @throws RouseFailure where it is over, or this host may run nothing */
  protected async isUnderWay(held: Held, { generation, session, egress }: RunMachine): Promise<boolean> {
    refuseStale(held, generation);
    if (generation <= held.row.endedGeneration) throw conflict(held, "begin that generation again of");
    this.mustBeFresh(session);
    if (held.row.state !== "running" || held.row.generation !== generation) return false;
    if (held.frozen) await this.thawRun(held);
    this.wayOut.change(held, egress);
    return true;
  }

  /** @throws RouseFailure `no_capacity`, before anything was done */
  protected mustFit({ row }: Held, isNew: boolean): Promise<void> {
    return this.mustHaveRoom(row.shape, isNew, row.id);
  }

  /** @throws RouseFailure `no_capacity` */
  protected async mustHaveRoom({ memoryMiB }: Shape, isNew: boolean, id?: string): Promise<void> {
    const live = [...this.held.values()].filter((one) => one.row.id !== id && describe(one).memory === "live");
    const runningMiB = live.reduce((sum, one) => sum + one.row.shape.memoryMiB, 0);
    const lack = await this.room?.lack(memoryMiB, runningMiB, isNew);
    if (lack) throw noRoom(lack);
  }

  /** @throws RouseFailure unless this host may run things, and the call was not on its way since before it lost that */
  protected mustBeFresh(session: string | undefined): void {
    if (!this.mayRun()) throw cutOff();
    const current = this.session();
    if (session !== undefined && current !== null && session !== current)
      throw new RouseFailure("misdirected", "The call was meant for an earlier session of this host.");
  }

  protected async thawRun(held: Held): Promise<void> {
    const actual = await this.driver.thaw(held.row.id, { hostname: held.row.hostname });
    held.frozen = false;
    if (!actual.running) throw new RouseFailure("guest_failed", "The machine does not run on.");
    held.activity.touch();
    held.idle.start();
    if (!held.tunnel) this.wayOut.running(held);
    void this.wayOut.recall(held);
  }

  protected async haltRun(held: Held, reason: StopReason): Promise<void> {
    await this.cut(held);
    await this.driver.halt(held.row.id);
    held.frozen = false;
    held.answered.clear();
    held.env = null;
    // A machine that slept all along lost nothing.
    if ((await this.driver.inspect(held.row.id)).memory === "saved") return;
    this.noteEnded(held, reason);
  }

  /** The run is over by itself, and its RAM with it. */
  protected noteEnded(held: Held, reason: StopReason): void {
    const { row } = held;
    this.wayOut.over(held);
    const over = { endedGeneration: row.generation, savedGeneration: row.generation };
    const ended = { state: "stopped", endReason: reason, ...over } as const;
    this.commit(held, { ...ended, ...news(row, { type: "ended", reason }) });
    this.emit("news");
  }

  protected async afterFailedWake(held: Held): Promise<void> {
    await this.boots.over(held);
    this.wayOut.over(held);
    const { id } = held.row;
    // It may run and yet not take its settings: then its RAM is worth keeping, and nothing may run on unseen.
    const ran = (await this.driver.inspect(id)).running;
    if (ran) await this.driver.pause(id).catch(() => this.driver.stop(id));
    const actual = await this.driver.inspect(id);
    held.depth = actual.depth;
    const savedGeneration = ran ? held.row.generation : held.row.savedGeneration;
    if (actual.memory === "saved") this.commit(held, { state: "paused", savedGeneration });
    else this.commit(held, { state: "stopped", endReason: "wake_failed", savedGeneration: held.row.generation });
  }

  protected async onEnded(id: string): Promise<void> {
    const held = this.held.get(id);
    if (!held) return;
    // An action under way sees the end by itself; what it left behind is judged after it.
    await held.tail.catch(() => undefined);
    const actual = await this.driver.inspect(id);
    held.depth = actual.depth;
    if (actual.memory !== "none" || held.row.state !== "running") return;
    await this.cut(held);
    held.answered.clear();
    held.env = null;
    this.noteEnded(held, "vm_crashed");
    this.emit("action", { action: "ended", id, generation: held.row.generation, ms: 0, outcome: "vm_crashed" });
  }

  /** A run is intended: noted before anything is done for it. */
  protected noteBegin(held: Held, { generation, idlePauseSeconds }: RunMachine, change: Partial<JournalRow>): void {
    clearTimeout(held.settleTimer);
    const waking = { state: "waking", endReason: null, pendingEvent: null } as const;
    this.commit(held, { ...waking, generation, idlePauseSeconds, ...change });
  }

  protected noteRunning(held: Held, how: { memoryRestored: boolean }): void {
    held.depth = null;
    held.activity.touch();
    this.commit(held, {
      state: "running",
      savedGeneration: null,
      timer: null,
      lastActiveAt: held.activity.lastMs,
      ...how,
    });
    held.idle.start();
    this.wayOut.running(held);
    const { run } = held;
    run.ready.catch(() => this.#onNotReady(held, run));
  }

  /** A guest that does not take up its run is of no use awake, and its RAM is still what it was. */
  #onNotReady(held: Held, run: Woken): void {
    void this.act(held, "pause", async () => {
      if (held.run !== run || held.row.state !== "running") return;
      await this.pauseRun(held);
      this.commit(held, news(held.row, { type: "paused", reason: "wake_failed" }));
      this.emit("news");
    }).catch(() => undefined);
  }

  /** Data connections of a run end with it, and the guest should see their end before it sleeps. */
  protected async cut(held: Held): Promise<void> {
    held.idle.stop();
    await this.boots.over(held);
    const hadTunnel = this.wayOut.cut(held);
    if (held.connections.size === 0 && !hadTunnel) return;
    for (const cut of [...held.connections]) cut();
    held.connections.clear();
    await new Promise((resolve) => setImmediate(resolve));
  }

  protected async configureRun(held: Held, env: Record<string, string>, fresh: boolean): Promise<void> {
    const digest = createHash("sha256")
      .update(JSON.stringify(Object.entries(env).toSorted()))
      .digest("hex");
    if (held.env === digest) return;
    if (!(fresh && Object.keys(env).length === 0)) {
      await held.run.ready;
      await configureAgent(await this.driver.endpoint(held.row.id, AGENT_PORT), env);
    }
    held.env = digest;
  }

  protected scheduleSettle(held: Held): void {
    scheduleSettle(held, this.policy, async (depth) => {
      await this.act(held, "settle", () => this.settleRun(held, depth));
      return held.row.state === "paused" ? held.depth : null;
    });
  }

  protected async settleRun(held: Held, depth: SleepDepth): Promise<void> {
    const { id, state, savedGeneration } = held.row;
    if (state !== "paused") return;
    const deep = depth === "compact" || depth === "cold";
    await this.driver.settle(id, deep ? "local" : depth);
    if (deep && savedGeneration !== null) await this.saved?.shed(id, savedGeneration, depth);
    held.depth = (await this.driver.inspect(id)).depth;
  }
}

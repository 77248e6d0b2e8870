/**
 * The machines of this host: one action at a time for each, fenced by generation, journaled before and after.
 * Drivers carry; this decides what a call means in the state that is really there.
 */
import type { SavedState } from "../../sdk/contract/archive.ts";
import { RouseFailure } from "../../sdk/contract/errors.ts";
import type {
  Captured,
  CaptureMachine,
  CopyVolume,
  CreateMachine,
  DiffFound,
  DiffStates,
  FrozenFate,
  GrowVolume,
  Machine,
  MachineEvent,
  MachineVolume,
  PauseMachine,
  PlugVolume,
  RunMachine,
  SleepDepth,
  UnplugVolume,
} from "../../sdk/contract/host.ts";
import type { Journal } from "../store/journal.ts";
import { kindOfCreation } from "./boot.ts";
import type { Driver, Identity, Woken } from "./driver.ts";
import {
  asFailure,
  conflict,
  dataLease,
  describe,
  news,
  refuseStale,
  type DataLease,
  type Held,
  type SleepPolicy,
} from "./held.ts";
import { reclaimed } from "./reclaim.ts";
import { MachineRuns, type MachinesOptions } from "./runs.ts";

export class Machines extends MachineRuns {
  constructor(driver: Driver, journal: Journal, policy: SleepPolicy, options: MachinesOptions = {}) {
    super(driver, journal, policy, options);
  }

  /** Match journal, processes and files after a start of the host agent, whatever the end before it was like. */
  async reclaim(): Promise<void> {
    for (const row of this.journal.all()) {
      const held = this.hold(row);
      const actual = await this.driver.adopt(row.id, { hostname: row.hostname });
      const found = reclaimed(row, actual);
      if (!found) {
        this.drop(held);
        continue;
      }
      held.depth = actual.depth;
      held.env = null;
      held.frozen = actual.frozen === true;
      this.commit(held, found.change);
      if (found.next === "watch") this.boots.resume(held);
      if (found.next === "watch") {
        held.idle.start();
        this.wayOut.running(held);
        void this.wayOut.recall(held);
      }
      if (found.next === "settle") this.scheduleSettle(held);
    }
    // Files without a row: a creation that never got as far as its first commit, or a deletion's rest.
    for (const id of await this.driver.list()) if (!this.held.has(id)) await this.driver.destroy(id);
    await this.captures?.resume();
    if (this.hasVolumes) this.volumes.resume();
    this.emit("news");
  }

  async create(id: string, request: CreateMachine): Promise<Machine> {
    this.mustBeFresh(request.session);
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
        savedGeneration: null,
        timer: null,
        boot: null,
        memoryRestored: true,
        endReason: null,
        lastActiveAt: Date.now(),
        lastActionMs: null,
        pendingEvent: null,
      });
    const kind = kindOfCreation(request);
    return this.act(held, "create", async () => {
      if (await this.isUnderWay(held, request)) return this.boots.again(held, request.boot, kind);
      const { saved, capture, diskOnly = false } = request;
      // A machine that comes back with the state that is stored of it, to a host that has lost its own.
      const isBack = saved !== undefined && (held.row.state === "paused" || held.row.state === "stopped");
      if (held.row.state !== "creating" && !isBack) throw conflict(held, "create");
      await this.mustFit(held, true).catch((fault: unknown) => {
        if (isNew) this.drop(held);
        throw fault;
      });
      try {
        this.commit(held, { state: "creating", generation: request.generation });
        if (saved) await this.#bring(id, saved, request, diskOnly);
        else if (capture) await this.driver.createFrom(capture, id);
        else await this.driver.create(id, request.shape);
        await this.#prepare(id, request);
        this.wayOut.begin(held, request.egress);
        // One that was moved is who it was.
        const origin = saved && request.generation > 1 ? undefined : saved || capture ? "copy" : "new";
        held.run = await this.#run(held, diskOnly, origin);
        await this.configureRun(held, request.env, !saved && !capture);
        await this.#plugAll(held, request);
        await this.boots.begin(held, request.boot, kind);
      } catch (fault) {
        this.wayOut.over(held);
        if (this.hasVolumes) await this.volumes.discard(id, request.volumes ?? []).catch(() => undefined);
        await this.driver.destroy(id).catch(() => undefined);
        this.drop(held);
        throw asFailure(fault, "start_failed");
      }
      this.noteRunning(held, { memoryRestored: !diskOnly });
    });
  }

  wake(id: string, request: RunMachine): Promise<Machine> {
    const held = this.get(id);
    return this.act(held, "wake", async () => {
      if (await this.isUnderWay(held, request)) return this.boots.again(held, request.boot, "wake");
      if (held.row.state !== "paused" && held.row.state !== "waking") throw conflict(held, "wake");
      await this.mustFit(held, false);
      this.noteBegin(held, request, {});
      try {
        await this.saved?.bringBack(id, request.saved, false);
        await this.#prepare(id, request);
        this.wayOut.begin(held, request.egress);
        held.run = await this.driver.wake(id, { hostname: held.row.hostname });
        await this.configureRun(held, request.env, false);
        await this.#plugAll(held, request);
        await this.boots.begin(held, request.boot, "wake");
      } catch (fault) {
        await this.afterFailedWake(held);
        throw asFailure(fault, "wake_failed");
      }
      this.noteRunning(held, { memoryRestored: true });
    });
  }

  boot(id: string, request: RunMachine): Promise<Machine> {
    const held = this.get(id);
    return this.act(held, "boot", async () => {
      if (await this.isUnderWay(held, request)) return this.boots.again(held, request.boot, "boot");
      if (held.row.state === "running") await this.cut(held);
      else await this.mustFit(held, false);
      held.idle.stop();
      held.answered.clear();
      held.env = null;
      await this.saved?.bringBack(id, request.saved, true);
      await this.#prepare(id, request);
      this.noteBegin(held, request, { memoryRestored: false, savedGeneration: null });
      this.wayOut.begin(held, request.egress);
      try {
        held.run = await this.#run(held, true);
        await this.configureRun(held, request.env, true);
        await this.#plugAll(held, request);
        await this.boots.begin(held, request.boot, "boot");
      } catch (fault) {
        const savedGeneration = request.generation;
        this.wayOut.over(held);
        this.commit(held, { state: "stopped", endReason: "startup_failed", savedGeneration });
        throw asFailure(fault, "start_failed");
      }
      this.noteRunning(held, { memoryRestored: false });
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
      await this.boots.freeze(held, request.onlyIfIdle === true);
      await this.pauseRun(held);
    });
  }

  /** Copy a machine that runs or sleeps. */
  async capture(id: string, request: CaptureMachine): Promise<Captured> {
    const held = this.get(id);
    const { captures } = this;
    if (!captures || (request.stored && !this.saved))
      throw new RouseFailure("unavailable", "This host stores nothing off itself.");
    let frozenMs: number | null = null;
    await this.act(held, "capture", async () => {
      refuseStale(held, request.generation);
      const { state } = held.row;
      const able = state === "running" || state === "paused" || (state === "stopped" && request.diskOnly);
      if (!able || held.frozen) throw conflict(held, "copy");
      if ((await this.driver.sleepers?.files.note(id))?.shed) throw conflict(held, "copy what is only sealed of");
      await held.run.ready.catch(() => undefined);
      frozenMs = await captures.take(held.row, request);
    });
    return { frozenMs };
  }

  /** Compare the files of two stored states, of a machine that may be anywhere. */
  async diff(states: DiffStates): Promise<DiffFound> {
    if (!this.differences) throw new RouseFailure("unavailable", "This host takes up no stored states.");
    // Others don't wait for the room that it takes for a moment.
    return this.differences.between(states, () => this.mustHaveRoom(states.shape, true));
  }

  async dropCapture(capture: string): Promise<void> {
    await this.captures?.drop(capture);
  }

  stop(id: string, generation: number): Promise<Machine> {
    const held = this.get(id);
    return this.act(held, "stop", async () => {
      refuseStale(held, generation);
      if (held.row.state === "stopped") return;
      clearTimeout(held.settleTimer);
      await this.cut(held);
      await this.driver.stop(id);
      this.wayOut.over(held);
      held.depth = null;
      // A call to begin that run, or one before it, may still be on its way.
      const over = Math.max(generation, held.row.generation);
      const savedGeneration = held.row.savedGeneration ?? held.row.generation;
      const ended = { generation: over, endedGeneration: over, savedGeneration };
      this.commit(held, { state: "stopped", endReason: null, pendingEvent: null, ...ended });
    });
  }

  /** End a run this instant, as a fault of its host would, for a drill. */
  kill(id: string, generation: number): Promise<Machine> {
    const held = this.get(id);
    return this.act(held, "kill", async () => {
      if (held.row.state !== "running" || held.row.generation !== generation) throw conflict(held, "kill");
      await this.haltRun(held, "vm_crashed");
      this.emit("news");
    });
  }

  configure(id: string, request: RunMachine): Promise<Machine> {
    const held = this.get(id);
    return this.act(held, "configure", async () => {
      if (held.row.state !== "running" || held.row.generation !== request.generation) throw conflict(held, "configure");
      this.wayOut.change(held, request.egress);
      this.commit(held, { idlePauseSeconds: request.idlePauseSeconds });
      await this.configureRun(held, request.env, false);
      await this.boots.change(held, request.boot);
      held.idle.stop();
      held.idle.start();
    });
  }

  settle(id: string, depth: SleepDepth): Promise<Machine> {
    const held = this.get(id);
    return this.act(held, "settle", () => this.settleRun(held, depth));
  }

  /** @param generation the newest that the edge knows of: a call to make the machine again must be newer */
  async destroy(id: string, generation = Number.MAX_SAFE_INTEGER): Promise<void> {
    const held = this.held.get(id);
    this.journal.noteRemoved(id, generation);
    if (!held) return this.driver.destroy(id);
    await this.act(held, "destroy", async () => {
      clearTimeout(held.settleTimer);
      await this.cut(held);
      if (this.hasVolumes) await this.#letGo(held, generation);
      await this.driver.destroy(id);
      this.drop(held);
    });
  }

  /** Plug a volume into a running machine. */
  plug(id: string, { generation, volume }: PlugVolume): Promise<Machine> {
    return this.#withRun(id, "plug", generation, async () => {
      await this.volumes.prepare(id, [volume]);
      await this.volumes.plugAll(id, [volume]);
    });
  }

  /** Take a volume out, of a machine that runs or has no RAM. */
  unplug(id: string, { generation, attachment }: UnplugVolume): Promise<Machine> {
    const held = this.get(id);
    return this.act(held, "unplug", async () => {
      refuseStale(held, generation);
      const { state, account } = held.row;
      if (state === "running") await held.run.ready;
      else if (state !== "stopped") throw conflict(held, "take a volume out of");
      await this.volumes.unplug({ id, account, generation }, attachment);
    });
  }

  grow(id: string, { generation, attachment, sizeMiB }: GrowVolume): Promise<Machine> {
    return this.#withRun(id, "grow", generation, () => this.volumes.grow(id, attachment, sizeMiB));
  }

  /** Copy a volume of a machine that runs or rests, and store the copy. */
  copy(id: string, { generation, attachment, backup }: CopyVolume): Promise<Machine> {
    const held = this.get(id);
    return this.act(held, "copy", async () => {
      refuseStale(held, generation);
      const { state, account } = held.row;
      if (state !== "running" && state !== "paused" && state !== "stopped") throw conflict(held, "copy a volume of");
      await this.volumes.copy({ id, account, generation: held.row.generation }, attachment, backup);
    });
  }

  #withRun(id: string, action: string, generation: number, work: () => Promise<void>): Promise<Machine> {
    const held = this.get(id);
    return this.act(held, action, async () => {
      refuseStale(held, generation);
      if (held.row.state !== "running" || held.frozen) throw conflict(held, action);
      await held.run.ready;
      await work();
    });
  }

  /** What a machine wrote to its volumes outlives it. */
  async #letGo({ row, frozen }: Held, generation: number): Promise<void> {
    const { id, account } = row;
    const writes = (await this.volumes.of(id)).some(({ mode }) => mode === "rw");
    if (writes && row.state === "running" && !frozen) await this.driver.stop(id).catch(() => undefined);
    const newest = generation === Number.MAX_SAFE_INTEGER ? row.generation : Math.max(row.generation, generation);
    const atRest = row.state === "paused" || row.state === "stopped";
    await this.volumes.letGo({ id, account, generation: atRest ? (row.savedGeneration ?? newest) : newest }, newest);
  }

  async #prepare(id: string, { volumes = [] }: { volumes?: readonly MachineVolume[] | undefined }): Promise<void> {
    if (volumes.length > 0) await this.volumes.prepare(id, volumes);
  }

  async #plugAll(held: Held, { volumes = [] }: { volumes?: readonly MachineVolume[] | undefined }): Promise<void> {
    if (volumes.length === 0) return;
    await held.run.ready;
    await this.volumes.plugAll(held.row.id, volumes);
  }

  async #bring(
    id: string,
    saved: SavedState,
    { shape, volumes = [] }: CreateMachine,
    diskOnly: boolean,
  ): Promise<void> {
    if (!this.saved) throw new RouseFailure("unavailable", "This host takes up no stored states.");
    if (!(await this.saved.holds(id, saved))) {
      // What else there is of it goes, with its process and its volumes' disks.
      if (this.hasVolumes) await this.volumes.discard(id, volumes);
      await this.driver.destroy(id);
      await this.saved.adopt(id, saved, { shape, diskOnly, volumes });
    }
    await this.saved.bringBack(id, saved, diskOnly);
  }

  async #run({ row }: Held, diskOnly: boolean, origin?: Identity["origin"]): Promise<Woken> {
    const { id, hostname } = row;
    if (!diskOnly) return this.driver.wake(id, { hostname, origin });
    await this.driver.boot(id, { hostname, origin });
    return { ready: Promise.resolve() };
  }

  describe(id: string): Machine {
    return describe(this.get(id));
  }

  list(): Machine[] {
    return [...this.held.values()].map(describe);
  }

  /** Take part in a run, once it is ready; refused with `misdirected` when the host does not run that generation. */
  lease(id: string, generation: number, keeps = true): DataLease {
    const held = this.held.get(id);
    if (!held || held.row.state !== "running" || held.row.generation !== generation || held.frozen || !this.mayRun()) {
      throw new RouseFailure("misdirected", "This host does not run that generation of the machine.");
    }
    return dataLease(held, this.driver, keeps, (port) => this.boots.admit(held, port));
  }

  /** What the edge was not told yet. */
  pendingEvents(): { account: string; id: string; event: MachineEvent }[] {
    return [...this.held.values()].flatMap(({ row: { account, id, pendingEvent }, boot }) =>
      [boot?.event, pendingEvent].flatMap((event) => (event ? [{ account, id, event }] : [])),
    );
  }

  /** The edge took note of an event. */
  acknowledge(id: string, event: MachineEvent): void {
    const held = this.held.get(id);
    if (held) this.boots.taken(held, event);
    if (held && JSON.stringify(held.row.pendingEvent) === JSON.stringify(event))
      this.commit(held, { pendingEvent: null });
  }

  protected override cpuTicks(id: string): Promise<number> {
    return this.driver.cpuTicks(id);
  }

  /** The machine did nothing for as long as was asked. */
  protected override onIdle(held: Held): void {
    if (held.row.state !== "running" || !held.idle.isIdle() || this.renewal.isUnderWay(held)) return;
    if (this.renewal.isDue(held)) return void this.renewal.renew(held).then(() => this.onIdle(held));
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
      if (fate === "end") return this.haltRun(held, "host_lost");
      await this.thawRun(held);
      if (fate === "sleep") await this.pauseRun(held);
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
          held.frozen = (await this.driver.inspect(held.row.id)).frozen === true;
          if (held.frozen) return;
          if (reason === "host_stopped") await this.boots.freeze(held, false).catch(() => undefined);
          await this.pauseRun(held);
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
      held.frozen = (await this.driver.inspect(held.row.id)).frozen === true;
      if (!held.frozen) await this.haltRun(held, "host_lost");
    };
    await Promise.all(live.map((held) => halt(held).catch(() => undefined)));
  }

  /** Pause all that runs, because this host agent ends in order. Answers what could not be paused. */
  async shutdown(): Promise<string[]> {
    await this.differences?.close();
    const failed = await this.pauseAll("host_stopped");
    for (const held of this.held.values()) {
      clearTimeout(held.settleTimer);
      await held.tail.catch(() => undefined);
      // Nobody would end a process that nobody knows of.
      if (held.row.state === "paused") await this.driver.settle(held.row.id, "local").catch(() => undefined);
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
    this.captures?.close();
    this.wayOut.close();
    for (const held of this.held.values()) this.wayOut.over(held);
    await this.driver.close();
    this.journal.close();
  }
}

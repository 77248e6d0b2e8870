/**
 * Where a sandbox's machine is, and the host call of the step that it is in: placed once, on that host as long as it
 * lives, and on another when its state is stored off a host that is silent, full or drains.
 */
import type { Failure } from "../../sdk/contract/error-codes.ts";
import type { Host, Machine } from "../../sdk/contract/host.ts";
import { accountObject } from "../account/api.ts";
import { readBoard, type Board } from "../hosts/board-facade.ts";
import { HOST_SILENT_MS, type Placement } from "../hosts/placement.ts";
import { isMovable, placeAgain } from "./archive.ts";
import type { Engine } from "./engine.ts";
import type { HostAddress, HostClient } from "./host-client.ts";
import type { LifeEvent } from "./life.ts";
import type { SandboxRecord } from "./record.ts";
import { observed, runStep, unreachable, type Brought } from "./step.ts";

/** Hosts that a machine is offered to, one after another. */
const PLACEMENT_TRIES = 3;
/** How long somebody who only looks waits for a host, milliseconds. */
const LOOK_MS = 3000;
const nothing: Brought = { saved: null, volumes: [], outside: null };
const noRoom: Failure = { code: "no_capacity", message: "No host has room.", retryAfterMs: 5000 };

export class Hosting {
  readonly #engine: Engine;
  readonly #env: Env;
  readonly #host: HostClient;

  constructor(engine: Engine, env: Env, host: HostClient) {
    this.#engine = engine;
    this.#env = env;
    this.#host = host;
  }

  /** Drive the step that the sandbox is in. */
  async step(record: SandboxRecord, signal: AbortSignal): Promise<LifeEvent> {
    this.#engine.outside.begin(record);
    const [refusal, board] = await Promise.all([this.#refusal(record), this.#boardIfDoubtful(record)]);
    if (refusal) return { type: "refused", generation: record.life.generation, failure: refusal };
    if (!record.host) return this.#place(record, signal);
    if (board && isMovable(record) && mustMove(record, record.host, board)) {
      const event = await this.#move(record, await readBoard(this.#env), signal);
      if (event) return event;
    }
    if (board?.isLost(record.host.id)) return hostLost(record);
    const event = await this.#call(record, record.host, signal);
    // Full, or without the RAM that it should have: nothing runs there, and what is stored is as good.
    if (event.type === "runFailed" && isMovable(record)) {
      const lost = event.memory === "none" && record.life.state === "resuming";
      if (lost || event.failure.code === "no_capacity")
        return (await this.#move(record, await readBoard(this.#env), signal, lost)) ?? event;
    }
    if (event.type !== "unreachable" || signal.aborted) return event;
    const now = await this.#whereabouts(record);
    if (now === "lost") return isMovable(record) ? event : hostLost(record);
    return now ? await this.#call(record, now, signal) : event;
  }

  /** Why a sleeper can't be woken now: its host is lost, and nothing of it is elsewhere. Nothing is changed or tried. */
  async outOfReach(id: string): Promise<Failure | null> {
    const record = this.#engine.record();
    if (record?.id !== id || record.life.state !== "paused" || record.life.stopReason !== "host_lost") return null;
    if (isMovable({ ...record, life: { ...record.life, state: "resuming" } })) return null;
    return (await this.#whereabouts(record)) === "lost" ? lostFailure : null;
  }

  /** Ask the host whether a sandbox that should run does, and take note. A failure says that it can't be known. */
  async verify(record: SandboxRecord): Promise<Failure | null> {
    if (!record.host) return null;
    let seen = await this.#host.get(record.host, record.id);
    if (!seen.ok && !seen.reached) {
      const now = await this.#whereabouts(record);
      if (now === "lost") {
        this.#engine.commit(record.id, hostLost(record));
        return null;
      }
      if (now) seen = await this.#host.get(now, record.id);
    }
    if (seen.ok) {
      const event = observed(record, seen.value);
      if (event.type === "unreachable") return event.failure;
      this.#engine.commit(record.id, event);
      return null;
    }
    if (seen.reached && seen.failure.code === "not_found") {
      this.#engine.commit(record.id, { type: "ended", generation: record.life.generation, reason: "host_lost" });
      return null;
    }
    return { ...seen.failure, code: "host_unavailable", retryAfterMs: seen.failure.retryAfterMs ?? 1000 };
  }

  /** What the host says of a running machine; null when that does not answer, or has none. */
  async machineOf({ id, host, life }: SandboxRecord): Promise<Machine | null> {
    if (!host || life.state !== "running") return null;
    const seen = await this.#host.get(host, id, AbortSignal.timeout(LOOK_MS));
    return seen.ok && seen.value.generation === life.generation ? seen.value : null;
  }

  /** End the connections that came in by those credentials; the host lets no more of them in. */
  async endConnections({ host, life }: SandboxRecord, credentials: readonly string[]): Promise<void> {
    if (host && life.state === "running") await this.#host.revoke(host, credentials);
  }

  async #call(record: SandboxRecord, host: HostAddress, signal: AbortSignal): Promise<LifeEvent> {
    const { state } = record.life;
    if (state !== "resuming" && state !== "starting") return runStep(this.#host, host, record, nothing, signal);
    const { archiving } = this.#engine;
    const [saved, volumes, outside] = await Promise.all([
      archiving.savedFor(record, host.id),
      archiving.volumesFor(record, host.id),
      this.#engine.outside.of(record).catch(() => null),
    ]);
    if (!outside)
      return unreachable(record, { code: "host_unavailable", message: "The account's secrets can't be asked now." });
    return runStep(this.#host, host, record, { saved, volumes, outside }, signal);
  }

  /**
   * What the board says of the host, where that may be silent: it was before (a call to it would wait in vain), or it has not been heard
   * of for long and the state is elsewhere too. One that has just put the sandbox to sleep is there.
   */
  async #boardIfDoubtful(record: SandboxRecord): Promise<Board | null> {
    const { stopReason, attempts, pausedAt } = record.life;
    const silent = isMovable(record) && Date.now() - (pausedAt ?? 0) > HOST_SILENT_MS;
    const { host } = record;
    return host && (stopReason === "host_lost" || attempts > 0 || silent) ? readBoard(this.#env, host.id) : null;
  }

  /** Why the account does not allow the run that is about to begin; null when it does. */
  async #refusal(record: SandboxRecord): Promise<Failure | null> {
    const { life } = record;
    const asked = record.governed || record.maxTotalCostMicros !== null;
    if (!asked || (life.state !== "starting" && life.state !== "resuming")) return null;
    const { id, label, shape, createdBy, maxTotalCostMicros } = record;
    const isNew = life.run === "create";
    const ask = { id, label, generation: life.generation, isNew, shape, keyId: createdBy, maxTotalCostMicros };
    try {
      const answer = await accountObject(this.#env.ACCOUNT, record.account).admitRun(ask);
      return answer.ok ? null : answer.failure;
    } catch {
      return { code: "host_unavailable", message: "The account can't be asked now.", retryAfterMs: 1000 };
    }
  }

  /** Choose the first host. */
  async #place(record: SandboxRecord, signal: AbortSignal): Promise<LifeEvent> {
    const { state, generation } = record.life;
    if (state === "deleted") return { type: "purged" };
    if (state === "stopping") return { type: "stopped", generation };
    const lost = await this.#engine.archiving.claim(record);
    if (lost) return { type: "runFailed", generation, memory: "none", nothingMade: true, failure: lost };
    const { hosts } = await readBoard(this.#env);
    const { event, failure } = await this.#tryHosts(record, hosts, (left) => placeAgain(left, record), signal);
    return event ?? { type: "runFailed", generation, memory: "none", nothingMade: true, failure };
  }

  /**
   * Go on elsewhere. null: no other host can take it, and its own is there.
   * @param alsoHere its own host may take up what is stored as well
   */
  async #move(record: SandboxRecord, board: Board, signal: AbortSignal, alsoHere = false): Promise<LifeEvent | null> {
    const { host, origin, life } = record;
    const others = board.hosts.filter(({ hostId }) => alsoHere || hostId !== host?.id);
    const { event, failure } = await this.#tryHosts(record, others, (left) => placeAgain(left, record), signal);
    if (event && event.type !== "runFailed") return event;
    // Nothing came of it there: the sandbox is where it was.
    const now = this.#engine.record();
    if (now?.id === record.id) this.#engine.save({ ...now, host, origin });
    if (event) return event;
    if (host && !board.isLost(host.id)) return null;
    const { generation, savedGeneration } = life;
    return { type: "runFailed", generation, savedGeneration, memory: "saved", nothingMade: false, failure };
  }

  /** Offer the machine to one host after another, until one is not full. */
  async #tryHosts(
    record: SandboxRecord,
    hosts: readonly Host[],
    choose: (left: readonly Host[]) => Placement,
    signal: AbortSignal,
  ): Promise<{ event: LifeEvent; failure: null } | { event: null; failure: Failure }> {
    let refusal: Failure | null = null;
    for (let left = [...hosts], tries = 0; ; tries++) {
      const placement = choose(left);
      if ("failure" in placement || tries >= PLACEMENT_TRIES)
        return { event: null, failure: refusal ?? ("failure" in placement ? placement.failure : noRoom) };
      const event = await this.#tryHost(record, placement.host, signal);
      if (event.type !== "runFailed" || event.failure.code !== "no_capacity") return { event, failure: null };
      // The board was late: the host is fuller than it said. Not that one again, now.
      refusal = event.failure;
      left = left.filter(({ hostId }) => hostId !== placement.host.hostId);
    }
  }

  async #tryHost(record: SandboxRecord, chosen: Host, signal: AbortSignal): Promise<LifeEvent> {
    const current = this.#engine.record();
    // Deleted or stopped while the board was asked: then no host must learn of it.
    if (current?.id !== record.id || current.life.state !== record.life.state) {
      return unreachable(record, { code: "host_unavailable", message: "The sandbox changed." });
    }
    const host = { id: chosen.hostId, url: chosen.url, session: chosen.session };
    // A move that failed half way may have left something on the host before this one.
    if (record.origin && record.host) this.#engine.leaveBehind(record, record.host);
    const placed = { ...current, host, origin: record.origin ?? record.host };
    // After a creation that was given up, or a move and a move back, it may be the same host again.
    this.#engine.arriveAt(placed.id, host.id);
    this.#engine.save(placed);
    // No other host may store what is written from now on.
    if (!(await this.#engine.volumes.arrive(placed, host.id)))
      return unreachable(record, { code: "host_unavailable", message: "The account's volumes can't be asked now." });
    return this.#call(placed, host, signal);
  }

  /**
   * A host may come back under another address, or in another session: that, when it did. `lost` when nothing of it can
   * run any more.
   */
  async #whereabouts(record: SandboxRecord): Promise<HostAddress | "lost" | null> {
    const { host } = record;
    if (!host) return null;
    const board = await readBoard(this.#env, host.id);
    if (board.isLost(host.id)) return "lost";
    const found = board.hosts.find((one) => one.hostId === host.id);
    const current = this.#engine.record();
    const isSame = found?.url === host.url && found.session === host.session;
    if (!found || isSame || current?.id !== record.id) return null;
    const moved = { id: host.id, url: found.url, session: found.session };
    this.#engine.save({ ...current, host: moved });
    return moved;
  }
}

/**
 * Whether the step is for another host than its own. A call that was made may still arrive there: then it stays, until
 * the host is lost and can begin nothing.
 */
function mustMove({ life }: SandboxRecord, host: HostAddress, board: Board): boolean {
  if (board.isLost(host.id)) return true;
  if (life.attempts > 0) return false;
  const row = board.hosts.find(({ hostId }) => hostId === host.id);
  return !row || !row.live || row.draining;
}

const lostFailure: Failure = {
  code: "host_unavailable",
  message: "The sandbox's host has been silent for longer than its lease.",
  retryAfterMs: 5000,
};

function hostLost({ life: { generation } }: SandboxRecord): LifeEvent {
  return { type: "hostLost", generation, failure: lostFailure };
}
